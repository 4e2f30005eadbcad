"""Eliminate copies that only move data between HBM and a tile: compute reads the input, or writes the output, directly.

On the chip a tile must be loaded before an engine can touch it; a CPU reads the caller's array as well. Two kinds of
DMA are redundant there:

- a tile that a copy of an input or a constant (which never change) fills: its readers read the source;
- a tile that only a copy to an output reads: its writers write the output, provided that one of them certainly
  writes all of the tile, and that in between no other instruction touches these bytes of the output and no core waits
  for others.

A tensor in HBM that only the core sees counts as a tile: a row that goes to all partitions passes through one.

An instruction that writes all of a tile begins its contents anew, also if it reads the old ones: both rules hold for
the contents up to there, or from there on, by themselves.

A copy that converts stays, and so does one that the user has ordered, and one with an access that cannot be followed
through the strides of the other side. An instruction keeps its operand if its declaration does not accept the new
layout (:attr:`~nki.ir.effects.Effects.layout`). What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.analysis.uses import Use, Uses, fills, uses_of
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import has_dense_rows, in_window, is_all, may_overlap
from nki.target.model import Target
from nki.transforms.rewriter import Rewriter, RewritingStage, never_written, plain_copies

FEW_ROWS: Final = 16
"""Rows of results up to which a product reads its moving operand where it lies."""
_Place = tuple[int, tuple[int, ...]]
"""Offset from the first element of the window that takes the place of a tile, and strides there."""


@dataclass(frozen=True)
class EliminateCopies(RewritingStage):
    """Remove redundant copies."""

    name: ClassVar[str] = "copy_elimination"
    about: ClassVar[tuple[str, ...]] = ("copy",)

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without redundant copies."""
        has_others = len(program.cores) > 1
        elimination = _Elimination(core, program.signature, program.shared())
        if not elimination.tiles:
            return core
        return core.with_body(elimination.run(_meetings(core) if has_others else ()))


class _Elimination:
    """The elimination of copies in one core. Other cores use the internal tensors in ``shared``."""

    def __init__(self, core: CoreProgram, signature: Signature, shared: Collection[Tensor]) -> None:
        self.core = core
        self.copies = plain_copies(core.body)
        """The plain copies that are left, by position."""
        copied = dict.fromkeys(access.tensor for copy in self.copies.values() for access in copy)
        self.tiles = [tensor for tensor in copied if tensor.buffer is Buffer.sbuf or _is_own(tensor, shared)]
        """The tiles, and the core's own tensors in HBM, that plain copies fill or read: no other one can change."""
        self.sources = never_written(core, signature)
        outputs = set(signature.outputs).difference(signature.inputs)
        self.uses = uses_of(core.body, [*self.tiles, *outputs] if self.tiles else ())
        self.outputs = outputs.intersection(self.uses)
        self.rewriter = Rewriter(core.body)
        self._places: dict[tuple[object, ...], _Place | None] = {}
        """The results of :func:`_place` by form of the instruction, and by what else they depend on."""

    def run(self, meetings: Sequence[int]) -> list[Statement]:
        """The statements that are left; at ``meetings`` the core waits for another one."""
        for tile in self.tiles:
            uses = self.uses.get(tile)
            if uses is not None and uses.writes and uses.reads:
                self._forward_load(tile, uses)
                if uses.writes and uses.reads:
                    self._forward_store(tile, uses, meetings)
        return self.rewriter.statements()

    def _forward_load(self, tile: Tensor, uses: Uses) -> None:
        """Remove the load that fills ``tile`` first, if those who read what it loads can read the source."""
        writes, reads = uses.writes, uses.reads
        load = writes[0][0]
        copy = self.copies.get(load)
        if copy is None or copy.src.tensor not in self.sources:
            return
        end = writes[1][0] if len(writes) > 1 else len(self.core.body)
        if not load < reads[0][0] <= end or self._moved(reads[0], copy.src) is None:  # as most loads of products
            return
        if not _moves_all(copy.dst, copy.src):
            return
        if len(writes) > 1 and (_updates(uses, end) or not fills(self.rewriter.body[end], tile)):
            return
        readers = reads[: bisect_right(reads, end, key=_position)]
        if self._redirect(readers, copy.src):
            self._remove(load)
            del writes[0], reads[: len(readers)]

    def _forward_store(self, tile: Tensor, uses: Uses, meetings: Sequence[int]) -> None:
        """Remove the store that alone reads the last contents of ``tile``, if their writers can write its target."""
        store = uses.reads[-1][0]
        copy = self.copies.get(store)
        if copy is None or copy.dst.tensor not in self.outputs or not _moves_all(copy.src, copy.dst):
            return
        writers = self._last_writers(tile, uses)
        if not writers or _updates(uses, first := writers[0][0]) or _between(meetings, first, store):
            return
        of_output = self.uses[copy.dst.tensor]
        for each in (of_output.writes, of_output.reads):
            between = each[bisect_left(each, first, key=_position) : bisect_left(each, store, key=_position)]
            if any(may_overlap(access, copy.dst) for _, _, access in between):
                return
        if self._redirect(writers, copy.dst):
            self._remove(store)

    def _last_writers(self, tile: Tensor, uses: Uses) -> list[Use]:
        """The writes of the last contents of ``tile``: the first one fills it; empty if these contents have other
        readers than the last one.
        """
        writes, reads = uses.writes, uses.reads
        earliest = reads[-2][0] if len(reads) > 1 else 0  # these contents do not begin before
        if writes[-1][0] >= reads[-1][0]:
            return []
        for position, _, _ in reversed(writes):
            if position < earliest:
                break
            if fills(self.rewriter.body[position], tile):
                return writes[bisect_left(writes, position, key=_position) :]
        return []

    def _redirect(self, uses: Sequence[Use], target: Access) -> bool:
        """Let operands be in ``target``, which has the elements of their tile; False and no change if one cannot."""
        moved: list[Use] = []
        for use in uses:
            new = self._moved(use, target)
            if new is None:
                return False
            moved.append(new)
        if not self.rewriter.replace(moved):
            return False
        for position, _, _ in moved:
            if position in self.copies and (copy := self.rewriter.inst(position).as_copy()) is not None:
                self.copies[position] = copy
        return True

    def _moved(self, use: Use, target: Access) -> Use | None:
        """The same elements in ``target``, for an operand that is in a tile; None if it cannot be there."""
        position, number, access = use
        if access.dtype is not target.dtype:
            return None
        inst = self.rewriter.inst(position)
        key = inst.form, number, access.offset, target.form
        try:
            place = self._places[key]
        except KeyError:
            place = self._places[key] = _place(inst, number, access, target)
        if place is None:
            return None
        offset, strides = place
        return position, number, Access(target.tensor, target.offset + offset, access.shape, strides, access.dtype)

    def _remove(self, position: int) -> None:
        self.rewriter.put(position, None)
        del self.copies[position]


