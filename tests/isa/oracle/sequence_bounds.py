"""nki.isa.sequence_bounds (GpSimd Engine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .vectors import i32, vector


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
_ids = i32(0, 1, 1, 2, 2, 2, 0, 3, 3)
_bounds = i32([[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]])
VECTORS = [
    vector(_bounds, segment_ids=_ids),
    vector(_bounds.astype(np.float32), segment_ids=_ids.astype(np.float32)),
    vector(i32([[0], [1]]), segment_ids=i32(7)),
    vector(i32([[0, 1, 1], [1, 3, 3]]), segment_ids=i32(2**24, 2**24 + 1, 2**24 + 1)),
]
