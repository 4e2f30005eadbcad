"""Tiles that are filled part by part go where products alone read them, and stay where anything else does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.compilation.executable import lower
from nki.ir.instruction import Inst
from tests.support.both_executors import both, numbers


def blocks(left, right, change: str = ""):
    """[K, M] and [K, N] -> [M, N], with all blocks of 128 rows of an operand side by side in one tile."""
    (depth, rows), columns = left.shape, right.shape[1]
    result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    count = depth // 128
    a = nl.ndarray((128, count, rows), dtype=left.dtype, buffer=nl.sbuf)
    b = nl.ndarray((128, count, columns), dtype=right.dtype, buffer=nl.sbuf)
    for k in range(count):
        nisa.dma_copy(dst=a[:, k, :], src=left[k * 128 : (k + 1) * 128, :])
        nisa.dma_copy(dst=b[:, k, :], src=right[k * 128 : (k + 1) * 128, :])
    if change == "computed":
        nisa.tensor_scalar(a[:, 1, :], a[:, 1, :], nl.multiply, 2.0)
    if change == "overwritten":
        nisa.dma_copy(dst=a[:, 1, :], src=left[0:128, :])
    for m in range(0, rows, 64):
        total = nl.ndarray((64, columns), dtype=nl.float32, buffer=nl.psum)
        for k in range(count):
            nisa.nc_matmul(dst=total, stationary=a[64:128, k, m : m + 64], moving=b[64:128, k, :], accumulate=k > 0)
        if change == "late" and m == 0:
            nisa.dma_copy(dst=a[:, 0, :], src=left[128:256, :])
        copy = nl.ndarray((64, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=total)
        nisa.dma_copy(dst=result[m : m + 64, :], src=copy)
    return result


def tiles_filled(kernel: Any, *arguments: Any) -> set[str]:
    """Names of the inputs that native code copies to tiles on chip, before what products read gets a layout."""
    instructions: list[Inst] = list(lower(nki.jit(kernel).compile(*arguments).kernel, "share_loads").instructions())
    copies = [copy for inst in instructions if (copy := inst.as_copy())]
    return {copy.src.name for copy in copies if copy.dst.buffer is nl.sbuf} & {
        "left",
        "right",
    }


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_products_read_the_inputs(dtype: Any) -> None:
    left, right = numbers(384, 128).astype(dtype), numbers(384, 160).astype(dtype)
    assert not tiles_filled(blocks, left, right)
    both(blocks, left, right)


@pytest.mark.parametrize("change", ["computed", "overwritten", "late"])
def test_a_tile_that_changes_stays(change: str) -> None:
    left, right = numbers(256, 128), numbers(256, 160)

    def kernel(left, right):
        return blocks(left, right, change)

    assert tiles_filled(kernel, left, right) == {"left"}
    both(kernel, left, right)


def across(left, right):
    """A product that reads columns of two parts at once."""
    result = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 64), dtype=left.dtype, buffer=nl.sbuf)
    b = nl.ndarray((128, 2, 64), dtype=right.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=left[0:128, 0:64])
    for k in range(2):
        nisa.dma_copy(dst=b[:, k, :], src=right[k * 128 : (k + 1) * 128, 0:64])
    total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=a, moving=b.reshape((128, 128))[:, 32:96])
    copy = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=total)
    nisa.dma_copy(dst=result, src=copy)
    return result


def test_a_tile_of_which_two_parts_are_read_at_once_stays() -> None:
    left, right = numbers(128, 64), numbers(256, 64)
    assert tiles_filled(across, left, right) == {"right"}
    both(across, left, right)


def changing(weights, right):
    """The input is written between the copies and the product: what was copied counts."""
    result = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 2, 64), dtype=weights.dtype, buffer=nl.sbuf)
    b = nl.ndarray((128, 64), dtype=right.dtype, buffer=nl.sbuf)
    for k in range(2):
        nisa.dma_copy(dst=a[:, k, :], src=weights[k * 128 : (k + 1) * 128, :])
    nisa.dma_copy(dst=b, src=right)
    nisa.dma_copy(dst=weights[0:128, :], src=b)
    total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for k in range(2):
        nisa.nc_matmul(dst=total, stationary=a[:, k, :], moving=b)
    copy = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=total)
    nisa.dma_copy(dst=result, src=copy)
    return result, weights


def test_an_input_that_changes_is_copied() -> None:
    weights, right = numbers(256, 64), numbers(128, 64)
    old = weights.copy()
    result, new = nki.jit(changing)(weights, right)
    np.testing.assert_allclose(result, old[:128].T @ right + old[128:].T @ right, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(new, np.concatenate([right, old[128:]]))
