"""Copies between layouts of operands, in both orders of pairs, against the index maps and the guard in NumPy."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from nki.ir.layout import Layout
from nki.numerics.llvm_jit import engine
from nki.numerics.matmul.contract import BLOCK, BLOCKS, CHAIN, PAIR_COLUMNS, PAIR_PANELS, PANEL
from nki.numerics.matmul.conversions import (
    BY_CHAIN,
    COLUMNS_TO_BLOCKS,
    ROWS_TO_BLOCKS,
    TO_FLOAT32,
    TO_PAIRS,
    VNNI,
    add_conversion,
    add_least_magnitude,
    rearranged,
)
from tests.support.native_calls import call, compiled

Bits = np.ndarray[Any, np.dtype[np.uint16]]
both_orders = pytest.mark.parametrize("half", [VNNI, BY_CHAIN], ids=["vnni", "by_chain"])


@cache
def routines(half: int) -> dict[str, int]:
    """The addresses of the conversions, which any processor runs."""
    module = ir.Module()
    for conversion in (ROWS_TO_BLOCKS, COLUMNS_TO_BLOCKS, *TO_PAIRS, *TO_FLOAT32):
        add_conversion(module, conversion, half)
    add_least_magnitude(module)
    return engine().compile(module)


def operand(rows: int, columns: int) -> Bits:
    """Bits of bfloat16 of any size and sign, with zeros."""
    rng = np.random.default_rng(rows + columns)
    bits = rng.integers(0, 1 << 16, (rows, columns), np.uint16)
    bits[rng.random(bits.shape) < 0.3] = 0x8000
    return bits


def words(bits: Bits, half: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Rows w and 16 + w of each group, or 2 w and 2 w + 1, as the upper and the lower half of a word."""
    halves = bits.astype(np.uint32).reshape(-1, 2, 1 << half, bits.shape[1])
    return (halves[:, 0] << 16 | halves[:, 1]).reshape(-1, bits.shape[1])


def guard(bits: Bits) -> int:
    """The least magnitude that is not 0, minus one."""
    magnitudes = bits.astype(np.int64) & 0x7FFF
    return int(magnitudes[magnitudes > 0].min(initial=1 << 16)) - 1


def least(half: int, block: Bits, step: int, blocks: int, count: int) -> int:
    result = np.zeros(1, np.uint16)
    call(routines(half)["nki_least_magnitude"], result, block, step, blocks, count)
    return int(result[0])


def widened(half: int, layout: str, source: Bits, step: int, shape: tuple[int, int]) -> Any:
    """An operand of this ``shape`` as the bits of float32, in rows of a longer array, which stays as it is."""
    (depth, columns), rows = shape, np.zeros((shape[0], shape[1] + 16), np.uint32)
    sizes = 0, depth, columns, depth, 0
    call(routines(half)[f"nki_{layout}_to_float32"], rows, rows.shape[1], source, step, *sizes)
    assert not rows[:, columns:].any()
    return rows[:, :columns]


