"""The packing of operands for products of words, in both orders, against the definition of words and notes in NumPy."""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from nki.numerics.jit import engine
from nki.numerics.matmul import CHAIN, PANEL
from nki.numerics.words.operands import (
    NOTES,
    PAIRS,
    TILES,
    WordOrder,
    add_least,
    add_pack_panels,
    add_unpack,
    add_widen,
    panel_bytes,
)
from nki.numerics.words.stationary import BLOCK, add_least_columns, add_pack_columns, add_pack_rows, row_words

Bits = np.ndarray[Any, np.dtype[np.uint16]]
both_orders = pytest.mark.parametrize("order", [TILES, PAIRS], ids=["tiles", "pairs"])


@cache
def routines(order: WordOrder) -> Any:
    """The addresses of the routines, which any processor runs."""
    module = ir.Module()
    for add in (add_pack_panels, add_pack_rows, add_pack_columns, add_unpack):
        add(module, order)
    for add in (add_least, add_least_columns, add_widen):
        add(module)
    return SimpleNamespace(**{name.removeprefix("nki_"): at for name, at in engine().compile(module).items()})


def call(address: int, *arguments: Any) -> None:
    """Call a routine with arrays, by their addresses, and numbers."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    kinds = [pointer if isinstance(a, np.ndarray) else size for a in arguments]
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    ctypes.CFUNCTYPE(None, *kinds)(address)(*values)


def operand(rows: int, columns: int) -> Bits:
    """Bits of bfloat16 of any size and sign, with zeros."""
    rng = np.random.default_rng(rows + columns)
    bits = rng.integers(0, 1 << 16, (rows, columns), np.uint16)
    bits[rng.random(bits.shape) < 0.3] = 0x8000
    return bits


def words(bits: Bits, order: WordOrder) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Rows w and 16 + w of each group, or 2 w and 2 w + 1, as the upper and the lower half of a word."""
    wide = bits.astype(np.uint32)
    if order == PAIRS:
        return wide[::2] << 16 | wide[1::2]
    halves = wide.reshape(-1, 2, CHAIN, bits.shape[1])
    return (halves[:, 0] << 16 | halves[:, 1]).reshape(-1, bits.shape[1])


def note(bits: Bits) -> int:
    """The least magnitude that is not 0, minus one."""
    magnitudes = bits.astype(np.int64) & 0x7FFF
    return int(magnitudes[magnitudes > 0].min(initial=1 << 16)) - 1


@both_orders
@pytest.mark.parametrize("depth", [32, 128, 512])
@pytest.mark.parametrize("cuts", [(), (16,), (32,), (16, 32), (16, 96)], ids=str)
def test_panels(order: WordOrder, depth: int, cuts: tuple[int, ...]) -> None:
    """Ranges of rows, which may end in the middle of words, make the panels of all rows."""
    bits = operand(depth, 4 * PANEL)
    bits[:CHAIN, :PANEL] = 0
    panels = np.full((3, panel_bytes(depth)), 0xA5, np.uint8)
    ends = [0, *(cut for cut in cuts if cut < depth), depth]
    for first, last in pairwise(ends):
        call(routines(order).pack_panels, panels, bits, 4 * PANEL, PANEL, first, last, depth, 3)
    for number, panel in enumerate(panels):
        columns = bits[:, PANEL * number : PANEL * (number + 1)]
        assert panel[:-NOTES].view(np.uint32).tobytes() == words(columns, order).tobytes()
        notes = [note(columns[row : row + CHAIN]) for row in range(0, depth, CHAIN)]
        assert panel[-NOTES:].view(np.uint16)[: len(notes)].tolist() == notes
        rows = np.zeros((depth, 48), np.uint32)
        call(routines(order).unpack, rows, 48, panel, PANEL, depth, PANEL)
        assert np.array_equal(rows[:, :PANEL], columns.astype(np.uint32) << 16)
        assert not rows[:, PANEL:].any()
    least = np.zeros(1, np.uint16)
    for count in (1, 3):
        call(routines(order).least, least, panels, depth, count)
        assert least[0] == note(bits[:, : PANEL * count])


@both_orders
@pytest.mark.parametrize("depth", [32, 96, 512])
@pytest.mark.parametrize(("first", "count"), [(0, 128), (0, 16), (16, 48), (80, 48), (32, 32)])
@pytest.mark.parametrize("is_turned", [False, True])
def test_stationary_operands(order: WordOrder, depth: int, first: int, count: int, is_turned: bool) -> None:
    """Columns of an operand whose rows, or columns, are dense become rows of words; other rows stay as they are."""
    columns = 128
    bits, least = operand(depth, columns), np.zeros(1, np.uint16)
    bits[:, 16:32] = 0x8000
    target = np.full((columns, row_words(depth)), 0xA5A5A5A5, np.uint32)
    source = np.ascontiguousarray(bits.T) if is_turned else bits
    begin = source[first:] if is_turned else source[:, first:]
    routine = routines(order).pack_columns if is_turned else routines(order).pack_rows
    call(routine, target[first:], target.shape[1], begin, source.shape[1], count, depth // 32)
    here = slice(first, first + count)
    assert target[here, : depth // 2].tobytes() == words(bits, order)[:, here].T.tobytes()
    assert (target[:first] == 0xA5A5A5A5).all() and (target[first + count :] == 0xA5A5A5A5).all()
    for start in range(first, first + count, BLOCK):
        notes = target[start, depth // 2 :].view(np.uint16)[:BLOCK]
        assert notes.min() == note(bits[:, start : start + BLOCK])
    call(routines(order).least_columns, least, target[first:], target.shape[1], count, depth // 32)
    assert least[0] == note(bits[:, here])


def test_rows_of_float32() -> None:
    order = TILES  # the same for both
    bits, target = operand(7, 64), np.zeros((7, 48), np.uint32)
    call(routines(order).widen, target, 48, bits, 64, 7, 32)
    assert np.array_equal(target[:, :32], bits[:, :32].astype(np.uint32) << 16)
    assert not target[:, 32:].any()


@both_orders
@pytest.mark.parametrize("depth", range(1, 97))
def test_words_of_any_depth(order: WordOrder, depth: int) -> None:
    """Runs cover the words of whole groups, with as many halves as there are rows."""
    halves: list[int] = []
    for start, stop, count in order.runs(depth):
        assert start == len(halves)
        halves += [count] * (stop - start)
    exists = np.zeros((-(-depth // 32) * 32, 1), np.uint16)
    exists[:depth] = 1
    assert halves == [(word >> 16) + (word & 1) for word in words(exists, order)[:, 0].tolist()]
