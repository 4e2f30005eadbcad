"""nki.collectives.all_to_all among one rank."""

from __future__ import annotations

from typing import Any

from .among_one import among_one, copies
from .numerics import Array
from .vectors import f32, i8


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, srcs: list[Array], dsts: list[Array], **_: Any) -> Any:
    """The part of the one rank is all of its source; a destination may have another shape."""
    return copies(srcs, dsts)


VECTORS = [
    among_one(f32([1, -2], [3, 4]), srcs=[f32([1, -2], [3, 4])], collective_dim=0),
    among_one(f32([1], [2], [3], [4]), i8(-128, 127), srcs=[f32([1, 2], [3, 4]), i8(-128, 127)], collective_dim=0),
]
