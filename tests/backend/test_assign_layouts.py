"""Which tiles get a layout: of each kernel the writes and reads in it, with the bits of the simulator."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.backend.cpu.runtime import regions
from nki.backend.cpu.runtime.regions import Region
from nki.backend.cpu.stages import assign_layouts
from nki.backend.cpu.stages.assign_layouts import AssignLayouts
from nki.backend.cpu.stages.tile_layouts import PADDED, TILE_LAYOUTS, TileLayout
from nki.base import element_types as dt
from nki.compilation import executable
from nki.compilation.executable import NATIVE_STAGES, Executable, lower
from nki.ir.layout import DENSE, Layout
from nki.numerics.matmul.contract import BLOCKS, GROUP, PAIR_COLUMNS, PAIR_PANELS
from tests.backend.test_layouts import UNITS, bfloat16, use
from tests.support.both_executors import numbers
from tests.support.kernel_parts import activated, product, returned, stored, transposed
from tests.support.matrix_units import choose
from tests.support.native_programs import compiled, lowered, same_bits
from tests.support.shared_launches import shared

__all__ = ["shared"]


def uses(kernel: Any, layout: Layout, *arguments: Any) -> tuple[int, int]:
    """The writes and the reads of tiles in ``layout``."""
    insts = lowered(kernel, *arguments, stop="layouts")
    writes = sum(access.tensor.layout is layout for inst in insts for access in inst.writes())
    return writes, sum(access.tensor.layout is layout for inst in insts for access in inst.reads())


def left_half(array):
    """A load of the left half of an input, which is no tile of its own."""
    return nl.load(array[:, : array.shape[1] // 2])


def result(stationary, moving):
    return stored(product(stationary, moving))


def loaded(left, right):
    """A load fills the stationary tile; products read all of it, and a part."""
    a, b = left_half(left), nl.load(right)
    return result(a, b), result(a[:, 32:], b)


def by_parts(left, right):
    """Copies fill the stationary tile part by part; one product reads it."""
    columns = left.shape[1] // 2
    a, b = nl.ndarray((left.shape[0], columns), dtype=left.dtype, buffer=nl.sbuf), nl.load(right)
    for start in range(0, columns, 32):
        nisa.dma_copy(a[:, start : start + 32], left[:, start : start + 32])
    return result(a, b)


def transposed_part(left, right):
    """A transposition of what is computed fills the stationary tile; its source changes before the last product."""
    part = left_half(left)
    back = nl.ndarray((part.shape[1], part.shape[0]), dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(back, transposed(part), nl.multiply, 0.5)
    a, b = transposed(back), nl.load(right)
    first = result(a, b)
    nisa.memset(back, 1.0)
    return first, result(a[:, 32:], b), stored(back)


def computed(left, right):
    """Two products read a tile that an activation writes: in pairs it is copied."""
    a, b = activated(left_half(left), nl.tanh), nl.load(right)
    return result(a, b), result(a, b)


def transposed_input(left, right):
    """Products read what is to be transposed where it lies in an input, and pack its columns themselves."""
    a, b = transposed(nl.load(left.reshape((left.shape[1], left.shape[0]))[0:128])), nl.load(right)
    return result(a, b), result(a, b)


def also_moving(left, right):
    """One product reads the tile as its moving operand, too."""
    a, b = left_half(left), nl.load(right)
    return result(a, b), result(b[:, :128], a)


def odd_window(left, right):
    """A product reads columns that are no whole blocks."""
    a, b = left_half(left), nl.load(right)
    return result(a, b), result(a[:, 2:38], b)


def odd_offset(left, right):
    """A product reads whole groups of columns that begin within one."""
    a, b = left_half(left), nl.load(right)
    return result(a, b), result(a[:, 8:72], b)


def odd_part(left, right):
    """A copy writes columns that are no whole blocks."""
    a, b = left_half(left), nl.load(right)
    nisa.tensor_copy(a[:, 7:23], b[:, 0:16])
    return result(a, b)


def in_a_loop(left, right):
    """A device loop loads windows of the input, and reads windows of a tile."""
    b, a = nl.load(right), left_half(left)
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
    return result(a, b), out


def moving_parts(left, right):
    """Copies fill the moving tile from transposed parts; products read all of it, and a part."""
    depth, columns = right.shape
    tile = nl.ndarray((depth, columns), dtype=right.dtype, buffer=nl.sbuf)
    whole = nl.load(right[:, :])
    for start in range(0, columns, 64):
        back = transposed(whole[:, start : start + 64])
        again = nl.ndarray((depth, 64), dtype=right.dtype, buffer=nl.psum)
        nisa.nc_transpose(again, back)
        nisa.tensor_copy(tile[:, start : start + 64], again)
    a = nl.load(left)
    return result(a, tile), result(a, tile[:, 32:96])


def moving_computed(left, right):
    """An activation writes the moving tile, which two products read."""
    tile, a = activated(nl.load(right), nl.tanh), nl.load(left)
    return result(a, tile), result(a[:, 0:32], tile)


def moving_written_between(left, right):
    """Between the products the moving tile gets other contents; each is read twice."""
    tile = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    a, b = nl.load(left), nl.load(right)
    results = []
    for scale in (1.0, 2.0):
        nisa.tensor_scalar(tile, b, nl.multiply, scale)
        results += [result(a, tile), result(a, tile)]
    return tuple(results)


def an_input(left, right):
    """Two products read one window of an input in place."""
    a = nl.load(left)
    return result(a, nl.load(right)), result(a[:, 0:64], nl.load(right))


def two_windows(left, right):
    """Two windows of an input; each is read by two products in place."""
    a = nl.load(left[0:64])
    windows = [nl.load(right[0:64]), nl.load(right[32:96])]
    return tuple(result(part, window) for window in windows for part in (a, a[:, 0:32]))


def few_rows(left, right):
    """A product of 16 rows reads its moving operand where it lies."""
    tile, a = activated(nl.load(right), nl.tanh), nl.load(left)
    return result(a[:, 0:16], tile), result(a[:, 0:8], tile)


def moving_once(left, right):
    """One product reads a tile that is computed."""
    return result(nl.load(left), activated(nl.load(right), nl.tanh))


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
    return stored(total), returned(half)


def several_banks(left, right):
    """A tile of two banks with a sum in each half; one product writes rows of the other half only."""
    a, b = nl.load(left), nl.load(right)
    totals = nl.ndarray((128, 2, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(totals, 0.5)
    nisa.nc_matmul(totals[: left.shape[1], 0], a, b, accumulate=True)
    nisa.nc_matmul(totals[32:64, 1], a[:, 0:32], b, accumulate=False)
    return stored(totals)


def as_bits(left, right):
    """The sums are read as integers, too."""
    total = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left), nl.load(right))
    tile = nl.ndarray(total.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(tile, total.view(nl.int32), nl.bitwise_and, 0xFFFFF)
    return returned(tile)


STATIONARY = {
    loaded: (1, 2), by_parts: (4, 1), transposed_part: (1, 2), transposed_input: (1, 2),
    also_moving: (0, 0), odd_window: (0, 0), odd_part: (0, 0), in_a_loop: (0, 0),
    computed: (0, 0),
}  # fmt: skip
COPIED = {computed: (1, 2), transposed_input: (0, 0)}
"""In pairs a copy pays where several products read a window; what is transposed is read as it was."""
MOVING = {
    moving_parts: (2, 2), moving_computed: (1, 2), moving_written_between: (2, 4), an_input: (1, 2),
    two_windows: (2, 4), few_rows: (0, 0), moving_once: (0, 0),
}  # fmt: skip
SUMS = {summed: (4, 4), several_banks: (3, 2), as_bits: (0, 0)}
WANTED: list[tuple[Layout, Any, tuple[int, int], tuple[int, ...]]] = [
    *((BLOCKS, kernel, count, (depth, 256, 160)) for kernel, count in STATIONARY.items() for depth in (96, 33)),
    *((PAIR_COLUMNS, kernel, count, (96, 256, 160)) for kernel, count in (STATIONARY | COPIED).items()),
    *((PAIR_PANELS, kernel, count, (96, 64, 128)) for kernel, count in MOVING.items()),
    *((PADDED, kernel, count, (96, 128, 512)) for kernel, count in SUMS.items()),
    (BLOCKS, loaded, (0, 0), (96, 124, 96)),  # half a block
    (BLOCKS, loaded, (0, 0), (96, 96, 31)),  # few columns
    (BLOCKS, loaded, (0, 0), (1, 128, 96)),  # one partition
    (PAIR_COLUMNS, loaded, (0, 0), (96, 240, 128)),  # parts of groups
    (PAIR_COLUMNS, loaded, (0, 0), (80, 256, 128)),
    (PAIR_COLUMNS, odd_offset, (0, 0), (96, 256, 160)),
    (PAIR_PANELS, moving_computed, (0, 0), (96, 64, 130)),
    (PAIR_PANELS, moving_computed, (0, 0), (80, 64, 128)),
]
"""Layouts, kernels, the writes and reads of tiles in the layout, and the sizes of both operands."""


@pytest.mark.parametrize(
    ("case", "unit"),
    [(case, unit) for case in WANTED for unit in UNITS if (unit is not None) == case[0].pairs],
    ids=lambda each: f"{each[0].name}-{each[1].__name__}-{each[3]}" if isinstance(each, tuple) else each,
)
def test_tiles_in_a_layout(case: Any, unit: str | None, shared: pytest.MonkeyPatch) -> None:
    layout, kernel, expected, (depth, rows, columns) = case
    use(layout, unit, shared)
    make = bfloat16 if layout.pairs else numbers
    arrays = [make(depth, rows), make(depth, columns)]
    assert uses(kernel, layout, *arrays) == expected
    same_bits(kernel, *arrays, shared=shared)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.float8_e4m3])
def test_other_dtypes_stay_dense(dtype: Any) -> None:
    left, right = numbers(96, 256).astype(dtype), numbers(96, 128).astype(dtype)
    for layout in (BLOCKS, PAIR_COLUMNS, PAIR_PANELS):
        assert uses(loaded, layout, left, right) == (0, 0)


def distances(kernel: Any) -> list[int]:
    """Products and copies from each copy that packs a moving operand to the next one."""
    insts = lowered(kernel, bfloat16(96, 64), bfloat16(96, 128), stop="layouts")
    packs = [any(a.tensor.layout is PAIR_PANELS for a in inst.writes()) for inst in insts]
    seen = [packed for packed, inst in zip(packs, insts, strict=True) if packed or inst.effects.accumulation]
    places = [place for place, packed in enumerate(seen) if packed]
    return [after - place for place, after in itertools.pairwise(places)]


@pytest.mark.parametrize(("nbytes", "expected"), [(1 << 20, [1]), (64 * 128 * 2, [3])])
def test_copies_of_inputs_follow_each_other(nbytes: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as they fit: else each stands before the first product that reads it."""
    choose(monkeypatch, "pairs")
    monkeypatch.setattr(assign_layouts, "_MOST_TOGETHER", nbytes)
    assert distances(two_windows) == expected
    (distance,) = distances(moving_written_between)
    assert distance > 1, "copies of tiles stay behind what writes the tile"


