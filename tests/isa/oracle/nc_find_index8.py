"""nki.isa.nc_find_index8 (Vector Engine).

Written as hardware that sees each element once would do it: the element belongs to the first of the eight values that
it equals and that has no place yet. Chosen where the reference is silent: values are compared as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .tile import rows
from .vectors import u8, u16, vector

NOWHERE = 0xFFFFFFFF


def stream(data: Array, vals: Array, order: Sequence[int]) -> list[list[int]]:
    """The place of each value in its row, given to equal values in ``order``."""
    found: list[list[int]] = []
    for row, wanted in zip(numerics.read(rows(data)).tolist(), numerics.read(rows(vals)).tolist(), strict=True):
        places = [NOWHERE] * 8
        for place, element in enumerate(row):
            free = [n for n in order if places[n] == NOWHERE and wanted[n] == element]
            if free:
                places[free[0]] = place
        found.append(places)
    return found


def oracle(dst: Array, *, data: Array, vals: Array, **_: Any) -> Array:
    """Places counted from 0, all ones for values that are not there. Reference: nki.isa.nc_find_index8."""
    found = np.array(stream(data, vals, range(8)), np.uint64)
    return np.minimum(found, np.iinfo(dst.dtype).max).astype(dst.dtype).reshape(dst.shape)


def _vector(
    want: list[int], data: list[float], vals: list[float], kind: str = "uint32"
) -> tuple[dict[str, Any], Array]:
    arguments = {"data": np.array([data], np.float32), "vals": np.array([vals], np.float32)}
    return {"dst": np.zeros((1, 8), kind), **arguments}, np.array([want], kind)


VECTORS = [
    _vector([7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0]),
    # Duplicates advance; one more than there are is nowhere.
    _vector([1, 3, 4, NOWHERE, 0, 2, 5, 6], [5, 8, 1, 8, 8, 2, 3, 9], [8, 8, 8, 8, 5, 1, 2, 3]),
    _vector([0xFFFF] * 7 + [0], [1, 2, 3, 4, 5, 6, 7, 8], [9, -1, 0, 1.5, 10, np.inf, np.nan, 1], "uint16"),
    _vector([0, 2] + [NOWHERE] * 6, [0, np.nan, -0.0, 1, 2, 3, 4, 5], [-0.0, 0, np.nan] + [-9] * 5),
    # Only the row counts, not how it is arranged.
    vector(
        u16([7, 0, 1, 2, 3, 4, 5, 6], [7, 65535, 65535, 65535, 0, 65535, 1, 65535]),
        data=np.arange(16, dtype=np.int32).reshape(2, 2, 4),
        vals=u8([[7, 0], [1, 2], [3, 4], [5, 6]], [[15, 0], [1, 2], [8, 4], [9, 9]]),
    ),
]
