"""nki.isa.dma_compute.

Chosen where the reference is silent: the order of additions, first source first; rows that a skipped index leaves out
keep their contents.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics
from .numerics import Array
from .vectors import bf16, f32, i32, u32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return False


def oracle(
    dst: Array,
    *,
    srcs: list[Array],
    dst_rows: Array | None = None,
    srcs_rows: Array | None = None,
    oob_mode: str = "error",
    **_: Any,
) -> Array:
    """``dst = srcs[0] + srcs[1] + …`` in float32, cast once. With rows: ``dst[rows] += tile``, ``dst += table[rows]``.

    Reference: nki.isa.dma_compute, "Data types" and "Read-Modify-Write with vector_offset".
    """
    if dst_rows is None and srcs_rows is None:
        return numerics.write(_sum(srcs), dst.dtype).reshape(dst.shape)
    result = dst.copy()
    rows = dst_rows if dst_rows is not None else srcs_rows
    assert rows is not None
    for partition, row in enumerate(int(i) for i in rows.ravel()):
        place = row if dst_rows is not None else partition
        other = next(a for a in srcs if a.shape != dst.shape)
        limit = len(dst) if dst_rows is not None else len(other)
        if not 0 <= row < limit:
            if oob_mode == "skip":
                continue
            raise IndexError(f"row {row} of {limit}")
        parts = [result[place], other[partition if dst_rows is not None else row]]
        result[place] = numerics.write(_sum(parts), dst.dtype).reshape(result[place].shape)
    return result


def _sum(parts: list[Array]) -> Array:
    total = numerics.read(parts[0]).reshape(-1)
    for part in parts[1:]:
        with np.errstate(all="ignore"):
            total = numerics.round32(total + numerics.read(part).reshape(-1))
    return total


_bf16 = ml_dtypes.bfloat16
_TOP = f32([1, 2], [3, 4], [5, 6])
_PAIR = np.full((2, 2), 10, np.float32)
_ADD = {"reduce_op": "add"}
VECTORS = [
    # In float32 throughout: bfloat16 has 256 and 258, and would stay at 256 by adding 1 twice.
    vector(f32(258, -2).astype(_bf16), _ADD, srcs=[bf16(256, 1), bf16([1], [1]), i32(1, -4)]),
    # First to last: (2**24 + 1) + 1 stays 2**24, 1 + 1 + 2**24 does not.
    vector(f32(2**24), _ADD, srcs=[f32(v) for v in (2**24, 1, 1)]),
    vector(f32(2**24 + 2), _ADD, srcs=[f32(v) for v in (1, 1, 2**24)]),
    vector(f32([11, 12], [3, 4], [15, 16]), _ADD, dst=_TOP, srcs=[_TOP, _PAIR], dst_rows=u32([2], [0])),
    vector(f32([13, 14], [10, 10]), _ADD, dst=_PAIR, srcs=[_TOP, _PAIR], srcs_rows=i32([1], [3]), oob_mode="skip"),
]
