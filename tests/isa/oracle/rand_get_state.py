"""nki.isa.rand_get_state (GpSimd Engine, on gen4 Vector Engine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .vectors import vector


def oracle(dst: Array, *, states: Array, **_: Any) -> Array:
    """Each lane's state goes to its partition. Reference: nki.isa.rand_get_state."""
    return states.reshape(dst.shape).copy()


_words = np.arange(48, dtype=np.uint32).reshape(2, 24)
VECTORS = [
    vector(_words, engine="vector", states=_words),
    vector(_words[:, :6], engine="gpsimd", states=_words[:, :6].copy()),
]
