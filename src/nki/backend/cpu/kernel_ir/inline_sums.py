"""Sums of expressions: ``s = f(x); t = reduce(s)`` becomes ``t = reduce(f(x))``, where nothing else reads ``s``.

The lanes of a vector then follow a row each, and compute what they add. Exponentials stay in a loop of their own: two
vectors at a time they take less than the way through the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nki.backend.cpu.kernel_ir.accesses import touches
from nki.backend.cpu.kernel_ir.nodes import (
    SCRATCH,
    Aliases,
    Assign,
    Expr,
    Fused,
    LoopStatement,
    MemRef,
    Reduce,
    mapped,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.reductions import row_sums
from nki.base.dtype import DType
from nki.numerics.functions import FUNCTIONS

_MOST_PARTS: Final = 24
"""Parts of an expression that a sum computes for itself."""


def inline_sums(statements: list[LoopStatement], aliases: Aliases = ()) -> list[LoopStatement]:
    """``statements``, of which sums by row compute what the statements before them did, if only they read it."""
    del aliases  # it moves no access to an operand: what overlaps another one was copied before
    result: list[LoopStatement] = []
    for number, statement in enumerate(statements):
        before = result[-1] if result else None
        if isinstance(statement, Fused) and (alone := _alone(statement.assigns, statement)) is not None:
            result.append(alone)
        elif isinstance(statement, Reduce) and isinstance(before, Assign) and before.target.base == SCRATCH:
            others = [*result[:-1], *statements[number + 1 :]]
            is_read = any(touches(other, before.target) for other in others)
            alone = None if is_read else _inlined((before,), statement)
            result[-1:] = [before, statement] if alone is None else [alone]
        else:
            result.append(statement)
    return result


def _alone(assigns: Sequence[Assign], loop: Fused) -> Reduce | None:
    """The only sum of ``loop`` as that of an expression, if nothing else is wanted of it."""
    if len(loop.sums) != 1 or any(map(loop.is_stored, range(len(assigns)))):
        return None
    return _inlined(assigns, loop.sums[0])


def _inlined(assigns: Sequence[Assign], total: Reduce) -> Reduce | None:
    """``total`` of an expression of what ``assigns`` read; None if that is long, or if no lanes of rows can compute it.

    Each memory has one load in it, and that one cast to each dtype.
    """
    if not any(part.memref == assigns[-1].target for part in subexpressions(total.value)):
        return None
    values: dict[MemRef, Expr] = {}
    casts: dict[tuple[int, DType], Expr] = {}

    def part(expr: Expr) -> Expr:
        if expr.kind == "load" and expr.memref is not None:
            return values.setdefault(expr.memref, expr)
        return casts.setdefault((id(expr.args[0]), expr.dtype), expr) if expr.kind == "cast" else expr

    for assign in assigns:
        value = mapped(assign.value, part)
        if len(subexpressions(value)) > _MOST_PARTS or _is_exponential(assign.value):
            return None
        values[assign.target] = value
    alone = replace(total, value=mapped(total.value, part))
    return None if row_sums(alone) is None else alone


def _is_exponential(value: Expr) -> bool:
    """True of a function with a short formula for normal results, which two vectors share, or its rounding."""
    expr = value.args[0] if value.kind == "cast" else value
    return expr.kind == "act" and FUNCTIONS[expr.op].normal is not None
