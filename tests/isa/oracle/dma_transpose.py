"""nki.isa.dma_transpose.

Chosen where the reference is silent: columns of the result with a skipped index keep their contents; an index is
out of bounds below 0 too.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .numerics import Array
from .vectors import f32, i32, u32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, src: Array, src_rows: Array | None = None, oob_mode: str = "error", **_: Any) -> Array:
    """``dst[k, …, i] = src[i, …, k]``: for 2 dimensions [1, 0], for 3 [2, 1, 0], for 4 [3, 1, 2, 0].

    ``src_rows`` (P, N) makes it a gather: row i of what is transposed is row ``src_rows.T.ravel()[i]`` of ``src``.
    Reference: nki.isa.dma_transpose, the permutation rules, "DMA Indirect Transpose Constraints".
    """
    result = dst.copy()
    count = dst.shape[-1]
    chosen = (
        range(count)
        if src_rows is None
        else [int(src_rows[i % len(src_rows), i // len(src_rows)]) for i in range(count)]
    )
    for column, row in enumerate(chosen):
        if not 0 <= row < src.shape[0]:
            if oob_mode == "skip":
                continue
            raise IndexError(f"row {row} of {src.shape[0]}")
        for last in range(dst.shape[0]):
            result[last, ..., column] = src[row, ..., last]
    return result


_bf16 = ml_dtypes.bfloat16
_TABLE = np.arange(40 * 2, dtype=np.float32).astype(_bf16).reshape(40, 2)
_ROWS = np.array([[3], [0], [39], [7], *[[1]] * 11, [5]], np.uint32)
_WANT = [[6, 0, 78, 14, *[2] * 11, 10], [7, 1, 79, 15, *[3] * 11, 11]]
_MANY = np.arange(256, dtype=np.uint32).reshape(128, 2)[::-1] % 40

VECTORS = [
    vector(f32([0, 3], [1, 4], [2, 5]), src=np.arange(6, dtype=np.float32).reshape(2, 3)),
    # Three dimensions: the one in the middle stays.
    vector(i32([[0], [2], [4]], [[1], [3], [5]]), src=np.arange(6, dtype=np.int32).reshape(1, 3, 2)),
    # Four: both in the middle stay, in their order. Element (a, b, c, d) of src is 1000 a + 100 b + 10 c + d.
    vector(
        i32([[[0, 1000], [10, 1010], [20, 1020]]], [[[1, 1001], [11, 1011], [21, 1021]]]),
        src=i32([[[0, 1], [10, 11], [20, 21]]], [[[1000, 1001], [1010, 1011], [1020, 1021]]]),
        axes=[3, 1, 2, 0],
    ),
    # Bits move: a signalling NaN survives.
    vector(u32([0x7F800001], [0x80000000]).view(np.float32), src=u32(0x7F800001, 0x80000000).view(np.float32)),
    # A gather, one index outside: its column stays what it was.
    vector(np.array(_WANT, np.float32).astype(_bf16), dst=np.full((2, 16), 9, _bf16), src=_TABLE, src_rows=_ROWS),
    vector(
        np.array([[9 if w in (78, 79) else w for w in line] for line in _WANT], np.float32).astype(_bf16),
        dst=np.full((2, 16), 9, _bf16),
        src=_TABLE,
        src_rows=np.where(_ROWS == 39, 40, _ROWS).astype(np.uint32),
        oob_mode="skip",
    ),
    # Two columns of indices: down the first, then down the second.
    vector(_TABLE[[*_MANY[:, 0], *_MANY[:, 1]]].T.copy(), src=_TABLE, src_rows=_MANY),
]
