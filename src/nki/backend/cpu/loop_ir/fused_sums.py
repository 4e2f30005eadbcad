"""Sums of expressions: no tile in scratch memory that one reduction alone reads.

``s = f(x, y); t = reduce(s)`` becomes ``t = reduce(f(x, y))`` where ``f`` is some cheap operators on the elements of
``x`` and on numbers that all elements of a partition share.
"""

from __future__ import annotations

from typing import Final

from nki.backend.cpu.loop_ir.nodes import (
    SCRATCH,
    Aliases,
    Assign,
    Expr,
    LoopStatement,
    MemRef,
    Reduce,
    loads,
    subexpressions,
)
from nki.isa.tables.alu import BITS

_MOST_PARTS: Final = 8
"""Parts of an expression that is worth computing element by element, where few rows go beside each other."""


def fuse_sums(statements: list[LoopStatement], aliases: Aliases = ()) -> list[LoopStatement]:
    """``statements``, of which reductions compute what the statement before them did, if only they read it."""
    del aliases  # it moves no access to an operand
    if not any(isinstance(statement, Reduce) for statement in statements):
        return statements
    fused: list[LoopStatement] = []
    for number, statement in enumerate(statements):
        before = fused[-1] if fused else None
        if isinstance(statement, Reduce) and isinstance(before, Assign) and _is_for(before, statement):
            others = [*fused[:-1], *statements[number + 1 :]]
            if all(isinstance(other, Assign | Reduce) and not _uses(other, before.target) for other in others):
                statement.value = before.value
                fused.pop()
        fused.append(statement)
    return fused


def _is_for(before: Assign, statement: Reduce) -> bool:
    """True if ``statement`` reduces all that ``before`` computes, cheaply and in order, and computes nothing itself."""
    value, target = before.value, before.target
    if target.base != SCRATCH or statement.cross_partition or statement.value.kind != "load" or statement.op != "add":
        return False
    if statement.value.memref != target or (value.rows, value.columns) != (target.rows, target.columns):
        return False
    parts = subexpressions(value)
    if len(parts) > _MOST_PARTS or value.kind != "alu" or any(part.op in BITS for part in parts):
        return False
    if any(part.kind not in ("load", "cast", "value", "alu") for part in parts):
        return False
    wide = {id(load) for load in loads(value) if load.columns > 1}
    return len(wide) == 1 and all(load.memref is not None and len(load.memref.dims) == 1 for load in loads(value))


def _uses(statement: Assign | Reduce, memref: MemRef) -> bool:
    """True if ``statement`` reads or writes scratch memory of ``memref``."""
    values: list[Expr] = [statement.value]
    if isinstance(statement, Reduce) and statement.init is not None:
        values.append(statement.init)
    memrefs = [statement.target, *(load.memref for value in values for load in loads(value) if load.memref)]
    low, high = memref.offset, memref.offset + memref.rows * memref.columns * memref.dtype.itemsize
    return any(m.base == SCRATCH and low <= m.offset < high for m in memrefs)
