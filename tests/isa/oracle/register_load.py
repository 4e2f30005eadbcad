"""nki.isa.register_load."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .register_move import register

TOLERANCE = None


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The element's value as a 32-bit integer; of a float32 its bits (NKI language guide: registers hold either)."""
    if src.dtype == np.float32:
        return src.reshape(1, 1).view(np.int32)
    value = int(src.item())
    return np.array([[value - (1 << 32) if value >= 1 << 31 else value]], np.int32)


VECTORS = [
    ({"dst": register(9), "src": np.array([[-3]], np.int8)}, register(-3)),
    ({"dst": register(9), "src": np.array([[253]], np.uint8)}, register(253)),
    ({"dst": register(9), "src": np.array([[40000]], np.uint16)}, register(40000)),
    ({"dst": register(9), "src": np.array([[2**32 - 1]], np.uint32)}, register(-1)),
    ({"dst": register(9), "src": np.array([[2**24 + 1]], np.int32)}, register(2**24 + 1)),
    ({"dst": register(9), "src": np.array([[1.0]], np.float32)}, register(0x3F800000)),
]
REGISTERS = ("dst",)
