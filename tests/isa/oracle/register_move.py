"""nki.isa.register_move."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array

TOLERANCE = None


def oracle(dst: Array, *, src: Any, **_: Any) -> Array:
    """The 32 bits of a whole number, negative ones in two's complement, or of another register."""
    bits = int(src.item()) if isinstance(src, np.ndarray) else src
    return np.array([[bits & 0xFFFFFFFF]], np.uint32).view(np.int32)


def register(bits: int) -> Array:
    return np.array([[bits]], np.int32)


VECTORS = [
    ({"dst": register(9), "src": 10}, register(10)),
    ({"dst": register(9), "src": -1}, register(-1)),
    ({"dst": register(9), "src": 2**32 - 2}, register(-2)),
    ({"dst": register(9), "src": register(-(2**31))}, register(-(2**31))),
]
REGISTERS = ("dst", "src")
