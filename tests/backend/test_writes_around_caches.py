"""Large outputs are written around the caches, at any address, with the bits of other stores and on all threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime.routines import listing
from nki.compilation.executable import Executable, lower
from nki.ir.types import LARGE
from nki.numerics.llvm import has_avx512
from tests.support.both_executors import numbers
from tests.support.shared_launches import THREADS, shared

__all__ = ["shared"]

COLUMNS = LARGE // 4 // 128


def product(x, factors):
    """Products with copies of the results, beside 8 columns that nothing else writes."""
    columns = x.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shifted = nl.ndarray((128, columns + 16), dtype=x.dtype, buffer=nl.shared_hbm)
    stationary = nl.load(factors)
    for start in range(0, columns, 512):
        tile = nl.load(x[:, start : start + 512])
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(result, stationary, tile)
        for target, first in ((out, start), (shifted, start + 8)):
            copy = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(copy, result)
            nl.store(target[:, first : first + 512], copy)
    edge = nl.load(x[:, 0:8])
    nl.store(shifted[:, 0:8], edge)
    nl.store(shifted[:, 8 + columns : 16 + columns], edge)
    return out, shifted


def tripled(x):
    """One instruction for each tile: 3 x."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[1], 2048):
        tile = nl.load(x[:, start : start + 2048])
        nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
        nl.store(out[:, start : start + 2048], tile)
    return out


FACTORS = np.eye(128, dtype=np.float32) * np.float32(3)


def assembly(kernel: Any, *arguments: Any) -> str:
    """The host's code for the routines of ``kernel``."""
    return listing(lower(nki.jit(kernel).compile(*arguments).kernel), assembly=True)


def around(kernel: Any, *arguments: Any) -> tuple[bool, bool]:
    """True if lines are written around the caches, and if such writes are ended."""
    code = assembly(kernel, *arguments)
    return "vmovntps" in code, "sfence" in code


@pytest.mark.skipif(not has_avx512(), reason="only AVX-512 writes whole lines")
def test_only_copies_to_large_outputs_go_around_the_caches() -> None:
    assert around(product, numbers(128, COLUMNS), FACTORS) == (True, True)
    assert around(product, numbers(128, COLUMNS - 512), FACTORS) == (False, False)
    assert around(tripled, numbers(128, COLUMNS)) == (False, False)


@pytest.mark.parametrize("shift", [0, 4, 32])
def test_bits_at_any_address(shift: int, shared: pytest.MonkeyPatch) -> None:
    """Outputs that begin within a line, or where one begins, have the bits that arithmetic gives."""
    x = numbers(128, COLUMNS)
    edge = x[:, :8]
    expected = [x * np.float32(3), np.concatenate([edge, x * np.float32(3), edge], 1)]
    executable = Executable(nki.jit(product).compile(x, FACTORS).kernel)
    for threads in THREADS:
        shared.setenv("NKI_NUM_THREADS", str(threads))
        memory = [np.full(array.nbytes + 128, 0xA5, np.uint8) for array in expected]
        first = [-array.ctypes.data % 64 + shift for array in memory]
        executable.launch(
            [x.ctypes.data, FACTORS.ctypes.data, *(a.ctypes.data + n for a, n in zip(memory, first, strict=True))]
        )
        for array, at, wanted in zip(memory, first, expected, strict=True):
            assert array[at : at + wanted.nbytes].tobytes() == wanted.tobytes()
            assert (array[:at] == 0xA5).all()
            assert (array[at + wanted.nbytes :] == 0xA5).all()
