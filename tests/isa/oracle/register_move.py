"""nki.isa.register_move."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .vectors import i32, vector


def oracle(dst: Array, *, src: Any, **_: Any) -> Array:
    """The 32 bits of a whole number, negative ones in two's complement, or of another register."""
    bits = int(src.item()) if isinstance(src, np.ndarray) else src
    return np.array([[bits & 0xFFFFFFFF]], np.uint32).view(np.int32)


def register(bits: int) -> Array:
    return i32(bits)


VECTORS = [
    vector(register(10), dst=register(9), src=10),
    vector(register(-1), dst=register(9), src=-1),
    vector(register(-2), dst=register(9), src=2**32 - 2),
    vector(register(-(2**31)), dst=register(9), src=register(-(2**31))),
]
