"""Tiles that the user placed: which of them lie on the same bytes, and what a write to one does to the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.ir.access_bounds import byte_window
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.shadow import Trace

_BUCKET: Final = {Buffer.sbuf: 8192, Buffer.psum: 2048}
"""Bytes of a partition whose tiles are looked through together."""


class Area:
    """The bytes of a placed tile: partitions and the bytes in each of them."""

    __slots__ = ("bytes_", "partitions")

    def __init__(self, partitions: range, bytes_: range) -> None:
        self.partitions = partitions
        self.bytes_ = bytes_

    def meets(self, other: Area) -> bool:
        """Whether a byte is in both."""
        return _meet(self.partitions, other.partitions) and _meet(self.bytes_, other.bytes_)

    def holds(self, other: Area) -> bool:
        """Whether all bytes of ``other`` are in this one."""
        mine, its = (self.partitions, self.bytes_), (other.partitions, other.bytes_)
        return all(a.start <= b.start and b.stop <= a.stop for a, b in zip(mine, its, strict=True))


def _meet(one: range, two: range) -> bool:
    return one.start < two.stop and two.start < one.stop


def area_of(tensor: Tensor) -> Area:
    """All of a placed tile."""
    assert tensor.address is not None
    partition, byte = tensor.address
    size = tensor.bytes_per_partition
    return Area(range(partition, partition + tensor.shape[0]), range(byte, byte + size))


class Places:
    """The placed tiles of a kernel."""

    def __init__(self) -> None:
        self._live: dict[tuple[Buffer, int], dict[Tensor, Trace]] = {}
        """Those that hold something, by the buckets that they lie in."""
        self._areas: dict[Tensor, Area] = {}
        self._traces: dict[Tensor, Trace] = {}

    def written(self, trace: Trace, access: Access, time: int) -> None:
        """``access`` is written at ``time``: other tiles lose what they have there."""
        tensor = access.tensor
        area = self._enter(trace)
        rivals = {
            other: its
            for bucket in self._buckets(tensor, area)
            for other, its in bucket.items()
            if other is not tensor and area.meets(self._areas[other])
        }
        if not rivals:
            return
        part, dense = _extent(access, area)
        for other, its in rivals.items():
            theirs = self._areas[other]
            if not part.meets(theirs):
                continue
            if dense and part.holds(theirs):
                its.bury(time, tensor)
            elif dense:
                its.bury_block(*_cut(part, theirs), time, tensor)
            else:
                self._bury_bytes(its, access, area, time)
            if its.gone():
                for bucket in self._buckets(other, theirs):
                    bucket.pop(other, None)

    def beneath(self, tensor: Tensor, chosen: NDArray[np.bool_]) -> tuple[Tensor, int] | None:
        """Of the other tiles that hold something at the chosen bytes of ``tensor`` the one written last, and when."""
        area = area_of(tensor)
        rows = chosen.reshape(tensor.shape[0], -1)
        found, latest = None, 0
        for other, its in self._traces.items():
            theirs = self._areas[other]
            if other is tensor or other.buffer is not tensor.buffer or not area.meets(theirs):
                continue
            times = its.bytewise()[_cut(area, theirs)][rows[_cut(theirs, area)]]
            time = int(times.max(initial=0))
            if time > latest:
                found, latest = other, time
        return None if found is None else (found, latest)

    def _enter(self, trace: Trace) -> Area:
        """The area of a tile that holds something from now on."""
        tensor = trace.tensor
        area = self._areas.get(tensor)
        if area is None:
            area = self._areas[tensor] = area_of(tensor)
            self._traces[tensor] = trace
        for bucket in self._buckets(tensor, area):
            bucket[tensor] = trace
        return area

    def _buckets(self, tensor: Tensor, area: Area) -> Iterator[dict[Tensor, Trace]]:
        size = _BUCKET[tensor.buffer]
        for number in range(area.bytes_.start // size, (area.bytes_.stop - 1) // size + 1):
            yield self._live.setdefault((tensor.buffer, number), {})

    def _bury_bytes(self, its: Trace, access: Access, area: Area, time: int) -> None:
        theirs = self._areas[its.tensor]
        mask = np.zeros(access.tensor.nbytes, np.bool_)
        byte_window(mask, access)[...] = True
        chosen = np.zeros((len(theirs.partitions), len(theirs.bytes_)), np.bool_)
        rows, columns = _cut(area, theirs)
        own_rows, own_columns = _cut(theirs, area)
        chosen[rows, columns] = mask.reshape(len(area.partitions), -1)[own_rows, own_columns]
        its.bury_bytes(chosen, time, access.tensor)


def _cut(part: Area, whole: Area) -> tuple[slice, slice]:
    """Where ``part`` lies in ``whole``, counted from its first partition and byte."""
    cuts: list[slice] = []
    for mine, its in ((part.partitions, whole.partitions), (part.bytes_, whole.bytes_)):
        cuts.append(slice(max(mine.start, its.start) - its.start, min(mine.stop, its.stop) - its.start))
    return cuts[0], cuts[1]


def _extent(access: Access, area: Area) -> tuple[Area, bool]:
    """The smallest area with all bytes of ``access``, whose tile has ``area``; whether it has no others."""
    size, pitch = access.dtype.itemsize, access.partition_step
    row, column = divmod(access.offset, pitch)
    down = sum(step // pitch * (count - 1) for step, count in access.pattern() if step % pitch == 0)
    along = sum(step * (count - 1) for step, count in access.pattern() if step % pitch)
    top, left = area.partitions.start + row, area.bytes_.start + column * size
    part = Area(range(top, top + down + 1), range(left, left + (along + 1) * size))
    return part, access.size * size == len(part.partitions) * len(part.bytes_)
