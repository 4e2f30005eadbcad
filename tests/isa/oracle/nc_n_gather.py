"""nki.isa.nc_n_gather (GpSimd Engine).

Chosen where the reference leaves it undefined: an index outside the partition gives what fresh memory holds, which is
NaN in floats, bytes of 0x5A in integers and False.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .tile import rows

TOLERANCE = None


def copies_bits(_dst: Array, **_: Any) -> bool:
    return True


def nothing(dtype: Any) -> Array:
    """One element that nothing wrote."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return np.zeros(1, kind)
    whole = kind.kind in "iu"
    return np.frombuffer(b"\x5a" * kind.itemsize, kind) if whole else numerics.write(np.array([np.nan]), kind)


def oracle(dst: Array, *, data: Array, indices: Array, **_: Any) -> Array:
    """Each element by its number within the flattened partition. Reference: nki.isa.nc_n_gather."""
    source, numbers = rows(data), rows(indices)
    result = np.repeat(nothing(dst.dtype), dst.size).reshape(numbers.shape)
    for p in range(numbers.shape[0]):
        inside = numbers[p] < source.shape[1]
        result[p, inside] = source[p, numbers[p, inside].astype(np.int64)]
    return result.reshape(dst.shape)


_data = np.array([[[1.0, 2.0], [3.0, -0.0]], [[5.0, np.inf], [7.0, 8.0]]], np.float32)
VECTORS = [
    (
        {"dst": np.zeros((2, 3), np.float32), "data": _data, "indices": np.array([[3, 0, 0], [1, 2, 3]], np.uint32)},
        np.array([[-0.0, 1, 1], [np.inf, 7, 8]], np.float32),
    ),
    (
        {
            "dst": np.zeros((1, 4), np.int16),
            "data": np.array([[10, 20, 30]], np.int16),
            "indices": np.array([[2, 3, 2**32 - 1, 0]], np.uint32),
        },
        np.array([[30, 0x5A5A, 0x5A5A, 10]], np.int16),
    ),
]
