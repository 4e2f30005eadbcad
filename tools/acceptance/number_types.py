"""A stand-in for ``neuron_dtypes``: the element types of NKI as NumPy knows them, and casts to and from packed ones."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

import nki.language as nl

_ELEMENTS: dict[str, Any] = {
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}


def packed_name(dtype: Any) -> str | None:
    """The name of a packed type, however it is given; None for any other type."""
    name = dtype.type.__name__ if isinstance(dtype, np.dtype) else str(dtype)
    return name if name in _ELEMENTS else None


def unpacked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers of a packed array as float32: four in place of each word, along the last axis."""
    name = packed_name(array.dtype)
    assert name is not None
    octets = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    if name == "float4_e2m1fn_x4":  # two in an octet, the lower bits first
        octets = np.stack([octets & 15, octets >> 4], axis=-1).reshape(-1)
    return octets.view(_ELEMENTS[name]).astype(np.float32).reshape(*array.shape[:-1], 4 * array.shape[-1])


def packed(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The inverse of :func:`unpacked`, rounded to the elements of ``name``."""
    octets = np.ascontiguousarray(np.asarray(array, np.float32).astype(_ELEMENTS[name])).view(np.uint8)
    if name == "float4_e2m1fn_x4":
        octets = (octets[..., 0::2] & 15) | (octets[..., 1::2] << 4)
    shape = (*array.shape[:-1], array.shape[-1] // 4)
    return np.frombuffer(octets.tobytes(), np.dtype(getattr(nl, name))).reshape(shape).copy()


def static_cast(array: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """``array`` with the elements rounded to ``dtype``; a packed type takes four along the last axis into a word."""
    array = np.asarray(array)
    source, result = packed_name(array.dtype), packed_name(dtype)
    if source is not None and source == result:
        return array
    if source is not None:
        array = unpacked(array)
    return packed(array, result) if result is not None else array.astype(np.dtype(dtype))


def is_float_type(dtype: Any) -> bool:
    """True for floating-point types, the ones of ``ml_dtypes`` too."""
    kind = np.dtype(dtype)
    return np.issubdtype(kind, np.floating) or "float" in kind.name


def fill(module: ModuleType) -> None:
    """Give ``module`` the names of ``neuron_dtypes`` that the library reads."""
    names = ("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
    vars(module).update({name: np.dtype(getattr(ml_dtypes, name)) for name in names})
    vars(module).update({name: getattr(nl, name) for name in _ELEMENTS})  # str() of them is the bare name
    vars(module).update(
        static_cast=static_cast,
        is_float_type=is_float_type,
        sizeinbytes=lambda dtype: np.dtype(dtype).itemsize,
        finfo=lambda dtype: ml_dtypes.finfo(np.dtype(dtype)),
    )
