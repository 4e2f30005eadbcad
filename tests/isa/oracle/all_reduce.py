"""nki.collectives.all_reduce among one rank."""

from __future__ import annotations

from typing import Any

from .among_one import among_one, copies
from .numerics import Array
from .vectors import bf16, f32, i8, u32


def oracle(dst: Array, *, srcs: list[Array], dsts: list[Array], **_: Any) -> Any:
    """Each destination becomes its source: one rank has nothing to reduce."""
    return copies(srcs, dsts)


VECTORS = [
    among_one(f32([1, -2], [3, 4]), srcs=[f32([1, -2], [3, 4])], op="add"),
    among_one(bf16(1.5, 2), i8(-128, 127), srcs=[bf16(1.5, 2), i8(-128, 127)], op="maximum"),
    # Beyond 2**24 integers are exact.
    among_one(u32(2**32 - 1), srcs=[u32(2**32 - 1)], op="minimum"),
]
