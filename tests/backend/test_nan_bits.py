"""NaN is one bit pattern in all that is computed: for any number of threads, any vectors, and in the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.nc_matmul import NcMatmul
from nki.isa.tables.activations import ACTIVATIONS
from nki.isa.tables.alu import TABLE
from nki.target import GEN3
from tests.support import instruction_bench
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]
Array = NDArray[Any]
QUIET = 0x7FC00000
PRODUCTS = max(3, instruction_bench.EXAMPLES // 10)
"""Products per test: compiling one takes about 0.1 s."""


def special(shape: tuple[int, ...], dtype: dt.DType, rng: np.random.Generator, rate: float | None = None) -> Array:
    """Small numbers, infinities, and NaN of any sign and payload, quiet and signalling."""
    words = rng.integers(-3, 4, shape).astype(np.float32).view(np.uint32)
    rate = rng.choice((0.0, 0.002, 0.02, 0.2)) if rate is None else rate
    nan = 0x7F810000 | rng.integers(0, 1 << 23, shape, np.uint32) | (rng.integers(0, 2, shape, np.uint32) << 31)
    words = np.where(rng.random(shape) < rate, nan, words)
    infinity = 0x7F800000 | (rng.integers(0, 2, shape, np.uint32) << 31)
    words = np.where(rng.random(shape) < rate / 4, infinity, words).astype(np.uint32)
    if dtype is dt.float32:
        return words.view(np.float32)
    return (words >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)


def products(rng: np.random.Generator) -> tuple[list[Inst], list[tuple[Tensor, Array]]]:
    """Products of few or of many rows and any number of columns, and the contents of their tensors."""
    insts: list[Inst] = []
    contents: list[tuple[Tensor, Array]] = []
    for number in range(PRODUCTS):
        depth, columns = (int(n) for n in (rng.integers(1, 129), rng.integers(1, 513)))
        rows = int(rng.choice((1, 2, 3, 5, 16, 17, 31, 128)))
        dtype = dt.float32 if rng.integers(0, 2) else dt.bfloat16
        tensors = [
            Tensor(f"dst{number}", (rows, columns), dt.float32, Buffer.psum),
            Tensor(f"stationary{number}", (depth, rows), dtype, Buffer.sbuf),
            Tensor(f"moving{number}", (depth, columns), dtype, Buffer.sbuf),
        ]
        insts.append(NcMatmul(*map(Access.whole, tensors), accumulate=bool(rng.integers(0, 2))))
        contents += [(tensor, special(tensor.shape, tensor.dtype, rng)) for tensor in tensors]
    return insts, contents


def product(inst: Inst, contents: dict[Tensor, Array]) -> Array:
    """The product in float64, exact for small whole numbers."""
    assert isinstance(inst, NcMatmul)
    with np.errstate(invalid="ignore"):
        old, stationary, moving = (
            contents[access.tensor].astype(np.float64) for access in (inst.dst, inst.stationary, inst.moving)
        )
        return stationary.T @ moving + (old if inst.accumulate else 0.0)


@pytest.mark.parametrize("number", range(4))
def test_products(number: int, shared: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(instruction_bench.source("products with NaN", number).getrandbits(64))
    insts, pairs = products(rng)
    contents = dict(pairs)
    bench = instruction_bench.program(insts, GEN3)
    inputs = [contents[tensor] for tensor in bench.tensors]
    simulated = instruction_bench.run_reference(bench.kernel, inputs)
    for inst in insts:
        expected, got = product(inst, contents), bench.at(simulated, inst.writes()[0])
        with np.errstate(invalid="ignore"):
            words = np.where(np.isnan(expected), np.uint32(QUIET), expected.astype(np.float32).view(np.uint32))
        # A sum of whole numbers that cancels is +0; zeros of either sign are no matter of this test.
        np.testing.assert_array_equal(np.where(got == 0, 0, got.view(np.uint32)), np.where(expected == 0, 0, words))
    for threads, outputs in enumerate(launched(bench.kernel, inputs, shared), start=1):
        for tensor, got, want in zip(bench.tensors, outputs, simulated, strict=True):
            assert got == want.tobytes(), f"{tensor.name} {tensor.shape} on {threads} threads"


def nan_words(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """float32 NaN only, of any sign and payload."""
    return special(shape, dt.float32, rng).view(np.uint32) | np.uint32(0x7FA00000)


@nki.jit
def computed(x, y):
    """Results of one instruction each; ``x`` and ``y`` are float32 (128, F)."""
    rows, columns = x.shape
    a = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(a, x)
    nisa.dma_copy(b, y)
    narrow = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(narrow, a)
    results = nl.ndarray((8, rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(8)]
    nisa.tensor_tensor(tiles[0], a, b, nl.add)
    nisa.tensor_tensor(tiles[1], a, b, nl.maximum)
    nisa.tensor_scalar(tiles[2], a, nl.multiply, 2.0)
    nisa.activation(tiles[3], nl.exp, a)
    nisa.activation(tiles[4], nl.copy, a)
    nisa.tensor_copy(tiles[5], narrow)
    nisa.tensor_tensor_scan(tiles[6], a, b, 0.0, nl.multiply, nl.add)
    nisa.memset(tiles[7], 0.0)
    nisa.tensor_reduce(tiles[7][:, 0:1], nl.add, a, axis=1)
    nisa.tensor_reduce(tiles[7][:, 1:2], nl.maximum, a, axis=1)
    nisa.max8(tiles[7][:, 8:16], a)
    for number in range(8):
        nisa.dma_copy(results[number], tiles[number])
    return results


@pytest.mark.parametrize("columns", [16, 61])
def test_computed_nan_is_one_pattern(columns: int) -> None:
    rng = np.random.default_rng(5)
    x, y = (nan_words((128, columns), rng).view(np.float32) for _ in range(2))
    with np.errstate(invalid="ignore"):
        native, simulated = (run(x, y).view(np.uint32) for run in (computed, nki.simulate(computed)))
    np.testing.assert_array_equal(native, simulated)
    written = native[:7]
    assert (written == QUIET).all()
    assert (native[7][:, [0, 1, *range(8, 16)]] == QUIET).all()


BOTH = [row.name for row in TABLE.values() if not row.bits and row.arity == 2]


@nki.jit
def operated(x, y, functions, operators):
    """Every function of ``x`` and every operator on ``x`` and ``y``, float32 (128, F)."""
    results = nl.ndarray((len(functions) + len(operators), *x.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(a, x)
    nisa.dma_copy(b, y)
    for number, function in enumerate(functions):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(tile, function, a)
        nisa.dma_copy(results[number], tile)
    for number, operator in enumerate(operators):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(tile, a, b, operator)
        nisa.dma_copy(results[len(functions) + number], tile)
    return results


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")  # operators that NKI does not run
@pytest.mark.parametrize("columns", [16, 61])
def test_every_function_and_operator_gives_one_nan(columns: int) -> None:
    """Operands are NaN, infinities, zeros and numbers of both signs: some results are NaN that no operand was."""
    rng = np.random.default_rng(8)
    x, y = (special((128, columns), dt.float32, rng, 0.1) for _ in range(2))
    functions = tuple(
        getattr(nl, row.name) for row in ACTIVATIONS.values() if hasattr(nl, row.name) and not row.parameter
    )
    operators = tuple(getattr(nl, name) for name in BOTH if hasattr(nl, name))
    assert len(functions) > 15 and len(operators) > 12
    with np.errstate(all="ignore"):
        native, simulated = (
            run(x, y, functions, operators).view(np.uint32) for run in (operated, nki.simulate(operated))
        )
    np.testing.assert_array_equal(native, simulated)
    is_nan = (native & 0x7FFFFFFF) > 0x7F800000
    assert is_nan.any() and set(native[is_nan]) == {QUIET}
    root = functions.index(nl.sqrt)
    assert is_nan[root][x < 0].all()


@nki.jit
def moved(x):
    """Copies and a transposition of float32 (32, 32)."""
    a, b, c = (nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(a, x)
    nisa.tensor_copy(b, a)
    nisa.nc_transpose(c, b)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, c)
    return out


def test_a_nan_that_only_moves_keeps_its_bits() -> None:
    x = nan_words((32, 32), np.random.default_rng(6)).view(np.float32)
    for run in (moved, nki.simulate(moved)):
        np.testing.assert_array_equal(run(x).view(np.uint32), x.view(np.uint32).T)


@pytest.mark.parametrize("narrow", [nl.float16, nl.bfloat16, nl.float8_e4m3, nl.float8_e4m3fn, nl.float8_e5m2])
def test_a_conversion_gives_the_nan_of_the_format(narrow: Any) -> None:
    """The codes are those of ml_dtypes and NumPy for a plain NaN; float8_e4m3fn overflows to its NaN, too."""

    @nki.jit
    def converted(x):
        a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray(x.shape, dtype=narrow, buffer=nl.sbuf)
        nisa.dma_copy(a, x)
        nisa.tensor_copy(b, a)
        out = nl.ndarray(x.shape, dtype=narrow, buffer=nl.shared_hbm)
        nisa.dma_copy(out, b)
        return out

    x = nan_words((16, 37), np.random.default_rng(7)).view(np.float32)
    if narrow == nl.float8_e4m3fn:
        x[3] = -1e6
    code = np.array(np.nan, np.float32).astype(np.zeros((), narrow).dtype).tobytes()
    for run in (converted, nki.simulate(converted)):
        assert run(x).tobytes() == code * x.size
