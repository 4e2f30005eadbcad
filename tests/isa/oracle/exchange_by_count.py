"""nki.collectives.all_to_all_v and all_gather_v among one rank.

The four rows of their table are arguments of their own. Chosen where the reference is silent: what the rank sends to
itself is moved and counted like any other piece, and what no piece covers stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .among_one import ONE
from .numerics import Array
from .vectors import f32, u32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(
    dst: Array,
    *,
    src: Array,
    send_counts: Array,
    send_displs: Array,
    recv_counts: Array | None,
    recv_displs: Array | None,
    **_: Any,
) -> Any:
    """The piece of the source, at its displacement in the destination; and its count, where that is asked for."""
    count, start = int(send_counts.ravel()[0]), int(send_displs.ravel()[0])
    place = 0 if recv_displs is None else int(recv_displs.ravel()[0])
    result = dst.copy()
    flat = result.reshape(-1)
    assert place + count <= flat.size
    flat[place : place + count] = src.reshape(-1)[start : start + count]
    return result if recv_counts is None else (result, send_counts.reshape(recv_counts.shape).copy())


_base = {
    "src": f32(1, 2, 3, 4, 5), "send_counts": u32(2), "send_displs": u32(1), "groups": ONE, "by_rank": True,
    "in_hbm": True, "dst": f32(9, 9, 9, 9, 9), "recv_counts": None, "recv_displs": None,
}  # fmt: skip
VECTORS = [
    vector(f32(2, 3, 9, 9, 9), _base),
    vector((f32(2, 3, 9, 9, 9), u32(2)), _base, recv_counts=u32(7)),
    vector((f32(9, 9, 9, 2, 3), u32(2)), _base, recv_counts=u32(7), recv_displs=u32(3), by_rank=False),
    vector((f32(9, 9, 9, 9, 9), u32(0)), _base, recv_counts=u32(7), send_counts=u32(0)),
    vector(np.arange(5, dtype=np.float32)[None], _base, src=f32(0, 1, 2, 3, 4), send_counts=u32(5), send_displs=u32(0)),
]
