"""The native matrix product, for arrays: the one implementation that every executor calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from nki.numerics.jit import engine
from nki.numerics.matmul import add_matmul

Float32Array = NDArray[np.float32]


def matmul(stationary: Float32Array, moving: Float32Array, out: Float32Array, accumulate: bool) -> None:
    """``out = stationary.T @ moving``, or ``out += stationary.T @ moving`` if ``accumulate``.

    Shapes: stationary [K, M], moving [K, N], out [M, N]; all float32, of any strides; ``out`` must not overlap the
    operands. The order of additions, and so every bit, is fixed: see :mod:`nki.numerics.matmul`. The first call
    compiles, which takes about half a second. Raises ``ValueError`` for shapes or dtypes that do not fit.
    """
    (depth, rows), (depth_moving, columns) = stationary.shape, moving.shape
    if depth != depth_moving or out.shape != (rows, columns):
        raise ValueError(f"matmul of {stationary.shape} and {moving.shape} into {out.shape}: shapes do not fit")
    if not stationary.dtype == moving.dtype == out.dtype == np.float32:
        raise ValueError(f"matmul of {stationary.dtype} and {moving.dtype} into {out.dtype}: all must be float32")
    stationary, moving = _dense_rows(stationary), _dense_rows(moving)
    target = _dense_rows(out)
    routine()(
        target.ctypes.data, target.strides[0] // 4, stationary.ctypes.data, stationary.strides[0] // 4,
        moving.ctypes.data, moving.strides[0] // 4, rows, columns, depth, int(accumulate),
    )  # fmt: skip
    if target is not out:
        out[...] = target


def _dense_rows(array: Float32Array) -> Float32Array:
    """``array``, or a copy if the elements of a row are not neighbours."""
    fits = array.flags.aligned and (array.strides[1] == 4 or array.shape[1] == 1) and array.strides[0] % 4 == 0
    return array if fits else np.ascontiguousarray(array)


@cache
def routine() -> Callable[..., Any]:
    """The compiled routine of :mod:`nki.numerics.matmul`, on addresses."""
    module = ir.Module("nki_gemm")
    add_matmul(module, engine().vector_width)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, pointer, size, pointer, size, pointer, size, size, size, size, size)
    return prototype(engine().compile(module)["nki_matmul"])


@cache
def address() -> int:
    """Address of the compiled routine, for code that calls it directly."""
    return ctypes.cast(cast(Any, routine()), ctypes.c_void_p).value or 0
