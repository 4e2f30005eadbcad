"""The chains that are legal, as a tree: a state is a chain so far, an edge the form of the next part and its windows.

The test of a chain takes much longer than a step in the tree; kernels repeat few chains many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nki.backend.cpu.fusion.chain import ChainPlan, form_of
from nki.backend.cpu.fusion.lowering import is_linked, may_share_loop, part_of, placed
from nki.backend.cpu.loop_ir.nodes import Assign
from nki.ir.instruction import Inst

MOST_PARTS: Final = 12
"""Instructions of a chain."""
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
    statement: Assign
    """Its statement, on windows."""


class State:
    """A legal chain, or the empty one."""

    __slots__ = ("_following", "_parts", "_plans", "begun", "is_chain", "is_full")

    def __init__(self, parts: tuple[_Part, ...] = ()) -> None:
        self._parts = parts
        self.is_full = len(parts) == MOST_PARTS
        statements = [part.statement for part in parts]
        self.is_chain = any(is_linked(statements[:n]) for n in range(2, len(parts) + 1))
        """True if parts read what others have written, so that it pays to fuse them."""
        read, written = self._uses()
        self.begun = tuple(number for number in written if number not in read)
        """The windows that the chain writes before it reads them."""
        self._following: dict[Edge, State | None] = {}
        self._plans: dict[tuple[int, ...], ChainPlan] = {}

    def following(self, edge: Edge, inst: Inst) -> State | None:
        """The state after ``inst``, to which ``edge`` leads; None if it must not join."""
        try:
            return self._following[edge]
        except KeyError:
            state = self._following[edge] = self._joined(inst, edge[1:])
            return state

    def edges(self) -> int:
        """The number of edges from here."""
        return len(self._following)

    def _joined(self, inst: Inst, numbers: tuple[int, ...]) -> State | None:
        own = part_of(inst)
        if own is None:
            return None
        statement = placed(own, [(number, 0) for number in numbers], 0)
        if not may_share_loop([*(part.statement for part in self._parts), statement]):
            return None
        uses = tuple([(reads, writes) for _, reads, writes in inst.uses()])
        return State((*self._parts, _Part(inst.key(), numbers, uses, statement)))

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
