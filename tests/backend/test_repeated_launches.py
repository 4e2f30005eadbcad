"""The plugin that repeats launches notices one wrong bit, also in a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.ir.layout import DENSE
from tests.support import repeated_launches

X = np.linspace(-2, 2, 128 * 64, dtype=np.float32).reshape(128, 64)


@nki.jit
def doubled(x):
    """Twice ``x``; ``x`` is (128, 64)."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def repeated(x: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], patch: pytest.MonkeyPatch) -> Any:
    """What the plugin notes about a launch on ``x`` whose result was ``expected``."""
    session = repeated_launches.Session()
    patch.setattr(repeated_launches, "session", session)
    executable = doubled.compile(x)
    repetition = repeated_launches.Repetition(executable, DENSE)
    arrays = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (x, expected)]
    with repeated_launches.repeating():
        repetition.run(executable, repeated_launches.Launch(arrays[:1], arrays[1:]))
    return session


def test_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    session = repeated(X, 2 * X, monkeypatch)
    assert not session.differences
    assert session.counts["launches simulated"] == 1


def test_one_wrong_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = 2 * X
    wrong.view(np.uint32)[127, 63] ^= 1
    session = repeated(X, wrong, monkeypatch)
    places = [text.split("'out', ")[-1].split(":")[0] for text in session.differences]
    assert places == ["1 threads", "2 threads", "3 threads", "the simulator"]
    assert all("1 of 8192 elements, first 8191" in text for text in session.differences)


def test_the_payload_of_a_nan_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.copy()
    x.view(np.uint32)[3, 4] = 0xFFC12345
    expected = 2 * x
    expected[3, 4] = np.nan
    assert not repeated(x, expected, monkeypatch).differences
    expected.view(np.uint32)[3, 4] ^= 1
    assert len(repeated(x, expected, monkeypatch).differences) == len(repeated_launches.THREADS) + 1
