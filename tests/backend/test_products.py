"""Matrix products of narrow operands: the bits of the float32 product, whatever way they are computed."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.kernel_ir import nodes
from nki.backend.cpu.runtime import routines
from nki.ir.instruction import Inst
from nki.numerics import matmul_entry
from nki.transforms import copy_elimination

DTYPES = {
    "float32": (np.float32, nl.float32),
    "bfloat16": (ml_dtypes.bfloat16, nl.bfloat16),
    "float16": (np.float16, nl.float16),
    "float8_e4m3": (ml_dtypes.float8_e4m3, nl.float8_e4m3),
    "float8_e5m2": (ml_dtypes.float8_e5m2, nl.float8_e5m2),
}
PAIRS = [
    ("bfloat16", "bfloat16"),
    ("bfloat16", "float8_e5m2"),
    ("float8_e4m3", "bfloat16"),
    ("float8_e4m3", "float8_e5m2"),
    ("float16", "bfloat16"),
    ("float16", "float16"),
]
SHAPES = [
    (128, 128, 512),
    (128, 33, 96),
    (127, 20, 65),
    (1, 5, 3),
    (64, 1, 200),
    (30, 128, 1),
    (33, 16, 63),
    (64, 96, 70),
]
FEW_ROWS = [
    (128, 128, 1),
    (100, 77, 1),
    (3, 33, 1),
    (128, 1, 512),
    (128, 1, 300),
    (100, 2, 96),
    (128, 5, 145),
    (64, 8, 64),
    (3, 9, 111),
    (128, 16, 511),
]


def multiply(stationary, moving):
    """[K, M] and [K, N] -> the product, and the product added to itself."""
    (depth, rows), columns = stationary.shape, moving.shape[1]
    left = nl.ndarray((depth, rows), dtype=stationary.dtype, buffer=nl.sbuf)
    right = nl.ndarray((depth, columns), dtype=moving.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=stationary)
    nisa.dma_copy(dst=right, src=moving)
    results = []
    for count in (1, 2):
        total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        for number in range(count):
            nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=number > 0)
        result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        copy = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=total)
        nisa.dma_copy(dst=result, src=copy)
        results.append(result)
    return tuple(results)


product = nki.jit(multiply)


@nki.jit
def halves(stationary, moving):
    """Two products with the first half of the columns of ``moving``."""
    left = nl.ndarray(stationary.shape, dtype=stationary.dtype, buffer=nl.sbuf)
    right = nl.ndarray((moving.shape[0], moving.shape[1] // 2), dtype=moving.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=stationary)
    nisa.dma_copy(dst=right, src=moving[:, 0 : moving.shape[1] // 2])
    result = nl.ndarray((2, left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for number in range(2):
        total = nl.ndarray(result.shape[1:], dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
        copy = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=total)
        nisa.dma_copy(dst=result[number], src=copy)
    return result


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
            x[rng.random(shape) < 0.005] = np.nan
            x[rng.random(shape) < 0.1] = -0.0
            x = x * 2.0**60
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(np.float32).astype(DTYPES[dtype][0])


def check(dtypes: tuple[str, str], shape: tuple[int, int, int], kind: str, product: Any = product) -> None:
    depth, rows, columns = shape
    left, right = contents(kind, dtypes[0], (depth, rows), 1), contents(kind, dtypes[1], (depth, columns), 2)
    with np.errstate(invalid="ignore"):
        want = np.empty((rows, columns), np.float32)
        by_groups = not {"float16", "float32"} & set(dtypes)
        matmul_entry.matmul(left.astype(np.float32), right.astype(np.float32), want, False, by_groups)
        wants = (want, np.where(np.isnan(want), want, want + want))
    for got, expected in zip(product(left, right), wants, strict=True):
        assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["mixed", "small", "subnormal", "one small column", "special"])
@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
def test_narrow_operands(dtypes: tuple[str, str], kind: str) -> None:
    for shape in SHAPES:
        check(dtypes, shape, kind)


@pytest.mark.parametrize("missing", [["amx"], ["amx", "pair"]], ids="-".join)
@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
def test_without_the_instructions(dtypes: tuple[str, str], missing: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors without AMX, or with another order of its additions, multiply pairs; else they convert to float32."""
    pays = "pair" not in missing and matmul_entry.pair_routines() is not None  # on any processor that has them
    monkeypatch.setattr(matmul_entry, "amx_routines", lambda: None)
    monkeypatch.setattr(matmul_entry, "pairs_pay", lambda: pays)
    monkeypatch.setattr(routines, "_routines", WeakValueDictionary())
    matmul_entry.word_routines.cache_clear()
    try:
        assert (matmul_entry.word_routines() is not None) == pays
        anew = nki.jit(multiply)
        for shape in ((128, 128, 64), (127, 20, 65), (1, 5, 3)):
            check(dtypes, shape, "mixed", anew)
    finally:
        monkeypatch.undo()
        matmul_entry.word_routines.cache_clear()


@pytest.mark.parametrize("dtypes", [*PAIRS, ("float32", "float32")], ids="-".join)
@pytest.mark.parametrize("shape", FEW_ROWS, ids=str)
def test_few_rows(dtypes: tuple[str, str], shape: tuple[int, int, int]) -> None:
    for kind in ("mixed", "small", "special"):
        check(dtypes, shape, kind)


def test_few_rows_read_the_moving_operand_where_it_lies() -> None:
    """Its load is eliminated, whatever the step from row to row is; with more rows a tile of two products is loaded."""
    for rows, loads in ((16, 0), (17, 1)):
        operands = np.zeros((128, rows), np.float32), np.zeros((128, 512), np.float32)
        body = halves.compile(*operands).linked.cores[0].body
        assert sum(inst.mnemonic == "dma_copy" for inst in body if isinstance(inst, Inst)) == loads


def test_products_that_read_in_place_are_those_that_are_made_for_it() -> None:
    """Neither layer may import the other, so each has the limit."""
    assert copy_elimination.FEW_ROWS == nodes.FEW_ROWS


def test_small_numbers_reach_the_result() -> None:
    """The float32 way is taken where it must be: a subnormal sum is there, and not 0."""
    left, right = (np.full((2, 8), number, ml_dtypes.bfloat16) for number in (2.0**-70, 2.0**-60))
    assert (product(left, right)[0] == np.float32(2.0**-129)).all()
