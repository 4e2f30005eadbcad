"""nki.isa.register_load."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .register_move import register
from .vectors import f32, i8, i32, u8, u16, u32, vector


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The element's value as a 32-bit integer; of a float32 its bits (NKI language guide: registers hold either)."""
    if src.dtype == np.float32:
        return src.reshape(1, 1).view(np.int32)
    value = int(src.item())
    return np.array([[value - (1 << 32) if value >= 1 << 31 else value]], np.int32)


VECTORS = [
    vector(register(-3), dst=register(9), src=i8(-3)),
    vector(register(253), dst=register(9), src=u8(253)),
    vector(register(40000), dst=register(9), src=u16(40000)),
    vector(register(-1), dst=register(9), src=u32(2**32 - 1)),
    vector(register(2**24 + 1), dst=register(9), src=i32(2**24 + 1)),
    vector(register(0x3F800000), dst=register(9), src=f32(1.0)),
]
