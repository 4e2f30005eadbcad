"""The chains that are legal, as a tree: a state is a chain so far, an edge the form of the next part and its windows.

The test of a chain takes much longer than a step in the tree; kernels repeat few chains many times.
"""

from __future__ import annotations

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


class State:
    """A legal chain, or the empty one."""

    __slots__ = ("_following", "_plans", "begun", "insts", "is_chain", "is_full", "numbers", "statements")

    def __init__(
        self,
        insts: tuple[Inst, ...] = (),
        numbers: tuple[tuple[int, ...], ...] = (),
        statements: tuple[Assign, ...] = (),
    ) -> None:
        self.insts = insts
        """Examples of the parts."""
        self.numbers = numbers
        self.statements = statements
        """The statements of the parts, on windows."""
        self.is_full = len(insts) == MOST_PARTS
        self.is_chain = len(insts) > 1 and any(is_linked(statements[:n]) for n in range(2, len(insts) + 1))
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
        part = part_of(inst)
        if part is None:
            return None
        statements = (*self.statements, placed(part, [(number, 0) for number in numbers], 0))
        if not may_share_loop(statements):
            return None
        return State((*self.insts, inst), (*self.numbers, numbers), statements)

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
        form = form_of(self.insts, self.numbers, (only_written, changed, only_read))
        return ChainPlan(form, self.numbers, only_written, changed, only_read)

    def _uses(self) -> tuple[dict[int, None], dict[int, None]]:
        """The windows that the chain reads before it has written them, and those that it writes, in order."""
        read: dict[int, None] = {}
        written: dict[int, None] = {}
        for inst, numbers in zip(self.insts, self.numbers, strict=True):
            uses = list(zip(inst.uses(), numbers, strict=True))
            read |= {number: None for (_, reads, _), number in uses if reads and number not in written}
            written |= {number: None for (_, _, writes), number in uses if writes}
        return read, written


_roots = [State()]
"""The empty chain, of which the tree grows."""


def root() -> State:
    """The empty chain, with the edges that kernels of this process have asked for: not too many."""
    if _roots[0].edges() > _MOST_EDGES:
        _roots[0] = State()
    return _roots[0]
