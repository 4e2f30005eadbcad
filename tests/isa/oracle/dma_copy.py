"""nki.isa.dma_copy.

Chosen where the reference is silent: rows that a skipped index leaves out keep their contents (gather and scatter);
scattering to one row twice leaves the later one; an index is out of bounds below 0 too.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics
from .numerics import Array
from .vectors import f32, i32, u8, u32, vector


def copies_bits(dst: Array, *, src: Array, **_: Any) -> bool:
    return src.dtype == dst.dtype


def oracle(
    dst: Array,
    *,
    src: Array,
    src_rows: Array | None = None,
    dst_rows: Array | None = None,
    oob_mode: str = "error",
    **_: Any,
) -> Array:
    """Elements in order from ``src`` to ``dst`` (equal counts, any shapes); through float32 if the types differ.

    ``src_rows``/``dst_rows`` are the vector offsets of an indirect gather/scatter: one row number of ``src``/``dst``
    per partition of the other side. Reference: nki.isa.dma_copy, "Data types", "Tile size", "Indirect addressing".
    """
    if src_rows is None and dst_rows is None:
        assert src.size == dst.size
        return numerics.convert(src, dst.dtype).reshape(dst.shape)
    result = dst.copy()
    indices = [int(i) for i in (src_rows if src_rows is not None else dst_rows).ravel()]  # type: ignore[union-attr]
    limit = src.shape[0] if src_rows is not None else dst.shape[0]
    for partition, row in enumerate(indices):
        if not 0 <= row < limit:
            if oob_mode == "skip":
                continue
            raise IndexError(f"row {row} of {limit}")
        source, target = (row, partition) if src_rows is not None else (partition, row)
        result[target] = numerics.convert(src[source], dst.dtype).reshape(dst[target].shape)
    return result


_bf16 = ml_dtypes.bfloat16
VECTORS = [
    # 1 + 2**-8 lies halfway between two bfloat16 numbers: the even one (1.0) wins; 1 + 3 * 2**-8 goes up to 1 + 2**-6.
    vector(
        np.array([0x3F80, 0x3F82, 0x8000, 0x7F80], np.uint16).view(_bf16).reshape(2, 2),
        src=f32(1 + 2**-8, 1 + 3 * 2**-8, -0.0, 3.4e38),
    ),
    # Same type: the bits of a signalling NaN survive.
    vector(u32(0x7F800001, 0x80000001).view(np.float32), src=u32(0x7F800001, 0x80000001).view(np.float32)),
    # int32 to uint8 saturates at both ends; int32 to int32 is exact beyond 2**24.
    vector(u8(0, 255, 255), src=i32(-1, 255, 256)),
    vector(i32(2**24 + 1), src=i32(2**24 + 1)),
    # ... but to another type it goes through float32: 2**24 + 1 is a tie and becomes 2**24.
    vector(u32(2**24), src=i32(2**24 + 1)),
    vector(
        f32([2, 3], [9, 9], [0, 1]),
        dst=np.full((3, 2), 9.0, np.float32),
        src=f32([0, 1], [2, 3]),
        src_rows=u32([1], [7], [0]),
        oob_mode="skip",
    ),
    vector(f32([6], [9], [5]), dst=np.full((3, 1), 9.0, np.float32), src=f32([5], [6]), dst_rows=u32([2], [0])),
]
