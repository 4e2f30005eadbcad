"""Brings sums side by side that may ride along with one chain: what lies between them and depends on neither moves.

``a = f(x); s = sum(a); m = s / n; b = g(a, x); t = sum(b)`` becomes ``a = f(x); b = g(a, x); s = sum(a); t = sum(b);
m = s / n``: one loop then reads ``x`` once for both sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from nki.backend.cpu.codegen.summed_rows import MOST_SUMS
from nki.backend.cpu.fusion.components import Size, Sizes, is_plain, may_sum
from nki.backend.cpu.fusion.riding_sum import sum_of
from nki.backend.cpu.fusion.states import MOST_PARTS
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.types import Form, Tensor

_FARTHEST: Final = 16
"""Statements around a sum among which what it adds, and another sum, is looked for."""


def gather_sums(body: tuple[Statement, ...], sizes: Sizes, forms: dict[Form, bool]) -> tuple[Statement, ...]:
    """``body`` with sums side by side behind what they add, where their order does not matter; the same object if none.

    ``forms`` keeps which forms of instructions are sums that may ride along.
    """
    edits: list[tuple[int, int, list[Statement]]] = []
    end = 0
    for position, statement in enumerate(body):
        if not isinstance(statement, Inst):
            inner = gather_sums(statement.body, sizes, forms)
            if inner is not statement.body:
                edits.append((position, position + 1, [replace(statement, body=inner)]))
            continue
        form = statement.form()
        is_sum = forms.get(form)
        if is_sum is None:
            is_sum = forms[form] = sizes(statement) is None and _is_sum(statement)
        if is_sum and position >= end and (gathered := _gathered(body, position, sizes)):
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


def _is_sum(inst: Inst) -> bool:
    """True if ``inst`` may be a sum of what a chain computes."""
    reads, writes = inst.reads(), inst.writes()
    if not is_plain(inst) or len(reads) != 1 or len(writes) != 1 or writes[0].free_elements >= reads[0].free_elements:
        return False
    return sum_of(inst) is not None


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


def _gathered(body: Sequence[Statement], position: int, sizes: Sizes) -> list[Statement]:
    """The statements from the sum at ``position`` to the last one that may ride with it, in another order; or none."""
    total = body[position]
    assert isinstance(total, Inst)
    (source,) = total.reads()
    size: Size = (source.partitions, source.free_elements)
    before = _before(body, position, size, sizes)
    writers = {(access.tensor, access.offset) for inst in before for access in inst.writes()}
    if not may_sum(total, writers, size):
        return []
    passed, sums = _Passed(), [total]
    passed.add(total)
    stay: list[Inst] = []
    pending: list[Inst] = []
    ahead = behind = 0
    for inst in body[position + 1 : position + _FARTHEST]:
        if not isinstance(inst, Inst) or not is_plain(inst):
            break
        if sizes(inst) == size:
            if not passed.lets_pass(inst):
                break
            pending.append(inst)
            writers |= {(access.tensor, access.offset) for access in inst.writes()}
        elif may_sum(inst, writers, size) and passed.lets_pass(inst) and sum_of(inst) is not None:
            if len(before) + len(pending) > MOST_PARTS or not _pays(before, pending, size):
                break
            sums.append(inst)
            passed.add(inst)
            ahead, behind = len(pending), len(stay)
            if len(sums) == MOST_SUMS:
                break
        else:
            stay.append(inst)
            passed.add(inst)
    return [*pending[:ahead], *sums, *stay[:behind]] if len(sums) > 1 else []


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

    A sum of what comes from one tile needs no chunks if it is alone, which is faster than two that share a loop.
    """
    tiles = [
        {a.tensor for inst in insts for a in inst.accesses() if a.free_elements == size[1]}
        for insts in (before, behind)
    ]
    written = {access.tensor for inst in (*before, *behind) for access in inst.writes()}
    return not behind or (not tiles[0].isdisjoint(tiles[1]) and len((tiles[0] | tiles[1]) - written) > 1)


__all__ = ["gather_sums"]
