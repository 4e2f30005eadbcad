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
from .vectors import bf16, f32, i32, u16, u32, vector


def oracle(dst: Array, *, data: Array, **_: Any) -> Array:
    """1 / x in float32, cast to ``dst``. Reference: nki.isa.reciprocal."""
    return numerics.write(alu.arithmetic("reciprocal", numerics.read(data), 0.0), dst.dtype).reshape(dst.shape)


VECTORS = [
    vector(
        u32(0x3E800000, 0x3EAAAAAB, 0xFF800000, 0, 0x80000000, 0x7FC00000).view(np.float32),
        data=f32(4, 3, -0.0, np.inf, -np.inf, np.nan),
    ),
    vector(i32(0, 1, -1), data=i32(2, 1, -1)),
    # 1/3 in bfloat16 is 0x3EAB.
    vector(u16(0x3EAB).view(ml_dtypes.bfloat16), data=bf16(3)),
]
