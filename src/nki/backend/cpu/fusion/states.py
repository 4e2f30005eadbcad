"""The chains that are legal, as a tree: a state is a chain so far, an edge the form of the next part and its windows.

The test of a chain takes much longer than a step in the tree; kernels repeat few chains many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nki.backend.cpu.fusion.chain import ChainPlan, form_of
from nki.backend.cpu.fusion.lowering import is_linked, may_share_loop, part_of, placed, placed_sum
from nki.backend.cpu.fusion.riding_sum import may_ride, sum_of
from nki.backend.cpu.loop_ir.nodes import Assign, Reduce
from nki.backend.cpu.loop_ir.reductions import MOST_SUMS
from nki.ir.instruction import Inst

MOST_PARTS: Final = 12
"""Instructions of a chain, but for sums that ride along."""
_MOST_EDGES: Final = 1 << 10
"""Edges from the empty chain: as many forms of instructions that begin chains."""
Edge = tuple[Any, ...]
"""The form of an instruction, then the window of each of its operands."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part as far as chains of one state share it: its signature, its windows, and if it reads and writes each."""

    key: tuple[Any, ...]
    numbers: tuple[int, ...]
    uses: tuple[tuple[bool, bool], ...]
    statement: Assign | None
    """Its statement, on windows; None of a sum that rides along."""
    total: Reduce | None = None
    """The sum, on windows, of one that rides along."""

    def written(self) -> tuple[int, ...]:
        """The windows that it writes."""
        return tuple([number for number, (_, writes) in zip(self.numbers, self.uses, strict=True) if writes])


def _part(inst: Inst, numbers: tuple[int, ...], statement: Assign | None, total: Reduce | None = None) -> _Part:
    uses = tuple([(reads, writes) for _, reads, writes in inst.uses()])
    return _Part(inst.key(), numbers, uses, statement, total)


class State:
    """A legal chain, or the empty one."""

    __slots__ = (
        "_following",
        "_has_room",
        "_parts",
        "_plans",
        "_statements",
        "_with_sum",
        "begun",
        "is_chain",
        "is_full",
        "sums",
    )

    def __init__(self, parts: tuple[_Part, ...] = ()) -> None:
        self._parts = parts
        statements = self._statements = [part.statement for part in parts if part.statement is not None]
        sums = parts[len(statements) :]
        self._has_room = not sums and len(parts) < MOST_PARTS
        self.is_full = len(sums) == MOST_SUMS if sums else not self._has_room
        self.is_chain = bool(sums) or any(is_linked(statements[:n]) for n in range(2, len(parts) + 1))
        """True if parts read what others have written, so that it pays to fuse them."""
        read, written = self._uses()
        self.begun = tuple(number for number in written if number not in read)
        """The windows that the chain writes before it reads them."""
        self.sums = tuple(number for part in sums for number in part.written())
        """The windows of sums that ride along, which are always in memory."""
        self._following: dict[Edge, State | None] = {}
        self._with_sum: dict[Edge, State | None] = {}
        self._plans: dict[tuple[int, ...], ChainPlan] = {}

    def following(self, edge: Edge, inst: Inst) -> State | None:
        """The state after ``inst``, to which ``edge`` leads; None if it must not join."""
        if not self._has_room:
            return None
        try:
            return self._following[edge]
        except KeyError:
            state = self._following[edge] = self._joined(inst, edge[1:])
            return state

    def with_sum(self, edge: Edge, inst: Inst) -> State | None:
        """The state after ``inst``, a sum of what the chain computes; None if it must not ride along."""
        if not self._statements:
            return None
        try:
            return self._with_sum[edge]
        except KeyError:
            state = self._with_sum[edge] = self._summed(inst, edge[1:])
            return state

    def _summed(self, inst: Inst, numbers: tuple[int, ...]) -> State | None:
        own = sum_of(inst)
        if own is None:
            return None
        places = [(number, 0) for number in numbers]
        total, result = placed_sum(own.total, places, 0), placed(own.result, places, 0)
        others = [part.total for part in self._parts if part.total is not None]
        if not may_ride(self._statements, total, result, others):
            return None
        return State((*self._parts, _part(inst, numbers, None, total)))

    def edges(self) -> int:
        """The number of edges from here."""
        return len(self._following)

    def _joined(self, inst: Inst, numbers: tuple[int, ...]) -> State | None:
        own = part_of(inst)
        if own is None:
            return None
        statement = placed(own, [(number, 0) for number in numbers], 0)
        if not may_share_loop([*self._statements, statement]):
            return None
        return State((*self._parts, _part(inst, numbers, statement)))

    def plan(self, without_memory: tuple[int, ...]) -> ChainPlan:
        """The plan of chains of this state, some of whose windows have no memory."""
        plan = self._plans.get(without_memory)
        if plan is None:
            plan = self._plans[without_memory] = self._plan(without_memory)
        return plan

    def _plan(self, without_memory: tuple[int, ...]) -> ChainPlan:
        read, written = self._uses()
        only_written = tuple(n for n in self.begun if n not in without_memory)
        changed = tuple(n for n in written if n in read)
        only_read = tuple(n for n in read if n not in written)
        numbers = tuple([part.numbers for part in self._parts])
        form = form_of([part.key for part in self._parts], numbers, (only_written, changed, only_read))
        return ChainPlan(form, numbers, only_written, changed, only_read)

    def _uses(self) -> tuple[dict[int, None], dict[int, None]]:
        """The windows that the chain reads before it has written them, and those that it writes, in order."""
        read: dict[int, None] = {}
        written: dict[int, None] = {}
        for part in self._parts:
            uses = list(zip(part.numbers, part.uses, strict=True))
            read |= {number: None for number, (reads, _) in uses if reads and number not in written}
            written |= {number: None for number, (_, writes) in uses if writes}
        return read, written


_roots = [State()]
"""The empty chain, of which the tree grows."""


def root() -> State:
    """The empty chain, with the edges that kernels of this process have asked for: not too many."""
    if _roots[0].edges() > _MOST_EDGES:
        _roots[0] = State()
    return _roots[0]
