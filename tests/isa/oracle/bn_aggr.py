"""nki.isa.bn_aggr (Vector Engine).

Chosen where the reference is silent: an empty triple (count 0) adds nothing; with no elements at all anything goes.
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
    "k triples: mean (k + 4) * 2**-24 * sum c|m| / sum c; variance likewise, with room for the differences of means"
)
_U = 2.0**-24


def _merge(row: list[float]) -> tuple[list[float], list[float]]:
    """Mean and population variance of all elements behind the triples, and the error allowed on each."""
    triples = [(c, m, v) for c, m, v in zip(row[0::3], row[1::3], row[2::3], strict=True) if c != 0.0]
    count = math.fsum(c for c, _, _ in triples)
    if count == 0.0:
        return [math.nan] * 2, [0.0] * 2
    mean = math.fsum(c * m for c, m, _ in triples) / count
    between = math.fsum(c * (m - mean) ** 2 for c, m, _ in triples)
    within = math.fsum(v for _, _, v in triples)
    squares = math.fsum(c * m * m for c, m, _ in triples)
    k = len(triples) + 4
    off = k * _U * math.fsum(c * abs(m) for c, m, _ in triples) / count
    blur = 4 * k * _U * math.sqrt(squares * between) + k * _U * (within + between)
    return [mean, (within + between) / count], [off, blur / count + off * off]


def oracle(dst: Array, *, data: Array, **_: Any) -> Array:
    """Mean and variance from any number of (count, mean, variance * count) triples per partition.

    Reference: nki.isa.bn_aggr.
    """
    values = [_merge(row)[0] for row in numerics.read(rows(data)).tolist()]
    return numerics.write(np.array(values), dst.dtype).reshape(dst.shape)


def bounds(dst: Array, *, data: Array, **_: Any) -> verdict.Bounds:
    merged = [_merge(row) for row in numerics.read(rows(data)).tolist()]
    values = np.array([m[0] for m in merged])
    return verdict.around(values, np.array([m[1] for m in merged]), dst, np.isnan(values))


VECTORS = [
    # The bn_stats example: 1, 3, 5 and 10, 20. Mean 39 / 5 = 7.8; variance 535 / 5 - 7.8**2 = 46.16.
    vector(f32(7.8, 46.16), data=f32(3, 3, 8, 2, 15, 50)),
    vector(f32(7, 0), data=f32(1, 7, 0, 0, 0, 0)),
    # Four halves of two tiles, unequal counts: 0, 2 / 4 / 6, 6 / (empty).
    vector(f32(3.6, 5.44), data=f32([[2, 1, 2], [1, 4, 0]], [[2, 6, 0], [0, 0, 0]]).reshape(1, 4, 3)),
]
