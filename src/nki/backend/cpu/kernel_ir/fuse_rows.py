"""Results and their sums by row in one loop: ``s = f(x); t = reduce(s); d = cast(s)`` becomes one :class:`Fused`.

The statements one after the other would pass the results through the second-level cache, once for each. What nothing
else reads stays in registers. Sums keep their order, and so all bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nki.backend.cpu.kernel_ir.accesses import touches
from nki.backend.cpu.kernel_ir.loops import boundaries
from nki.backend.cpu.kernel_ir.nodes import (
    REGISTER,
    SCRATCH,
    Aliases,
    Assign,
    Fused,
    LoopStatement,
    MemRef,
    Reduce,
    loads,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.reductions import ANY_ORDER, GROUP, IDENTITIES, MOST_SUMS

_KINDS: Final = frozenset({"load", "value", "alu", "act", "cast"})
_FEWEST: Final = 32
"""Elements from which on a sum is worth its place in a loop."""


def fuse_rows(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``statements``, of which neighbours that compute tiles of one size, and sums of these by row, are one loop."""
    del aliases  # what overlaps another operand was copied before
    result: list[LoopStatement] = []
    at = 0
    while at < len(statements):
        loop = _loop(statements, at)
        result.append(statements[at] if loop is None else loop)
        at += 1 if loop is None else len(loop.parts)
    return result


def _loop(statements: Sequence[LoopStatement], at: int) -> Fused | None:
    """The statements from number ``at`` on as one loop; None if they make none."""
    assigns: list[Assign] = []
    sums: list[Reduce] = []
    for statement in statements[at:]:
        if isinstance(statement, Assign) and (not assigns or _follows(statement, assigns)):
            assigns.append(statement)
        elif isinstance(statement, Reduce) and may_be_summed(assigns, statement, sums):
            sums.append(statement)
        else:
            break
    if not sums or not all(map(_computes_rows, assigns)) or not _in_order(assigns):
        return None
    others = [*statements[:at], *statements[at + len(assigns) + len(sums) :]]
    loop = Fused(tuple(assigns), tuple(sums))
    for number, assign in enumerate(assigns):
        target = assign.target
        if target.base == SCRATCH and not any(touches(other, target) for other in others):
            loop = _with_register(loop, target, number)
    return loop


def _follows(statement: Assign, before: Sequence[Assign]) -> bool:
    """True if ``statement`` only converts what one ``before`` it has computed."""
    value, first = statement.value, before[0].target
    is_conversion = value.kind == "cast" and value.args[0].memref in {assign.target for assign in before}
    return is_conversion and (statement.target.rows, statement.target.columns) == (first.rows, first.columns)


def _in_order(assigns: Sequence[Assign]) -> bool:
    """True if what is read of memory that is written is read where it is written, as it is."""
    targets = {assign.target.base: assign.target for assign in assigns}
    reads = [load.memref for assign in assigns for load in loads(assign.value) if load.memref is not None]
    return all(memref == targets.get(memref.base, memref) for memref in (*reads, *(a.target for a in assigns)))


def is_row_sum(total: Reduce) -> bool:
    """True of a sequential sum of all elements of a partition, or of each of several equal groups of them.

    One of elements in the first-level cache is nearly free. Its target must be memory that nothing else shares.
    """
    value = total.value.args[0] if total.value.kind == "cast" else total.value
    if total.cross_partition or total.op in ANY_ORDER or total.op not in IDENTITIES or total.target.base != SCRATCH:
        return False
    return value.kind == "load" and total.value.rows % GROUP == 0 and total.value.columns // total.groups >= _FEWEST


def may_be_summed(assigns: Sequence[Assign], total: Reduce, others: Sequence[Reduce]) -> bool:
    """True if the sum of what one of ``assigns`` computes may share their loop with ``others``, of as many groups."""
    if not is_row_sum(total):
        return False
    value = total.value.args[0] if total.value.kind == "cast" else total.value
    targets = [assign.target for assign in assigns]
    if value.memref not in targets or len(others) == MOST_SUMS or any(other.groups != total.groups for other in others):
        return False
    if any(part.kind == "iota" for assign in assigns for part in subexpressions(assign.value)):
        return False
    length = total.value.columns // total.groups
    memrefs = [*targets, *(load.memref for assign in assigns for load in loads(assign.value) if load.memref)]
    if not all(map(_is_plain, memrefs)):
        return False
    return boundaries([memref.dims for memref in memrefs], length) == sorted({1, length, total.value.columns})


def _is_plain(memref: MemRef) -> bool:
    """True if elements are neighbours or one that is repeated, as far as the pattern goes without a jump."""
    step, count = memref.dims[-1]
    return not memref.dtype.is_packed and (step in (0, 1) or count == 1)


def _computes_rows(s: Assign) -> bool:
    """True of dense rows, or rows in a register, that are computed element by element with a function."""
    return s.target.dense_rows and all(part.kind in _KINDS for part in subexpressions(s.value))


def _with_register(loop: Fused, memref: MemRef, number: int) -> Fused:
    """``loop`` with register ``number`` in place of ``memref``."""
    register = replace(memref, base=REGISTER, offset=number)
    for part in loop.parts:
        if part.target == memref:
            part.target = register
        for load in loads(part.value):
            if load.memref == memref:
                load.memref = register
    return loop
