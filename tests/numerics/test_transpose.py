"""The native transposition, against NumPy's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from llvmlite import ir

from nki.numerics.transpose import add_transpose
from tests.support.native_calls import call, compiled

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128]


@cache
def routine(lanes: int, itemsize: int) -> int:
    module = ir.Module()
    return compiled(module, add_transpose(module, lanes, itemsize).name)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
@pytest.mark.parametrize("gap", [0, 3])
def test_every_element_and_no_other(lanes: int, itemsize: int, gap: int) -> None:
    rng = np.random.default_rng(5)
    for rows in SIZES:
        for columns in SIZES:
            wide = rng.integers(0, 256, (rows, (columns + gap) * itemsize), np.uint8).view(f"u{itemsize}")
            out = np.full((columns + 1, rows + gap), 0xA5, f"u{itemsize}")
            want = out.copy()
            want[:columns, :rows] = wide[:, :columns].T
            call(routine(lanes, itemsize), out, rows + gap, wide, columns + gap, rows, columns)
            assert np.array_equal(out, want), (rows, columns)


def test_nan_payloads_survive() -> None:
    wide = np.arange(0x7F800001, 0x7F800001 + 16 * 16, dtype=np.uint32).reshape(16, 16)
    out = np.empty_like(wide)
    call(routine(16, 4), out, 16, wide, 16, 16, 16)
    assert np.array_equal(out, wide.T)
