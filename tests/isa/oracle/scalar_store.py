"""nki.isa.scalar_store."""

from __future__ import annotations

from typing import Any

from .numerics import Array
from .vectors import i32, i64, vector


def oracle(dst: Array, *, value: Array, **_: Any) -> Array:
    """The scalar, in its own width. Reference: nki.isa.scalar_store."""
    return value.reshape(dst.shape)


VECTORS = [vector(i32(-3), dst=i32(9), value=i32(-3)), vector(i64(1 - 2**63), dst=i64(9), value=i64(1 - 2**63))]
