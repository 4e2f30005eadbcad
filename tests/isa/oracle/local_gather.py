"""nki.isa.local_gather (GpSimd Engine).

An index counts elements, not runs of ``num_elem_per_idx`` of them: the reference's example multiplies its indices by
that number first. Undefined elements are chosen as for nc_n_gather.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .nc_n_gather import nothing
from .numerics import Array
from .tile import rows
from .vectors import vector


def copies_bits(_dst: Array, **_: Any) -> bool:
    return True


def oracle(
    dst: Array,
    *,
    src_buffer: Array,
    index: Array,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    **_: Any,
) -> Array:
    """Each group of 16 partitions has one list of offsets, read partition by partition within each column.

    Reference: nki.isa.local_gather.
    """
    source, numbers = rows(src_buffer), rows(index)
    result = np.repeat(nothing(dst.dtype), dst.size).reshape(source.shape[0], -1)
    for first in range(0, source.shape[0], 16):
        group = slice(first, first + 16)
        listed = numbers[group].T.ravel()[:num_valid_indices].astype(np.int64)
        wanted = (listed[:, None] + np.arange(num_elem_per_idx)).ravel()
        inside = wanted < source.shape[1]
        result[group, inside] = source[group][:, wanted[inside]]
    return result.reshape(dst.shape)


_source = np.arange(32 * 8, dtype=np.int32).reshape(32, 8)
_index = np.zeros((32, 2), np.uint16)
_index[0], _index[1], _index[2] = (3, 5), (1, 6), (0, 7)  # listed as 3, 1, 0, …, then 5, 6, 7, …
_index[16], _index[17] = (7, 0), (8, 0)
_first = np.array([[p * 8 + n for n in (3, 1, 0)] for p in range(16)])
_second = np.array([[p * 8 + 7, 0x5A5A5A5A, p * 8] for p in range(16, 32)])
_runs = np.array([[p * 8 + n for n in (3, 4, 1, 2, 0, 1)] for p in range(16)])
VECTORS = [
    vector(
        np.concatenate([_first, _second]).astype(np.int32),
        src_buffer=_source,
        index=_index,
        num_elem_per_idx=1,
        num_valid_indices=3,
    ),
    vector(
        _runs.astype(np.int32).reshape(16, 3, 2),
        src_buffer=_source[:16].reshape(16, 4, 2),
        index=_index[:16],
        num_elem_per_idx=2,
        num_valid_indices=3,
    ),
    vector(
        np.array([[p * 8 + n for n in (3, 1, 0, *[0] * 13, 5, 6, 7, *[0] * 13)] for p in range(16)], np.int32),
        src_buffer=_source[:16],
        index=_index[:16],
    ),
]
