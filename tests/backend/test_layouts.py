"""Layouts, each row of the table: index map, steps, what conversions write and products read are the same places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir

import nki.language as nl
from nki.backend.cpu.codegen.routine import emit_routine
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.stages.tile_layouts import PADDED, TILE_LAYOUTS
from nki.base import element_types as dt
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE, Layout
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.isa.build import copy_tile, transpose_by_dma
from nki.isa.instructions.nc_matmul import NcMatmul
from nki.numerics.llvm_jit import engine
from nki.numerics.matmul import host
from nki.numerics.matmul.contract import BLOCKS, PAIR_COLUMNS, PAIR_PANELS, PANELS
from nki.numerics.matmul.host import has_blocks, matmul
from tests.backend.test_partitions import EVERY, Call
from tests.numerics.test_conversions import guard, words
from tests.support.both_executors import numbers
from tests.support.matrix_units import choose

Array = np.ndarray[Any, Any]
NOT_DENSE = [row.layout for row in TILE_LAYOUTS]
"""Every layout that native code has, but for the dense one."""
LAYOUTS = (DENSE, *NOT_DENSE, Layout("other", 8, 3, 5))
UNITS = [None, "pairs", "tiles"]
"""The matrix units that want layouts of pairs; None: layouts of float32."""


def bfloat16(*shape: int) -> Any:
    return numbers(*shape).astype(ml_dtypes.bfloat16)


def use(layout: Layout, unit: str | None, patch: pytest.MonkeyPatch) -> None:
    """Choose the unit that reads a layout; there is nothing to test without one."""
    if unit is not None:
        choose(patch, unit)
    elif layout is BLOCKS and not has_blocks():
        pytest.skip("register tiles of the processor have no whole blocks: it has no AVX-512")


OF_UNITS = [(layout, unit) for layout in NOT_DENSE for unit in UNITS if (unit is not None) == layout.pairs]
each_layout = pytest.mark.parametrize(("layout", "unit"), OF_UNITS, ids=lambda each: getattr(each, "name", each))


# The index map


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


def test_each_layout_has_sizes() -> None:
    missing = {layout.name for layout in NOT_DENSE} - set(SIZES)
    assert not missing, f"add a row to SIZES for {missing}, with sizes of tiles that have whole blocks"


# What conversions write there, and products read there


def in_memory(layout: Layout, tile: Array) -> Array:
    """The memory of a tile, written by the index map; what has no element is a NaN that would show.

    Pairs of rows are words, with notes behind each panel, or behind every sixteenth column.
    """
    rows, columns = tile.shape
    memory = np.full(layout.elements(rows, columns), np.nan, tile.dtype)
    if not layout.pairs:
        memory[[layout.place(rows, columns, element) for element in range(tile.size)]] = tile.reshape(-1)
        return memory
    bits, unit = tile.view(np.uint16), host.bf16_unit()
    assert unit is not None
    for number, block in enumerate(memory.view(np.uint16).reshape(columns // layout.width, -1)):
        part = bits[:, number * layout.width : (number + 1) * layout.width]
        block[: part.size] = words(part, unit.half).reshape(-1).view(np.uint16)
        notes = block[part.size :]
        if layout is PAIR_PANELS:
            notes[: rows // 16] = [guard(part[row : row + 16]) for row in range(0, rows, 16)]
        elif number % 16 == 0:
            notes[:16] = guard(bits[:, number : number + 16])
    return memory


def run(inst: Inst, memory: dict[Tensor, Array], ranges: list[tuple[int, int]], lanes: int = 0) -> dict[Tensor, Array]:
    """The memory of each tensor after the routine of ``inst`` ran for these ranges of partitions, or of columns."""
    module = ir.Module("layouts")
    emitted = emit_routine(module, "r", inst, aliases(inst), lanes or engine().vector_width)
    call = Call(inst, emitted, engine().compile(module)["r"])
    results = call.run(memory, ranges if emitted.partitions else [(0, EVERY)])
    return {t: np.frombuffer(bits, memory[t].dtype) for t, bits in zip(call.tensors, results, strict=True)}


def tensor(name: str, shape: tuple[int, ...], layout: Layout, dtype: Any, buffer: Any = Buffer.sbuf) -> Tensor:
    return Tensor(name, shape, dtype, buffer, layout=layout)


def turned(access: Access) -> Access:
    return Access(access.tensor, access.offset, access.shape[::-1], access.strides[::-1], access.dtype)


SIZES = {
    "padded": [(32, 256), (33, 512), (128, 256)],
    "panels": [(2, 64), (33, 96), (128, 512)],
    "blocks": [(2, 20), (33, 64), (96, 128)],
    "pair_panels": [(32, 32), (96, 64), (128, 512)],
    "pair_columns": [(32, 32), (96, 64), (128, 128)],
}
RANGES = ([(0, EVERY)], [(0, 16), (16, 32), (32, EVERY)], [(64, EVERY), (0, 64)])


def of_layout(layout: Layout, shape: tuple[int, int]) -> tuple[Tensor, Array]:
    """A tile and its contents, with special numbers."""
    contents = bfloat16(*shape) if layout.pairs else numbers(*shape)
    contents[0, 1], contents[1, 0], contents[1, 1] = np.nan, np.inf, -0.0
    dtype, buffer = dt.bfloat16 if layout.pairs else dt.float32, Buffer.psum if layout is PADDED else Buffer.sbuf
    return tensor("tile", shape, layout, dtype, buffer), contents


def writers(layout: Layout, tile: Tensor) -> Iterator[tuple[Inst, Tensor, bool]]:
    """Instructions that fill a tile, their source, and if that is transposed."""
    (rows, columns), target = tile.shape, Access.whole(tile)
    source = Tensor("source", (rows, columns), tile.dtype, Buffer.sbuf)
    across = Tensor("across", (columns, rows), tile.dtype, Buffer.sbuf)
    if layout is PAIR_COLUMNS:  # each partition is a column
        yield copy_tile(turned(target), turned(Access.whole(source))), source, False
        yield copy_tile(turned(target), Access.whole(across)), across, True
        return
    yield copy_tile(target, Access.whole(source)), source, False
    if layout is BLOCKS:
        yield transpose_by_dma(target, Access.whole(across)), across, True


@each_layout
def test_conversions_write_the_places_of_elements(layout: Layout, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(layout, unit, monkeypatch)
    for shape in SIZES[layout.name]:
        tile, contents = of_layout(layout, shape)
        expected = in_memory(layout, contents)
        for inst, source, is_turned in writers(layout, tile):
            for ranges in RANGES:
                memory = {tile: np.full_like(expected, np.nan), source: contents.T if is_turned else contents}
                found = run(inst, memory, ranges)[tile]
                same = found.view(np.uint8) == expected.view(np.uint8)
                assert same.all() or is_unused(layout, shape, found, expected), (inst, ranges)


def is_unused(layout: Layout, shape: tuple[int, int], found: Array, expected: Array) -> bool:
    """True if memory differs in the room for guards alone, and the least of the guards is right."""
    if not layout.pairs:
        return False
    rows, columns = shape
    one, two = (memory.view(np.uint16).reshape(columns // layout.width, -1) for memory in (found, expected))
    size = rows * layout.width
    step, count = (1, rows // 16) if layout is PAIR_PANELS else (16, 1)
    guards, least = (memory[::step, size : size + count].min(axis=1) for memory in (one, two))
    together = np.minimum(least, np.roll(least, -1) if len(least) % 2 else least.reshape(-1, 2)[:, ::-1].reshape(-1))
    right = (guards == least) | ((guards == together) & (layout is not PAIR_PANELS))  # one may cover 32 columns
    return bool((one[:, :size] == two[:, :size]).all() and right.all())


@each_layout
@pytest.mark.parametrize("columns", [2, 31, 64, 130])
def test_products_read_the_places_of_elements(
    layout: Layout, unit: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of either operand; or they write them, into what is padded, and add to what is there."""
    use(layout, unit, monkeypatch)
    for rows, width in SIZES[layout.name]:
        tile, contents = of_layout(layout, (rows, width))
        if layout is PADDED:
            left, right = numbers(7, rows), numbers(7, width)
            pair = {"left": left, "right": right}
            operands = {tensor(name, each.shape, DENSE, dt.float32): each for name, each in pair.items()}
            expected, out = contents.copy(), tile
            memory = {tile: in_memory(layout, contents), **operands}
        else:
            is_moving = layout in (PANELS, PAIR_PANELS)
            width = min(width, 128) if not is_moving else width
            other = (bfloat16 if layout.pairs else numbers)(rows, 96 if is_moving else columns)
            dense = tensor("other", other.shape, DENSE, tile.dtype)
            pair = {tile: (in_memory(layout, contents), contents), dense: (other, other)}
            tensors = [dense, tile] if is_moving else [tile, dense]
            memory = {each: pair[each][0] for each in tensors}
            left, right = (pair[each][1].astype(np.float32) for each in tensors)
            operands, expected = dict.fromkeys(tensors), np.empty((left.shape[1], right.shape[1]), np.float32)
            out = tensor("out", expected.shape, DENSE, dt.float32, Buffer.psum)
            memory[out] = np.zeros(expected.shape, np.float32)
        inst = NcMatmul(Access.whole(out), *map(Access.whole, operands), accumulate=layout is PADDED)
        with np.errstate(all="ignore"):
            matmul(left, right, expected, layout is PADDED, by_groups=layout.pairs)
        if layout is PADDED:
            expected = in_memory(layout, expected)
        for ranges in RANGES:
            assert run(inst, memory, ranges)[out].tobytes() == expected.tobytes(), (inst, ranges)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", [dt.float32, dt.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 300), (5, 511), (16, 100), (100, 1), (128, 1)])
def test_few_rows_and_one_column_in_ranges(rows: int, columns: int, dtype: dt.DType, lanes: int) -> None:
    """Vectors of any width, and ranges of columns where rows are few."""
    left, right = numbers(70, rows).astype(dtype.dtype), numbers(70, columns).astype(dtype.dtype)
    names = {"left": left, "right": right}
    memory = {tensor(name, each.shape, DENSE, dtype): each for name, each in names.items()}
    out, expected = (
        tensor("out", (rows, columns), DENSE, dt.float32, Buffer.psum),
        np.empty((rows, columns), np.float32),
    )
    inst = NcMatmul(Access.whole(out), *map(Access.whole, memory), accumulate=False)
    matmul(left.astype(np.float32), right.astype(np.float32), expected, False, dtype is dt.bfloat16)
    for ranges in ([(0, EVERY)], [(0, 17), (17, 65), (65, EVERY)], [(64, EVERY), (0, 64)]):
        found = run(inst, {**memory, out: np.zeros_like(expected)}, ranges, lanes)
        assert found[out].tobytes() == expected.tobytes()
