"""nki.isa.scalar_store."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array

TOLERANCE = None


def oracle(dst: Array, *, value: Array, **_: Any) -> Array:
    """The scalar, in its own width. Reference: nki.isa.scalar_store."""
    return value.reshape(dst.shape)


VECTORS = [
    ({"dst": np.array([[9]], np.int32), "value": np.array([[-3]], np.int32)}, np.array([[-3]], np.int32)),
    ({"dst": np.array([[9]], np.int64), "value": np.array([[1 - 2**63]], np.int64)}, np.array([[1 - 2**63]], np.int64)),
]
REGISTERS = ("value",)
