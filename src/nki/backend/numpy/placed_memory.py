"""Memory whose tiles lie where they were put: in the bytes of SBUF and PSUM, which tiles may share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nki.backend.numpy.executor import Array, Memory
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target


class PlacedMemory(Memory):
    """SBUF and PSUM as they are, a row of bytes for each partition; other tensors are arrays of their own.

    A tile lies at its place (first partition, byte offset), or at the address that its kernel gave it; one that has
    neither is an array of its own. What nobody has written has all bits set, which is NaN, or -1.
    """

    def __init__(self, target: Target, places: Mapping[Tensor, tuple[int, int]]) -> None:
        super().__init__()
        self._places = places
        self._rows = {Buffer.sbuf: target.sbuf_partition_bytes, Buffer.psum: target.psum_partition_bytes}
        self._bytes = {b: np.full(target.partitions * row, 0xFF, np.uint8) for b, row in self._rows.items()}

    def beside(self, target: Target, places: Mapping[Tensor, tuple[int, int]]) -> PlacedMemory:
        """The memory of another core of the launch: an SBUF and a PSUM of its own, and the same tensors in HBM."""
        other = PlacedMemory(target, places)
        other._arrays, other._lent = self._arrays, self._lent
        return other

    def window(self, access: Access) -> Array:
        """A writable view of what ``access`` addresses, in the shape of the access."""
        tensor = access.tensor
        place = self._places.get(tensor) or tensor.address
        if place is None or tensor.buffer not in self._bytes:
            return super().window(access)
        size, row = access.dtype.itemsize, self._rows[tensor.buffer]
        # Any dimension may go over partitions: MX instructions take their scales from four in 32, say.
        moves = [divmod(step, access.partition_step) for step in (access.offset, *access.strides)]
        start, *steps = [partitions * row + columns * size for partitions, columns in moves]
        words = np.ndarray(
            access.shape,
            f"u{size}",
            self._bytes[tensor.buffer],
            place[0] * row + place[1] + start,
            steps,
        )
        return words.view(access.dtype.plain)


__all__ = ["PlacedMemory"]
