"""The first step of nki.collectives.all_to_all_v_prepare and all_gather_v_prepare: they read the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from .among_one import ONE
from .numerics import Array
from .vectors import u32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(
    dst: Array, *, slot: Array, send_counts: Array, send_displs: Array, recv_displs: Array | None, **_: Any
) -> Array:
    """The rows that the exchange will read: counts and displacements of what is sent, displacements where they go."""
    rows = [row for row in (send_counts, send_displs, recv_displs) if row is not None]
    return np.concatenate([row.reshape(-1) for row in rows]).reshape(slot.shape)


_base = {"send_counts": u32(2), "send_displs": u32(5), "recv_displs": None, "groups": ONE, "in_hbm": True}
VECTORS = [
    vector(u32([2], [5]), _base, slot=u32([0], [0])),
    vector(u32([2], [5], [7]), _base, slot=u32([0], [0], [0]), recv_displs=u32(7)),
]
