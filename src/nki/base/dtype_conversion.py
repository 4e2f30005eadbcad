"""Between stored elements and the float32 values that engines compute with, in NumPy.

The native code (``backend.cpu.codegen.convert``) keeps the same contract bit for bit: reading is exact, except that a
32-bit integer beyond 2**24 rounds to nearest even; writing rounds to nearest even; integers saturate and take NaN as 0;
bool is ``x != 0`` (so NaN is true); floats overflow as their format does (float16, bfloat16, float8_e4m3 and
float8_e5m2 to infinity, float8_e4m3fn, which has none, to NaN); tfloat32 keeps ten mantissa bits. A NaN is written as
the canonical NaN of the format: positive and quiet, without payload. float8_e8m0fnu holds powers of two only: the
nearest, the larger of two; what is not positive, or too large, becomes NaN. Packed dtypes hold four numbers in an
element and are not converted but taken apart.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.errors import DTypeError

Float32Array = NDArray[np.float32]

# tfloat32 drops 13 of float32's 23 mantissa bits.
_TF32_DROPPED: Final = np.uint32(0x1FFF)
_TF32_HALF_BELOW: Final = np.uint32(0x0FFF)

_LEAST_NORMAL: Final = np.uint32(1 << 23)  # bits of 2**-126
_POWER_HALF: Final = np.uint32(1 << 22)  # half of the distance between powers of two
_INFINITY: Final = np.uint32(0x7F800000)


def to_float32(array: NDArray[Any], dtype: DType) -> Float32Array:
    """The values of ``array``, stored as ``dtype``, as float32; same shape.

    A float32 array may be returned as it is. Raises :class:`DTypeError` for a packed dtype.
    """
    _check(dtype)
    # A signalling NaN raises the invalid flag when it is widened; that is no user's mistake.
    with np.errstate(all="ignore"):
        return array.astype(np.float32, copy=False)


def from_float32(array: Float32Array, dtype: DType) -> NDArray[Any]:
    """``array`` rounded to ``dtype``: same shape, elements of ``dtype.dtype``.

    A float32 array without NaN may be returned as it is. Raises :class:`DTypeError` for a packed dtype.
    """
    _check(dtype)
    with np.errstate(all="ignore"):
        if dtype is dt.bool_:
            return array != 0
        if dtype.is_integer:
            return _saturate(array, dtype)
        if dtype is dt.tfloat32:
            return _round_tf32(array)
        if dtype is dt.float8_e8m0fnu:
            return _nearest_power(array)
        rounded = array.astype(dtype.dtype, copy=False)
        is_nan = np.isnan(rounded if dtype is dt.float8_e4m3fn else array)  # others get no NaN by rounding
    return np.where(is_nan, np.frombuffer(dtype.poison, dtype.dtype), rounded) if is_nan.any() else rounded


def canonical_nan(array: Float32Array) -> Float32Array:
    """``array`` with the canonical NaN for every NaN; ``array`` itself if it has none."""
    return from_float32(array, dt.float32)


def _check(dtype: DType) -> None:
    if dtype.is_packed:
        raise DTypeError(f"{dtype} cannot be converted to or from float32: its elements are four numbers each")


def _saturate(array: Float32Array, dtype: DType) -> NDArray[Any]:
    info = np.iinfo(dtype.dtype)
    # float64 holds every bound exactly; float32 would round 2**31 - 1 up, out of range.
    whole = np.clip(np.rint(array).astype(np.float64), info.min, info.max)
    return np.where(np.isnan(whole), 0.0, whole).astype(dtype.dtype)


def _round_tf32(array: Float32Array) -> Float32Array:
    bits = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = (bits + _TF32_HALF_BELOW + odd) & ~_TF32_DROPPED
    # Rounding could carry a NaN's payload into its sign.
    return np.where(np.isnan(array), np.uint32(0x7FC00000), rounded).view(np.float32)


def _nearest_power(array: Float32Array) -> NDArray[Any]:
    """The exponent field of each number after rounding to it. ml_dtypes rounds (2**-127, 1.5 * 2**-127) up."""
    bits = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    # The least power, 2**-127, is subnormal: half of its distance to the next is a quarter of the mantissa's range.
    half = np.where(bits < _LEAST_NORMAL, _POWER_HALF >> np.uint32(1), _POWER_HALF)
    is_power = (bits > 0) & (bits <= _INFINITY)
    return np.where(is_power, (bits + half) >> np.uint32(23), 0xFF).astype(np.uint8).view(dt.float8_e8m0fnu.dtype)
