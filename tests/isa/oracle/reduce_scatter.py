"""nki.collectives.reduce_scatter among one rank."""

from __future__ import annotations

from typing import Any

from .among_one import among_one, copies
from .numerics import Array
from .vectors import bf16, f32, u32


def oracle(dst: Array, *, srcs: list[Array], dsts: list[Array], **_: Any) -> Any:
    """The part of the one rank is all of its source."""
    return copies(srcs, dsts)


VECTORS = [
    among_one(f32([1, -2], [3, 4]), srcs=[f32([1, -2], [3, 4])], collective_dim=0, op="add"),
    among_one(bf16(1.5, 2), u32(2**32 - 1), srcs=[bf16(1.5, 2), u32(2**32 - 1)], collective_dim=0, op="maximum"),
]