def _position(use: Use) -> int:
    return use[0]


def _is_own(tensor: Tensor, shared: Collection[Tensor]) -> bool:
    """True for an internal tensor in HBM that is not ``shared``: only the core can see it."""
    return tensor.buffer.is_hbm and not tensor.role and tensor.data is None and tensor not in shared


def _meetings(core: CoreProgram) -> list[int]:
    """Positions at which ``core`` waits for another one, which may use what both share."""

    def is_one(inst: Inst) -> bool:
        barrier, exchange = inst.as_barrier(), inst.as_exchange()
        return (barrier is not None and barrier.cores != (core.rank,)) or (
            exchange is not None and exchange.to != core.rank
        )

    if not any(effects.barrier or effects.exchange for effects in core.effects):
        return []
    return [
        n
        for n, statement in enumerate(core.body)
        if (is_one(statement) if isinstance(statement, Inst) else any(map(is_one, instructions(statement.body))))
    ]


def _moves_all(own: Access, other: Access) -> bool:
    """True if a copy between the tile of ``own`` and ``other`` moves all of the tile unchanged."""
    return own.dtype is other.dtype is other.tensor.dtype and is_all(own)


def _updates(uses: Uses, position: int) -> bool:
    """True if an operand of the instruction at ``position`` is read and written."""
    of_both = [
        each[bisect_left(each, position, key=_position) : bisect_right(each, position, key=_position)]
        for each in (uses.reads, uses.writes)
    ]
    return any(use in of_both[1] for use in of_both[0])


def _between(positions: Sequence[int], first: int, end: int) -> bool:
    """True if one of ``positions``, which are in order, is at least ``first`` and less than ``end``."""
    return bisect_left(positions, first) < bisect_left(positions, end)


def _place(inst: Inst, number: int, access: Access, target: Access) -> _Place | None:
    """The place in ``target`` of operand ``number``, which is in a tile with the same elements; None: it has none."""
    place = in_window(access, target)
    if place is None or inst.effects.accumulation is None or place[1] == access.strides:
        return place
    # The matrix product is tuned for tiles: rows that lie far apart in the caller's array cost more than the copy.
    followed = Access(target.tensor, target.offset + place[0], access.shape, place[1], access.dtype)
    return place if _is_read_once(inst, number) and has_dense_rows(followed) else None


def _is_read_once(inst: Inst, number: int) -> bool:
    """True if a product reads the operand once: the moving one for few rows, the stationary one for a single column.

    Then its copy costs more than rows that lie far apart.
    """
    name = inst.operands()[number][0].name
    if name == inst.effects.moving:
        return all(to.partitions <= FEW_ROWS for to in inst.writes())
    return name == inst.effects.stationary and all(to.free_elements == 1 for to in inst.writes())
