"""Looking for extreme and for equal elements of each partition, with NumPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EIGHT: Final = 8
NOWHERE: Final = 0xFFFFFFFF


def top8(array: Array) -> Array:
    """The eight largest elements of each row of a float32 array, in descending order.

    The order is of numbers, with -0 below +0, and every NaN, which becomes the canonical one, above them: so the
    result is the same whatever the algorithm.
    """
    words = array.view(np.int32) if array.flags.c_contiguous else np.ascontiguousarray(array).view(np.int32)
    keys = np.where(np.isnan(array), 0x7FC00000, words ^ ((words >> 31) & 0x7FFFFFFF)).astype(np.int32)
    best = np.sort(keys, axis=1)[:, : -EIGHT - 1 : -1]
    return np.ascontiguousarray(best ^ ((best >> 31) & 0x7FFFFFFF)).view(np.float32)


def find(array: Array, wanted: Array, last_first: bool) -> Array:
    """Column in ``array`` of each of the eight elements of the same row of ``wanted``, or :data:`NOWHERE`.

    Each place is given away once. Among equal wanted elements the first (the last, if ``last_first``) comes first.
    """
    positions = np.full(wanted.shape, NOWHERE, np.uint32)
    order = range(EIGHT)[::-1] if last_first else range(EIGHT)
    with np.errstate(invalid="ignore"):
        for row in range(array.shape[0]):
            taken: dict[float, int] = {}
            for number in order:
                value = float(wanted[row, number])
                places = np.flatnonzero(array[row] == value)
                count = taken[value] = taken.get(value, 0) + 1
                if count <= len(places):
                    positions[row, number] = places[count - 1]
    return positions
