"""Kernels of one function of ``nki.language``, run by both executors, and what NumPy makes of the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl

BF16 = ml_dtypes.bfloat16
EPSILON = 2.0**-23
quiet = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")


def of(fn: Callable[..., Any], count: int) -> Any:
    """A kernel that stores what ``fn`` makes of ``count`` arguments; arrays come as tiles in SBUF."""

    def stored(made):
        if made.buffer == nl.psum:
            made = nl.copy(made)
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, made)
        return out

    def one(a):
        return stored(fn(nl.load(a)))

    def two(a, b):
        return stored(fn(nl.load(a), nl.load(b)))

    def three(a, b, c):
        return stored(fn(nl.load(a), nl.load(b), nl.load(c)))

    return nki.jit((one, two, three)[count - 1])


def computed(fn: Callable[..., Any], *arrays: Any) -> Any:
    """What ``fn`` makes of tiles with the arrays' contents, after both executors have agreed on it to the bit."""
    kernel = of(fn, len(arrays))
    native, eager = kernel(*arrays), nki.simulate(kernel)(*arrays)
    assert native.dtype == eager.dtype
    assert native.tobytes() == eager.tobytes()
    return native


def numbers(*shape: int, kind: Any = np.float32, scale: float = 3.0) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(kind)


def wide(a: Any) -> Any:
    return np.asarray(a).astype(np.float64)


def within(found: Any, want: Any, ulp: Any, floor: float = 0.0) -> None:
    want = wide(want)
    bound = np.maximum(ulp * np.spacing(np.abs(want).astype(np.float32)).astype(np.float64), floor)
    assert found.shape == want.shape
    assert np.all(np.abs(wide(found) - want) <= bound), np.max(np.abs(wide(found) - want) - bound)
