"""nki.isa.reciprocal (Vector Engine).

Chosen where the reference is silent: the quotient is correctly rounded ("computation in float32 math"), 1/0 is an
infinity of the same sign, and subnormals are numbers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import alu, numerics
from .numerics import Array

TOLERANCE = None


def oracle(dst: Array, *, data: Array, **_: Any) -> Array:
    """1 / x in float32, cast to ``dst``. Reference: nki.isa.reciprocal."""
    return numerics.write(alu.arithmetic("reciprocal", numerics.read(data), 0.0), dst.dtype).reshape(dst.shape)


VECTORS = [
    (
        {"dst": np.zeros((1, 6), np.float32), "data": np.array([[4, 3, -0.0, np.inf, -np.inf, np.nan]], np.float32)},
        np.array([[0x3E800000, 0x3EAAAAAB, 0xFF800000, 0, 0x80000000, 0x7FC00000]], np.uint32).view(np.float32),
    ),
    ({"dst": np.zeros((1, 3), np.int32), "data": np.array([[2, 1, -1]], np.int32)}, np.array([[0, 1, -1]], np.int32)),
    # 1/3 in bfloat16 is 0x3EAB.
    (
        {"dst": np.zeros((1, 1), ml_dtypes.bfloat16), "data": np.array([[3]], ml_dtypes.bfloat16)},
        np.array([[0x3EAB]], np.uint16).view(ml_dtypes.bfloat16),
    ),
]
