"""nki.isa.max8 (Vector Engine).

Chosen where the reference is silent: NaN is larger than every number and -0 smaller than 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .tile import rows
from .vectors import bf16, by_position, f32


def _rank(value: float) -> tuple[bool, float, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1.0, value)


def oracle(dst: Array, *, src: Array, **_: Any) -> Array:
    """The eight largest of each partition, descending, read as float32. Reference: nki.isa.max8."""
    best = [sorted(row, key=_rank, reverse=True)[:8] for row in numerics.read(rows(src)).tolist()]
    return numerics.write(np.array(best), dst.dtype).reshape(dst.shape)


_vector = by_position("src")
VECTORS = [
    _vector(f32(9, 8, 7, 6, 5, 4, 3, 2), np.arange(10, dtype=np.float32)[None]),
    _vector(f32(8, 8, 8, 4, 3, 2, 1, 0), f32(8, 1, 8, 3, 2, 8, 0, -1, 4)),
    # Two free dimensions, two partitions, another dtype.
    _vector(
        bf16([9, 8, 7, 6, 5, 4, 3, 2], [19, 18, 17, 16, 15, 14, 13, 12]), np.arange(20, dtype=np.int32).reshape(2, 2, 5)
    ),
    _vector(f32(np.nan, np.inf, 1, 0, -0.0, -1, -2, -np.inf), f32(-0.0, -np.inf, 0, np.nan, 1, -1, -2, np.inf)),
]
