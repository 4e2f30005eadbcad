"""nki.isa.scalar_load."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array

TOLERANCE = None


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The element, in its own width. Reference: nki.isa.scalar_load (no truncation of int64)."""
    return src.reshape(1, 1)


VECTORS = [
    ({"dst": np.array([[9]], np.int32), "src": np.array([[-3]], np.int32)}, np.array([[-3]], np.int32)),
    ({"dst": np.array([[9]], np.int64), "src": np.array([[2**62 + 1]], np.int64)}, np.array([[2**62 + 1]], np.int64)),
    ({"dst": np.array([[9]], np.int64), "src": np.array([[-(2**63)]], np.int64)}, np.array([[-(2**63)]], np.int64)),
]
REGISTERS = ("dst",)
