"""Instructions that run again where their results are read, because that is cheaper than to keep these in memory.

A broadcast, a constant, or an operator on one tile and a column takes less than a tile that one loop writes and a later
one reads. A copy of such an instruction stands directly before the reader, writes what the tile has already, and shares
the reader's loop; the tile then has no memory, unless somebody else reads it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nki.backend.cpu.fusion.chain import Chain, is_same_window
from nki.backend.cpu.fusion.components import Past, Place, Range, Size, Sizes, components
from nki.backend.cpu.fusion.lowering import part_of
from nki.backend.cpu.fusion.riding_sum import sum_of
from nki.backend.cpu.loop_ir.nodes import Assign, loads, subexpressions
from nki.base import dtype as dt
from nki.ir.access_overlap import covers_tensor
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement, While, touched
from nki.ir.types import Access, Buffer, Form, Tensor
from nki.numerics.functions.cost import operations

_LOOPS: Final = frozenset({For, While})
_MOST: Final = 3
"""Instructions that are repeated for one operand."""
_MOST_OPERATORS: Final = 2
"""Operators on an element that take no longer than to write and to read it."""
_MOST_OPERATIONS: Final = 1
"""Operations of each."""


class Repetition:
    """The instructions of one core that run again; the arguments are those of :class:`_Repeats`."""

    def __init__(
        self, sizes: Sizes, seen: Collection[Tensor], fixed: Collection[Tensor], refused: Collection[int] | None
    ) -> None:
        self._sizes, self._seen, self._fixed, self._refused = sizes, seen, fixed, refused
        self.sources: set[int] = set()
        """The ids of the instructions that run again."""
        self.components: dict[int, list[Range]] = {}
        """The components of bodies that stay as they are, by id."""
        self._reader_of: dict[int, int] = {}
        """The id of the reader for which a copy stands in the program, by the copy's id."""

    def of(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """``body`` with copies of instructions before their readers; the same object if there are none.

        Components are noted for bodies that stay.
        """
        repeats = _Repeats(body, self._sizes, self._seen, self._fixed, self._refused)
        before = repeats.before
        result: list[Statement] = []
        is_changed = bool(before)
        for position, statement in enumerate(body) if before or not _LOOPS.isdisjoint(map(type, body)) else ():
            for number in before.get(position, ()):
                source, reader = body[number], statement
                assert isinstance(source, Inst) and isinstance(reader, Inst)
                copy = source.with_operands({}, source.form())
                self.sources.add(id(source))
                self._reader_of[id(copy)] = id(reader)
                result.append(copy)
            if not isinstance(statement, Inst) and (inner := self.of(statement.body)) is not statement.body:
                statement, is_changed = replace(statement, body=inner), True
            result.append(statement)
        if not is_changed:
            self.components[id(body)] = repeats.components
        return tuple(result) if is_changed else body

    def apart(self, body: Sequence[Statement]) -> set[int]:
        """The ids of readers in the fused ``body`` that share no chain with the copies before them."""
        found: set[int] = set()
        for statement in body if self._reader_of else ():
            if isinstance(statement, Chain):
                parts = set(map(id, statement.parts))
                found.update(self._reader_of[part] for part in parts if self._reader_of.get(part, part) not in parts)
            elif not isinstance(statement, Inst):
                found |= self.apart(statement.body)
            elif id(statement) in self._reader_of:
                found.add(self._reader_of[id(statement)])
        return found


@dataclass(frozen=True, slots=True)
class _Uses:
    """The positions at which each tensor may be written, and the tensors that are read where no chain is.

    A tile that a sum reads directly behind the chain that computes it is not among these: that sum may ride along.
    """

    writes: dict[Tensor, list[int]]
    kept: set[Tensor]

    def was_written(self, tensor: Tensor, start: int) -> bool:
        """True if the last write of ``tensor`` so far is at ``start`` or later."""
        return self.writes.get(tensor, [-1])[-1] >= start


class _Repeats:
    """The instructions of one body that run again.

    Others than the core read the tensors in ``seen``, of which those in ``fixed`` never change. Nothing runs again for
    the readers whose ids are in ``refused``, and for no reader if that is None.
    """

    def __init__(
        self,
        body: Sequence[Statement],
        sizes: Sizes,
        seen: Collection[Tensor],
        fixed: Collection[Tensor],
        refused: Collection[int] | None,
    ) -> None:
        self._body, self._size_of = body, sizes
        self._seen, self._fixed, self._refused = seen, fixed, refused
        self._cheap: dict[Form, bool] = {}
        self._rides: dict[Form, bool] = {}
        self._found_uses: _Uses | None = None
        self.before: dict[int, list[int]] = {}
        """By position of a reader, the positions of the instructions that run again before it."""
        self._renewed: set[tuple[Place, int]] = set()
        """Windows that such instructions write, each with the start of the reader's neighbours."""
        self._past = Past(self._note)
        self.components = components(body, sizes, None if refused is None else self._past)
        """The components of the body, without these instructions."""

    def _note(self, access: Access, reader: int, size: Size) -> None:
        """Look for the instructions that compute the window that a ``reader`` reads."""
        renewed = (access.tensor, access.offset), self._past.starts[-1]
        if renewed in self._renewed or self._refused is None or id(self._body[reader]) in self._refused:
            return
        if found := self._repeated(access, reader, size):
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
        if not is_same_window(target, access) or self._size_of(inst) != size or len(found) == _MOST:
            return False
        tensor = target.tensor
        if tensor in self._seen or tensor.buffer not in (Buffer.sbuf, Buffer.psum) or not covers_tensor(target):
            return False
        if tensor in self._uses().kept or self._changes(tensor, position, reader) or not self._is_cheap(inst):
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
                own = self._size_of(statement)
                is_inst = isinstance(statement, Inst)
                rides = False
                if own is None:
                    reads = [access.tensor for access in (statement.reads() if is_inst else touched(statement))]
                    rides = size is not None and is_inst and self._may_ride(statement)
                    found.kept.update(tensor for tensor in reads if not (rides and found.was_written(tensor, start)))
                if not rides and (is_summed or own != size):
                    start, size = position, own
                is_summed = rides
                for access in statement.writes() if is_inst else touched(statement):
                    found.writes.setdefault(access.tensor, []).append(position)
        return self._found_uses

    def _may_ride(self, inst: Inst) -> bool:
        """True if ``inst`` is a sum that may ride along with a chain directly before it."""
        form = inst.form()
        rides = self._rides.get(form)
        if rides is None:
            accesses = *inst.writes(), *inst.reads()
            is_sum = len(accesses) == 2 and accesses[0].free_elements < accesses[1].free_elements
            rides = self._rides[form] = is_sum and sum_of(inst) is not None
        return rides

    def _is_cheap(self, inst: Inst) -> bool:
        form = inst.form()
        cheap = self._cheap.get(form)
        if cheap is None:
            statement = part_of(inst)
            cheap = self._cheap[form] = statement is not None and _is_cheap(statement)
        return cheap


def _target(statement: Statement) -> Place:
    assert isinstance(statement, Inst)
    (target,) = statement.writes()
    return target.tensor, target.offset


def _is_cheap(statement: Assign) -> bool:
    """True if ``statement`` moves the elements of one tile at most, or has few operators on them, in float32.

    A row that all partitions share stays in the first-level cache, so it counts as no tile.
    """
    parts = subexpressions(statement.value)
    sources = {load.memref for load in loads(statement.value) if load.memref is not None}
    if len([source for source in sources if source.dims[-1][0] and source.dims[-1][1] > 1 and source.row_step]) > 1:
        return False
    if statement.value.kind in ("load", "value") and not statement.value.args:
        return True
    if any(part.kind not in ("load", "value", "cast", "alu", "act") for part in parts):
        return False
    if any(part.dtype is not dt.float32 for part in parts if part.kind != "load" or part.dtype is not dt.bfloat16):
        return False
    costs = [operations(part.kind, part.op) for part in parts if part.kind in ("alu", "act")]
    return len(costs) <= _MOST_OPERATORS and all(cost <= _MOST_OPERATIONS for cost in costs)


__all__ = ["Repetition"]
