"""Sums by row that ride along with a chain: the last parts of a chain may be reductions of what the chain computes.

Only sequential sums do, over all elements of a partition, or over each of several equal groups of them: a sum of
elements that lie in the first-level cache is nearly free. What it reads is then written only if somebody else reads it,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nki.backend.cpu.loop_ir.loop_nest import boundaries
from nki.backend.cpu.loop_ir.lower import lower
from nki.backend.cpu.loop_ir.nodes import SCRATCH, Assign, LoopStatement, MemRef, Reduce, loads, subexpressions
from nki.backend.cpu.loop_ir.partitions import parallel_partitions
from nki.backend.cpu.loop_ir.reductions import ANY_ORDER, GROUP, IDENTITIES
from nki.ir.instruction import Inst

_FEWEST: Final = 32
"""Elements from which on a sum is worth its place in a chain."""


@dataclass(frozen=True, slots=True)
class RidingSum:
    """A sum by row in scratch memory, of which there are ``scratch_bytes``, and what becomes of it."""

    total: Reduce
    result: Assign
    scratch_bytes: int


def sum_of(inst: Inst) -> RidingSum | None:
    """The statements of an instruction that may ride along with a chain; None if it may not.

    Its operands must share no memory.
    """
    lowered = lower(inst, ())
    if len(lowered.statements) != 2:
        return None
    total, result = lowered.statements
    if not isinstance(total, Reduce) or not isinstance(result, Assign):
        return None
    if total.cross_partition or total.init is not None:
        return None
    if total.op in ANY_ORDER or total.op not in IDENTITIES:
        return None
    value = total.value.args[0] if total.value.kind == "cast" else total.value
    if value.kind != "load" or total.value.rows % GROUP or total.value.columns // total.groups < _FEWEST:
        return None
    if total.target.base != SCRATCH or result.target.base == SCRATCH:
        return None
    return RidingSum(total, result, lowered.scratch_bytes)


def may_ride(statements: Sequence[Assign], total: Reduce, result: Assign, others: Sequence[Reduce]) -> bool:
    """True if the sum of what one of ``statements``, a chain on windows, computes may ride along with it.

    So do ``others``, which must be of as many groups.
    """
    if any(other.groups != total.groups for other in others):
        return False
    wanted = {load.memref for load in loads(total.value)}
    targets = [statement.target for statement in statements]
    if not wanted <= set(targets):
        return False
    if any(part.kind == "iota" for statement in statements for part in subexpressions(statement.value)):
        return False
    sources = [load.memref for s in statements for load in loads(s.value) if load.memref is not None]
    length = total.value.columns // total.groups
    if not all(map(_is_plain, (*targets, *sources))):
        return False
    if boundaries([memref.dims for memref in (*targets, *sources)], length) != sorted({1, length, total.value.columns}):
        return False
    every: list[LoopStatement] = [*statements, total, result]
    rows = total.value.rows
    return rows <= GROUP or parallel_partitions(every, ()) == rows


def _is_plain(memref: MemRef) -> bool:
    """True if elements are neighbours or one that is repeated, as far as the pattern goes without a jump."""
    step, count = memref.dims[-1]
    return not memref.dtype.is_packed and (step in (0, 1) or count == 1)


__all__ = ["RidingSum", "may_ride", "sum_of"]
