"""The fix of views that step backwards, which no instruction takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nki.ir.types import Buffer


def reversal(name: str, buffer: Buffer, dim: int, pattern: Sequence[tuple[int, int]], start: int) -> str:
    """Code that reverses dimension ``dim`` of the tensor ``name`` in a view with the ``pattern``; its free
    dimensions begin at element ``start`` of a partition.

    Elements of a partition are gathered by their numbers; rows are loaded by theirs.
    """
    (_, rows), *free = pattern
    if dim == 0:
        place = "" if buffer.is_hbm else "copy it to HBM, and "
        return (
            f"{place}load rows by their numbers, up to 128 at a time: `index` is a ({rows}, 1) tile of uint32, "
            f"`nisa.iota(index, pattern=[[0, 1]], offset={rows - 1}, channel_multiplier=-1)`; then "
            f"`{name}.vector_select(0, index)`"
        )
    steps = ", ".join(f"[{step}, {count}]" for step, count in free)
    shape = (rows, math.prod(count for _, count in free))
    verb = {Buffer.sbuf: "", Buffer.psum: "copy it to SBUF as `tile`; "}.get(buffer, "load it as `tile`; ")
    tile = "tile" if verb else name
    return (
        f"reverse elements of a partition by their numbers: {verb}`index` is a {shape} tile of uint32, "
        f"`nisa.iota(index, pattern=[{steps}], offset={start})`; then `nisa.nc_n_gather(dst, {tile}, index)`"
    )


__all__ = ["reversal"]
