"""Loops over rows of any length, in each dtype, with special numbers among usual ones: the bits of the simulator.

Vectors, pairs of vectors, chunks and what is left over of each; results rounded in few steps; NaN of any payload, which
is canonical where it is computed and stays what it is where it only moves.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki.isa as nisa
import nki.language as nl
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import activated, applied, column, copied, joined, like, reduced, returned
from tests.support.native_programs import same_bits
from tests.support.shared_launches import shared

__all__ = ["shared"]
pytestmark = pytest.mark.filterwarnings("ignore:nl.divide", "ignore::nki.base.warning.NkiPortabilityWarning")
SHAPES = (
    (64, 32), (64, 33), (48, 39), (64, 95), (32, 130), (16, 263), (128, 300), (16, 1000),
    (33, 64), (17, 488), (1, 200), (61, 15), (128, 2),
)  # fmt: skip
"""Rows and columns; last, such as have no whole groups of rows, and short rows."""
ON_THREADS = ((48, 39), (128, 300), (33, 64), (128, 2))
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16)
PAYLOADS = (0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFF8000, 0x7F818001, 0x7FFF7FFF)
SPECIAL = (0x7FC0, 0xFFC1, 0x7F81, 0x7FFF, 0x7F80, 0xFF80, 0x8000, 0x0000, 0x0001, 0x8013, 0x7F7F)
EXPONENTS = (-150.0, -87.4, -88.5, -103.0, -208.0, 88.0, 89.0)
"""Numbers with an exponential that is zero, subnormal, just normal, or infinite."""


def special(rows: int, columns: int, dtype: Any) -> Any:
    """Numbers; some rows have one special number, others many."""
    x = numbers(rows, columns)
    words = x.view(np.uint32)
    for row, pattern in enumerate(SPECIAL):
        words[row % rows, (5 * row) % columns] = pattern << 16
        words[(row + 16) % rows, ::3] = pattern << 16
    for row, number in enumerate(EXPONENTS):
        x[(row + 32) % rows, row % columns :: 33] = number
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def divisors(rows: int) -> Any:
    """A column with NaN of each payload, zeros, infinities, and numbers of all sizes."""
    v = numbers(rows, 1)
    v.view(np.uint32)[::3, 0] = np.resize(np.array(PAYLOADS, np.uint32), len(v[::3]))
    some = (0.0, -0.0, np.inf, -np.inf, 1e-40, 1e-38, 3e38, 2.0**-32, 2.0**32, -1.5, 3, 7, 1e9, 1e10, 0.1)
    v[1 : rows // 2, 0] = some[: max(0, rows // 2 - 1)] + (0.5,) * max(0, rows // 2 - 1 - len(some))
    return v


# Element by element


def scaled_and_added(x, v):
    """Only the sum reads the products."""
    tile = nl.load(x)
    return returned(joined(applied(tile, nl.multiply, nl.load(v)), nl.add, tile))


def scaled_and_moved(x, v):
    """A copy moves the products; and products alone."""
    tile = nl.load(x)
    copy = copied(applied(tile, nl.multiply, nl.load(v)))
    alone = applied(tile, nl.multiply, nl.load(v))
    return returned(copy), returned(alone)


def chosen(x, v):
    """Products where x is not greater than 0.5, else x; a choice moves them, NaN too. And their sums by row."""
    tile = nl.load(x)
    scaled, where = applied(tile, nl.multiply, nl.load(v)), applied(tile, nl.greater, 0.5, nl.uint8)
    old = copied(tile)
    nisa.tensor_copy_predicated(old, scaled, where, reverse_pred=True)
    total = reduced(old, nl.add)
    return returned(old), returned(total)


def quotients(x, v):
    """By a column, alone and with what follows; and the numbers in float32 beside x."""
    tile, by = nl.load(x), nl.load(v)
    alone, one = applied(tile, nl.divide, by), applied(tile, nl.divide, by)
    two, wide = applied(one, nl.subtract, 0.5), applied(tile, nl.multiply, 1.01, nl.float32)
    three = joined(wide, nl.multiply, two, tile.dtype)
    nisa.tensor_tensor(three, three, wide, nl.add)
    return returned(alone), returned(two), returned(three)


def functions(x, v):
    """Functions of few operations, and of many."""
    tile, each = nl.load(x), (nl.abs, nl.relu, nl.sign, nl.sqrt, nl.reciprocal, nl.rsqrt, nl.tanh)
    return tuple([returned(activated(tile, function)) for function in each])


# Sums that share a loop with what they add


def deviations(x, v):
    """Differences, and the sums of their squares."""
    difference = applied(nl.load(x), nl.subtract, nl.load(v))
    total = reduced(joined(difference, nl.multiply, difference), nl.add)
    return returned(difference), returned(total)


def root_of_mean_square(x, v):
    """Nothing but the sum reads the squares."""
    tile = nl.load(x)
    total = reduced(joined(tile, nl.multiply, tile, nl.float32), nl.add)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


def softmax(x, v):
    """The sum and others read the exponentials, which are rounded to the dtype of x."""
    tile = nl.load(x)
    difference = applied(tile, nl.subtract, reduced(tile, nl.maximum), nl.float32)
    powers = activated(difference, nl.exp, tile.dtype)
    total = reduced(powers, nl.add, negate=True)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(powers, powers, nl.multiply, total)
    return returned(powers)


def exponentials(x, v):
    """Of some pairs of vectors all results are normal, of others one is not; the sum and others read them."""
    tile = nl.load(x)
    difference = applied(tile, nl.add, 0.5, nl.float32)
    powers = activated(difference, nl.exp, tile.dtype)
    result = joined(powers, nl.add, difference, nl.float32)
    nisa.scalar_tensor_tensor(result, result, nl.multiply, reduced(powers, nl.add), nl.add, powers)
    return returned(result)


def sums_alone(x, v):
    """Nothing but sums reads exponentials, positive elements, and products of a tile with itself as it was rounded."""
    tile, chosen = nl.load(x), like(nl.load(x))
    of_powers = reduced(activated(tile, nl.exp), nl.add)
    positive = applied(tile, nl.greater, 0.0, nl.uint8)
    nisa.memset(chosen, 0.0)
    nisa.tensor_copy_predicated(chosen, tile, positive)
    of_chosen = reduced(chosen, nl.add)
    rounded = applied(tile, nl.multiply, 1.01, nl.bfloat16)
    of_products = reduced(joined(tile, nl.multiply, rounded, nl.float32), nl.add)
    return returned(of_powers), returned(of_chosen), returned(of_products)


def several_sums(x, v):
    """Sums of products of two tiles, of squares and of exponentials; more than one loop takes."""
    a = nl.load(x)
    b = applied(a, nl.add, nl.load(v))
    tiles = [nl.multiply(a, b), nl.exp(a), nl.square(b), nl.add(a, b), nl.subtract(a, b)]
    totals = [reduced(tile, nl.add, negate=number == 1) for number, tile in enumerate(tiles)]
    return tuple([returned(total) for total in totals])


# Sums and statistics in one instruction


def powers(x, v):
    """Functions with their sums, and others that read the results; in place, with a column of the tile as bias."""
    tile, total, again = nl.load(x), column(nl.load(x)), column(nl.load(x))
    power, square = like(tile), like(tile, nl.float32)
    nisa.activation_reduce(power, nl.exp, tile, nl.add, total, bias=nl.load(v), scale=0.5)
    nisa.activation_reduce(square, nl.square, tile, nl.add, again)
    results = returned(power), returned(total), returned(square), returned(again)
    nisa.activation_reduce(square, nl.exp, square, nl.add, again, bias=square[:, 1:2])
    return *results, returned(square), returned(again)


def shifted(x, v):
    """Results overwrite the elements before those that they come from."""
    tile, total = nl.load(x), column(nl.load(x))
    nisa.activation_reduce(tile[:, 1:], nl.exp, tile[:, :-1], nl.add, total)
    return returned(tile), returned(total)


def statistics(x, v):
    tile, six = nl.load(x), nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(six, tile[:, :512] if x.shape[1] > 512 else tile)
    return returned(six)


def reductions(x, v):
    """Over whole rows, and over the columns of each half of a row."""
    tile, results = nl.load(x), []
    rows, half = x.shape[0], x.shape[1] // 2
    for op in (nl.maximum, nl.minimum, nl.add, nl.multiply, nl.subtract):
        one, two = reduced(tile, op), nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(two, op, tile.ap([[x.shape[1], rows], [half, 2], [1, half]]), axis=2)
        results += [returned(one), returned(two)]
    return tuple(results)


def reductions_in_any_order(x, v):
    """Truths and bits: an element that counts twice changes some."""
    tile = nl.load(x)
    whole = copied(tile, nl.int32)
    results = [reduced(tile, op) for op in (nl.logical_and, nl.logical_or, nl.logical_xor)]
    for op in (nl.bitwise_and, nl.bitwise_or, nl.bitwise_xor):
        results.append(like(column(tile), nl.int32))
        nisa.tensor_reduce(results[-1], op, whole, axis=1)
    return tuple([returned(result) for result in results])


def extremes(x, v):
    """The largest and the smallest of results that others read, and of zeros of either sign; in place, and negated."""
    tile, by, results = nl.load(x), nl.load(v), []
    for number in (0.0, -2.0):
        square, top = like(tile, nl.float32), column(tile)
        scaled = applied(tile, nl.multiply, number)
        low = reduced(scaled, nl.minimum, negate=True)
        wide = applied(tile, nl.multiply, number, nl.float32, op1=nl.multiply, operand1=by)
        high = reduced(wide, nl.maximum)
        nisa.tensor_scalar_reduce(square, tile, nl.multiply, number, nl.maximum, reduce_res=top)
        nisa.tensor_tensor(square, square, tile, nl.subtract)
        bottom = reduced(square, nl.minimum)
        results += [returned(result) for result in (scaled, wide, square, low, high, top, bottom)]
    return tuple(results)


KERNELS = (
    scaled_and_added, scaled_and_moved, chosen, quotients, functions, deviations, root_of_mean_square, softmax,
    exponentials, sums_alone, several_sums, powers, shifted, statistics, reductions, extremes,
    reductions_in_any_order,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_of_every_length(kernel: Any, dtype: Any, shared: pytest.MonkeyPatch) -> None:
    for shape in SHAPES[:: 2 if dtype is np.float16 else 1]:
        arrays = [special(*shape, dtype), divisors(shape[0])]
        if shape in ON_THREADS:
            same_bits(kernel, *arrays, shared=shared)
            continue
        with np.errstate(all="ignore"):
            both(kernel, *arrays)


@pytest.mark.parametrize("kernel", KERNELS)
def test_usual_numbers(kernel: Any) -> None:
    """Without special ones among them loops take other ways."""
    for dtype in DTYPES[:2]:
        with np.errstate(all="ignore"):
            both(kernel, np.abs(numbers(64, 95)).astype(dtype), np.abs(numbers(64, 1)))
