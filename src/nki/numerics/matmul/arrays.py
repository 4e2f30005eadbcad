"""The native matrix product, for arrays: the one implementation that every executor calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.numerics.jit import engine
from nki.numerics.matmul.contract import PANEL
from nki.numerics.matmul.float32 import columns_of_block
from nki.numerics.matmul.units import float32_unit

Float32Array = NDArray[np.float32]


def matmul(
    stationary: Float32Array, moving: Float32Array, out: Float32Array, accumulate: bool, by_groups: bool = False
) -> None:
    """``out = stationary.T @ moving``, or ``out += stationary.T @ moving`` if ``accumulate``.

    Shapes: stationary [K, M], moving [K, N], out [M, N]; all float32, of any strides; ``out`` must not overlap the
    operands. ``by_groups``: as for operands that fit bfloat16. The order of additions, and so every bit, is fixed: see
    :mod:`nki.numerics.matmul.contract`. The first call compiles, which takes about half a second. Raises ``ValueError``
    for shapes or dtypes that do not fit.
    """
    (depth, rows), (depth_moving, columns) = stationary.shape, moving.shape
    if depth != depth_moving or out.shape != (rows, columns):
        raise ValueError(f"matmul of {stationary.shape} and {moving.shape} into {out.shape}: shapes do not fit")
    if not stationary.dtype == moving.dtype == out.dtype == np.float32:
        raise ValueError(f"matmul of {stationary.dtype} and {moving.dtype} into {out.dtype}: all must be float32")
    stationary, moving = _dense_rows(stationary), _dense_rows(moving)
    target = _dense_rows(out)
    routine(by_groups)(
        target.ctypes.data, target.strides[0] // 4,
        stationary.ctypes.data, stationary.strides[0] // 4, columns_of_block(engine().vector_width),
        moving.ctypes.data, moving.strides[0] // 4, PANEL, rows, columns, depth, int(accumulate),
    )  # fmt: skip
    if target is not out:
        out[...] = target


def _dense_rows(array: Float32Array) -> Float32Array:
    """``array``, or a copy if the elements of a row are not neighbours."""
    fits = array.flags.aligned and (array.strides[1] == 4 or array.shape[1] == 1) and array.strides[0] % 4 == 0
    return array if fits else np.ascontiguousarray(array)


@cache
def routine(by_groups: bool = False) -> Callable[..., Any]:
    """The micro-kernel of float32 numbers, on addresses."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, pointer, size, pointer, size, size, pointer, *[size] * 6)
    return prototype(float32_unit(by_groups).address())