def test_chunks_that_pack_have_whole_words(shared: pytest.MonkeyPatch) -> None:
    """However small the cache is, a chunk has both rows of each word that it packs."""
    choose(shared, "pairs")
    blocks: list[tuple[int, int]] = []
    of_region = Region.block.fget
    assert of_region is not None

    def block(region: Region) -> int:
        size = of_region(region)
        if not region.has_product:
            blocks.append((len(region.entries) // 2, size))
        return size

    shared.setattr(regions, "_CACHE", 1)
    shared.setattr(Region, "block", property(block))
    Executable(compiled(two_windows, bfloat16(96, 64), bfloat16(96, 128)))
    assert (3, GROUP) in blocks, "a region of copies, of at most 64 partitions"


ASKED = list(dict.fromkeys(row.exists for row in TILE_LAYOUTS if row.exists is not TileLayout.exists))
"""What rows of the table ask about a processor."""


@pytest.mark.parametrize("answers", [*itertools.product((False, True), repeat=len(ASKED))])
@pytest.mark.parametrize("make", [numbers, bfloat16])
def test_other_hosts_have_other_layouts(make: Any, answers: tuple[bool, ...]) -> None:
    """The choice asks the host, so that it can be looked at on any processor."""
    has = dict(zip(ASKED, answers, strict=True))
    of_row = {row: has.get(row.exists) for row in TILE_LAYOUTS}  # None: every host has it
    table = tuple(replace(row, exists=lambda row=row: of_row[row] is not False) for row in TILE_LAYOUTS)
    program = lower(compiled(loaded, make(96, 256), make(96, 128)), "share_loads")
    stage, target = AssignLayouts(table), targets.find(program.target)
    after = stage.run(program, target)
    stage.check(program, after, target)
    everywhere = {row.layout for row, exists in of_row.items() if exists is None}
    layouts = {access.tensor.layout for inst in after.instructions() for access in inst.accesses()} - {DENSE}
    wanted = {row.layout for row, exists in of_row.items() if exists and row.layout.pairs == (make is bfloat16)}
    assert layouts - everywhere == wanted


APART = TileLayout(
    layout=Layout("apart", pad=7, gap=5),
    operand="result",
    suits=lambda dtype, rows, columns: rows > 1,
    takes=lambda inst, access: True,
)
"""Sums with rows at odd distances."""
WIDE = TileLayout(
    layout=Layout("wide", 32, gap=48),
    operand="moving",
    claims=lambda access: access.dtype is dt.float32,
    suits=lambda dtype, rows, columns: columns % 32 == 0,
    takes=lambda inst, access: inst.as_copy() is not None,
)
"""Panels at other distances than :data:`PANELS` has."""


@pytest.mark.parametrize(("row", "kernel", "expected"), [(APART, summed, (4, 4)), (WIDE, moving_parts, (2, 2))])
def test_a_new_layout_is_one_row(
    row: TileLayout, kernel: Any, expected: tuple[int, int], shared: pytest.MonkeyPatch
) -> None:
    """It comes before the others of its operand; nothing else knows it."""
    stages = [replace(each, table=(row, *each.table)) if each.name == "layouts" else each for each in NATIVE_STAGES]
    shared.setattr(executable, "NATIVE_STAGES", stages)
    arrays = numbers(96, 64), numbers(96, 512 if kernel is summed else 128)
    assert uses(kernel, row.layout, *arrays) == expected
    same_bits(kernel, *arrays, shared=shared)
