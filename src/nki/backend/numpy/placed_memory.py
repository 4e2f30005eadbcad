"""Memory with tiles at their placement: in the bytes of SBUF and PSUM, which tiles may share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from nki.backend.numpy.memory import Bytes, Memory, SharedBytes
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target


class PlacedMemory(Memory):
    """SBUF and PSUM as they are, a row of bytes for each partition; other tensors have a block of their own.

    A tile lies at its placement (first partition, byte offset), or at the address that its kernel gave it; one that has
    neither has a block of its own. Unwritten bytes have all bits set, which is NaN, or -1.
    """

    def __init__(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> None:
        super().__init__()
        self._placement = placement
        pitches = {Buffer.sbuf: target.sbuf_partition_bytes, Buffer.psum: target.psum_partition_bytes}
        self._shared = {buffer: SharedBytes(target.partitions, pitch) for buffer, pitch in pitches.items()}

    def other_core(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> Self:
        """The memory of another core of the launch: an SBUF and a PSUM of its own, and the same tensors in HBM."""
        other = type(self)(target, placement)
        other.share(self)
        return other

    def home(self, tensor: Tensor) -> Tensor | SharedBytes:
        return tensor if self._place(tensor) is None else self._shared[tensor.buffer]

    def address(self, access: Access) -> tuple[int, tuple[int, ...]]:
        place = self._place(access.tensor)
        if place is None:
            return super().address(access)
        first = place[0] * self._shared[access.buffer].pitch + place[1]
        strides = tuple([self._displacement(access, step) for step in access.strides])
        return first + self._displacement(access, access.offset), strides

    def _block(self, tensor: Tensor) -> Bytes:
        home = self.home(tensor)
        return home.array if isinstance(home, SharedBytes) else super()._block(tensor)

    def _place(self, tensor: Tensor) -> tuple[int, int] | None:
        """The first partition and the byte offset of ``tensor``; None if it has a block of its own."""
        return (self._placement.get(tensor) or tensor.address) if tensor.buffer in self._shared else None

    def _displacement(self, access: Access, elements: int) -> int:
        """Bytes between two elements of the tensor of ``access`` that are ``elements`` apart in it."""
        # Any dimension may step over partitions: MX instructions take their scales from four partitions in 32.
        partitions, columns = divmod(abs(elements), access.partition_step)
        distance = partitions * self._shared[access.buffer].pitch + columns * access.dtype.itemsize
        return distance if elements >= 0 else -distance


__all__ = ["PlacedMemory"]
