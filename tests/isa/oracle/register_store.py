"""nki.isa.register_store."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .register_move import register
from .vectors import f32, i8, u32, vector


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The register's bits; a narrower element takes the low ones."""
    bits = int(src.item()) & ((1 << 8 * dst.itemsize) - 1)
    return np.array([bits], f"u{dst.itemsize}").view(dst.dtype).reshape(dst.shape)


VECTORS = [
    vector(register(-7), src=register(-7)),
    vector(u32(2**32 - 1), src=register(-1)),
    vector(i8(-2), src=register(0x1FE)),
    vector(f32(2.0), src=register(0x40000000)),
]
