"""Brings sums side by side that may ride along with one chain: what lies between them and depends on neither moves.

``a = f(x); s = sum(a); m = s / n; b = g(a, x); t = sum(b)`` becomes ``a = f(x); b = g(a, x); s = sum(a); t = sum(b);
m = s / n``: one loop then reads ``x`` once for both sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from nki.backend.cpu.fusion.components import Size, Sizes, is_plain, may_sum
from nki.backend.cpu.fusion.riding_sum import sum_of
from nki.backend.cpu.fusion.states import MOST_PARTS
from nki.backend.cpu.loop_ir.reductions import MOST_SUMS
from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement, While
from nki.ir.types import Form, Tensor

_LOOPS: Final = frozenset({For, While})
_KNOWN_FORM: Final = attrgetter("known_form")
_FARTHEST: Final = 16
"""Statements around a sum among which what it adds, and another sum, is looked for."""


def gather_sums(body: tuple[Statement, ...], sizes: Sizes) -> tuple[Statement, ...]:
    """``body`` with sums side by side behind what they add, where the order does not matter; the same object if so."""
    return _Gathering(sizes).of(body)


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


def _is_sum(inst: Inst) -> bool:
    """True if ``inst`` may be a sum of what a chain computes."""
    reads, writes = inst.reads(), inst.writes()
    if not is_plain(inst) or len(reads) != 1 or len(writes) != 1 or writes[0].free_elements >= reads[0].free_elements:
        return False
    return sum_of(inst) is not None


class _Gathering:
    """The search in one core."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._are_sums: dict[Form, bool] = {}
        """True of forms of instructions that may be sums of what a chain computes."""

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
            elif position >= end and self._is_sum(statement) and (gathered := self._gathered(body, position)):
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
            form for form, inst in forms.items() if form is None or (isinstance(inst, Inst) and self._is_sum(inst))
        }
        return [n for n, form in enumerate(map(_KNOWN_FORM, body)) if form in wanted] if wanted else ()

    def _is_sum(self, inst: Inst) -> bool:
        form = inst.form()
        known = self._are_sums.get(form)
        if known is None:
            known = self._are_sums[form] = self._sizes(inst) is None and _is_sum(inst)
        return known

    def _gathered(self, body: Sequence[Statement], position: int) -> list[Statement]:
        """The statements from the sum at ``position`` to the last that may ride with it, in another order; or none.

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
            if self._sizes(inst) == size:
                if not passed.lets_pass(inst):
                    break
                pending.append(inst)
            elif self._is_sum(inst) and passed.lets_pass(inst):
                if before is None:
                    before = _before(body, position, size, self._sizes)
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
    """True if ``sums`` of what instructions before and behind the first one compute may ride along with them all."""
    writers = {(access.tensor, access.offset) for inst in (*before, *behind) for access in inst.writes()}
    if not all(may_sum(inst, writers, size) for inst in (sums[0], sums[-1])):
        return False
    return len(before) + len(behind) <= MOST_PARTS and _pays(before, behind, size)


def _before(body: Sequence[Statement], position: int, size: Size, sizes: Sizes) -> list[Inst]:
    """The neighbours of a ``size`` directly before ``position``."""
    found: list[Inst] = []
    for statement in reversed(body[max(0, position - _FARTHEST) : position]):
        if not isinstance(statement, Inst) or sizes(statement) != size:
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


__all__ = ["gather_sums"]
