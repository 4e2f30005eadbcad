"""nki.collectives.collective_permute among one rank."""

from __future__ import annotations

from typing import Any

from .among_one import among_one, copies
from .numerics import Array
from .vectors import f32, u32


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, srcs: list[Array], dsts: list[Array], pairs: Any, **_: Any) -> Any:
    """The one rank receives from itself, each channel for itself."""
    assert pairs == ((0, 0),)
    return copies(srcs, dsts)


VECTORS = [
    among_one(f32([1, -2], [3, 4]), srcs=[f32([1, -2], [3, 4])], pairs=((0, 0),)),
    among_one(u32(0x7F800001), f32(1), srcs=[u32(0x7F800001), f32(1)], pairs=((0, 0),)),
]
