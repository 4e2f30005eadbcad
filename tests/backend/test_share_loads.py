"""Loads of products are shared where that changes nothing that anyone can see."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.stages import share_loads
from nki.compilation.executable import lower
from nki.ir.instruction import Inst
from nki.numerics.layouts import PANELS
from tests.support.both_executors import both, numbers


def tiled(left, right):
    """[K, M] and [K, N] -> [M, N], in tiles of 128 x 128 x 256."""
    (depth, rows), columns = left.shape, right.shape[1]
    result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in range(0, rows, 128):
        for n in range(0, columns, 256):
            total = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, 128):
                a = nl.ndarray((128, 128), dtype=left.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 256), dtype=right.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=left[k : k + 128, m : m + 128])
                nisa.dma_copy(dst=b, src=right[k : k + 128, n : n + 256])
                nisa.nc_matmul(dst=total, stationary=a, moving=b)
            copy = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copy, src=total)
            nisa.dma_copy(dst=result[m : m + 128, n : n + 256], src=copy)
    return result


def lowered(kernel: Any, *arguments: Any) -> list[Inst]:
    """The instructions that native code runs."""
    return list(lower(nki.jit(kernel).compile(*arguments).kernel, "gather_scatter").instructions())


def loads(instructions: list[Inst]) -> list[Inst]:
    """The copies into tiles on chip."""
    return [inst for inst in instructions if (copy := inst.as_copy()) and copy.dst.buffer is nl.sbuf]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_each_window_is_loaded_once(dtype: Any) -> None:
    left, right = numbers(256, 384).astype(dtype), numbers(256, 512).astype(dtype)
    assert len(loads(lowered(tiled, left, right))) == 2 * 3 + 2 * 2  # 2 * 24 in the source
    both(tiled, left, right)


def test_moving_tiles_lie_in_panels() -> None:
    left, right = numbers(256, 256), numbers(256, 512)
    products = [inst for inst in lowered(tiled, left, right) if inst.effects.moving]
    assert [p.operands()[2][1].tensor.layout for p in products] == [PANELS] * 8
    assert {p.operands()[1][1].buffer for p in products} == {nl.sbuf}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_moving_windows_of_one_product_are_not_loaded(dtype: Any) -> None:
    left, right = numbers(256, 128).astype(dtype), numbers(256, 512).astype(dtype)
    lowered_insts = lowered(tiled, left, right)
    products = [inst for inst in lowered_insts if inst.effects.moving]
    assert [p.operands()[2][1].strides for p in products] == [(512, 1)] * 4
    assert {p.operands()[2][1].name for p in products} == {"right"}
    loaded = [load for load in loads(lowered_insts) if not load.writes()[0].tensor.layout.pairs]
    assert not loaded  # stationary ones may be packed
    both(tiled, left, right)


def windows(left, right, start: int, count: int):
    """A product with a window of a tile that is loaded whole."""
    result = nl.ndarray((left.shape[1], count), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf)
    b = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=left)
    nisa.dma_copy(dst=b, src=right)
    total = nl.ndarray((left.shape[1], count), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=a[64:128, :], moving=b[64:128, start : start + count])
    copy = nl.ndarray((left.shape[1], count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=total)
    nisa.dma_copy(dst=result, src=copy)
    return result


@pytest.mark.parametrize(("start", "count"), [(0, 128), (32, 64), (64, 32), (16, 64), (32, 40), (0, 1)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_windows_of_panels(start: int, count: int, dtype: Any) -> None:
    got = both(windows, numbers(128, 20).astype(dtype), numbers(128, 128).astype(dtype), start, count)
    left, right = (numbers(128, size).astype(dtype).astype(np.float64) for size in (20, 128))
    np.testing.assert_allclose(got, left[64:128].T @ right[64:128, start : start + count], rtol=1e-4, atol=1e-4)


def changing(left, right):
    """The second load of a window finds other numbers than the first."""
    result = nl.ndarray((2, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 128), dtype=left.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=left)
    for number in range(2):
        b = nl.ndarray((128, 64), dtype=right.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=b, src=right)
        total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=a, moving=b)
        copy = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=total)
        nisa.dma_copy(dst=result[number], src=copy)
        nisa.dma_copy(dst=right, src=copy)
    return result, right


def test_inputs_that_change_are_loaded_again() -> None:
    left, right = numbers(128, 128), numbers(128, 64)
    first, second = nki.jit(changing)(left, right.copy())[0]
    np.testing.assert_allclose(first, left.T @ right, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(second, left.T @ first, rtol=1e-4, atol=1e-2)


def test_shared_tiles_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose readers are nearest to each other come first: here the two of ``left``, 64 KiB each."""
    monkeypatch.setattr(share_loads, "_MOST_BYTES", 2 * 128 * 128 * 4)
    left, right = numbers(256, 384), numbers(256, 512)
    assert len(loads(lowered(tiled, left, right))) == 2 * 3 + 2 * 2 * 3
