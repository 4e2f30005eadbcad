"""Brings sums side by side that may share a loop: what lies between them and depends on neither moves behind them.

``a = f(x); s = sum(a); m = s / n; b = g(a, x); t = sum(b)`` becomes ``a = f(x); b = g(a, x); s = sum(a); t = sum(b);
m = s / n``: one loop then reads ``x`` once for both sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import ClassVar, Final

from nki.backend.cpu.fusion.components import may_sum
from nki.backend.cpu.fusion.facts import Facts, Size, facts, is_plain
from nki.backend.cpu.fusion.legality import MOST_PARTS
from nki.backend.cpu.kernel_ir.loops import MOST_SUMS
from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement, While
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Tensor
from nki.target.model import Target

_LOOPS: Final = frozenset({For, While})
_KNOWN_FORM: Final = attrgetter("known_form")
_FARTHEST: Final = 16
"""Statements around a sum among which what it adds, and another sum, is looked for."""


@dataclass(frozen=True)
class GroupReductions(CoreStage):
    """Bring sums side by side."""

    name: ClassVar[str] = "group_reductions"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with sums side by side behind what they add, where the order does not matter."""
        body = _Gathering().of(core.body)
        return core if body is core.body else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """The instructions are those of before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        for old, core in zip(before.cores, after.cores, strict=True) if knobs.check_stages() else ():
            same = sorted(map(id, old.instructions())) == sorted(map(id, core.instructions()))
            assert same, "group_reductions lost an instruction, or added one"


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


class _Gathering:
    """The search in one core."""

    def __init__(self) -> None:
        self._facts = facts()

    def of(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """``body`` with sums side by side; the same object if there are none."""
        edits: list[tuple[int, int, list[Statement]]] = []
        end = 0
        for position in self._candidates(body):
            statement = body[position]
            if not isinstance(statement, Inst):
                inner = self.of(statement.body)
                if inner is not statement.body:
                    edits.append((position, position + 1, [replace(statement, body=inner)]))
            elif position >= end and self._facts.is_sum(statement) and (gathered := self._gathered(body, position)):
                end = position + len(gathered)
                edits.append((position, end, gathered))
        if not edits:
            return body
        result: list[Statement] = []
        copied = 0
        for start, stop, statements in edits:
            result += [*body[copied:start], *statements]
            copied = stop
        return (*result, *body[copied:])

    def _candidates(self, body: Sequence[Statement]) -> Sequence[int]:
        """The positions of loops, and of instructions that may be sums: in most programs of none."""
        if not _LOOPS.isdisjoint(map(type, body)):
            return range(len(body))
        forms = dict(zip(map(_KNOWN_FORM, body), body, strict=True))
        wanted = {
            form
            for form, inst in forms.items()
            if form is None or (isinstance(inst, Inst) and self._facts.is_sum(inst))
        }
        return [n for n, form in enumerate(map(_KNOWN_FORM, body)) if form in wanted] if wanted else ()

    def _gathered(self, body: Sequence[Statement], position: int) -> list[Statement]:
        """The statements from the sum at ``position`` to the last that may share its loop, in another order; or none.

        Nearly all searches end at the first instruction of the sum's size, which depends on the sum.
        """
        total = body[position]
        assert isinstance(total, Inst)
        (source,) = total.reads()
        size: Size = (source.partitions, source.free_elements)
        passed, sums = _Passed(), [total]
        passed.add(total)
        pending: list[Inst] = []
        stay: list[Inst] = []
        before: list[Inst] | None = None
        ahead = behind = 0
        for inst in body[position + 1 : position + _FARTHEST]:
            if not isinstance(inst, Inst):
                break
            if self._facts.size(inst) == size:
                if not passed.lets_pass(inst):
                    break
                pending.append(inst)
            elif self._facts.is_sum(inst) and passed.lets_pass(inst):
                if before is None:
                    before = _before(body, position, size, self._facts)
                if not _may_join([*sums, inst], before, pending, size):
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


def _before(body: Sequence[Statement], position: int, size: Size, facts: Facts) -> list[Inst]:
    """The neighbours of a ``size`` directly before ``position``."""
    found: list[Inst] = []
    for statement in reversed(body[max(0, position - _FARTHEST) : position]):
        if not isinstance(statement, Inst) or facts.size(statement) != size:
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
