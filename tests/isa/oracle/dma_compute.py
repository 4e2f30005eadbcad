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

TOLERANCE = None


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
_TOP = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
_PAIR = np.full((2, 2), 10, np.float32)

VECTORS = [
    # In float32 throughout: bfloat16 has 256 and 258, and would stay at 256 by adding 1 twice.
    (
        {
            "dst": np.zeros((1, 2), _bf16),
            "srcs": [np.array([[256, 1]], _bf16), np.array([[1], [1]], _bf16), np.array([[1, -4]], np.int32)],
        },
        np.array([[258, -2]], np.float32).astype(_bf16),
    ),
    # First to last: (2**24 + 1) + 1 stays 2**24, 1 + 1 + 2**24 does not.
    (
        {"dst": np.zeros((1, 1), np.float32), "srcs": [np.array([[v]], np.float32) for v in (2**24, 1, 1)]},
        np.array([[2**24]], np.float32),
    ),
    (
        {"dst": np.zeros((1, 1), np.float32), "srcs": [np.array([[v]], np.float32) for v in (1, 1, 2**24)]},
        np.array([[2**24 + 2]], np.float32),
    ),
    (
        {"dst": _TOP, "srcs": [_TOP, _PAIR], "dst_rows": np.array([[2], [0]], np.uint32)},
        np.array([[11, 12], [3, 4], [15, 16]], np.float32),
    ),
    (
        {"dst": _PAIR, "srcs": [_TOP, _PAIR], "srcs_rows": np.array([[1], [3]], np.int32), "oob_mode": "skip"},
        np.array([[13, 14], [10, 10]], np.float32),
    ),
]
VECTORS = [({**asked, "reduce_op": "add"}, want) for asked, want in VECTORS]
