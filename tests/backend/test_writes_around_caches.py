"""Large outputs are written around the caches, at any address, with the bits of other stores and on all threads."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime.routines import listing
from nki.compiler.executable import Executable, lower
from nki.ir.types import LARGE
from nki.numerics.llvm import has_avx512
from tests.support.both_executors import numbers
from tests.support.shared_launches import THREADS, shared

__all__ = ["shared"]

WIDTH = 2048
ROWS = LARGE // 4 // WIDTH


def tripled(x):
    """One instruction for each tile: 3 x."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        tile = nl.load(x[start : start + 128])
        nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
        nl.store(out[start : start + 128], tile)
    return out


def chained(x):
    """Two results of one loop, 3 x and 3 x - x, one of them beside 8 columns that nothing else writes."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shifted = nl.ndarray((x.shape[0], x.shape[1] + 16), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        rows = slice(start, start + 128)
        tile = nl.load(x[rows])
        tripled, rest = (nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.tensor_scalar(tripled, tile, nl.multiply, 3.0)
        nisa.tensor_tensor(rest, tripled, tile, nl.subtract)
        nl.store(out[rows], tripled)
        nl.store(shifted[rows, 8 : 8 + x.shape[1]], rest)
        nl.store(shifted[rows, 0:8], tile[:, 0:8])
        nl.store(shifted[rows, 8 + x.shape[1] :], tile[:, 0:8])
    return out, shifted


def assembly(kernel: Any, *arguments: Any) -> str:
    """The host's code for the routines of ``kernel``."""
    return listing(lower(nki.jit(kernel).compile(*arguments).kernel).core.instructions(), assembly=True)


def around(kernel: Any, *arguments: Any) -> tuple[bool, bool]:
    """True if lines are written around the caches, and if such writes are ended."""
    code = assembly(kernel, *arguments)
    return "vmovntps" in code, "sfence" in code


@pytest.mark.skipif(not has_avx512(), reason="only AVX-512 writes whole lines")
@pytest.mark.parametrize("kernel", [tripled, chained])
def test_only_large_outputs_go_around_the_caches(kernel: Any) -> None:
    assert around(kernel, numbers(ROWS, WIDTH)) == (True, True)
    assert around(kernel, numbers(ROWS - 128, WIDTH - 16)) == (False, False)


@pytest.mark.skipif(not has_avx512(), reason="only AVX-512 writes whole lines")
def test_rows_of_half_lines_stay_in_the_caches() -> None:
    """A vector of bfloat16 is half a line."""
    assert around(chained, numbers(2 * ROWS, WIDTH).astype(ml_dtypes.bfloat16))[0] is False


@pytest.mark.parametrize("shift", [0, 4, 32])
def test_bits_at_any_address(shift: int, shared: pytest.MonkeyPatch) -> None:
    """Outputs that begin within a line, or where one begins, have the bits that arithmetic gives."""
    x = numbers(ROWS, WIDTH)
    edge = x[:, :8]
    expected = [x * np.float32(3), np.concatenate([edge, x * np.float32(3) - x, edge], 1)]
    executable = Executable(nki.jit(chained).compile(x).kernel)
    for threads in THREADS:
        shared.setenv("NKI_NUM_THREADS", str(threads))
        memory = [np.full(array.nbytes + 128, 0xA5, np.uint8) for array in expected]
        first = [-array.ctypes.data % 64 + shift for array in memory]
        executable.launch([x.ctypes.data, *(a.ctypes.data + n for a, n in zip(memory, first, strict=True))])
        for array, at, wanted in zip(memory, first, expected, strict=True):
            assert array[at : at + wanted.nbytes].tobytes() == wanted.tobytes()
            assert (array[:at] == 0xA5).all()
            assert (array[at + wanted.nbytes :] == 0xA5).all()
