"""Tiles that the user has placed: the ones on the same bytes, and the effect of a write to one on the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from nki.analysis.byte_grid import ByteGrid
from nki.analysis.tile_areas import TileArea
from nki.ir.access_bounds import byte_window
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.shadow import AccessTimes

_BUCKET_BYTES: Final = {Buffer.sbuf: 8192, Buffer.psum: 2048}
"""Bytes of a partition per bucket; a write looks only at tiles in its own buckets."""


class PlacedTiles:
    """The placed tiles of a kernel, and the times of their bytes."""

    def __init__(self) -> None:
        self._live: dict[tuple[Buffer, int], dict[Tensor, AccessTimes]] = {}
        """Tiles with defined bytes, by the buckets that they lie in."""
        self._areas: dict[Tensor, TileArea] = {}
        self._times: dict[Tensor, AccessTimes] = {}
        self._changes = 0
        """Tiles that have come and gone."""
        self._rivals: dict[Tensor, tuple[int, dict[Tensor, AccessTimes]]] = {}
        """For each tile the result of :meth:`_rivals_of`, and the number of changes then."""

    def record_write(self, times: AccessTimes, access: Access, time: int) -> None:
        """``access`` is written at ``time``: other tiles lose their bytes there."""
        tensor = access.tensor
        area = self._enter(times)
        rivals = self._rivals_of(tensor, area)
        if not rivals:
            return
        part, is_dense = area.hull(access)
        top, bottom = part.partitions.start, part.partitions.stop
        left, right = part.byte_range.start, part.byte_range.stop
        for other, other_times in rivals.items():
            other_area = self._areas[other]
            rows, columns = other_area.partitions, other_area.byte_range
            if rows.start >= bottom or top >= rows.stop or columns.start >= right or left >= columns.stop:
                continue
            if is_dense and part.covers(other_area):
                other_times.overwrite(time, tensor)
            elif is_dense:
                other_times.overwrite_block(*part.slices_in(other_area), time, tensor)
            else:
                self._overwrite_bytes(other_times, access, area, time)
            if other_times.is_empty():
                self._changes += 1
                for bucket in self._buckets(other, other_area):
                    bucket.pop(other, None)

    def _rivals_of(self, tensor: Tensor, area: TileArea) -> dict[Tensor, AccessTimes]:
        """The other tiles in bytes of ``tensor`` that have defined bytes."""
        known = self._rivals.get(tensor)
        if known is None or known[0] != self._changes:
            rivals = {
                other: other_times
                for bucket in self._buckets(tensor, area)
                for other, other_times in bucket.items()
                if other is not tensor and area.overlaps(self._areas[other])
            }
            known = self._rivals[tensor] = self._changes, rivals
        return known[1]

    def beneath(self, tensor: Tensor, chosen: ByteGrid) -> tuple[Tensor, int] | None:
        """The tile that was written last at the ``chosen`` bytes of ``tensor``, other than ``tensor``, and the time."""
        area = TileArea.of(tensor)
        rows = chosen.entries().reshape(tensor.shape[0], -1)
        latest_tile, latest = None, 0
        for other, other_times in self._times.items():
            other_area = self._areas[other]
            if other is tensor or other.buffer is not tensor.buffer or not area.overlaps(other_area):
                continue
            times = other_times.times_by_byte()[area.slices_in(other_area)][rows[other_area.slices_in(area)]]
            time = int(times.max(initial=0))
            if time > latest:
                latest_tile, latest = other, time
        return None if latest_tile is None else (latest_tile, latest)

    def _enter(self, times: AccessTimes) -> TileArea:
        """The area of a tile, which has defined bytes from now on."""
        tensor = times.tensor
        area = self._areas.get(tensor)
        if area is None:
            area = self._areas[tensor] = TileArea.of(tensor)
            self._times[tensor] = times
        for bucket in self._buckets(tensor, area):
            if tensor not in bucket:
                self._changes += 1
                bucket[tensor] = times
        return area

    def _buckets(self, tensor: Tensor, area: TileArea) -> Iterator[dict[Tensor, AccessTimes]]:
        size = _BUCKET_BYTES[tensor.buffer]
        for number in range(area.byte_range.start // size, (area.byte_range.stop - 1) // size + 1):
            yield self._live.setdefault((tensor.buffer, number), {})

    def _overwrite_bytes(self, other_times: AccessTimes, access: Access, area: TileArea, time: int) -> None:
        other_area = self._areas[other_times.tensor]
        mask = np.zeros(access.tensor.nbytes, np.bool_)
        byte_window(mask, access)[...] = True
        chosen = np.zeros((len(other_area.partitions), len(other_area.byte_range)), np.bool_)
        rows, columns = area.slices_in(other_area)
        own_rows, own_columns = other_area.slices_in(area)
        chosen[rows, columns] = mask.reshape(len(area.partitions), -1)[own_rows, own_columns]
        other_times.overwrite_bytes(chosen, time, access.tensor)
