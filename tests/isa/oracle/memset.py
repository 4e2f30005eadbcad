"""nki.isa.memset.

Chosen where the reference is silent: an integer constant into an integer tile is exact, and saturates when out of
range; every other constant becomes a float32 first.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics
from .numerics import Array

TOLERANCE = None


def oracle(dst: Array, *, value: float, **_: Any) -> Array:
    """Every element becomes the constant ``value`` in the type of ``dst``. Reference: nki.isa.memset."""
    if dst.dtype.name in numerics.INTEGERS and isinstance(value, int):
        low, high = numerics.INTEGERS[dst.dtype.name]
        return np.full(dst.shape, min(max(value, low), high), dst.dtype)
    return np.repeat(numerics.write(np.array([value], np.float64), dst.dtype), dst.size).reshape(dst.shape)


VECTORS = [
    ({"dst": np.zeros((2, 2), np.float32), "value": 0.2}, np.full((2, 2), 0x3E4CCCCD, np.uint32).view(np.float32)),
    (
        {"dst": np.zeros((1, 2), ml_dtypes.bfloat16), "value": 0.2},
        np.full((1, 2), 0x3E4D, np.uint16).view(ml_dtypes.bfloat16),
    ),
    ({"dst": np.zeros((1, 1), np.int32), "value": 2**24 + 1}, np.array([[2**24 + 1]], np.int32)),
    ({"dst": np.zeros((1, 1), np.int32), "value": 2.5}, np.array([[2]], np.int32)),
    ({"dst": np.zeros((1, 1), np.uint8), "value": -1.0}, np.array([[0]], np.uint8)),
    ({"dst": np.zeros((1, 1), np.float32), "value": -0.0}, np.array([[0x80000000]], np.uint32).view(np.float32)),
]
