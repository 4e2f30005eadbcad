"""Subnormal numbers have the same bits whatever the thread was told to do with them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

SMALL = np.full((4, 4), 1e-40, np.float32)


@nki.jit
def times_one(a):
    t = nl.load(a)
    nisa.tensor_scalar(t, t, nl.multiply, 1.0)
    return returned(t)


@nki.jit
def on_two_cores(a):
    t = nl.load(a)
    nisa.tensor_scalar(t, t, nl.multiply, 1.0)
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    half = nl.program_id(0) * 2
    nl.store(out[half : half + 2], t[half : half + 2])
    return out


@nki.jit
def squared(a):
    t = nl.load(a)
    p = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(p, t, t)
    return returned(nl.copy(p))


@nki.jit
def plus_constant(a):
    t = nl.load(a)
    nisa.tensor_scalar(t, t, nl.add, 1e-40)
    return returned(t)


@pytest.fixture
def flushing() -> Iterator[None]:
    """The thread flushes subnormals to zero."""
    assert torch.set_flush_denormal(True)
    try:
        assert SMALL[0, 0] * np.float32(1) == 0, "the thread does not flush"
        yield
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.usefixtures("flushing")
@pytest.mark.parametrize("kernel", [times_one, on_two_cores[2], nki.simulate(times_one), nki.simulate(on_two_cores[2])])
def test_nothing_flushes_subnormals(kernel) -> None:
    result = kernel(SMALL)
    assert result.tobytes() == SMALL.tobytes()
    assert SMALL[0, 0] * np.float32(1) == 0, "the thread's own setting is lost"


@pytest.mark.usefixtures("flushing")
def test_compiled_functions_and_constants_keep_subnormals() -> None:
    small = np.full((4, 4), 1e-21, np.float32)
    assert squared(small).tobytes() == nki.simulate(squared)(small).tobytes()
    assert squared(small).view(np.uint32).any()
    assert plus_constant(np.zeros((4, 4), np.float32)).tobytes() == SMALL.tobytes()
