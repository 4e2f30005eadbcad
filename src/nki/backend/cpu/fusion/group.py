"""Instructions that stand for several, which native code runs as one.

A :class:`FusionGroup` is one loop over element-wise instructions and sums of what they compute; each reads what those
before it have written at the same place. The operands of all parts are *windows*: operands that are the same elements
of a tensor in the same order are one window. A window that nothing but the group reads has no memory: it is a register.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from nki.backend.cpu.fusion.parts import Part, Window, are_linked, may_share_loop, part_of
from nki.backend.cpu.kernel_ir.builder import KernelIRBuilder
from nki.backend.cpu.kernel_ir.loops import MOST_SUMS
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import REGISTER, Aliases, Fused
from nki.backend.cpu.kernel_ir.rules import inline_sums
from nki.backend.cpu.kernel_ir.verifier import verify
from nki.base import knobs
from nki.ir.declaration.fields import Field
from nki.ir.instruction import Inst
from nki.ir.types import FORMS, Access, Form, Role, Tensor, coalesced, new_form
from nki.ir.windows import may_overlap

MOST_PARTS: Final = 12
"""Instructions of a group, but for sums."""
_MOST_EDGES: Final = 1 << 10
"""Edges from one group: as many forms of instructions that begin groups."""
_Numbers = tuple[int, ...]
_Edge = tuple[Any, ...]
"""The form of an instruction, then the window of each of its operands."""


def operand_lists(*roles: tuple[str, Role]) -> tuple[Field, ...]:
    """Fields of an instruction whose operands are lists of these names and roles."""
    return tuple(Field(name, role, False, False, None, None, (), several=True) for name, role in roles)


class Composite(Inst):
    """An instruction that stands for its ``parts``; its immediates, ``numbers``, are those of all parts in turn."""

    public = False
    order_names = ()
    immediate_names = ("numbers",)
    engines = ()
    rules = ()
    parts: tuple[Inst, ...]

    @abstractmethod
    def kernel_ir(self) -> KernelIRBuilder:
        """The kernel IR of all parts."""


def lower_any(inst: Inst, aliases: Aliases) -> KernelIRBuilder:
    """The kernel IR of an instruction, or of several as one, whose operands overlap as ``aliases`` says."""
    if not isinstance(inst, Composite):
        return lower(inst, aliases)
    lowered = inst.kernel_ir()
    if knobs.check_stages():
        verify(lowered.statements, inst.mnemonic)
    return lowered


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """Facts that all groups of one form share.

    ``numbers``: for each part, the windows of its operands. ``written``, ``changed`` and ``read``: the windows that the
    group writes, those that it reads first, and those that it only reads. Windows in none of them have no memory.
    """

    form: Form
    numbers: tuple[_Numbers, ...]
    written: _Numbers
    changed: _Numbers
    read: _Numbers

    def operands(self) -> _Numbers:
        """The window of each operand of the group."""
        return (*self.written, *self.changed, *self.read)


@dataclass(frozen=True, slots=True)
class _Member:
    """A part as far as groups of one state share it: its signature, its windows, and if it reads and writes each."""

    key: tuple[Any, ...]
    windows: tuple[int, ...]
    uses: tuple[tuple[bool, bool], ...]
    part: Part
    """Its statements, on windows."""


class GroupState:
    """A legal group, or the empty one: a node of a tree. An edge is the next part's form and its windows.

    The test of a group takes much longer than a step in the tree; kernels repeat few groups many times.
    """

    __slots__ = ("_following", "_members", "_plans", "is_full", "is_group", "removable", "sums")

    def __init__(self, members: tuple[_Member, ...] = ()) -> None:
        self._members = members
        parts = [member.part for member in members]
        with_sums = [member for member in members if member.part.sums]
        self.is_full = len(with_sums) == MOST_SUMS if with_sums else len(members) == MOST_PARTS
        self.is_group = len(members) > 1 and (bool(with_sums) or are_linked(parts))
        """True if parts read what others have written, so that it pays to fuse them."""
        read, written = self._uses()
        self.sums = frozenset(
            window
            for member in with_sums
            for window, (_, writes) in zip(member.windows, member.uses, strict=True)
            if writes and window not in {assign.target.base for assign in member.part.assigns}
        )
        """The windows of sums, which are always in memory."""
        self.removable = tuple(number for number in written if number not in read and number not in self.sums)
        """The windows that the group writes before it reads them, and which may do without memory."""
        self._following: dict[_Edge, GroupState | None] = {}
        self._plans: dict[tuple[int, ...], GroupPlan] = {}

    def following(self, edge: _Edge, inst: Inst) -> GroupState | None:
        """The state after ``inst``, to which ``edge`` leads; None if it must not join."""
        if self.is_full:
            return None
        if edge not in self._following:
            if len(self._following) > _MOST_EDGES:
                self._following.clear()
            self._following[edge] = self._joined(inst, edge[1:])
        return self._following[edge]

    def _joined(self, inst: Inst, windows: tuple[int, ...]) -> GroupState | None:
        own = part_of(inst)
        if own is None or (own.assigns and any(member.part.sums for member in self._members)):
            return None  # sums are the last parts
        part = own.placed([(window, 0) for window in windows])
        parts = [*(member.part for member in self._members), part]
        if not any(each.assigns for each in parts) or not may_share_loop(parts):
            return None
        uses = tuple([(reads, writes) for _, reads, writes in inst.uses()])
        return GroupState((*self._members, _Member(inst.key(), windows, uses, part)))

    def plan(self, without_memory: tuple[int, ...]) -> GroupPlan:
        """The plan of groups of this state, some of whose windows have no memory."""
        plan = self._plans.get(without_memory)
        if plan is None:
            plan = self._plans[without_memory] = self._plan(without_memory)
        return plan

    def _plan(self, without_memory: tuple[int, ...]) -> GroupPlan:
        read, written = self._uses()
        only_written = tuple(n for n in written if n not in read and n not in without_memory)
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
        self.known_form = plan.form

    def signature(self) -> tuple[Any, ...]:
        return self.plan.form.signature

    def kernel_ir(self) -> KernelIRBuilder:
        plan, builder = self.plan, KernelIRBuilder()
        operands = {window: operand for operand, window in enumerate(plan.operands())}
        parts: list[Part] = []
        first_number = 0
        for inst, windows in zip(self.parts, plan.numbers, strict=True):
            part = part_of(inst)
            assert part is not None, "a part has been one before"
            places = [(operands[w], 0) if w in operands else (REGISTER, w) for w in windows]
            parts.append(part.placed(places, first_number, builder.scratch_bytes))
            builder.scratch_bytes += part.scratch_bytes
            first_number += len(inst.immediates()) if inst.immediate_names else 0
        starts = [start for part in parts for start in part.starts]
        results = [result for part in parts for result in part.results]
        sums = tuple([total for part in parts for total in part.sums])
        loop = Fused(tuple([assign for part in parts for assign in part.assigns]), sums)
        builder.statements = inline_sums([*starts, loop, *results])
        return builder

    def removable(self) -> list[int]:
        """The windows that need no memory if nothing else reads them: written first, of tensors of which it has one."""
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
        if state.sums and self.parts and any(len(self._of_tensor[to.tensor]) > 1 for to in inst.writes()):
            return False
        self.state = state
        self.parts.append(inst)
        return True

    def group(self) -> FusionGroup:
        """The group so far."""
        return FusionGroup(self.state, self.parts, self.windows)

    def _edge(self, inst: Inst) -> _Edge | None:
        """The edge of ``inst``, whose windows are added; None if one overlaps another, and one of both is written."""
        edge: list[object] = [inst.form()]
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


def form_of(signature: tuple[Any, ...]) -> Form:
    """The form of instructions that stand for several and have no run-time index, by their signature."""
    return FORMS.get(signature) or new_form(signature, signature, False)
