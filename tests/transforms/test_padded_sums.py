"""Rows of sums in PSUM are padded where products write them; bits stay those of the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.compiler.executable import lower
from nki.ir.types import Buffer
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import stored
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]


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
    out = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, totals)
    nisa.dma_copy(out, tile)
    return out


def short(left, right):
    """Rows that spread over more sets of the cache stay as they are."""
    total = nl.ndarray((left.shape[1], 500), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left), nl.load(right[:, :500]))
    return stored(total)


def few(left, right):
    """Few rows find room in their sets."""
    total = nl.ndarray((16, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left[:, :16]), nl.load(right))
    return stored(total)


def as_bits(left, right):
    """The sums are read as integers, too."""
    total = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left), nl.load(right))
    out = nl.ndarray(total.shape, dtype=nl.int32, buffer=nl.shared_hbm)
    tile = nl.ndarray(total.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(tile, total.view(nl.int32), nl.bitwise_and, 0xFFFFF)
    nisa.dma_copy(out, tile)
    return out


def in_a_loop(left, right):
    """A device loop reads windows of the sums."""
    total = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(left), nl.load(right))
    out = nl.ndarray((4, left.shape[1], 128), dtype=nl.float32, buffer=nl.shared_hbm)

    def body(i):
        tile = nl.ndarray((left.shape[1], 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, total[:, nl.ds(i * 128, 128)])
        nisa.dma_copy(out[i], tile)

    nl.fori_loop(0, 4, body)
    return out


def padded(kernel: Any, *arguments: Any) -> int:
    """The tiles in PSUM with longer rows."""
    program = lower(nki.jit(kernel).compile(*arguments).kernel, "gather_scatter")
    tiles = {access.tensor for inst in program.core.instructions() for access in inst.accesses()}
    return sum(tile.buffer is Buffer.psum and tile.shape[1] % 256 == 16 for tile in tiles if len(tile.shape) == 2)


def bfloat16(*shape: int) -> Any:
    return numbers(*shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("kernel", "count"), [(summed, 1), (several_banks, 1), (short, 0), (few, 0), (as_bits, 0), (in_a_loop, 0)]
)
@pytest.mark.parametrize("operand", [numbers, bfloat16])
@pytest.mark.parametrize(("depth", "rows"), [(96, 128), (50, 77)])
def test_rows_of_sums(kernel: Any, count: int, operand: Any, depth: int, rows: int, shared: pytest.MonkeyPatch) -> None:
    left, right = operand(depth, rows), operand(depth, 512)
    assert padded(kernel, left, right) == count
    results = both(kernel, left, right)
    expected = [result.tobytes() for result in (results if isinstance(results, tuple) else (results,))]
    for outputs in launched(nki.jit(kernel).compile(left, right).kernel, [left, right], shared):
        assert outputs == expected


def test_without_products_nothing_is_padded() -> None:
    def kernel(left, right):
        total = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_copy(total, nl.load(right))
        return stored(total)

    assert padded(kernel, numbers(128, 128), numbers(128, 512)) == 0


def test_sums_of_the_longest_rows() -> None:
    """All banks of a partition in one tile: the padding needs no memory of the chip."""

    def kernel(left, right):
        totals = nl.ndarray((128, 8, 512), dtype=nl.float32, buffer=nl.psum)
        a, b = nl.load(left), nl.load(right)
        for number in range(8):
            nisa.nc_matmul(totals[:, number], a, b)
        out = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, totals)
        nisa.dma_copy(out, tile)
        return out

    left, right = bfloat16(64, 128), bfloat16(64, 512)
    assert padded(kernel, left, right) == 1
    result = both(kernel, left, right)
    assert all(np.array_equal(result[:, 0], result[:, number]) for number in range(8))
