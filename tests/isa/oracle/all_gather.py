"""nki.collectives.all_gather among one rank."""

from __future__ import annotations

from typing import Any

from .among_one import among_one, copies
from .numerics import Array
from .vectors import f32, i8, u32


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, srcs: list[Array], dsts: list[Array], **_: Any) -> Any:
    """Each destination becomes its source."""
    return copies(srcs, dsts)


VECTORS = [
    among_one(f32([1, -2], [3, 4]), srcs=[f32([1, -2], [3, 4])], collective_dim=0),
    among_one(u32(0x7F800001), i8(-128, 127), srcs=[u32(0x7F800001), i8(-128, 127)], collective_dim=0),
]
