"""Overwrites of live values: the user has placed tiles on the same bytes, and one loses what is still read.

The program is visited once in order, loops twice (an iteration reads what the one before has left), with the owner of
each byte of memory. The analysis is exact except for what only a run tells: an access at a run-time index counts as its
whole tile, and a write that may leave bytes as they were does not define any. The paths with and without the iterations
of a loop that may not run are joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from nki.analysis.byte_sets import ByteSet
from nki.analysis.tile_areas import TileArea
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Tensor

_UNKNOWN_OWNER = -1
"""Owner of bytes that their tile has lost on one path, and may or may not have written anew on another."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Overwrite:
    """``writer`` writes ``over`` on bytes of ``victim`` that ``reader`` reads afterwards (or the writer itself)."""

    victim: Tensor
    over: Tensor
    reader: Inst
    writer: Inst


def find_overwrite(core: CoreProgram, placed: Iterable[Tensor]) -> Overwrite | None:
    """The first overwrite of a live value among tiles that the user has placed in one memory; None if there is none."""
    tiles = list(dict.fromkeys(placed))
    areas = {tensor: TileArea.of(tensor) for tensor in tiles}
    tiles = [t for t in tiles if any(areas[t].overlaps(areas[other]) for other in tiles if other is not t)]
    return _Ownership(tiles, areas).visit_body(core.body) if tiles else None


class _Ownership:
    """The tile that owns each byte: the one that wrote there last."""

    def __init__(self, tiles: list[Tensor], areas: dict[Tensor, TileArea]) -> None:
        self.numbers = {tensor: number for number, tensor in enumerate(tiles, 1)}
        self.tiles = tiles
        self.areas = {tensor: areas[tensor] for tensor in tiles}
        partitions, byte_ranges = zip(*self.areas.values(), strict=True)
        rows, columns = _hull(partitions), _hull(byte_ranges)
        self.hull = TileArea(rows, columns)
        self.owner = np.zeros((len(rows), len(columns)), np.int32)
        """Number of the owner of each byte of the hull; 0: none."""
        self.written = {tensor: ByteSet(tensor) for tensor in tiles}
        self.last_writers: dict[int, tuple[Tensor, Inst]] = {}

    def visit_body(self, statements: Iterable[Statement]) -> Overwrite | None:
        for statement in statements:
            overwrite = self.visit(statement) if isinstance(statement, Inst) else self.visit_loop(statement)
            if overwrite is not None:
                return overwrite
        return None

    def visit_loop(self, loop: Loop) -> Overwrite | None:
        for tensor in loop.tensors:
            if tensor in self.numbers:  # loop-local: each run of the loop begins with undefined contents
                self.written[tensor].clear()
        before = None if loop.runs() else (self.owner.copy(), {t: w.copy() for t, w in self.written.items()})
        overwrite = self.visit_body(loop.body) or self.visit_body(loop.body)
        if before is not None:
            self._join(*before)
        return overwrite

    def _join(self, owner: NDArray[np.int32], written: dict[Tensor, ByteSet]) -> None:
        """Join with the path on which the loop does not run, where bytes have the ``owner`` from before the loop."""
        for tensor, number in self.numbers.items():
            now, before = self._of_tile(self.owner, tensor), self._of_tile(owner, tensor)
            held = written[tensor].mask().reshape(tensor.shape[0], -1)
            now[(now == number) & (before != number) & held] = _UNKNOWN_OWNER

    def visit(self, inst: Inst) -> Overwrite | None:
        reads = [access for access in inst.reads() if access.tensor in self.numbers]
        writes = [access for access in inst.writes() if access.tensor in self.numbers]
        overwrite = self._lost(inst, reads)
        if overwrite is None and writes:
            is_definite = not inst.may_leave_unwritten()
            for access in writes:
                self._write(inst, access, is_definite)
            overwrite = self._lost(inst, reads)
        return overwrite

    def _lost(self, inst: Inst, reads: list[Access]) -> Overwrite | None:
        """The overwrite of a byte that ``inst`` reads, if there is one."""
        for access in reads:
            tensor, static = access.tensor, _static(access)
            owners = self._owners(static)
            lost = (owners != self.numbers[tensor]) & byte_window(self.written[tensor].mask(), static)
            if lost.any():
                owner = int(owners[lost].max())
                over, writer = self.last_writers[owner] if owner in self.last_writers else self._rival(tensor)
                return Overwrite(tensor, over, inst, writer)
        return None

    def _rival(self, tensor: Tensor) -> tuple[Tensor, Inst]:
        """A tile that overlaps ``tensor`` and was written, and its last writer."""
        area = self.areas[tensor]
        for other, writer in self.last_writers.values():
            if other is not tensor and area.overlaps(self.areas[other]):
                return other, writer
        raise AssertionError(f"'{tensor.name}' lost bytes to no other tile")

    def _write(self, inst: Inst, access: Access, is_definite: bool) -> None:
        tensor, number, static = access.tensor, self.numbers[access.tensor], _static(access)
        owners, written = self._owners(static), self.written[tensor]
        if is_definite and access.dynamic is None:
            owners[...] = number
        else:
            kept = (owners == number) | ~byte_window(written.mask(), static)
            owners[...] = np.where(kept, number, _UNKNOWN_OWNER)
        written.add(static)
        self.last_writers[number] = (tensor, inst)

    def _of_tile(self, owner: NDArray[np.int32], tensor: Tensor) -> NDArray[np.int32]:
        """The entries of ``owner`` for the bytes of a tile, (partitions, bytes of a partition)."""
        return owner[self.areas[tensor].slices_in(self.hull)]

    def _owners(self, access: Access) -> NDArray[np.int32]:
        """The owners of the bytes of ``access``, in its shape and one dimension more."""
        size, pitch = access.dtype.itemsize, access.partition_step
        row, column = divmod(access.offset, pitch)
        tile, (down, right) = self._of_tile(self.owner, access.tensor), self.owner.strides
        steps = (access.strides[0] // pitch * down, *(step * size * right for step in access.strides[1:]), right)
        return as_strided(tile[row:, column * size :], (*access.shape, size), steps)


def _hull(ranges: Iterable[range]) -> range:
    ranges = list(ranges)
    return range(min(r.start for r in ranges), max(r.stop for r in ranges))


def _static(access: Access) -> Access:
    """``access``, or its whole tensor if a run-time index moves it."""
    return access if access.dynamic is None else Access.whole(access.tensor)
