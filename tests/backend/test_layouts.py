"""Layouts: tiles that products use lie as products read them, and the bits stay those of the simulator."""

from __future__ import annotations

import itertools
import os
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime import region_builder
from nki.backend.cpu.runtime.link import link
from nki.backend.cpu.runtime.region_builder import RegionBuilder
from nki.backend.cpu.stages import copy_operands
from nki.backend.cpu.stages.assign_layouts import AssignLayouts
from nki.compilation.executable import Executable, lower
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.numerics.layouts import BLOCKS, DENSE, PADDED, PAIR_COLUMNS, PAIR_PANELS, PANELS, Layout
from nki.numerics.matmul.contract import BLOCK, GROUP
from nki.numerics.matmul.host import has_blocks, has_pairs
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import stored
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]

SEEDS = max(8, int(os.environ.get("NKI_TEST_EXAMPLES", "50")) // 4)
NEEDS = {PAIR_PANELS: has_pairs, PAIR_COLUMNS: has_pairs, BLOCKS: has_blocks}
"""What the processor must have for a layout to pay."""


def bfloat16(*shape: int) -> Any:
    return numbers(*shape).astype(ml_dtypes.bfloat16)


def uses(kernel: Any, layout: Layout, *arguments: Any) -> tuple[int, int]:
    """The writes and the reads of tiles in ``layout``."""
    compiled = kernel if hasattr(kernel, "compile") else nki.jit(kernel)
    insts: list[Inst] = list(lower(compiled.compile(*arguments).kernel, "layouts").instructions())
    writes = sum(access.tensor.layout is layout for inst in insts for access in inst.writes())
    return writes, sum(access.tensor.layout is layout for inst in insts for access in inst.reads())


def check(
    kernel: Any, layout: Layout, expected: tuple[int, int], arrays: list[Any], shared: pytest.MonkeyPatch
) -> None:
    """As many uses of the layout; the bits of the simulator, on any number of threads."""
    if not NEEDS.get(layout, lambda: True)():
        pytest.skip(f"no {layout.name} on this processor")
    assert uses(kernel, layout, *arrays) == expected
    results = both(kernel, *arrays)
    bits = [result.tobytes() for result in (results if isinstance(results, tuple) else (results,))]
    for outputs in launched(nki.jit(kernel).compile(*arrays).kernel, arrays, shared):
        assert outputs == bits


# The map itself


LAYOUTS = (DENSE, PADDED, PANELS, BLOCKS, PAIR_PANELS, PAIR_COLUMNS, Layout("other", 8, 3, 5))


@given(st.data())
def test_steps_lead_to_the_places_of_elements(data: st.DataObject) -> None:
    """An access has steps in memory that lead to the places of its elements, or it has none."""
    layout, rows = data.draw(st.sampled_from(LAYOUTS)), data.draw(st.integers(1, 6))
    columns = data.draw(st.integers(1, 4)) * (layout.width or 24)
    row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    count, width = data.draw(st.integers(1, rows - row)), data.draw(st.integers(1, columns - column))
    down, right = data.draw(st.sampled_from((0, columns, 2 * columns))), data.draw(st.sampled_from((0, 1, 2)))
    count, width = 1 if down > columns else count, -(-width // max(right, 1))
    pattern = [(down, count), (right, width)]
    if data.draw(st.booleans()):
        pattern.reverse()
    start = row * columns + column
    places = layout.steps(rows, columns, start, pattern)
    if right == 1 and not (layout.width and (column % layout.width or width % layout.width)):
        assert places is not None, "rows of whole blocks have steps in every layout"
    if places is None:
        return
    first = layout.place(rows, columns, start)
    elements = [
        start + sum(each) for each in itertools.product(*(range(0, s * n, s) if s else [0] * n for s, n in pattern))
    ]
    steps = [step for dimension in places for step in dimension]
    reached = [
        first + sum(each) for each in itertools.product(*(range(0, s * n, s) if s else [0] * n for s, n in steps))
    ]
    assert reached == [layout.place(rows, columns, element) for element in elements]
    assert all(place < layout.elements(rows, columns) for place in reached)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_no_two_elements_share_a_place(layout: Layout) -> None:
    rows, columns = 5, 3 * (layout.width or 16)
    places = {layout.place(rows, columns, element) for element in range(rows * columns)}
    assert len(places) == rows * columns
    assert max(places) < layout.elements(rows, columns)


def test_tensors_of_another_layout_have_other_forms() -> None:
    one, two = (Tensor("t", (32, 64), nl.float32, Buffer.sbuf, layout=layout) for layout in (DENSE, PANELS))
    assert Access.whole(one).form is not Access.whole(two).form
    assert Access(one, 0, (32, 64), row_major((32, 64)), nl.float32).signature == Access.whole(one).signature


# Kernels


def _product(stationary, moving):
    total = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary, moving)
    return stored(total)


def _left(array):
    """A load of the left half of an input, which is no tile of its own."""
    return nl.load(array[:, : array.shape[1] // 2])


def _transposed(tile):
    """The transposed tile, by way of PSUM."""
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = nl.ndarray(spread.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, spread)
    return result


def _computed(part):
    """A tile that an activation writes."""
    tile = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
    nisa.activation(tile, nl.tanh, part)
    return tile


def loaded(left, right):
    """A load fills the stationary tile; products read all of it, and a part."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(a[:, 32:], b)


def by_parts(left, right):
    """Copies fill the stationary tile part by part; one product reads it."""
    columns = left.shape[1] // 2
    a, b = nl.ndarray((left.shape[0], columns), dtype=left.dtype, buffer=nl.sbuf), nl.load(right)
    for start in range(0, columns, 32):
        nisa.dma_copy(a[:, start : start + 32], left[:, start : start + 32])
    return _product(a, b)


def transposed(left, right):
    """A transposition of what is computed fills the stationary tile; its source changes before the last product."""
    part = _left(left)
    back = nl.ndarray((part.shape[1], part.shape[0]), dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(back, _transposed(part), nl.multiply, 0.5)
    a, b = _transposed(back), nl.load(right)
    first = _product(a, b)
    nisa.memset(back, 1.0)
    return first, _product(a[:, 32:], b), stored(back)


def computed(left, right):
    """Two products read a tile that an activation writes: in pairs it is copied."""
    a, b = _computed(_left(left)), nl.load(right)
    return _product(a, b), _product(a, b)


def written_between(left, right):
    """Between the products the tile gets other contents; each is read twice."""
    part, b = _left(left), nl.load(right)
    a = nl.ndarray(part.shape, dtype=left.dtype, buffer=nl.sbuf)
    results = []
    for scale in (1.0, 2.0):
        nisa.tensor_scalar(a, part, nl.multiply, scale)
        results += [_product(a, b), _product(a, b)]
    return tuple(results)


def transposed_input(left, right):
    """Products read what is to be transposed where it lies in an input, and pack its columns themselves."""
    a, b = _transposed(nl.load(left.reshape((left.shape[1], left.shape[0]))[0:128])), nl.load(right)
    return _product(a, b), _product(a, b)


def also_moving(left, right):
    """One product reads the tile as its moving operand, too."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(b[:, :128], a)


def also_added(left, right):
    """The Vector engine reads the tile, too: in pairs a copy is made, as it is read twice."""
    a, b = _left(left), nl.load(right)
    nisa.tensor_scalar(b[:, :1], a[:, :1], nl.add, 1.0)
    return _product(a, b), _product(a, b)


def odd_window(left, right):
    """A product reads columns that are no whole blocks."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(a[:, 2:38], b)


def odd_part(left, right):
    """A copy writes columns that are no whole blocks."""
    a, b = _left(left), nl.load(right)
    nisa.tensor_copy(a[:, 7:23], b[:, 0:16])
    return _product(a, b)


def masked(left, right):
    """A predicate tells which elements of the tile are written."""
    a, b = _left(left), nl.load(right)
    mask = nl.ndarray(a.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(mask, a, nl.greater, 0.0)
    nisa.tensor_copy_predicated(a, _computed(_left(left)), mask)
    return _product(a, b)


def in_a_loop(left, right):
    """A device loop loads windows of the input, and reads windows of a tile."""
    b, a = nl.load(right), _left(left)
    out = nl.ndarray((4, 32, right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)

    def body(i):
        part = nl.ndarray((left.shape[0], 32), dtype=left.dtype, buffer=nl.sbuf)
        nisa.dma_copy(part, left[:, nl.ds(i * 32, 32)])
        total = nl.ndarray((32, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, part, b, accumulate=False)
        nisa.nc_matmul(total, a[:, 0:32], b, accumulate=True)
        result = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(result, total)
        nisa.dma_copy(out[i], result)

    nl.fori_loop(0, 4, body)
    return _product(a, b), out


STATIONARY = {
    loaded: (1, 2),
    by_parts: (4, 1),
    transposed: (1, 2),
    also_moving: (0, 0),
    odd_window: (0, 0),
    odd_part: (0, 0),
    masked: (0, 0),
    in_a_loop: (0, 0),
}
"""Kernels, with the writes and reads of their stationary tile in its layout."""
COPIED = {computed: (1, 2), written_between: (2, 4), also_added: (1, 2), transposed_input: (0, 0)}
"""The same, where a copy in pairs is all that helps."""


@pytest.mark.parametrize("kernel", [*STATIONARY, *COPIED])
def test_stationary_operands_of_pairs(kernel: Any, shared: pytest.MonkeyPatch) -> None:
    arrays = [bfloat16(96, 256), bfloat16(96, 160)]
    check(kernel, PAIR_COLUMNS, (STATIONARY | COPIED)[kernel], arrays, shared)


@pytest.mark.parametrize("kernel", [*STATIONARY, *COPIED])
@pytest.mark.parametrize("depth", [96, 33, 2])
def test_stationary_operands_of_float32(kernel: Any, depth: int, shared: pytest.MonkeyPatch) -> None:
    expected = (0, 0) if kernel in (computed, written_between, also_added) else STATIONARY.get(kernel, (1, 2))
    check(kernel, BLOCKS, expected, [numbers(depth, 256), numbers(depth, 160)], shared)


@pytest.mark.parametrize(
    ("layout", "depth", "rows", "columns"),
    [
        (BLOCKS, 96, 62, 96),  # half a block
        (BLOCKS, 96, 16, 96),  # few rows
        (BLOCKS, 96, 64, 31),  # few columns
        (BLOCKS, 1, 64, 96),  # one partition
        (PAIR_COLUMNS, 96, 120, 128),  # parts of groups
        (PAIR_COLUMNS, 80, 128, 128),
        (PAIR_COLUMNS, 20, 128, 128),
        (PAIR_COLUMNS, 96, 16, 128),
    ],
)
def test_small_and_odd_stationary_operands_stay(layout: Layout, depth: int, rows: int, columns: int) -> None:
    def kernel(left, right):
        a, b = _left(left), nl.load(right)
        return _product(a, b), _product(a, b)

    make = numbers if layout is BLOCKS else bfloat16
    left, right = make(depth, 2 * rows), make(depth, columns)
    assert uses(kernel, layout, left, right) == (0, 0)
    both(kernel, left, right)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.float8_e4m3])
def test_other_dtypes_stay(dtype: Any) -> None:
    left, right = numbers(96, 256).astype(dtype), numbers(96, 128).astype(dtype)
    for layout in (BLOCKS, PAIR_COLUMNS, PAIR_PANELS):
        assert uses(loaded, layout, left, right) == (0, 0)


def test_other_moving_operands_read_pairs_as_well(shared: pytest.MonkeyPatch) -> None:
    check(loaded, PAIR_COLUMNS, (1, 2), [bfloat16(96, 256), numbers(96, 128).astype(ml_dtypes.float8_e5m2)], shared)


@settings(max_examples=25, deadline=None)
@given(depth=st.integers(2, 128), blocks=st.integers(10, 32), columns=st.integers(32, 200), turned=st.booleans())
def test_bits_of_any_size(depth: int, blocks: int, columns: int, turned: bool) -> None:
    left, right = numbers(depth, 2 * blocks * BLOCK), numbers(depth, columns)
    both(transposed if turned else loaded, left, right)


def test_a_special_number_keeps_its_place(shared: pytest.MonkeyPatch) -> None:
    left, right = numbers(128, 128), numbers(128, 64)
    left[5, 7], left[9, 11], right[30, 3] = np.nan, np.inf, -np.inf
    check(loaded, BLOCKS, (1, 2), [left, right], shared)


def one_by_one(left, right):
    """Loads of stationary tiles, each before its product, which adds to the one before and reads an input."""
    b = nl.load(right)
    total = nl.ndarray((44, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, left.shape[1], 44):
        nisa.nc_matmul(total, nl.load(left[:, start : start + 44]), b)
    return stored(total)


def test_threads_do_not_meet_between_loads_and_products(shared: pytest.MonkeyPatch) -> None:
    """A thread loads the columns that its partitions of the product read: all run in one region."""
    arrays = [numbers(100, 4 * 44), numbers(100, 96)]
    check(one_by_one, BLOCKS, (4, 4), arrays, shared)
    routines = link(lower(nki.jit(one_by_one).compile(*arrays).kernel)).cores[0].table[:, 0]
    assert np.count_nonzero(routines == library.address("region")) == 1


# Moving operands


def moving_parts(left, right):
    """Copies fill the moving tile from transposed parts; products read all of it, and a part."""
    depth, columns = right.shape
    tile = nl.ndarray((depth, columns), dtype=right.dtype, buffer=nl.sbuf)
    whole = nl.load(right[:, :])
    for start in range(0, columns, 64):
        back = _transposed(whole[:, start : start + 64])
        again = nl.ndarray((depth, 64), dtype=right.dtype, buffer=nl.psum)
        nisa.nc_transpose(again, back)
        nisa.tensor_copy(tile[:, start : start + 64], again)
    a = nl.load(left)
    return _product(a, tile), _product(a, tile[:, 32:96])


def moving_computed(left, right):
    """An activation writes the moving tile, which two products read."""
    tile, a = _computed(nl.load(right)), nl.load(left)
    return _product(a, tile), _product(a[:, 0:32], tile)


def moving_written_between(left, right):
    """Between the products the moving tile gets other contents; each is read twice."""
    tile = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    a, b = nl.load(left), nl.load(right)
    results = []
    for scale in (1.0, 2.0):
        nisa.tensor_scalar(tile, b, nl.multiply, scale)
        results += [_product(a, tile), _product(a, tile)]
    return tuple(results)


def an_input(left, right):
    """Two products read one window of an input in place."""
    a = nl.load(left)
    return _product(a, nl.load(right)), _product(a[:, 0:64], nl.load(right))


def two_windows(left, right):
    """Two windows of an input; each is read by two products in place."""
    a = nl.load(left[0:64])
    windows = [nl.load(right[0:64]), nl.load(right[32:96])]
    return tuple(_product(part, window) for window in windows for part in (a, a[:, 0:32]))


def few_rows(left, right):
    """A product of 16 rows reads its moving operand where it lies."""
    tile, a = _computed(nl.load(right)), nl.load(left)
    return _product(a[:, 0:16], tile), _product(a[:, 0:8], tile)


def moving_once(left, right):
    """One product reads a tile that is computed."""
    return _product(nl.load(left), _computed(nl.load(right)))


MOVING = {
    moving_parts: (2, 2),
    moving_computed: (1, 2),
    moving_written_between: (2, 4),
    an_input: (1, 2),
    two_windows: (2, 4),
    few_rows: (0, 0),
    moving_once: (0, 0),
}


@pytest.mark.parametrize("kernel", MOVING)
def test_moving_operands_of_pairs(kernel: Any, shared: pytest.MonkeyPatch) -> None:
    check(kernel, PAIR_PANELS, MOVING[kernel], [bfloat16(96, 64), bfloat16(96, 128)], shared)


@pytest.mark.parametrize(("rows", "columns"), [(96, 130), (80, 128), (20, 128)])
def test_parts_of_groups_and_panels_stay(rows: int, columns: int) -> None:
    left, right = bfloat16(rows, 64), bfloat16(rows, columns)
    assert uses(moving_computed, PAIR_PANELS, left, right) == (0, 0)
    both(moving_computed, left, right)


def distances(kernel: Any) -> list[int]:
    """Products and copies from each copy that packs a moving operand to the next one."""
    program = lower(nki.jit(kernel).compile(bfloat16(96, 64), bfloat16(96, 128)).kernel, "layouts")
    packs = [any(a.tensor.layout is PAIR_PANELS for a in inst.writes()) for inst in program.instructions()]
    seen = [
        packed
        for packed, inst in zip(packs, program.instructions(), strict=True)
        if packed or inst.effects.accumulation
    ]
    places = [place for place, packed in enumerate(seen) if packed]
    return [after - place for place, after in itertools.pairwise(places)]


@pytest.mark.skipif(not has_pairs(), reason="the processor does not multiply pairs")
@pytest.mark.parametrize(("nbytes", "expected"), [(1 << 20, [1]), (64 * 128 * 2, [3])])
def test_copies_of_inputs_follow_each_other(nbytes: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as they fit: else each stands before the first product that reads it."""
    monkeypatch.setattr(copy_operands, "_MOST_TOGETHER", nbytes)
    assert distances(two_windows) == expected
    (distance,) = distances(moving_written_between)
    assert distance > 1, "copies of tiles stay behind what writes the tile"


@pytest.mark.skipif(not has_pairs(), reason="the processor does not multiply pairs")
def test_chunks_that_pack_have_whole_words(shared: pytest.MonkeyPatch) -> None:
    """However small the cache is, a chunk has both rows of each word that it packs."""
    blocks: list[tuple[int, int]] = []
    begin = RegionBuilder.start

    def start(builder: RegionBuilder) -> None:
        region = builder.region
        if region.entries and not region.has_product:
            blocks.append((len(region.entries) // 2, region.block))
        begin(builder)

    shared.setattr(region_builder, "_CACHE", 1)
    shared.setattr(RegionBuilder, "start", start)
    Executable(nki.jit(two_windows).compile(bfloat16(96, 64), bfloat16(96, 128)).kernel)
    assert (3, GROUP) in blocks, "a region of copies, of at most 64 partitions"


@pytest.mark.parametrize(("kernel", "layout"), [(loaded, PAIR_COLUMNS), (an_input, PAIR_PANELS)])
@pytest.mark.parametrize("scale", [2.0**-120, 2.0**-70, 2.0**-40])
def test_small_numbers_in_pairs(kernel: Any, layout: Layout, scale: float, shared: pytest.MonkeyPatch) -> None:
    """Products whose digits pairs would lose go through float32, also from packed operands."""
    left, right = (numbers(96, 256) * np.float32(scale)).astype(ml_dtypes.bfloat16), bfloat16(96, 96)
    left[:, :16] = bfloat16(96, 16)
    right[:, 64:] = (numbers(96, 32) * np.float32(2.0**-60)).astype(ml_dtypes.bfloat16)
    check(kernel, layout, (1, 2), [left[:, :128].copy() if kernel is an_input else left, right], shared)


# Sums


def summed(left, right):
    """Two products in turn fill a bank, and two instructions read it: all of it, and every second row of a part."""
    a, b = nl.load(left), nl.load(right)
    total = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, 512, 256):
        part = total[:, start : start + 256]
        nisa.nc_matmul(part, a, b[:, start : start + 256])
        nisa.nc_matmul(part, a, b[:, 0:256])
    half = nl.ndarray((left.shape[1], 64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(half, nl.tanh, total.reshape((left.shape[1], 128, 4))[:, 3:67, 1:3])
    out = nl.ndarray(half.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, half)
    return stored(total), out


def several_banks(left, right):
    """A tile of two banks, whose halves are sums of their own; one product writes rows of the other half only."""
    a, b = nl.load(left), nl.load(right)
    totals = nl.ndarray((128, 2, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(totals, 0.5)
    nisa.nc_matmul(totals[: left.shape[1], 0], a, b, accumulate=True)
    nisa.nc_matmul(totals[32:64, 1], a[:, 0:32], b, accumulate=False)
    tile = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, totals)
    out = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def short(left, right):
    """Rows that spread over more sets of the cache stay as they are."""
    total = nl.ndarray((left.shape[1], 500), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left), nl.load(right[:, :500]))
    return stored(total)


def few_sums(left, right):
    """Few rows find room in their sets."""
    return _product(nl.load(left[:, :16]), nl.load(right))


def as_bits(left, right):
    """The sums are read as integers, too."""
    total = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left), nl.load(right))
    tile = nl.ndarray(total.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(tile, total.view(nl.int32), nl.bitwise_and, 0xFFFFF)
    out = nl.ndarray(total.shape, dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def no_product(left, right):
    """A copy alone writes the tile."""
    total = nl.ndarray((left.shape[0], 512), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(total, nl.load(right))
    return stored(total), _product(nl.load(left[:, :16]), nl.load(right))


SUMS = {summed: (4, 4), several_banks: (3, 2), short: (0, 0), few_sums: (0, 0), as_bits: (0, 0), no_product: (0, 0)}
"""Kernels, with the writes and reads of their padded tile."""


@pytest.mark.parametrize("kernel", SUMS)
@pytest.mark.parametrize("make", [numbers, bfloat16])
@pytest.mark.parametrize(("depth", "rows"), [(96, 128), (50, 77)])
def test_sums(kernel: Any, make: Any, depth: int, rows: int, shared: pytest.MonkeyPatch) -> None:
    arrays = [make(depth, rows), make(depth, 512)]
    program = lower(nki.jit(kernel).compile(*arrays).kernel, "layouts")
    tiles = {a.tensor for inst in program.instructions() for a in inst.accesses() if a.tensor.layout is PADDED}
    assert len(tiles) == (SUMS[kernel] != (0, 0))
    check(kernel, PADDED, SUMS[kernel], arrays, shared)


# Any program, and any host


class Step(nl.NKIObject):
    """What happens next to a stationary tile: ``kind``, of columns ``first`` to ``last`` - 1."""

    kind: str
    first: int
    last: int
    columns: int
    """Columns of the moving operand of a product."""


def some_steps(source: random.Random, width: int) -> tuple[Step, ...]:
    """Steps of one tile, after it was filled; most products and copies take whole groups."""
    kinds = source.choice(("product", "product copy", "product turn", "product copy turn compute read mask"))
    steps: list[Step] = []
    for _ in range(source.randrange(2, 9)):
        unit = source.choice((32, 32, 32, 32, 8))
        first = source.randrange(0, width, unit)
        last = source.randrange(first + unit, width + unit, unit)
        kind, columns = source.choice(kinds.split()), source.choice((1, 5, 32, 64, 100, 160))
        steps.append(Step(kind=kind, first=first, last=min(last, width), columns=columns))
    return (*steps, Step(kind="product", first=0, last=width, columns=160))


@nki.jit
def steps_of(left, other, right, steps):
    """Steps of a tile of the shape of ``left``; products add to one result, which each product's rows begin anew."""
    depth = left.shape[0]
    a, b, source = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf), nl.load(right), nl.load(other)
    nisa.dma_copy(a, left)
    results = []
    for step in steps:
        part, from_other = a[:, step.first : step.last], source[:, step.first : step.last]
        count = step.last - step.first
        if step.kind == "product":
            total = nl.ndarray((min(count, 128), step.columns), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, part[:, : min(count, 128)], b[:, : step.columns])
            nisa.nc_matmul(total, part[:, : min(count, 128)], b[:, 160 - step.columns :])
            results.append(stored(total))
        elif step.kind == "copy":
            nisa.tensor_copy(part, from_other)
        elif step.kind == "turn":
            for at in range(0, count, 128):
                end = min(at + 128, count)
                spread = nl.ndarray((depth, end - at), dtype=left.dtype, buffer=nl.psum)
                nisa.nc_transpose(spread, _transposed(from_other[:, at:end]))
                nisa.tensor_copy(part[:, at:end], spread)
        elif step.kind == "compute":
            nisa.tensor_scalar(part, from_other, nl.multiply, 0.5)
        elif step.kind == "read":
            nisa.tensor_tensor(b[:, :1], b[:, :1], part[:, :1], nl.add)
        else:
            mask = nl.ndarray((depth, count), dtype=nl.uint8, buffer=nl.sbuf)
            nisa.tensor_scalar(mask, from_other, nl.greater, 0.0)
            nisa.tensor_copy_predicated(part, from_other, mask)
    return tuple(results)


def random_case(seed: int, make: Any) -> tuple[list[Any], tuple[Step, ...]]:
    source = random.Random(seed)
    depth, width = source.choice((32, 64, 96, 128, 100)), source.choice((64, 128, 192, 256))
    steps = some_steps(source, width)
    arrays = [make(depth, columns) for columns in (width, width, 160)]
    arrays[1] = (-arrays[1]).astype(arrays[1].dtype)
    if source.random() < 0.3:
        small = source.randrange(width)
        arrays[0][:, small : small + 20] = 2.0**-100
    return arrays, steps


@pytest.mark.parametrize("make", [numbers, bfloat16])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_steps(seed: int, make: Any, shared: pytest.MonkeyPatch) -> None:
    """Whatever else happens to a tile, and whatever part of it, all executors and threads give the same bits."""
    arrays, steps = random_case(seed, make)
    expected = [np.ascontiguousarray(output).tobytes() for output in nki.simulate(steps_of)(*arrays, steps)]
    for outputs in launched(steps_of.compile(*arrays, steps).kernel, arrays, shared):
        assert outputs == expected, steps


def test_random_steps_have_layouts() -> None:
    """The test before means something: many of its tiles have a layout."""
    for make, layout in ((numbers, BLOCKS), (bfloat16, PAIR_COLUMNS)):
        cases = [random_case(seed, make) for seed in range(8)]
        found = sum(uses(steps_of, layout, *arrays, steps) != (0, 0) for arrays, steps in cases)
        assert found >= (1 if layout is BLOCKS else 3) or not NEEDS[layout]()  # blocks want large products alone


@pytest.mark.parametrize(("has_pairs", "has_blocks"), [*itertools.product((False, True), repeat=2)])
@pytest.mark.parametrize("make", [numbers, bfloat16])
def test_other_hosts_have_other_layouts(make: Any, has_pairs: bool, has_blocks: bool) -> None:
    """The choice asks the host, so that it can be looked at on any processor."""
    program = lower(nki.jit(loaded).compile(make(96, 256), make(96, 128)).kernel, "share_loads")
    stage, target = AssignLayouts(lambda: has_pairs, lambda: has_blocks), targets.find(program.target)
    after = stage.run(program, target)
    stage.check(program, after, target)
    layouts = {access.tensor.layout for inst in after.instructions() for access in inst.accesses()} - {DENSE}
    wanted = (
        {BLOCKS}
        if make is numbers and has_blocks
        else {PAIR_COLUMNS, PAIR_PANELS}
        if make is bfloat16 and has_pairs
        else set()
    )
    assert layouts - {PANELS} == wanted
