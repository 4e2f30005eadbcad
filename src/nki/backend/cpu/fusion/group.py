"""Instructions that stand for several, which native code runs as one.

A :class:`FusionGroup` is one loop over element-wise instructions and sums of what they compute; each reads what those
before it have written at the same place. The operands of all parts are *windows*: operands that are the same elements
of a tensor in the same order are one window. A window that nothing but the group reads has no memory: it is a register.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from nki.backend.cpu.fusion.parts import Part, Window, loop_of, part_of
from nki.backend.cpu.kernel_ir.accesses import partition_split
from nki.backend.cpu.kernel_ir.loop_nests import MOST_SUMS
from nki.backend.cpu.kernel_ir.lower import Composite, form_of, operand_lists
from nki.backend.cpu.kernel_ir.lowering_algebra import KernelIRBuilder
from nki.backend.cpu.kernel_ir.nodes import GRANULE, REGISTER, Fused
from nki.backend.cpu.kernel_ir.rewrite_rules import inline_sums
from nki.backend.cpu.kernel_ir.shared_loop import may_share_loop
from nki.ir.instruction import Inst
from nki.ir.types import Access, Form, Role, Tensor, coalesced
from nki.ir.windows import may_overlap

MOST_PARTS: Final = 12
"""Instructions of a group, but for sums."""
_MOST_EDGES: Final = 1 << 10
"""Edges from one group: as many forms of instructions that begin groups."""
_Numbers = tuple[int, ...]
_Edge = tuple[Any, ...]
"""The form of an instruction, then the window of each of its operands."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """The form of groups, and the windows that they write, those that they read first, and those that they only read.

    Windows in none of them have no memory.
    """

    form: Form
    written: _Numbers
    changed: _Numbers
    read: _Numbers


@dataclass(frozen=True, slots=True)
class _Member:
    """The facts about a part that groups of one state share: its signature, its windows, and if it reads and writes
    each.
    """

    key: tuple[Any, ...]
    windows: _Numbers
    uses: tuple[tuple[bool, bool], ...]
    part: Part
    """Its statements, on windows."""


class GroupState:
    """A legal group, or the empty one: a node of a tree. An edge is the next part's form and its windows.

    The test of a group takes much longer than a step in the tree; kernels repeat few groups many times.
    """

    __slots__ = ("_following", "_plans", "_read", "_written", "is_full", "is_group", "members", "pinned", "removable")

    def __init__(self, members: tuple[_Member, ...] = ()) -> None:
        self.members = members
        self._read: dict[int, None] = {}
        """The windows that the group reads before it has written them, in order."""
        self._written: dict[int, None] = {}
        linked = False
        for member in members:
            uses = list(zip(member.windows, member.uses, strict=True))
            linked |= any(number in self._written for number in member.windows)
            self._read |= {number: None for number, (reads, _) in uses if reads and number not in self._written}
            self._written |= {number: None for number, (_, writes) in uses if writes}
        summing = sum(bool(member.part.sums) for member in members)
        self.is_full = summing == MOST_SUMS if summing else len(members) == MOST_PARTS
        self.is_group = len(members) > 1 and (linked or summing > 0)
        """True if parts read what others have written, so that it pays to fuse them."""
        self.pinned = frozenset(result.target.base for member in members for result in member.part.results)
        """The windows that stay in memory, whoever reads them: results of sums."""
        self.removable = tuple(number for number in self._written if number not in {*self._read, *self.pinned})
        """The windows that the group writes before it reads them, and which may do without memory."""
        self._following: dict[_Edge, GroupState | None] = {}
        self._plans: dict[_Numbers, GroupPlan] = {}

    def following(self, edge: _Edge, inst: Inst) -> GroupState | None:
        """The state after ``inst``, to which ``edge`` leads; None if it must not join."""
        if self.is_full:
            return None
        if edge not in self._following:
            if len(self._following) > _MOST_EDGES:
                self._following.clear()
            self._following[edge] = self._joined(inst, edge[1:])
        return self._following[edge]

    def _joined(self, inst: Inst, windows: _Numbers) -> GroupState | None:
        own = part_of(inst)
        if own is None or (own.assigns and self.pinned):
            return None  # sums are the last parts
        part = own.placed([(window, 0) for window in windows])
        parts = [*(member.part for member in self.members), part]
        loop = loop_of(parts)
        if not loop.assigns or not may_share_loop(loop) or not _runs_in_ranges(loop, parts):
            return None
        uses = tuple([(reads, writes) for _, reads, writes in inst.uses()])
        return GroupState((*self.members, _Member(inst.key(), windows, uses, part)))

    def plan(self, without_memory: _Numbers) -> GroupPlan:
        """The plan of groups of this state, with some windows without memory."""
        if without_memory not in self._plans:
            read, written = self._read, self._written
            only_written = tuple(n for n in written if n not in read and n not in without_memory)
            changed, only_read = tuple(n for n in written if n in read), tuple(n for n in read if n not in written)
            members = tuple([m.key for m in self.members]), tuple([m.windows for m in self.members])
            form = form_of(("fused", *members, (only_written, changed, only_read)))
            self._plans[without_memory] = GroupPlan(form, only_written, changed, only_read)
        return self._plans[without_memory]


def _runs_in_ranges(loop: Fused, parts: Sequence[Part]) -> bool:
    """True if ``loop``, and what becomes of its sums, may run as ranges of partitions, or has few."""
    rows = loop.assigns[0].target.rows
    results = [result for part in parts for result in part.results]
    return rows <= GRANULE or partition_split([*loop.parts, *results], ()).count == rows


EMPTY_GROUP: Final = GroupState()


class FusionGroup(Composite):
    """Parts that run element by element in one loop."""

    mnemonic = "fused"
    operand_fields = fields = operand_lists(("written", Role.OUT), ("changed", Role.INOUT), ("read", Role.IN))
    operand_names = ("written", "changed", "read")
    read_names = ("changed", "read")
    write_names = changed_names = ("written", "changed")

    def __init__(
        self, state: GroupState, parts: Sequence[Inst], windows: Sequence[Access], without_memory: _Numbers = ()
    ) -> None:
        self.state, self.windows = state, windows
        plan = self.plan = state.plan(without_memory)
        self.parts = tuple(parts)
        self.written = tuple([windows[number] for number in plan.written])
        self.changed = tuple([windows[number] for number in plan.changed])
        self.read = tuple([windows[number] for number in plan.read])
        self.numbers = tuple([number for part in parts if part.immediate_names for number in part.immediates()])
        self.where = parts[-1].where
        self._form = plan.form

    def signature(self) -> tuple[Any, ...]:
        return self.plan.form.signature

    def kernel_ir(self) -> KernelIRBuilder:
        plan, builder, parts = self.plan, KernelIRBuilder(), list[Part]()
        operands = {n: (base, 0) for base, n in enumerate((*plan.written, *plan.changed, *plan.read))}
        places = [operands.get(n, (REGISTER, n)) for n in range(len(self.windows))]
        first_number, registers = 0, len(places)
        for inst, member in zip(self.parts, self.state.members, strict=True):
            parts.append(member.part.placed(places, first_number, builder.scratch_bytes, registers))
            first_number += len(inst.immediates()) if inst.immediate_names else 0
            builder.scratch_bytes += member.part.scratch_bytes
            registers += len(member.part.assigns)
        starts = [start for part in parts for start in part.starts]
        results = [result for part in parts for result in part.results]
        builder.statements = inline_sums([*starts, loop_of(parts), *results])
        return builder

    def removable(self) -> list[int]:
        """The windows that need no memory if nothing else reads them: written first, and the only ones of their
        tensors.
        """
        of_tensor = Counter(window.tensor for window in self.windows)
        return [n for n in self.state.removable if of_tensor[self.windows[n].tensor] == 1]

    def __repr__(self) -> str:
        names = " + ".join(part.mnemonic for part in self.parts)
        operands = ", ".join(f"{a.name}{list(a.shape)}" for a in (*self.written, *self.changed))
        return f"<{names} {operands}>"


class GroupBuilder:
    """A group that grows, instruction after instruction."""

    __slots__ = ("_numbers", "_of_tensor", "_written", "parts", "state", "windows")

    def __init__(self) -> None:
        self.state = EMPTY_GROUP
        self.parts: list[Inst] = []
        self.windows: list[Access] = []
        self._written: list[bool] = []
        self._numbers: dict[Window, int] = {}
        self._of_tensor: dict[Tensor, list[int]] = {}

    def add(self, inst: Inst) -> bool:
        """Let ``inst`` be the next part; False if it must not: then the group cannot grow any more."""
        edge = None if self.state.is_full else self._edge(inst)
        state = None if edge is None else self.state.following(edge, inst)
        if state is None:
            return False
        if state.pinned and self.parts and any(len(self._of_tensor[to.tensor]) > 1 for to in inst.writes()):
            return False
        self.state = state
        self.parts.append(inst)
        return True

    def group(self) -> FusionGroup:
        """The group so far."""
        return FusionGroup(self.state, self.parts, self.windows)

    def _edge(self, inst: Inst) -> _Edge | None:
        """The edge of ``inst``, which adds its windows; None if one overlaps another, and one of both is written."""
        edge: list[object] = [inst.form]
        windows, numbers = self.windows, self._numbers
        for access, _, writes in inst.uses():
            number = numbers.get((access.tensor, access.offset))
            if number is None or not is_same_window(windows[number], access):
                number = self._add_window(access)
                if not self._is_apart(number, writes):
                    return None
            elif writes and not self._written[number] and not self._is_apart(number, True):
                return None
            edge.append(number)
        return tuple(edge)

    def _add_window(self, access: Access) -> int:
        number = len(self.windows)
        self.windows.append(access)
        self._written.append(False)
        self._numbers[access.tensor, access.offset] = number
        self._of_tensor.setdefault(access.tensor, []).append(number)
        return number

    def _is_apart(self, number: int, writes: bool) -> bool:
        """True if the window, now written if ``writes``, shares no byte with another one that makes it matter."""
        self._written[number] = writes
        access, windows, written = self.windows[number], self.windows, self._written
        others = self._of_tensor[access.tensor]
        if len(others) == 1:
            return True
        return not any(n != number and (writes or written[n]) and may_overlap(access, windows[n]) for n in others)


def is_same_window(one: Access, two: Access) -> bool:
    """True if two accesses that begin at one place have the same elements in the same order, in each partition.

    Their shapes may differ: a tile of [p, g, c] is one of [p, g * c].
    """
    if one.signature is two.signature:
        return True
    return one.dtype is two.dtype and _elements(one.shape, one.strides) == _elements(two.shape, two.strides)


@lru_cache(maxsize=1 << 12)
def _elements(shape: _Numbers, strides: _Numbers) -> tuple[Any, ...]:
    """Partitions and their step, then steps and counts of the elements of each."""
    return shape[0], strides[0], coalesced(zip(strides[1:], shape[1:], strict=True))
