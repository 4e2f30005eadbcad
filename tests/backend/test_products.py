"""Products in each matrix unit: the bits of the float32 product, and what their results become on the way out.

Shapes at the edges of panels, groups and register tiles; numbers that a unit would take for zero, NaN of any payload.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.numerics.matmul.host import matmul
from nki.transforms import copy_elimination
from tests.support.kernel_parts import activated, applied, copied, product, returned, stored
from tests.support.matrix_units import unit
from tests.support.native_programs import lowered, same_bits
from tests.support.shared_launches import launched, shared

__all__ = ["shared", "unit"]
BF16 = ml_dtypes.bfloat16
DTYPES = {
    "float32": np.float32,
    "bfloat16": BF16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
PAIRS = [
    ("float32", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float8_e5m2"), ("float8_e4m3", "bfloat16"),
    ("float8_e4m3", "float8_e5m2"), ("float16", "bfloat16"), ("float16", "float16"),
]  # fmt: skip
SHAPES = [
    (128, 128, 512), (128, 33, 96), (1, 5, 3), (30, 128, 1), (33, 17, 63), (64, 96, 70),
    (128, 1, 512), (100, 2, 96), (128, 5, 145), (3, 9, 111), (128, 16, 511), (100, 77, 1),
]  # fmt: skip
"""Depth, rows and columns; last, such as have few rows, or one column."""
KINDS = ("mixed", "small", "subnormal", "one small column", "special")


def contents(kind: str, dtype: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Numbers of one kind; what a narrow dtype cannot hold becomes 0 or infinite."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    match kind:
        case "mixed":
            x = x * np.exp2(rng.integers(-8, 9, shape))
            x[rng.random(shape) < 0.3] = 0.0
            x[rng.random(shape) < 0.2] = -1.0
        case "small":  # products, sums or both are subnormal
            x = x * np.exp2(rng.integers(-80, -50, shape))
        case "subnormal":
            x = np.where(rng.random(shape) < 0.02, x * 2.0**-130, x * 2.0 ** rng.integers(-10, 10))
        case "one small column":
            x[:, -1] *= 2.0**-100
        case "special":
            x[rng.random(shape) < 0.01] = np.inf
            x[rng.random(shape) < 0.01] = -np.inf
            x[rng.random(shape) < 0.1] = -0.0
            x = x * 2.0**60
    with np.errstate(all="ignore"):
        result = x.astype(np.float32)
        if kind == "special":  # NaN of any sign and payload, quiet and signalling
            nan = 0x7F810000 | rng.integers(0, 1 << 23, shape, np.uint32) | (rng.integers(0, 2, shape, np.uint32) << 31)
            words = np.where(rng.random(shape) < 0.005, nan, result.view(np.uint32))
            if DTYPES[dtype] is BF16:
                return (words >> 16).astype(np.uint16).view(BF16)
            result = words.view(np.float32)
        return result.astype(DTYPES[dtype])


def multiply(stationary, moving):
    """The product, and the product added to itself."""
    left, right, results = nl.load(stationary), nl.load(moving), []
    for count in (1, 2):
        total = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
        for number in range(count):
            nisa.nc_matmul(total, left, right, accumulate=number > 0)
        results.append(stored(total))
    return tuple(results)


@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
def test_bits_are_those_of_float32(dtypes: tuple[str, str], unit: str, shared: pytest.MonkeyPatch) -> None:
    kernel = nki.jit(multiply)
    for number, (depth, rows, columns) in enumerate(SHAPES):
        for kind in KINDS:
            arrays = [contents(kind, dtypes[0], (depth, rows), 1), contents(kind, dtypes[1], (depth, columns), 2)]
            want, by_groups = np.empty((rows, columns), np.float32), not {"float16", "float32"} & set(dtypes)
            with np.errstate(all="ignore"):
                matmul(*(array.astype(np.float32) for array in arrays), want, False, by_groups)
                wants = [want, np.where(np.isnan(want), want, want + want)]
            assert [each.tobytes() for each in kernel(*arrays)] == [each.tobytes() for each in wants], (kind, rows)
        if number % 4 == 1:
            for outputs in launched(kernel.compile(*arrays).kernel, arrays, shared, (2, 3)):
                assert outputs == [each.tobytes() for each in wants]


def test_small_numbers_reach_the_result(unit: str) -> None:
    """A subnormal sum is there, and not 0."""
    del unit
    left, right = (np.full((2, 8), number, BF16) for number in (2.0**-70, 2.0**-60))
    assert (nki.jit(multiply)(left, right)[0] == np.float32(2.0**-129)).all()


def test_few_rows_read_the_moving_operand_where_it_lies() -> None:
    """Its load is eliminated, whatever the step from row to row is; with more rows a tile of two products is loaded."""

    def twice(stationary, moving):
        left, right = nl.load(stationary), nl.load(moving[:, 0 : moving.shape[1] // 2])
        return stored(product(left, right)), stored(product(left, right))

    few = copy_elimination.FEW_ROWS
    for rows, loads in ((few, 0), (few + 1, 1)):
        insts = lowered(twice, np.zeros((128, rows), np.float32), np.zeros((128, 512), np.float32))
        assert sum(inst.mnemonic == "dma_copy" for inst in insts) == loads


# Epilogues: what takes a product from the cache


def scaled(left, right):
    """Twice."""
    a, b = nl.load(left), nl.load(right)
    return tuple([returned(applied(product(a, b), nl.multiply, scale)) for scale in (0.125, -3.0)])


def with_bias(left, right):
    """A function of the product and of a number for each row, rounded, in a part of a tile."""
    a, b, rows, columns = nl.load(left), nl.load(right), left.shape[1], right.shape[1]
    bias, wide = nl.ndarray((rows, 1), dtype=nl.float32), nl.ndarray((rows, 2 * columns), dtype=nl.bfloat16)
    nisa.iota(bias, [[0, 1]], offset=-9, channel_multiplier=1)
    nisa.memset(wide, 0.0)
    nisa.activation(wide[:, 3 : 3 + columns], nl.exp, product(a, b), bias=bias, scale=0.25)
    return returned(wide)


def added(left, right):
    """Another tile is the first operand."""
    a, b = nl.load(left), nl.load(right)
    rest, result = (nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.memset(rest, 0.75)
    nisa.tensor_tensor(rest[:, 1:], rest[:, 1:], rest[:, :-1], nl.add)
    nisa.tensor_tensor(result, rest, product(a, b), nl.subtract)
    return returned(result)


def moved(left, right):
    """NaN stay what the product gives."""
    return stored(product(nl.load(left), nl.load(right)))


def accumulated(left, right):
    """The second product adds to the first one."""
    a, b, results = nl.load(left), nl.load(right), []
    for scale in (None, -2.0):
        total = product(a, b)
        nisa.nc_matmul(total, a, b)
        result = copied(total, nl.bfloat16) if scale is None else applied(total, nl.multiply, scale)
        results.append(returned(result))
    return tuple(results)


def column_by_column(left, right):
    """Sums fill a part of a bank each; the results are dense, one or two columns wide."""
    a, b, results = nl.load(left), nl.load(right), []
    for adds in (False, True):
        bank = nl.ndarray((left.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
        total = bank[:, 0 : right.shape[1]]
        nisa.nc_matmul(total, a, b)
        if adds:
            nisa.nc_matmul(total, a, b)
        results.append(returned(applied(total, nl.multiply, 2.0)))
    return tuple(results)


def read_twice(left, right):
    total = product(nl.load(left), nl.load(right))
    return tuple([returned(applied(total, nl.multiply, scale)) for scale in (2.0, 3.0)])


def long_function(left, right):
    """Is quicker on whole rows."""
    return returned(activated(product(nl.load(left), nl.load(right)), nl.silu))


def kept(left, right):
    """Another instruction reads the sum after the epilogue."""
    a, b = nl.load(left), nl.load(right)
    total = product(a, b)
    nisa.nc_matmul(total, a, b)
    result = applied(total, nl.multiply, 2.0)
    return returned(result), stored(total)


def over_its_operand(left, right):
    """The epilogue writes the moving operand."""
    b = nl.load(right)
    total = product(nl.load(left), b)
    nisa.tensor_scalar(b[0 : left.shape[1]], total, nl.multiply, 2.0)
    return returned(b)


def over_itself(left, right):
    total = product(nl.load(left), nl.load(right))
    nisa.tensor_scalar(total, total, nl.multiply, 2.0)
    return stored(total)


WIDE = [(128, 128, 512), (128, 64, 128), (100, 77, 130), (48, 128, 33), (17, 32, 40), (64, 96, 257)]
NARROW = [(rows, 128, columns) for rows in (128, 33) for columns in (1, 2, 31, 33)]
OTHERS = [(64, 96, 128)]
EPILOGUES = [
    *(
        (kernel, shape, count)
        for kernel, count in ((scaled, 2), (with_bias, 1), (added, 1), (moved, 1))
        for shape in WIDE
    ),
    *((accumulated, shape, 2) for shape in WIDE),
    *((column_by_column, shape, 2) for shape in NARROW),
    *((kernel, (64, 96, 128), 0) for kernel in (read_twice, long_function, kept, over_its_operand, over_itself)),
    (scaled, (16, 128, 128), 0),  # few rows
    (scaled, (128, 128, 1), 0),  # one column
]
"""Kernels, rows, depth and columns, and the epilogues that products of words have."""


@pytest.mark.parametrize("case", EPILOGUES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
@pytest.mark.parametrize("kind", ["mixed", "small", "special"])
def test_epilogues(case: Any, kind: str, unit: str, shared: pytest.MonkeyPatch) -> None:
    kernel, (rows, depth, columns), count = case
    arrays = [contents(kind, "bfloat16", (depth, rows), 1), contents(kind, "bfloat16", (depth, columns), 2)]
    before, after = (len(lowered(kernel, *arrays, stop=stage)) for stage in ("layouts", "epilogue"))
    assert before - after == (0 if unit == "float32" else count)
    same_bits(kernel, *arrays, shared=shared)
