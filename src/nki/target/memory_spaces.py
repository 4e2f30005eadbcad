"""The memories of a core, SBUF and PSUM, as one partition sees them, and layouts that all generations share.

The constants are for code that has no target: the layout of data that an instruction's semantics, an access or a
program in text form describes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from nki.target.model import GEN4, Target

LANES: Final = GEN4.partitions
"""Lanes of an engine, one for each partition."""
QUADRANT: Final = GEN4.quadrant_partitions
"""Partitions of a quadrant. A tile of at most as many starts at any quadrant."""
GPSIMD_CORE: Final = GEN4.gpsimd_core_partitions
"""Partitions that one of GpSimd's eight cores reaches."""
OFFSET_GROUP: Final = GEN4.offset_group_partitions
"""Partitions that share a list of run-time offsets, except on the Tensor engine."""
TENSOR_OFFSET_GROUP: Final = GEN4.tensor_offset_group_partitions
"""Partitions that share a list of run-time offsets on the Tensor engine."""
MX_SCALE_PARTITIONS: Final = GEN4.mx_scale_partitions
"""Partitions that share a scale of an MX format."""
VECTOR_RNG_WORDS: Final = GEN4.vector_rng_words
"""Words of 32 bits that the random number generators of a lane of the Vector engine keep."""
ACCESS_PATTERN_DIMS: Final = GEN4.access_pattern_dims
"""Dimensions of an access pattern on chip, the partitions among them."""
GPSIMD_DMA_ELEMENTS: Final = GEN4.gpsimd_dma_elements
"""Elements per partition that GpSimd's own DMA moves."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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


@lru_cache(32)
def memory_spaces(target: Target) -> tuple[MemorySpace, MemorySpace]:
    """SBUF and PSUM of ``target``."""
    sbuf, psum, count = target.sbuf_partition_bytes, target.psum_partition_bytes, target.partitions
    return (
        MemorySpace("sbuf", sbuf, target.sbuf_usable_partition_bytes, target.sbuf_align_bytes, count),
        MemorySpace("psum", psum, psum, target.psum_bank_bytes, count),
    )


def start_partitions(target: Target, partitions: int) -> tuple[int, ...]:
    """Partitions at which a tile of this many partitions may start on ``target``."""
    for most, allowed in target.start_partitions:
        if partitions <= most:
            return allowed
    return (0,)
