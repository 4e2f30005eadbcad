"""nki.isa.bn_stats (Vector Engine).

Chosen where the reference is silent: "even" and "odd" are positions counted from 0 in memory order; a single element
leaves the odd half empty, with count, mean and variance * count all 0.

A one-pass (Welford) evaluation in float32 keeps the bound, and so do two passes; the difference of the mean square and
the squared mean does not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import numerics, verdict
from .numerics import Array
from .tile import rows
from .vectors import f32, vector

TOLERANCE = (
    "mean n * 2**-24 * mean |x|; variance * count 2 n * 2**-24 * sqrt(sum x**2 * variance * count); counts exact"
)
_U = 2.0**-24


def _half(values: list[float]) -> tuple[list[float], list[float]]:
    """(count, mean, variance * count) and the error allowed on each."""
    n = len(values)
    if n == 0:
        return [0.0] * 3, [0.0] * 3
    mean = math.fsum(values) / n
    spread = math.fsum((v - mean) ** 2 for v in values)
    squares = math.fsum(v * v for v in values)
    off = (n + 2) * _U * math.fsum(abs(v) for v in values) / n
    return [n, mean, spread], [0.0, off, 2 * n * _U * math.sqrt(squares * spread) + n * off * off + 4 * _U * spread]


def _stats(data: Array) -> tuple[Array, Array]:
    values: list[list[float]] = []
    errors: list[list[float]] = []
    for row in numerics.read(rows(data)).tolist():
        even, odd = _half(row[0::2]), _half(row[1::2])
        values.append(even[0] + odd[0])
        errors.append(even[1] + odd[1])
    return np.array(values), np.array(errors)


def oracle(dst: Array, *, data: Array, **_: Any) -> Array:
    """Count, mean and population variance * count of the even elements, then of the odd ones, of each partition.

    Reference: nki.isa.bn_stats. Inputs are finite.
    """
    return numerics.write(_stats(data)[0], dst.dtype).reshape(dst.shape)


def bounds(dst: Array, *, data: Array, **_: Any) -> verdict.Bounds:
    return verdict.around(*_stats(data), dst)


VECTORS = [
    vector(f32(3, 3, 8, 2, 15, 50), data=f32(1, 10, 3, 20, 5)),
    vector(f32(1, 7, 0, 0, 0, 0), data=f32(7)),
    vector(f32([[1, 4, 0], [1, -4, 0]], [[1, 2, 0], [1, 2, 0]]), data=f32([4, -4], [2, 2])),
]
