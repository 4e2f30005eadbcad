"""Products whose result one element-wise instruction takes from the cache: bits, and where it may do so."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.fusion.epilogue import MatmulWithEpilogue
from nki.compilation.executable import lower
from nki.numerics.matmul_entry import word_routines
from tests.support.both_executors import both, numbers
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]
BF16 = ml_dtypes.bfloat16
ON_TILES = pytest.mark.skipif(word_routines() is None, reason="the processor does not multiply words")
SHAPES = [(128, 128, 512), (128, 64, 128), (100, 77, 130), (48, 128, 33), (17, 32, 40), (64, 96, 257)]


def product(left, right):
    """The product of [K, M] and [K, N] in PSUM."""
    total = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, left, right)
    return total


def tile(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def returned(result):
    out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


def twice(left, right):
    """The moving operand is packed once for two products."""
    a, b = nl.load(left), nl.load(right)
    results = []
    for scale in (0.125, -3.0):
        scaled = tile((left.shape[1], right.shape[1]))
        nisa.tensor_scalar(scaled, product(a, b), nl.multiply, scale)
        results.append(returned(scaled))
    return tuple(results)


def with_bias(left, right):
    """A function of the product and of a number for each row, rounded to bfloat16, in a part of a tile."""
    a, b = nl.load(left), nl.load(right)
    bias = tile((left.shape[1], 1))
    nisa.iota(bias, [[0, 1]], offset=-9, channel_multiplier=1)
    wide = tile((left.shape[1], 2 * right.shape[1]), nl.bfloat16)
    nisa.memset(wide, 0.0)
    nisa.activation(wide[:, 3 : 3 + right.shape[1]], nl.exp, product(a, b), bias=bias, scale=0.25)
    return returned(wide)


def added(left, right):
    """Another tile is added, and the product is the second operand."""
    rest = tile((left.shape[1], right.shape[1]))
    nisa.memset(rest, 0.75)
    nisa.tensor_tensor(rest[:, 1:], rest[:, 1:], rest[:, :-1], nl.add)
    result = tile(rest.shape)
    nisa.tensor_tensor(result, rest, product(nl.load(left), nl.load(right)), nl.subtract)
    return returned(result)


def copied(left, right):
    """The consumer moves the product; rows of NaN are among it."""
    total = product(nl.load(left), nl.load(right))
    result = tile(total.shape)
    nisa.tensor_copy(result, total)
    return returned(result)


def read_twice(left, right):
    """Two instructions read the product."""
    total = product(nl.load(left), nl.load(right))
    results = [tile(total.shape), tile(total.shape)]
    for result, scale in zip(results, (2.0, 3.0), strict=True):
        nisa.tensor_scalar(result, total, nl.multiply, scale)
    return tuple(returned(result) for result in results)


def accumulated(left, right):
    """The product is added to another one; one consumer scales the sum, the other one moves it."""
    a, b = nl.load(left), nl.load(right)
    results = []
    for is_scaled in (True, False):
        total = product(a, b)
        nisa.nc_matmul(total, a, b)
        result = tile(total.shape, nl.float32 if is_scaled else nl.bfloat16)
        if is_scaled:
            nisa.tensor_scalar(result, total, nl.multiply, -2.0)
        else:
            nisa.tensor_copy(result, total)
        results.append(returned(result))
    return tuple(results)


def column_by_column(left, right):
    """Sums fill a part of a bank each, and the consumer's result is dense: as wide as one column of the operand."""
    a, b = nl.load(left), nl.load(right)
    results = []
    for adds in (False, True):
        bank = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
        total = bank[:, 0 : right.shape[1]]
        nisa.nc_matmul(total, a, b)
        if adds:
            nisa.nc_matmul(total, a, b)
        result = tile((left.shape[1], right.shape[1]))
        nisa.tensor_scalar(result, total, nl.multiply, 2.0)
        results.append(returned(result))
    return tuple(results)


def long_function(left, right):
    """A function that is quicker on whole rows."""
    total = product(nl.load(left), nl.load(right))
    result = tile(total.shape)
    nisa.activation(result, nl.silu, total)
    return returned(result)


def accumulated_and_kept(left, right):
    """Another instruction reads the sum after the consumer: PSUM must have all of it."""
    a, b = nl.load(left), nl.load(right)
    total = product(a, b)
    nisa.nc_matmul(total, a, b)
    result = tile(total.shape)
    nisa.tensor_scalar(result, total, nl.multiply, 2.0)
    rest = tile(total.shape)
    nisa.tensor_copy(rest, total)
    return returned(result), returned(rest)


