"""nki.isa.scalar_load."""

from __future__ import annotations

from typing import Any

from .numerics import Array
from .vectors import i32, i64, vector


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The element, in its own width. Reference: nki.isa.scalar_load (no truncation of int64)."""
    return src.reshape(1, 1)


VECTORS = [
    vector(i32(-3), dst=i32(9), src=i32(-3)),
    vector(i64(2**62 + 1), dst=i64(9), src=i64(2**62 + 1)),
    vector(i64(-(2**63)), dst=i64(9), src=i64(-(2**63))),
]
