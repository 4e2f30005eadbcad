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
from .vectors import f32, i16, u32, vector


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


_data = f32([[1.0, 2.0], [3.0, -0.0]], [[5.0, np.inf], [7.0, 8.0]])
VECTORS = [
    vector(f32([-0.0, 1, 1], [np.inf, 7, 8]), data=_data, indices=u32([3, 0, 0], [1, 2, 3])),
    vector(i16(30, 0x5A5A, 0x5A5A, 10), data=i16(10, 20, 30), indices=u32(2, 3, 2**32 - 1, 0)),
]
