"""nki.isa.nonzero_with_count (GpSimd Engine).

Chosen where the reference is silent: an index beyond 32 bits wraps; NaN is not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .tile import rows
from .vectors import i32, vector


def oracle(dst: Array, *, src: Array, index_offset: int = 0, padding_val: int = -1, **_: Any) -> Array:
    """Indices, padding and count for every 16th partition; the others stay. Reference: nki.isa.nonzero_with_count."""
    result, source = rows(dst).copy(), rows(src)
    for p in range(0, dst.shape[0], 16):
        found = [i for i in range(source.shape[1]) if source[p, i] != 0]
        listed = [(i + index_offset + 2**31) % 2**32 - 2**31 for i in found]
        result[p] = [*listed, *[padding_val] * (source.shape[1] - len(found)), len(found)]
    return result.reshape(dst.shape)


_row = np.array([0, 1, 1, 0, 0, 1, 0, 0], np.float32)
_tile = np.zeros((17, 8), np.float32)
_tile[0], _tile[1], _tile[16] = _row, 1, [-0.0, np.nan, -3, np.inf, 1e-42, 0, 0, 7]
_before = np.full((17, 9), -99, np.int32)
_after = _before.copy()
_after[0] = [17, 18, 21, 8, 8, 8, 8, 8, 3]
_after[16] = [17, 18, 19, 20, 23, 8, 8, 8, 5]
VECTORS = [
    # The worked example.
    vector(i32(17, 18, 21, -1, -1, -1, -1, -1, 3), src=_row[None], index_offset=16, padding_val=-1),
    vector(_after, dst=_before, src=_tile, index_offset=16, padding_val=8),
    vector(i32(2**31 - 1, -(2**31), 2), src=i32(-(2**31), 2), index_offset=2**31 - 1),
]
