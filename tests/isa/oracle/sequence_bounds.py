"""nki.isa.sequence_bounds (GpSimd Engine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array

TOLERANCE = None


def oracle(dst: Array, *, segment_ids: Array, **_: Any) -> Array:
    """First position of each element's run, and one past its last; n and -1 for zeros. Reference: sequence_bounds."""
    ids = segment_ids.reshape(-1).tolist()
    n = len(ids)
    bounds = np.empty((2, n))
    for i, value in enumerate(ids):
        first, last = i, i
        while first > 0 and ids[first - 1] == value:
            first -= 1
        while last < n - 1 and ids[last + 1] == value:
            last += 1
        bounds[:, i] = (n, -1) if value == 0 else (first, last + 1)
    return numerics.write(bounds.reshape(-1), dst.dtype).reshape(dst.shape)


# The worked example, as integers and as floats; then neighbours that only float32 would take for equal.
_ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32)
_bounds = np.array([[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]], np.int32)
VECTORS = [
    ({"dst": np.zeros((1, 2, 9), np.int32), "segment_ids": _ids}, _bounds),
    ({"dst": np.zeros((1, 2, 9), np.float32), "segment_ids": _ids.astype(np.float32)}, _bounds.astype(np.float32)),
    (
        {"dst": np.zeros((1, 2, 1), np.int32), "segment_ids": np.array([[7]], np.int32)},
        np.array([[[0], [1]]], np.int32),
    ),
    (
        {"dst": np.zeros((1, 2, 3), np.int32), "segment_ids": np.array([[2**24, 2**24 + 1, 2**24 + 1]], np.int32)},
        np.array([[[0, 1, 1], [1, 3, 3]]], np.int32),
    ),
]