def over_its_operand(left, right):
    """The consumer writes the moving operand."""
    a, b = nl.load(left), nl.load(right)
    total = product(a, b)
    nisa.tensor_scalar(b[0 : left.shape[1]], total, nl.multiply, 2.0)
    return returned(b)


def over_itself(left, right):
    """The consumer writes what it reads."""
    total = product(nl.load(left), nl.load(right))
    nisa.tensor_scalar(total, total, nl.multiply, 2.0)
    result = tile(total.shape)
    nisa.tensor_copy(result, total)
    return returned(result)


def operands(shape: tuple[int, int, int], dtype: Any = BF16) -> list[Any]:
    rows, depth, columns = shape
    return [numbers(depth, rows).astype(dtype), numbers(depth, columns).astype(dtype)]


def consumed(kernel: Any, arrays: list[Any]) -> int:
    program = lower(nki.jit(kernel).compile(*arrays).kernel)
    return sum(isinstance(inst, MatmulWithEpilogue) for inst in program.core.instructions())


@pytest.mark.parametrize("kernel", [twice, with_bias, added, accumulated])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_on_any_number_of_threads(kernel: Any, shape: tuple[int, int, int], shared: pytest.MonkeyPatch) -> None:
    arrays = operands(shape)
    assert consumed(kernel, arrays) == (0 if word_routines() is None else 2 if kernel in (twice, accumulated) else 1)
    expected = both(kernel, *arrays)
    results = [array.tobytes() for array in (expected if isinstance(expected, tuple) else (expected,))]
    for outputs in launched(nki.jit(kernel).compile(*arrays).kernel, arrays, shared):
        assert outputs == results


@pytest.mark.parametrize("columns", [1, 2, 31, 33])
@pytest.mark.parametrize("rows", [128, 100, 33])
def test_few_columns_of_a_bank(rows: int, columns: int) -> None:
    """The consumer's target is a dense column where the product's own is none."""
    arrays = operands((rows, 128, columns))
    assert consumed(column_by_column, arrays) == (0 if word_routines() is None else 2)
    both(column_by_column, *arrays)


@ON_TILES
@pytest.mark.parametrize("kernel", [twice, with_bias, accumulated])
def test_numbers_that_tile_registers_take_for_zero(kernel: Any) -> None:
    left, right = operands((128, 64, 160))
    left[3], right[5, 40:] = np.float32(2.0**-80), np.float32(2.0**-70)
    left[7, 5], right[8, 6] = np.nan, np.inf
    assert consumed(kernel, [left, right])
    both(kernel, left, right)


@ON_TILES
@pytest.mark.parametrize("kernel", [twice, with_bias, added, copied, accumulated])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nan_of_any_sign_and_payload(kernel: Any, shape: tuple[int, int, int], shared: pytest.MonkeyPatch) -> None:
    """Tile registers pass on an operand's NaN, and infinities that cancel give a negative one; rows keep apart."""
    left, right = operands(shape)
    left.view(np.uint16)[5, 2], left.view(np.uint16)[9, -1] = 0xFFC1, 0x7FA5
    left[3, 4], left[4, 4] = np.inf, -np.inf
    right.view(np.uint16)[7, 1:9:2] = 0xFF93
    right[3:5, -3:] = 1.0
    assert consumed(kernel, [left, right])
    expected = both(kernel, left, right)
    results = [array.tobytes() for array in (expected if isinstance(expected, tuple) else (expected,))]
    for outputs in launched(nki.jit(kernel).compile(left, right).kernel, [left, right], shared):
        assert outputs == results


@pytest.mark.parametrize("kernel", [read_twice, long_function, accumulated_and_kept, over_its_operand, over_itself])
def test_other_products_go_through_psum(kernel: Any) -> None:
    arrays = operands((64, 96, 128))
    assert consumed(kernel, arrays) == 0
    both(kernel, *arrays)


@pytest.mark.parametrize("shape", [(16, 128, 128), (128, 128, 1)])
def test_products_of_one_panel_or_few_rows_go_through_psum(shape: tuple[int, int, int]) -> None:
    arrays = operands(shape)
    assert consumed(twice, arrays) == 0
    both(twice, *arrays)


def test_float32_goes_through_psum() -> None:
    arrays = operands((128, 128, 128), np.float32)
    assert consumed(twice, arrays) == 0
    both(twice, *arrays)
