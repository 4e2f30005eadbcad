"""Rematerialisation: instructions run again where their results are read, which is cheaper than to keep these.

A broadcast, a constant, or an operator on one tile and a column takes less than a tile that one loop writes and a later
one reads. A copy of such an instruction stands directly before the reader, writes what the tile has already, and shares
the reader's loop; the tile then has no memory, unless somebody else reads it. The ``origin`` of a copy is the
instruction that it repeats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from nki.backend.cpu.fusion.components import Past, Place, Range, components
from nki.backend.cpu.fusion.facts import Facts, Size, facts
from nki.backend.cpu.fusion.group import is_same_window
from nki.base import knobs
from nki.ir.access_overlap import covers_tensor
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement, While, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target

_LOOPS: Final = frozenset({For, While})
_MOST: Final = 3
"""Instructions that are repeated for one operand."""


@dataclass(frozen=True)
class Rematerialize(CoreStage):
    """Repeat cheap instructions before those that read their results."""

    name: ClassVar[str] = "rematerialize"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with copies of instructions before their readers."""
        shared = program.shared() if len(program.cores) > 1 else ()
        seen = {*program.inputs, *program.outputs, *shared}
        fixed = {*program.inputs, *core.constants()}.difference(program.outputs, shared)
        body = _with_copies(core.body, facts(), seen, fixed)
        return core if body is core.body else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Without copies, the instructions are those of before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        for old, core in zip(before.cores, after.cores, strict=True) if knobs.check_stages() else ():
            repeated = copies_in([*core.instructions()])
            kept = [inst for inst in core.instructions() if id(inst) not in repeated]
            same = len(kept) == sum(1 for _ in old.instructions())
            assert same and all(one is two for one, two in zip(kept, old.instructions(), strict=True)), self.name


def copies_in(insts: Sequence[Statement]) -> set[int]:
    """The ids of the copies among instructions: their origin is one of these, too."""
    with_origin = [inst for inst in insts if isinstance(inst, Inst) and inst.origin is not None]
    every = set(map(id, insts)) if with_origin else set[int]()
    return {id(inst) for inst in with_origin if id(inst.origin) in every}


def _with_copies(
    body: tuple[Statement, ...], facts: Facts, seen: Collection[Tensor], fixed: Collection[Tensor]
) -> tuple[Statement, ...]:
    """``body`` with copies of instructions before their readers; the same object if there are none."""
    before = _Repeats(body, facts, seen, fixed).before
    result: list[Statement] = []
    is_changed = bool(before)
    for position, statement in enumerate(body) if before or not _LOOPS.isdisjoint(map(type, body)) else ():
        for number in before.get(position, ()):
            source = body[number]
            assert isinstance(source, Inst)
            copy = source.with_operands({}, source.form())
            copy.origin = source
            result.append(copy)
        if not isinstance(statement, Inst):
            inner = _with_copies(statement.body, facts, seen, fixed)
            if inner is not statement.body:
                statement, is_changed = replace(statement, body=inner), True
        result.append(statement)
    return tuple(result) if is_changed else body


@dataclass(frozen=True, slots=True)
class _Uses:
    """The positions at which each tensor may be written, and the tensors that are read where no group is.

    A tile that a sum reads directly behind the group that computes it is not among these: that sum may be part of it.
    """

    writes: dict[Tensor, list[int]]
    kept: set[Tensor]

    def was_written(self, tensor: Tensor, start: int) -> bool:
        """True if the last write of ``tensor`` so far is at ``start`` or later."""
        return self.writes.get(tensor, [-1])[-1] >= start


class _Repeats:
    """The instructions of one body that run again.

    Others than the core read the tensors in ``seen``, of which those in ``fixed`` never change.
    """

    def __init__(
        self, body: Sequence[Statement], facts: Facts, seen: Collection[Tensor], fixed: Collection[Tensor]
    ) -> None:
        self._body, self._facts, self._seen, self._fixed = body, facts, seen, fixed
        self._found_uses: _Uses | None = None
        self.before: dict[int, list[int]] = {}
        """By position of a reader, the positions of the instructions that run again before it."""
        self._renewed: set[tuple[Place, int]] = set()
        """Windows that such instructions write, each with the start of the reader's neighbours."""
        self._past = Past(self._note)
        components(body, facts, self._past)

    def _note(self, access: Access, reader: int, size: Size) -> None:
        """Look for the instructions that compute the window that a ``reader`` reads."""
        renewed = (access.tensor, access.offset), self._past.starts[-1]
        if renewed not in self._renewed and (found := self._repeated(access, reader, size)):
            self.before.setdefault(reader, []).extend(found)
            self._renewed.update((_target(self._body[number]), renewed[1]) for number in found)

    def _repeated(self, access: Access, reader: int, size: Size) -> list[int]:
        """The positions of the instructions that compute what the ``reader`` reads; empty if it must be in memory."""
        found: list[int] = []
        return sorted(found) if self._add(access, reader, size, found) else []

    def _add(self, access: Access, reader: int, size: Size, found: list[int]) -> bool:
        """Add the instruction that writes ``access`` last, and those whose results it finds in registers."""
        position = self._past.writers[access.tensor, access.offset]
        inst = self._body[position]
        assert isinstance(inst, Inst)
        (target,) = inst.writes()
        if not is_same_window(target, access) or self._facts.size(inst) != size or len(found) == _MOST:
            return False
        tensor = target.tensor
        if tensor in self._seen or tensor.buffer not in (Buffer.sbuf, Buffer.psum) or not covers_tensor(target):
            return False
        if tensor in self._uses().kept or self._changes(tensor, position, reader) or not self._facts.is_cheap(inst):
            return False
        found.append(position)
        return all(self._stays(source, (position, reader), size, found) for source in inst.reads())

    def _stays(self, source: Access, places: Range, size: Size, found: list[int]) -> bool:
        """True if a reader would read of ``source`` what an instruction has read; ``places``: those of both.

        What neighbours of the instruction have written is in registers, so they run again, too.
        """
        position, reader = places
        if source.tensor in self._seen and source.tensor not in self._fixed:
            return False
        starts, before = self._past.starts, self._past.writers.get((source.tensor, source.offset))
        if before is not None and starts[bisect_right(starts, position) - 1] <= before < position:
            return before in found or self._add(source, reader, size, found)
        return not self._changes(source.tensor, position - 1, reader)

    def _changes(self, tensor: Tensor, first: int, end: int) -> bool:
        """True if a statement between those two positions may write ``tensor``."""
        writes = self._uses().writes.get(tensor, ())
        number = bisect_right(writes, first)
        return number < len(writes) and writes[number] < end

    def _uses(self) -> _Uses:
        """The uses of tensors, found when they are first asked for."""
        if self._found_uses is None:
            found = self._found_uses = _Uses({}, set())
            start, size, is_summed = 0, None, False
            for position, statement in enumerate(self._body):
                own = self._facts.size(statement)
                is_inst = isinstance(statement, Inst)
                is_sum = False
                if own is None:
                    reads = [access.tensor for access in (statement.reads() if is_inst else touched(statement))]
                    is_sum = size is not None and is_inst and self._facts.is_sum(statement)
                    found.kept.update(tensor for tensor in reads if not (is_sum and found.was_written(tensor, start)))
                if not is_sum and (is_summed or own != size):
                    start, size = position, own
                is_summed = is_sum
                for access in statement.writes() if is_inst else touched(statement):
                    found.writes.setdefault(access.tensor, []).append(position)
        return self._found_uses


def _target(statement: Statement) -> Place:
    assert isinstance(statement, Inst)
    (target,) = statement.writes()
    return target.tensor, target.offset
