"""On-chip memories of a core: SBUF and PSUM, as one partition sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from nki.target.gen4 import GEN4
from nki.target.model import Target

QUADRANT: Final = GEN4.quadrant_partitions
"""Partitions of a quadrant, the same number in every generation. A tile of at most as many starts at any quadrant."""


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """A memory in which tensors are allocated; sizes are bytes per partition.

    ``usable`` is the part of ``size`` that the runtime leaves to a kernel. Tensors start at a multiple of ``align`` and
    take a multiple of it, which in PSUM is a bank (NKI migration guide, Improved allocation API).
    """

    name: Literal["sbuf", "psum"]
    size: int
    usable: int
    align: int
    partitions: int


def memory_spaces(target: Target) -> tuple[MemorySpace, MemorySpace]:
    """SBUF and PSUM of ``target``."""
    sbuf, psum, count = target.sbuf_partition_bytes, target.psum_partition_bytes, target.partitions
    return (
        MemorySpace("sbuf", sbuf, target.sbuf_usable_partition_bytes, target.sbuf_align_bytes, count),
        MemorySpace("psum", psum, psum, target.psum_bank_bytes, count),
    )
