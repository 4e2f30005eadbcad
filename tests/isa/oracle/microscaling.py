"""MX formats, a second time: packed words, scales and where those lie.

Packed tiles are arrays of words; the name of their dtype comes beside them. Sources: OCP Microscaling Formats
Specification (e2m1, e8m0); MXFP guide, "Data Tensor" and "Scale Tensor"; Trainium3 architecture guide, figures of the
scale layout.
"""

from __future__ import annotations

import numpy as np

from . import numerics
from .numerics import Array, Format

FOUR_BITS = Format(2, 1, 1, 7, None, 0)
"""e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; every code is a number."""
ELEMENTS = {
    "float8_e4m3fn_x4": numerics.FORMATS["float8_e4m3fn"],
    "float8_e5m2_x4": numerics.FORMATS["float8_e5m2"],
    "float4_e2m1fn_x4": FOUR_BITS,
}


def numbers(words: Array, name: str) -> Array:
    """(partitions, elements, 4) numbers; the first is in the lowest bits."""
    form = ELEMENTS[name]
    width = 1 + form.exponent + form.mantissa
    flat = words.reshape(words.shape[0], -1).astype(np.int64)
    codes = np.stack([(flat >> (width * part)) & ((1 << width) - 1) for part in range(4)], axis=-1)
    return numerics.decode(codes, form)


def words(values: Array, name: str) -> Array:
    """The packed words of (partitions, elements, 4) numbers."""
    form = ELEMENTS[name]
    codes = numerics.encode(values, form)
    width = 1 + form.exponent + form.mantissa
    total = sum(codes[..., part] << (width * part) for part in range(4))
    return np.asarray(total).astype(np.uint16 if width == 4 else np.uint32)


def row_of(group: int) -> int:
    """The partition, from the first of the scales on, of the scale of partitions 8 * group to 8 * group + 7."""
    quadrant, place = divmod(group, 4)
    return 32 * quadrant + place


def factors(scale: Array, partitions: int) -> Array:
    """(partitions, elements) factors from a tile of scales."""
    codes = scale.reshape(scale.shape[0], -1).view(np.uint8).astype(np.int64)
    rows = [codes[row_of(p // 8)] for p in range(partitions)]
    picked = np.stack(rows)
    return np.where(picked == 255, np.nan, np.ldexp(1.0, picked - 127))
