"""Analyses take time that is linear in the number of run-time loops that follow each other."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.analysis.byte_sets import ByteSet


@nki.jit
def in_a_row(a, times: int):
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a)

    def body(_):
        inner = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(inner, tile, tile)
        nisa.tensor_copy(tile, inner)

    for _ in range(times):
        nl.fori_loop(0, 2, body)
        total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, tile, tile)
        nisa.tensor_copy(tile, total)
    nl.store(result, tile)
    return result


def test_a_loop_copies_no_sets_that_it_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    copy = ByteSet.copy
    monkeypatch.setattr(ByteSet, "copy", lambda self: copies.append(1) or copy(self))
    in_a_row.compile(np.ones((64, 64), np.float32), 40)
    assert len(copies) <= 2 * 40
