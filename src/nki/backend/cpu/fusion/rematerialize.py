"""Rematerialisation: instructions run again where their results are read, which is cheaper than to keep these.

A broadcast, a constant, or an operator on one tile and a column takes less than a tile that one loop writes and a later
one reads. A copy of such an instruction stands directly before the reader, writes what the tile has already, and shares
the reader's loop; the tile then has no memory, unless something else reads it. The ``origin`` of a copy is the
instruction that it repeats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from nki.analysis.uses import StatementUses
from nki.backend.cpu.fusion.fusion_check import FusionStage
from nki.backend.cpu.fusion.group import is_same_window
from nki.backend.cpu.fusion.parts import Size, Window, is_cheap, is_sum, sizes_of
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import covers_tensor
from nki.transforms.rewriter import Body, Edit, never_written, seen_by_others

_MOST: Final = 3
"""Instructions that are repeated for one operand."""


@dataclass(frozen=True)
class Rematerialize(FusionStage):
    """Repeat cheap instructions before those that read their results."""

    name: ClassVar[str] = "rematerialize"

    def edits(self, body: Body, core: CoreProgram, program: Program) -> Sequence[Edit]:
        seen = seen_by_others(program)
        fixed = never_written(core, program.signature).difference(program.shared())
        repeats = _Repeats(body, seen, fixed)
        repeats.find()
        return [(reader, reader, [_copy(body[n]) for n in found]) for reader, found in repeats.before.items()]


def _copy(inst: Statement) -> Inst:
    assert isinstance(inst, Inst)
    copy = inst.with_operands({})
    copy.origin = inst
    return copy


class _Repeats:
    """The instructions of one body that run again.

    Others than the core read the tensors in ``seen``; the ones in ``fixed`` never change.
    """

    def __init__(self, body: Body, seen: Collection[Tensor], fixed: Collection[Tensor]) -> None:
        self._body, self._seen, self._fixed = body, seen, fixed
        self._sizes = sizes_of(body)
        self._starts: list[int] = []
        """For each position, the first of its neighbours of one size."""
        for position, size in enumerate(self._sizes):
            self._starts.append(self._starts[-1] if position and size == self._sizes[position - 1] else position)
        self._writers: dict[Window, int] = {}
        """The last write of each window by an instruction with a size, so far."""
        self._renewed: set[tuple[Window, int]] = set()
        """Windows that repeated instructions write, each with the start of the reader's neighbours."""
        self._kept: dict[Tensor, bool] = {}
        self.before: dict[int, list[int]] = {}
        """By position of a reader, in order, the positions of the instructions that run again before it."""

    def find(self) -> None:
        """Look for windows that are read by other neighbours than those that have computed them."""
        writers = self._writers
        for position, size in enumerate(self._sizes):
            if size is None:
                continue
            inst = self._body[position]
            assert isinstance(inst, Inst)
            start, target = self._starts[position], None
            for access, reads, writes in inst.uses():
                window = access.tensor, access.offset
                if reads and writers.get(window, start) < start and (window, start) not in self._renewed:
                    self._repeat(access, position, start, size)
                if writes:
                    target = window
            if target is not None:
                writers[target] = position

    def _repeat(self, access: Access, reader: int, start: int, size: Size) -> None:
        """Run the instructions again that compute what ``reader`` reads, unless it must be in memory.

        ``start`` is the first of the reader's neighbours.
        """
        found: list[int] = []
        if self._add(access, reader, size, found):
            self.before.setdefault(reader, []).extend(sorted(found))
            self._renewed.update((_target(self._body[number]), start) for number in found)

    def _add(self, access: Access, reader: int, size: Size, found: list[int]) -> bool:
        """Add the instruction that writes ``access`` last, and the ones with results that it finds in registers."""
        position = self._writers[access.tensor, access.offset]
        inst = self._body[position]
        assert isinstance(inst, Inst)
        (target,) = inst.writes()
        if not is_same_window(target, access) or self._sizes[position] != size or len(found) == _MOST:
            return False
        tensor = target.tensor
        if tensor in self._seen or tensor.buffer not in (Buffer.sbuf, Buffer.psum) or not covers_tensor(target):
            return False
        if self._is_kept(tensor) or self._uses.is_changed(tensor, position + 1, reader - 1):
            return False
        if not is_cheap(inst):
            return False
        found.append(position)
        return all(self._stays(source, position, reader, size, found) for source in inst.reads())

    def _stays(self, source: Access, position: int, reader: int, size: Size, found: list[int]) -> bool:
        """True if ``reader`` would read of ``source`` what the instruction at ``position`` has read.

        What neighbours of the instruction have written is in registers, so they run again, too.
        """
        if source.tensor in self._seen and source.tensor not in self._fixed:
            return False
        before = self._writers.get((source.tensor, source.offset), -1)
        if self._starts[position] <= before < position:
            return before in found or self._add(source, reader, size, found)
        return not self._uses.is_changed(source.tensor, position, reader - 1)

    def _is_kept(self, tensor: Tensor) -> bool:
        """True if a statement that is no part of a group reads ``tensor``."""
        if tensor not in self._kept:
            self._kept[tensor] = any(not self._may_be_part(n, tensor) for n in self._uses.readers[tensor])
        return self._kept[tensor]

    def _may_be_part(self, reader: int, tensor: Tensor) -> bool:
        """True if ``reader`` has a size, or is a sum directly behind the neighbours that compute ``tensor``."""
        end = reader
        while end >= 0 and self._is_sum(end):
            end -= 1
        if end == reader or end < 0 or self._sizes[end] is None:
            return self._sizes[reader] is not None
        writers = self._uses.writers[tensor]
        number = bisect_left(writers, reader)
        return number > 0 and writers[number - 1] >= self._starts[end]

    def _is_sum(self, position: int) -> bool:
        inst = self._body[position]
        return isinstance(inst, Inst) and is_sum(inst)

    @cached_property
    def _uses(self) -> StatementUses:
        return StatementUses(self._body)


def _target(statement: Statement) -> Window:
    assert isinstance(statement, Inst)
    (target,) = statement.writes()
    return target.tensor, target.offset
