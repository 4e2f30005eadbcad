"""Kernels for the tests of the bridges."""

from __future__ import annotations

import numpy as np

from nki.base import dtype as nl
from nki.ir.types import TensorSpec
from nki.jit import Kernel


def _kernel(compute):
    return lambda func: Kernel(func, compute)


@_kernel(lambda i, o, c: np.add(i[0], i[1], out=o[0], casting="unsafe"))
def add(a, b):
    return TensorSpec("out", a.shape, a.dtype)


def _sum_and_scaled(i, o, c):
    np.add(i[0], i[1], out=o[0])
    np.multiply(i[0][:1], c["scale"], out=o[1])


@_kernel(_sum_and_scaled)
def sum_and_scaled(a, b, scale=2.0, mode="plain"):
    """Two results: a + b, and the first row of a times ``scale``."""
    return TensorSpec("total", a.shape, a.dtype), TensorSpec("scaled", (1, a.shape[1]), a.dtype)


@_kernel(lambda i, o, c: np.less(i[0], i[1], out=o[0]))
def less(a, b):
    return TensorSpec("out", a.shape, nl.bool_)


@_kernel(lambda i, o, c: None)
def no_result(a):
    return None


@_kernel(lambda i, o, c: np.copyto(o[0], i[0].astype(o[0].dtype)))
def to_e4m3(a):
    return TensorSpec("out", a.shape, nl.float8_e4m3)
