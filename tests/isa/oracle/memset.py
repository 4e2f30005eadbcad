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
from .vectors import i32, u8, u32, vector


def oracle(dst: Array, *, value: float, **_: Any) -> Array:
    """Every element becomes the constant ``value`` in the type of ``dst``. Reference: nki.isa.memset."""
    if dst.dtype.name in numerics.INTEGERS and isinstance(value, int):
        low, high = numerics.INTEGERS[dst.dtype.name]
        return np.full(dst.shape, min(max(value, low), high), dst.dtype)
    return np.repeat(numerics.write(np.array([value], np.float64), dst.dtype), dst.size).reshape(dst.shape)


VECTORS = [
    vector(np.full((2, 2), 0x3E4CCCCD, np.uint32).view(np.float32), value=0.2),
    vector(np.full((1, 2), 0x3E4D, np.uint16).view(ml_dtypes.bfloat16), value=0.2),
    vector(i32(2**24 + 1), value=2**24 + 1),
    vector(i32(2), value=2.5),
    vector(u8(0), value=-1.0),
    vector(u32(0x80000000).view(np.float32), value=-0.0),
]
