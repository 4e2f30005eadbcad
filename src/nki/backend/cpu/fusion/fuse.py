"""Loop fusion: puts a :class:`FusionGroup` in place of its parts.

Neighbours join that compute the same number of elements of the same partitions, one from the results of another one.
Their windows are the same or share no memory, so that one loop may run them element by element. Sums by row of what
they compute may be the last ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from nki.backend.cpu.fusion.components import components
from nki.backend.cpu.fusion.facts import Facts, facts
from nki.backend.cpu.fusion.group import FusionGroup, is_same_window
from nki.backend.cpu.fusion.legality import Edge, State, root
from nki.backend.cpu.fusion.rematerialize import copies_in
from nki.base import knobs
from nki.ir.access_overlap import may_overlap
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Tensor
from nki.target.model import Target


@dataclass(frozen=True)
class Fuse(CoreStage):
    """Put fusion groups in place of their parts."""

    name: ClassVar[str] = "fuse"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with groups in place of their parts, and without copies that are in no group."""
        body = _fused(core.body, facts())
        return core if body is core.body else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """The parts of all groups, and what is in none, are the program; under ``OPEN_NKI_CHECK_STAGES=1``."""
        for old, core in zip(before.cores, after.cores, strict=True) if knobs.check_stages() else ():
            insts = [*old.instructions()]
            repeated = copies_in(insts)
            after_all = [
                part
                for inst in core.instructions()
                for part in (inst.parts if isinstance(inst, FusionGroup) else (inst,))
            ]
            lost = {*map(id, insts)}.difference(map(id, after_all)) - repeated
            assert not lost and len(after_all) <= len(insts), "fuse lost an instruction, or added one"


def _fused(body: tuple[Statement, ...], facts: Facts) -> tuple[Statement, ...]:
    """``body`` with groups, also in its loops; the same object if there are none."""
    repeated = copies_in(body)
    result: list[Statement] = []
    is_changed = False

    def keep(start: int, stop: int) -> None:
        nonlocal is_changed
        for statement in body[start:stop]:
            if not isinstance(statement, Inst) and (inner := _fused(statement.body, facts)) is not statement.body:
                statement, is_changed = replace(statement, body=inner), True
            if id(statement) not in repeated:
                result.append(statement)

    copied = 0
    for first, end in components(body, facts):
        for start, stop, state, windows in _groups(body, first, end):
            keep(copied, start)
            result.append(FusionGroup(state, cast("Sequence[Inst]", body[start:stop]), windows.accesses))
            copied = stop
    keep(copied, len(body))
    return tuple(result) if copied or is_changed or repeated else body


class Windows:
    """The windows of a group."""

    __slots__ = ("_numbers", "_of_tensor", "_written", "accesses")

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        """The access of each window."""
        self._written: list[bool] = []
        self._numbers: dict[tuple[Tensor, int], int] = {}
        """Windows by tensor and offset."""
        self._of_tensor: dict[Tensor, list[int]] = {}

    def edge(self, inst: Inst) -> Edge | None:
        """The edge of ``inst``, whose windows are added; None if one overlaps another, and one of both is written."""
        edge: list[object] = [inst.form()]
        accesses, numbers = self.accesses, self._numbers
        for access, _, writes in inst.uses():
            number = numbers.get((access.tensor, access.offset))
            if number is None or not is_same_window(accesses[number], access):
                number = self._add(access)
                if not self._is_apart(number, writes):
                    return None
            elif writes and not self._written[number] and not self._is_apart(number, True):
                return None
            edge.append(number)
        return tuple(edge)

    def is_alone(self, access: Access) -> bool:
        """True if the group touches the tensor of a window nowhere else."""
        return len(self._of_tensor[access.tensor]) == 1

    def _add(self, access: Access) -> int:
        number = len(self.accesses)
        self.accesses.append(access)
        self._written.append(False)
        self._numbers[access.tensor, access.offset] = number
        self._of_tensor.setdefault(access.tensor, []).append(number)
        return number

    def _is_apart(self, number: int, writes: bool) -> bool:
        """True if the window, now written if ``writes``, shares no byte with another one that makes it matter."""
        self._written[number] = writes
        access, accesses, written = self.accesses[number], self.accesses, self._written
        others = self._of_tensor[access.tensor]
        if len(others) == 1:
            return True
        return not any(n != number and (writes or written[n]) and may_overlap(access, accesses[n]) for n in others)


def _groups(body: Sequence[Statement], first: int, end: int) -> list[tuple[int, int, State, Windows]]:
    """The groups in a range of ``body``, each with its state and its windows."""
    groups: list[tuple[int, int, State, Windows]] = []
    start, state, windows = first, root(), Windows()
    position = first
    while position < end:
        inst = body[position]
        assert isinstance(inst, Inst)
        edge = None if state.is_full else windows.edge(inst)
        following = None if edge is None else state.following(edge, inst)
        if following is not None and following.sums and not all(map(windows.is_alone, inst.writes())):
            following = None
        if following is not None:
            state = following
            position += 1
            continue
        if state.is_group:
            groups.append((start, position, state, windows))
        if position == start:
            position += 1
        start, state, windows = position, root(), Windows()
    if state.is_group:
        groups.append((start, end, state, windows))
    return groups
