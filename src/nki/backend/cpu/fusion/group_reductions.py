"""Brings sums side by side that may share a loop: what lies between them and depends on neither moves behind them.

``a = f(x); s = sum(a); m = s / n; b = g(a, x); t = sum(b)`` becomes ``a = f(x); b = g(a, x); s = sum(a); t = sum(b);
m = s / n``: one loop then reads ``x`` once for both sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from nki.backend.cpu.fusion.fusion_check import FusionStage
from nki.backend.cpu.fusion.group import MOST_PARTS
from nki.backend.cpu.fusion.parts import Size, is_plain, is_sum, may_sum, size_of
from nki.backend.cpu.kernel_ir.loop_nests import MOST_SUMS
from nki.base import element_types as dt
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Tensor
from nki.transforms.rewriter import Body, Edit

_FARTHEST: Final = 16
"""Statements around a sum among which what it adds, and another sum, is looked for."""


@dataclass(frozen=True)
class GroupReductions(FusionStage):
    """Bring sums side by side behind what they add, where the order does not matter."""

    name: ClassVar[str] = "group_reductions"

    def edits(self, body: Body, core: CoreProgram, program: Program) -> Sequence[Edit]:  # noqa: ARG002
        edits: list[Edit] = []
        end = 0
        for position, total in _sums(body):
            if position >= end and (gathered := _gathered(body, position, total)):
                end = position + len(gathered)
                edits.append((position, end, gathered))
        return edits


@dataclass(slots=True)
class _Passed:
    """Statements that others are moved past: the tensors that they write, and those that they read or write."""

    written: set[Tensor] = field(default_factory=set[Tensor])
    touched: set[Tensor] = field(default_factory=set[Tensor])

    def add(self, inst: Inst) -> None:
        """Let ``inst`` be one of them."""
        for access, _, writes in inst.uses():
            self.touched.add(access.tensor)
            if writes:
                self.written.add(access.tensor)

    def lets_pass(self, inst: Inst) -> bool:
        """True if ``inst`` may run before them as well as after them."""
        return not any(access.tensor in (self.touched if writes else self.written) for access, _, writes in inst.uses())


def _sums(body: Body) -> list[tuple[int, Inst]]:
    """The sums of ``body`` by position: in most programs there are none, which few forms tell."""
    of_form = {inst.form: inst for inst in body if isinstance(inst, Inst)}
    sums = {form for form, inst in of_form.items() if is_sum(inst)}
    in_sums = ((n, s) for n, s in enumerate(body) if isinstance(s, Inst) and s.form in sums)
    return [(position, inst) for position, inst in in_sums if is_sum(inst)] if sums else []


def _gathered(body: Body, position: int, total: Inst) -> list[Statement]:
    """The statements from the sum at ``position`` to the last that may share its loop, in another order; or none.

    Nearly all searches end at the first instruction of the sum's size, which depends on the sum.
    """
    (source,) = total.reads()
    size: Size = (source.partitions, source.free_elements)
    passed, sums = _Passed(), [total]
    passed.add(total)
    pending: list[Inst] = []
    stay: list[Inst] = []
    ahead = behind = 0
    for inst in body[position + 1 : position + _FARTHEST]:
        if not isinstance(inst, Inst):
            break
        if size_of(inst) == size:
            if not passed.lets_pass(inst):
                break
            pending.append(inst)
        elif is_sum(inst) and passed.lets_pass(inst):
            if not _may_join([*sums, inst], _before(body, position, size), pending, size):
                break
            sums.append(inst)
            passed.add(inst)
            ahead, behind = len(pending), len(stay)
            if len(sums) == MOST_SUMS:
                break
        elif is_plain(inst):
            stay.append(inst)
            passed.add(inst)
        else:
            break
    return [*pending[:ahead], *sums, *stay[:behind]] if len(sums) > 1 else []


def _may_join(sums: Sequence[Inst], before: Sequence[Inst], behind: Sequence[Inst], size: Size) -> bool:
    """True if ``sums`` of what instructions before and behind the first one compute may share a loop with these."""
    writers = {(access.tensor, access.offset) for inst in (*before, *behind) for access in inst.writes()}
    if not all(may_sum(inst, writers, size) for inst in (sums[0], sums[-1])):
        return False
    return len(before) + len(behind) <= MOST_PARTS and _pays(before, behind, size)


def _before(body: Sequence[Statement], position: int, size: Size) -> list[Inst]:
    """The neighbours of a ``size`` directly before ``position``."""
    found: list[Inst] = []
    for statement in reversed(body[max(0, position - _FARTHEST) : position]):
        if not isinstance(statement, Inst) or size_of(statement) != size:
            break
        found.append(statement)
    return found


def _pays(before: Sequence[Inst], behind: Sequence[Inst], size: Size) -> bool:
    """True if instructions before and behind a sum have a tile in common, and all read at least two from elsewhere.

    A sum of what comes from one tile needs no chunks if it is alone, which is faster than two that share a loop; so are
    two loops that round results to 16 bits, two vectors at a time.
    """
    first, second = (
        {access.tensor for inst in insts for access in inst.accesses() if access.free_elements == size[1]}
        for insts in (before, behind)
    )
    written = {access.tensor for inst in (*before, *behind) for access in inst.writes()}
    if any(tensor.dtype is not dt.float32 for tensor in written):
        return False
    return not behind or (not first.isdisjoint(second) and len((first | second) - written) > 1)
