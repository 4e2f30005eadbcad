"""nki.isa.tensor_copy_predicated."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .tile import rows
from .vectors import f32, i32, u8, u16, vector


def copies_bits(dst: Array, *, src: Any, **_: Any) -> bool:
    return isinstance(src, np.ndarray)


def oracle(dst: Array, *, src: Any, predicate: Array, reverse_pred: bool = False, **_: Any) -> Array:
    """Where the predicate is not zero (is zero, if reversed) the source, bit for bit; elsewhere what was there.

    A scalar source is cast to the type of ``dst``. Reference: nki.isa.tensor_copy_predicated, "Behavior".
    """
    result = rows(numerics.bits(dst)).copy()
    source = rows(numerics.bits(src)) if isinstance(src, np.ndarray) and src.ndim else None
    constant = numerics.bits(numerics.write(np.array([src]), dst.dtype))[0] if source is None else None
    assert source is None or src.dtype == dst.dtype
    for p, row in enumerate(rows(predicate).tolist()):
        for i, bit in enumerate(row):
            if (bit == 0) == reverse_pred:
                result[p, i] = constant if source is None else source[p, i]
    return result.view(dst.dtype).reshape(dst.shape)


_src = f32(1, 2, 3, 4)
_dst = f32(-1, -2, -3, -0.0)
_pred = u8(0, 1, 255, 0)
VECTORS = [
    vector(f32(-1, 2, 3, -0.0), dst=_dst, src=_src, predicate=_pred),
    vector(f32(1, -2, -3, 4), dst=_dst, src=_src, predicate=_pred, reverse_pred=True),
    vector(f32(-1, 7.5, 7.5, -0.0), dst=_dst, src=7.5, predicate=_pred),
    # Only the high byte of the predicate is set: still true.
    vector(i32(2**31 - 1), dst=i32(5), src=i32(2**31 - 1), predicate=u16(256)),
]
