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


def _sum_and_product(i, o, c):
    np.add(i[0], i[1], out=o[0])
    o[1][:] = i[0].T * c["scale"]


@_kernel(_sum_and_product)
def sum_and_scaled(a, b, scale=2.0, mode="plain"):
    """Two results of different shapes: a + b, and the transposed a times ``scale``."""
    return TensorSpec("total", a.shape, a.dtype), TensorSpec("scaled", a.shape[::-1], a.dtype)


@_kernel(lambda i, o, c: np.less(i[0], i[1], out=o[0]))
def less(a, b):
    return TensorSpec("out", a.shape, nl.bool_)


@_kernel(lambda i, o, c: None)
def no_result(a):
    return None


def _fail(i, o, c):
    raise RuntimeError("the kernel failed on purpose")


@_kernel(_fail)
def failing(a):
    return TensorSpec("out", a.shape, a.dtype)


@_kernel(lambda i, o, c: np.copyto(o[0], i[0].astype(o[0].dtype)))
def to_e4m3(a):
    return TensorSpec("out", a.shape, nl.float8_e4m3)
