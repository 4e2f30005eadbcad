"""The fusion groups that are legal, as a tree: a state is a group so far, an edge the next part's form and its windows.

The test of a group takes much longer than a step in the tree; kernels repeat few groups many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nki.backend.cpu.fusion.group import GroupPlan, form_of
from nki.backend.cpu.fusion.parts import Part, is_linked, may_share_loop, part_of
from nki.backend.cpu.kernel_ir.loops import MOST_SUMS
from nki.ir.instruction import Inst

MOST_PARTS: Final = 12
"""Instructions of a group, but for sums."""
_MOST_EDGES: Final = 1 << 10
"""Edges from the empty group: as many forms of instructions that begin groups."""
Edge = tuple[Any, ...]
"""The form of an instruction, then the window of each of its operands."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A part as far as groups of one state share it: its signature, its windows, and if it reads and writes each."""

    key: tuple[Any, ...]
    windows: tuple[int, ...]
    uses: tuple[tuple[bool, bool], ...]
    part: Part
    """Its statements, on windows."""


class State:
    """A legal group, or the empty one."""

    __slots__ = ("_following", "_members", "_plans", "begun", "is_full", "is_group", "sums")

    def __init__(self, members: tuple[_Member, ...] = ()) -> None:
        self._members = members
        parts = [member.part for member in members]
        with_sums = [member for member in members if member.part.sums]
        self.is_full = len(with_sums) == MOST_SUMS if with_sums else len(members) == MOST_PARTS
        self.is_group = (bool(with_sums) and len(members) > 1) or any(
            is_linked(parts[:n]) for n in range(2, len(parts) + 1)
        )
        """True if parts read what others have written, so that it pays to fuse them."""
        read, written = self._uses()
        self.begun = tuple(number for number in written if number not in read)
        """The windows that the group writes before it reads them."""
        self.sums = frozenset(
            window
            for member in with_sums
            for window, (_, writes) in zip(member.windows, member.uses, strict=True)
            if writes and window not in {assign.target.base for assign in member.part.assigns}
        )
        """The windows of sums, which are always in memory."""
        self._following: dict[Edge, State | None] = {}
        self._plans: dict[tuple[int, ...], GroupPlan] = {}

    def following(self, edge: Edge, inst: Inst) -> State | None:
        """The state after ``inst``, to which ``edge`` leads; None if it must not join."""
        if self.is_full:
            return None
        try:
            return self._following[edge]
        except KeyError:
            state = self._following[edge] = self._joined(inst, edge[1:])
            return state

    def edges(self) -> int:
        """The number of edges from here."""
        return len(self._following)

    def _joined(self, inst: Inst, windows: tuple[int, ...]) -> State | None:
        own = part_of(inst)
        if own is None or (own.assigns and any(member.part.sums for member in self._members)):
            return None  # sums are the last parts
        part = own.placed([(window, 0) for window in windows])
        parts = [*(member.part for member in self._members), part]
        if not any(each.assigns for each in parts) or not may_share_loop(parts):
            return None
        uses = tuple([(reads, writes) for _, reads, writes in inst.uses()])
        return State((*self._members, _Member(inst.key(), windows, uses, part)))

    def plan(self, without_memory: tuple[int, ...]) -> GroupPlan:
        """The plan of groups of this state, some of whose windows have no memory."""
        plan = self._plans.get(without_memory)
        if plan is None:
            plan = self._plans[without_memory] = self._plan(without_memory)
        return plan

    def _plan(self, without_memory: tuple[int, ...]) -> GroupPlan:
        read, written = self._uses()
        only_written = tuple(n for n in self.begun if n not in without_memory)
        changed = tuple(n for n in written if n in read)
        only_read = tuple(n for n in read if n not in written)
        windows = tuple([member.windows for member in self._members])
        signature = ("fused", tuple([m.key for m in self._members]), windows, (only_written, changed, only_read))
        return GroupPlan(form_of(signature), windows, only_written, changed, only_read)

    def _uses(self) -> tuple[dict[int, None], dict[int, None]]:
        """The windows that the group reads before it has written them, and those that it writes, in order."""
        read: dict[int, None] = {}
        written: dict[int, None] = {}
        for member in self._members:
            uses = list(zip(member.windows, member.uses, strict=True))
            read |= {number: None for number, (reads, _) in uses if reads and number not in written}
            written |= {number: None for number, (_, writes) in uses if writes}
        return read, written


_roots = [State()]
"""The empty group, of which the tree grows."""


def root() -> State:
    """The empty group, with the edges that kernels of this process have asked for: not too many."""
    if _roots[0].edges() > _MOST_EDGES:
        _roots[0] = State()
    return _roots[0]