@both_orders
@pytest.mark.parametrize("depth", [32, 128, 512])
@pytest.mark.parametrize("cuts", [(), (16,), (32,), (16, 32), (16, 96)], ids=str)
def test_panels(half: int, depth: int, cuts: tuple[int, ...]) -> None:
    """Ranges of rows, which may end in the middle of words, make the panels of all rows."""
    bits, count = operand(depth, 4 * PANEL), 3
    bits[:CHAIN, :PANEL] = 0
    size = PAIR_PANELS.block(depth, PANEL)
    panels = np.full((count, size), 0xA5A5, np.uint16)
    ends = [0, *(cut for cut in cuts if cut < depth), depth]
    for first, last in pairwise(ends):
        sizes = first, last, count * PANEL, depth, PANEL
        call(routines(half)["nki_rows_to_pair_panels"], panels, size, bits, 4 * PANEL, *sizes)
    for number, panel in enumerate(panels):
        columns = bits[:, PANEL * number : PANEL * (number + 1)]
        assert panel[: depth * PANEL].tobytes() == words(columns, half).tobytes()
        guards = [guard(columns[row : row + CHAIN]) for row in range(0, depth, CHAIN)]
        assert panel[depth * PANEL :][: len(guards)].tolist() == guards
    wide = bits[:, : count * PANEL].astype(np.uint32) << 16
    assert np.array_equal(widened(half, "pair_panels", panels, size, wide.shape), wide)
    for blocks in (1, count):
        found = least(half, panels.reshape(-1)[depth * PANEL :], size, blocks, depth // CHAIN)
        assert found == guard(bits[:, : PANEL * blocks])


@both_orders
@pytest.mark.parametrize("depth", [32, 96, 512])
@pytest.mark.parametrize(("first", "count"), [(0, 128), (0, 16), (16, 48), (80, 48), (32, 32)])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_stationary_operands(half: int, depth: int, first: int, count: int, layout: str) -> None:
    """Columns of an operand with dense rows or columns become columns of pairs; others stay as they are."""
    columns = 128
    bits = operand(depth, columns)
    bits[:, 16:32] = 0x8000
    target = np.full((columns, PAIR_COLUMNS.block(depth, 1)), 0xA5A5, np.uint16)
    source = np.ascontiguousarray(bits.T) if layout == "columns" else bits
    begin, step = source[first:] if layout == "columns" else source[:, first:], source.shape[1]
    sizes = 0, depth, count, depth, 16
    call(routines(half)[f"nki_{layout}_to_pair_columns"], target[first:], target.shape[1], begin, step, *sizes)
    here = slice(first, first + count)
    assert target[here, :depth].tobytes() == words(bits, half)[:, here].T.tobytes()
    assert (target[:first] == 0xA5A5).all() and (target[first + count :] == 0xA5A5).all()
    guards = target[first].reshape(-1)[depth:]
    assert least(half, target[first:].reshape(-1)[depth:], CHAIN * target.shape[1], count // CHAIN, 1) == guard(
        bits[:, here]
    )
    assert int(guards[0]) <= guard(bits[:, first : first + CHAIN])
    wide = bits[:, here].astype(np.uint32) << 16
    assert np.array_equal(widened(half, layout, begin, step, (depth, count)), wide)
    assert np.array_equal(widened(half, "pair_columns", target[first:], target.shape[1], (depth, count)), wide)


@pytest.mark.parametrize("shape", [(128, 128), (127, 126), (5, 9), (1, 4), (20, 31)], ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_blocks(layout: str, shape: tuple[int, int]) -> None:
    """Each element goes to the place that the layout has for it; of columns there are whole blocks."""
    rows, columns = shape[0], shape[1] // BLOCK * BLOCK if layout == "columns" else shape[1]
    source = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    lines = source if layout == "rows" else np.ascontiguousarray(source.T)
    padded = -(-columns // BLOCK) * BLOCK
    target, size = np.zeros(BLOCKS.elements(rows, padded), np.float32), BLOCKS.block(rows, padded)
    sizes = 0, rows, columns, rows, 0
    call(routines(VNNI)[f"nki_{layout}_to_blocks"], target, size, lines, lines.shape[1], *sizes)
    want = np.zeros_like(target)
    for row in range(rows):
        for column in range(columns):
            want[BLOCKS.place(rows, padded, row * padded + column)] = source[row, column]
    assert np.array_equal(target, want)


def test_a_new_layout_is_one_row() -> None:
    """Blocks of eight columns: the shuffles follow from the index map."""
    eights = Layout("eights", 8)
    module = ir.Module()
    conversion = type(ROWS_TO_BLOCKS)("nki_rows_to_eights", ROWS_TO_BLOCKS.source, eights, (2, 1), (16, 8))
    add_conversion(module, conversion)
    source, target = np.arange(7 * 24, dtype=np.float32).reshape(7, 24), np.zeros(7 * 24, np.float32)
    call(compiled(module, "nki_rows_to_eights"), target, 7 * 8, source, 24, 0, 7, 24, 7, 0)
    assert np.array_equal(target, source.reshape(7, 3, 8).transpose(1, 0, 2).reshape(-1))


@pytest.mark.parametrize("wanted", [["~r0", "c0", "r1", "c1"], ["c1", "c0", "r0", "r1"], ["r1", "~c1", "r0", "c0"]])
def test_shuffles_give_the_wanted_order(wanted: list[str]) -> None:
    """Vectors of four lanes, bits c0 and c1, from two bits of their number: every element is at its new index."""
    module, kind = ir.Module(), ir.VectorType(ir.IntType(32), 4)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()] * 2), "shuffle")
    b: Any = ir.IRBuilder(function.append_basic_block())
    source, target = function.args
    vectors = [
        b.load(b.gep(source, [ir.Constant(ir.IntType(64), n)], source_etype=kind), typ=kind, align=4) for n in range(4)
    ]
    for n, vector in enumerate(rearranged(b, vectors, ["c0", "c1", "r0", "r1"], wanted)):
        b.store(vector, b.gep(target, [ir.Constant(ir.IntType(64), n)], source_etype=kind), align=4)
    b.ret_void()
    before, after = np.arange(16, dtype=np.uint32), np.zeros(16, np.uint32)
    call(compiled(module, "shuffle"), before, after)
    for index, element in enumerate(after.tolist()):
        bits = {name: element >> place & 1 for place, name in enumerate(["c0", "c1", "r0", "r1"])}
        assert [bits[name.strip("~")] ^ name.startswith("~") for name in wanted] == [index >> n & 1 for n in range(4)]
