"""Areas of placed tiles: a range of partitions by a range of bytes, with the overlap test for two tiles."""

from __future__ import annotations

from typing import NamedTuple

from nki.ir.types import Access, Tensor


class TileArea(NamedTuple):
    """The bytes ``byte_range`` of each partition in ``partitions``."""

    partitions: range
    byte_range: range

    @classmethod
    def of(cls, tensor: Tensor) -> TileArea:
        """The area of a tile that the user has placed."""
        assert tensor.address is not None, f"'{tensor.name}' has no address"
        partition, byte = tensor.address
        size = tensor.free_size * tensor.dtype.itemsize
        return cls(range(partition, partition + tensor.shape[0]), range(byte, byte + size))

    def overlaps(self, other: TileArea) -> bool:
        """True if both areas share a byte."""
        return _overlap(self.partitions, other.partitions) and _overlap(self.byte_range, other.byte_range)

    def covers(self, other: TileArea) -> bool:
        """True if every byte of ``other`` is in this area."""
        return all(a.start <= b.start and b.stop <= a.stop for a, b in zip(self, other, strict=True))

    def slices_in(self, other: TileArea) -> tuple[slice, slice]:
        """The part of this area that lies in ``other``, counted from the first partition and byte of ``other``."""
        rows, columns = (
            slice(max(a.start, b.start) - b.start, min(a.stop, b.stop) - b.start)
            for a, b in zip(self, other, strict=True)
        )
        return rows, columns

    def hull(self, access: Access) -> tuple[TileArea, bool]:
        """The smallest area with all bytes of ``access``, from the area of its tile; True if it has no other bytes."""
        size, pitch = access.dtype.itemsize, access.partition_step
        row, column = divmod(access.offset, pitch)
        down = sum(step // pitch * (count - 1) for step, count in access.pattern() if step % pitch == 0)
        along = sum(step * (count - 1) for step, count in access.pattern() if step % pitch)
        top, left = self.partitions.start + row, self.byte_range.start + column * size
        part = TileArea(range(top, top + down + 1), range(left, left + (along + 1) * size))
        return part, access.size * size == len(part.partitions) * len(part.byte_range)


def _overlap(one: range, two: range) -> bool:
    return one.start < two.stop and two.start < one.stop
