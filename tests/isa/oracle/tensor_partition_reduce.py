"""nki.isa.tensor_partition_reduce (GpSimd Engine).

Chosen where the reference is silent: ``average`` is the sum divided by the number of partitions; integers are summed in
float32 or exactly (the bound admits both); the order of the additions is open.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import rows
from .vectors import f32, i32, u8, vector

TOLERANCE = "add, average: partitions * 2**-24 * sum of magnitudes (any order of addition); the rest exact"
_SUMS = ("add", "average")


def _sum(data: Array, op: str) -> tuple[Array, Array, Array]:
    """The real sum (or mean) over partitions, the error of a float32 sum in any order, and where it may overflow."""
    values = numerics.read(rows(data))
    count = values.shape[0]
    with np.errstate(all="ignore"):
        total = np.sum(values, axis=0)
        # Also room for the division, and for integers that float32 cannot hold (exact sums are right as well).
        error = (count + 2) * 2.0**-24 * np.sum(np.abs(values), axis=0)
        finite = np.sum(np.where(np.isfinite(values), np.abs(values), 0.0), axis=0)
    scale = count if op == "average" else 1
    return total / scale, error / scale, verdict.overflows(finite)


def oracle(dst: Array, *, op: str, data: Array, **_: Any) -> Array:
    """The tile folded over its partitions into one. Reference: nki.isa.tensor_partition_reduce."""
    if op in _SUMS:
        return numerics.write(_sum(data, op)[0], dst.dtype).reshape(dst.shape)
    if op in alu.BITVEC:
        bits = alu.pattern(rows(data))
        folded = bits[0]
        for p in range(1, bits.shape[0]):
            folded = alu.bitvec(op, folded, bits[p])
        return alu.store_pattern(folded, dst.dtype).reshape(dst.shape)
    values = numerics.read(rows(data))
    best = values[0]
    for p in range(1, values.shape[0]):
        best = alu.arithmetic({"max": "maximum"}.get(op, op), best, values[p])
    return numerics.write(best, dst.dtype).reshape(dst.shape)


def bounds(dst: Array, *, op: str, data: Array, **_: Any) -> verdict.Bounds | None:
    if op not in _SUMS:
        return None
    total, error, free = _sum(data, op)
    return verdict.around(total, error, dst, free)


_tile = f32([1, -2], [3, 5], [5, 0])
VECTORS = [
    vector(f32(9, 3), op="add", data=_tile),
    vector(f32(3, 1), op="average", data=_tile),
    vector(f32(5, 5), op="maximum", data=_tile),
    vector(i32(2**30 + 5), op="bitwise_or", data=i32([1], [2**30], [4])),
    vector(u8(0x30), op="bitwise_and", data=u8([0xF0], [0x3C])),
]
