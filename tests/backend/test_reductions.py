"""Reductions of rows of every length, with NaN, infinities, zeros of both signs and subnormals, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def reduced(x, op: str):
    """[P, ...] -> [P], over all elements of a row, and [P, A] over the last axis of [P, A, B]."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    results = []
    for axes in ((1, 2), (2,)):
        shape = (x.shape[0], *(x.shape[1:2] if axes == (2,) else (1,)))
        row = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=row, op=getattr(nl, op), data=tile, axis=axes)
        result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=result, src=row)
        results.append(result)
    return tuple(results)


def maximum(x: np.ndarray, sign: int) -> np.ndarray:
    """IEEE 754-2019 maximum (sign 1) or minimum (-1) along the last axis: the order of the bits, NaN first."""
    bits = x.astype(np.float32).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits) * sign
    picked = np.take_along_axis(x, order.argmax(-1)[..., None], -1)[..., 0].astype(np.float32)
    return np.where(np.isnan(x).any(-1), np.float32(np.nan), picked)


def total(x: np.ndarray, op: str) -> np.ndarray:
    """Strictly sequential, in float32."""
    function = {"add": np.add, "multiply": np.multiply, "subtract": np.subtract}[op]
    result = x[..., 0].astype(np.float32)
    for index in range(1, x.shape[-1]):
        result = function(result, x[..., index].astype(np.float32))
    return result


def contents(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(shape)
    x = rng.normal(size=shape) * np.exp2(rng.integers(-6, 6, shape))
    rows = np.arange(shape[0])
    x[rows % 5 == 1] = np.where(rng.random(x[rows % 5 == 1].shape) < 0.9, -0.0, 0.0)
    x[rows % 5 == 2] *= rng.choice([-1.0, 1.0], x[rows % 5 == 2].shape) * 2.0**-134
    x[rows % 7 == 3] = -np.abs(x[rows % 7 == 3])
    x[rows % 11 == 4, ..., -1] = np.inf
    x[rows % 11 == 5, ..., 0] = -np.inf
    x[rows % 13 == 6, ..., shape[-1] // 2] = np.nan
    result = x.astype(dtype)
    negative = np.array(np.nan, dtype)
    result[rows % 13 == 7, ..., -1] = np.negative(negative)
    result[rows % 5 == 4] = np.array(-0.0, dtype)
    return result


SHAPES = [(128, 1, 512), (128, 4, 24), (127, 1, 61), (40, 3, 8), (16, 2, 100), (33, 5, 7), (3, 1, 130), (1, 2, 33)]
SHAPES += [(109, 3, 21)]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("op", ["maximum", "minimum", "add", "multiply", "subtract"])
def test_rows(op: str, dtype: Any) -> None:
    for shape in SHAPES:
        x = contents(shape, dtype)
        flat = x.reshape(shape[0], 1, -1)
        with np.errstate(all="ignore"):
            if op in ("maximum", "minimum"):
                wants = [maximum(part, 1 if op == "maximum" else -1) for part in (flat, x)]
            else:
                wants = [total(part, op) for part in (flat, x)]
        for got, want in zip(reduced(x, op), wants, strict=True):
            nan = np.isnan(want)
            assert np.array_equal(np.isnan(got), nan), (shape, op)
            assert np.array_equal(got.view(np.uint32)[~nan], want.view(np.uint32)[~nan]), (shape, op)
