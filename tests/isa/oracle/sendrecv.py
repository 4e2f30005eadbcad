"""nki.isa.sendrecv between a core and itself: what is sent is what is received.

Two cores are in tests/language/test_cores.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .vectors import f32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """``src``, bit for bit."""
    assert dst.shape == src.shape
    return src.copy()


_RANKS = {"send_to_rank": 0, "recv_from_rank": 0, "pipe_id": 0}
VECTORS = [vector(f32([0, 1, 2], [3, 4, 5]), src=np.arange(6, dtype=np.float32).reshape(2, 3), **_RANKS)]
