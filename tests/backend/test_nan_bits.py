"""NaN is one bit pattern in all that is computed, and stays what it is where it only moves, in both executors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa.tables.activations import ACTIVATIONS
from nki.isa.tables.alu_operators import TABLE
from tests.support.both_executors import both
from tests.support.kernel_parts import column, like, returned

Array = NDArray[Any]
QUIET = 0x7FC00000


def special(shape: tuple[int, ...], rng: np.random.Generator, rate: float = 1.0) -> Array:
    """Small numbers, infinities, and NaN of any sign and payload, quiet and signalling; by default NaN alone."""
    words = rng.integers(-3, 4, shape).astype(np.float32).view(np.uint32)
    nan = 0x7F810000 | rng.integers(0, 1 << 23, shape, np.uint32) | (rng.integers(0, 2, shape, np.uint32) << 31)
    words = np.where(rng.random(shape) < rate, nan, words)
    infinity = 0x7F800000 | (rng.integers(0, 2, shape, np.uint32) << 31)
    words = np.where(rng.random(shape) < (rate / 4 if rate < 1 else 0), infinity, words)
    return words.astype(np.uint32).view(np.float32)


FUNCTIONS = tuple(getattr(nl, row.name) for row in ACTIVATIONS.values() if hasattr(nl, row.name) and not row.parameter)
OPERATORS = tuple(
    getattr(nl, row.name) for row in TABLE.values() if not row.bits and row.arity == 2 and hasattr(nl, row.name)
)


def computed(x, y):
    """Every function of x, every operator on x and y; a scan, a scaled and a rounded tile; reductions of x."""
    a, b, small = nl.load(x), nl.load(y), []
    narrow, tiles = like(a, nl.bfloat16), [like(a) for _ in range(len(FUNCTIONS) + len(OPERATORS) + 3)]
    for tile, function in zip(tiles, FUNCTIONS, strict=False):
        nisa.activation(tile, function, a)
    for number in range(len(OPERATORS)):
        nisa.tensor_tensor(tiles[len(FUNCTIONS) + number], a, b, OPERATORS[number])
    nisa.tensor_tensor_scan(tiles[-1], a, b, 0.0, nl.multiply, nl.add)
    nisa.tensor_scalar(tiles[-2], a, nl.multiply, 2.0)
    nisa.tensor_copy(narrow, a)
    nisa.tensor_copy(tiles[-3], narrow)
    for op in (nl.add, nl.maximum):
        small.append(column(a))
        nisa.tensor_reduce(small[-1], op, a, axis=1)
    small.append(nl.ndarray((x.shape[0], 8), dtype=nl.float32, buffer=nl.sbuf))
    nisa.max8(small[-1], a)
    return tuple([returned(tile) for tile in [*tiles, *small]])


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")  # operators that NKI does not run
@pytest.mark.parametrize("columns", [16, 61])
@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_computed_nan_is_one_pattern(columns: int, rate: float) -> None:
    """Operands are NaN; or a tenth is, among infinities, zeros and numbers: some results are NaN that none was."""
    rng = np.random.default_rng(8)
    x, y = (special((128, columns), rng, rate) for _ in range(2))
    assert len(FUNCTIONS) > 15 and len(OPERATORS) > 12
    with np.errstate(all="ignore"):
        results = both(computed, x, y)
    for words in (result.view(np.uint32) for result in results):
        assert set(words[(words & 0x7FFFFFFF) > 0x7F800000]) <= {QUIET}
    assert np.isnan(results[FUNCTIONS.index(nl.sqrt)])[x < 0].all()
    if rate == 1.0:
        moving = [results[FUNCTIONS.index(f)] for f in (nl.exp, nl.tanh, nl.copy)] + list(results[-4:])
        assert all((result.view(np.uint32) == QUIET).all() for result in moving)


@nki.jit
def moved(x):
    """Copies and a transposition of float32 (32, 32)."""
    a, b, c = (nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(a, x)
    nisa.tensor_copy(b, a)
    nisa.nc_transpose(c, b)
    return returned(c)


def test_a_nan_that_only_moves_keeps_its_bits() -> None:
    x = special((32, 32), np.random.default_rng(6))
    for run in (moved, nki.simulate(moved)):
        np.testing.assert_array_equal(run(x).view(np.uint32), x.view(np.uint32).T)


@pytest.mark.parametrize("narrow", [nl.float16, nl.bfloat16, nl.float8_e4m3, nl.float8_e4m3fn, nl.float8_e5m2])
def test_a_conversion_gives_the_nan_of_the_format(narrow: Any) -> None:
    """ml_dtypes and NumPy have the same codes for a plain NaN; float8_e4m3fn overflows to its NaN, too."""

    @nki.jit
    def converted(x):
        a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray(x.shape, dtype=narrow, buffer=nl.sbuf)
        nisa.dma_copy(a, x)
        nisa.tensor_copy(b, a)
        return returned(b)

    x = special((16, 37), np.random.default_rng(7))
    if narrow == nl.float8_e4m3fn:
        x[3] = -1e6
    code = np.array(np.nan, np.float32).astype(np.zeros((), narrow).dtype).tobytes()
    for run in (converted, nki.simulate(converted)):
        assert run(x).tobytes() == code * x.size
