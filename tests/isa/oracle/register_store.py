"""nki.isa.register_store."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .register_move import register

TOLERANCE = None


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The register's bits; a narrower element takes the low ones."""
    bits = int(src.item()) & ((1 << 8 * dst.itemsize) - 1)
    return np.array([bits], f"u{dst.itemsize}").view(dst.dtype).reshape(dst.shape)


VECTORS = [
    ({"dst": np.zeros((1, 1), np.int32), "src": register(-7)}, register(-7)),
    ({"dst": np.zeros((1, 1), np.uint32), "src": register(-1)}, np.array([[2**32 - 1]], np.uint32)),
    ({"dst": np.zeros((1, 1), np.int8), "src": register(0x1FE)}, np.array([[-2]], np.int8)),
    ({"dst": np.zeros((1, 1), np.float32), "src": register(0x40000000)}, np.array([[2.0]], np.float32)),
]
REGISTERS = ("src",)
