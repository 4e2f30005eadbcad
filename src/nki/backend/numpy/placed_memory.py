"""Memory whose tiles lie at their placement: in the bytes of SBUF and PSUM, which tiles may share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nki.backend.numpy.memory import Bytes, Memory
from nki.ir.layout import Address, PartitionLayout
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target


class _MemoryRows(PartitionLayout):
    """The layout of tiles in the memories of a target: each partition is a row of the memory."""

    def __init__(self, target: Target) -> None:
        self.rows = {Buffer.sbuf: target.sbuf_partition_bytes, Buffer.psum: target.psum_partition_bytes}

    def pitch(self, tensor: Tensor) -> int:
        return self.rows[tensor.buffer]


class PlacedMemory(Memory):
    """SBUF and PSUM as they are, a row of bytes for each partition; other tensors have a block of their own.

    A tile lies at its placement (first partition, byte offset), or at the address that its kernel gave it; one that has
    neither has a block of its own. Unwritten bytes have all bits set, which is NaN, or -1.
    """

    def __init__(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> None:
        super().__init__()
        self._placement = placement
        self._rows = _MemoryRows(target)
        self._bytes = {b: np.full(target.partitions * row, 0xFF, np.uint8) for b, row in self._rows.rows.items()}

    def other_core(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> PlacedMemory:
        """The memory of another core of the launch: an SBUF and a PSUM of its own, and the same tensors in HBM."""
        other = PlacedMemory(target, placement)
        other._blocks, other._borrowed = self._blocks, self._borrowed
        return other

    def address(self, access: Access) -> Address[Bytes]:
        tensor = access.tensor
        place = self._placement.get(tensor) or tensor.address
        if place is None or tensor.buffer not in self._bytes:
            return super().address(access)
        displacement = self._rows.displacement
        first = place[0] * self._rows.pitch(tensor) + place[1]
        strides = tuple([displacement(access, step) for step in access.strides])
        return Address(self._bytes[tensor.buffer], first + displacement(access, access.offset), strides)


__all__ = ["PlacedMemory"]
