"""nki.isa.nc_match_replace8 (Vector Engine).

As ``nc_find_index8``, but among equal values the last comes first. Chosen where the reference is silent: an
element that was replaced is not looked at again, even if ``imm`` is one of the values (the NumPy code of an older
reference would find it; hardware that sees each element once would not); the place of a value that is not there is all
ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import nc_find_index8, numerics
from .numerics import Array
from .tile import rows
from .vectors import f32, i8, u16, u32, vector

NOWHERE = nc_find_index8.NOWHERE


def copies_bits(dst: Array, *, data: Array, **_: Any) -> bool:
    return dst.dtype == data.dtype


def oracle(
    dst: Array, *, data: Array, vals: Array, imm: float, dst_idx: Array | None = None, **_: Any
) -> Array | tuple[Array, Array]:
    """``data`` with the matched places set to ``imm``, and these places. Reference: nki.isa.nc_match_replace8."""
    places = nc_find_index8.stream(data, vals, range(7, -1, -1))
    result = rows(numerics.convert(data, dst.dtype)).copy()
    constant = numerics.write(np.array([imm], np.float64), dst.dtype)[0]
    for row, found in zip(result, places, strict=True):
        for place in found:
            if place != NOWHERE:
                row[place] = constant
    if dst_idx is None:
        return result.reshape(dst.shape)
    index = np.minimum(np.array(places, np.uint64), np.iinfo(dst_idx.dtype).max).astype(dst_idx.dtype)
    return result.reshape(dst.shape), index.reshape(dst_idx.shape)


_inf = np.inf
_data = f32(1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8)
_index = np.zeros((1, 8), np.uint32)
_base = {"data": _data, "vals": f32(3, 8, 8, 8, 8, 8, 8, 8), "imm": 0.0, "dst_idx": _index}
VECTORS = [
    # The worked example of the reference.
    vector((f32(1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0), u32(2, 10, 9, 8, 7, 6, 5, 4)), _base),
    # The first match goes to the last of equal values; two of them stay without.
    vector(
        (
            f32(-_inf, -_inf, -_inf, -_inf, -_inf, 2, -_inf, 9, 7, 6).reshape(1, 2, 5),
            u16(65535, 4, 3, 1, 0, 2, 65535, 6),
        ),
        data=f32(5, 8, 1, 8, 8, 2, 3, 9, 7, 6).reshape(1, 2, 5),
        vals=f32(8, 8, 8, 8, 5, 1, 77, 3),
        imm=-_inf,
        dst_idx=np.zeros((1, 8), np.uint16),
    ),
    # Sorting runs out of numbers: equal fill values get places of their own.
    vector(
        (np.full_like(_data, -_inf), u32(7, 6, 5, 4, 3, 2, 1, 0)),
        _base,
        data=np.full_like(_data, -_inf),
        vals=np.full((1, 8), -_inf, np.float32),
        imm=-_inf,
    ),
    # The 0 that takes the place of 2 is not the 0 that is looked for.
    vector(
        (f32(0, 0, 1), u32([1, 0] + [NOWHERE] * 6)),
        data=f32(2, 0, 1),
        vals=f32(0, 2, 9, 9, 9, 9, 9, 9),
        imm=0.0,
        dst_idx=_index,
    ),
    vector(i8(4, 127, 4), data=f32(2.5, 300, 1), vals=f32(2.5, *[1] * 7), imm=3.5),
]
