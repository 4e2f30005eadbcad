"""Rough run time of kernel IR on one core: enough to tell what is worth the help of other threads.

The numbers are guesses about a present server core: orders of magnitude, from `make bench`. Nothing but speed depends
on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nki.backend.cpu.kernel_ir.nodes import (
    Assign,
    Call,
    Expr,
    Fused,
    LoopStatement,
    Matmul,
    Plain,
    Print,
    Reduce,
    Scan,
    flat,
)
from nki.numerics.functions import operations
from nki.numerics.matmul.host import bf16_unit
from nki.numerics.matmul.units import FLOAT32

_ELEMENT: Final = 0.08
"""Nanoseconds to load an element, or to store it."""
_OPERATION: Final = 0.01
"""Nanoseconds of an operation of a function or an operator on an element, and of a conversion."""
_GATHER: Final = 1.0
"""Nanoseconds to load an element from anywhere."""
_SEQUENTIAL: Final = 0.3
"""Nanoseconds of an element in a reduction."""
_BY_ROW: Final = 1.5
"""Nanoseconds of an element where a loop walks each row step by step."""
_START: Final = 30.0
"""Nanoseconds of a statement without elements."""


def nanoseconds(statements: Sequence[LoopStatement]) -> float:
    """The estimated run time of ``statements``, all partitions."""
    total = sum(_START + _of(statement) for statement in flat(statements))
    return total - sum(_passed_on(statement) for statement in statements if isinstance(statement, Fused))


def _passed_on(loop: Fused) -> float:
    """The nanoseconds that results in registers spare."""
    targets = [assign.target for number, assign in enumerate(loop.assigns) if not loop.is_stored(number)]
    return sum(2 * _ELEMENT * target.rows * target.columns for target in targets)


def _of(statement: Plain) -> float:
    match statement:
        case Matmul(target, left, right, _, by_groups, _):
            once = right if statement.has_few_rows else left if statement.is_column else None
            reading = 0.0 if once is None else once.rows * once.columns * _ELEMENT
            return reading + target.rows * target.columns * left.rows * _each(by_groups and once is None)
        case Assign(target, value):
            return target.rows * target.columns * (_ELEMENT + _expression(value))
        case Reduce():
            return statement.value.rows * statement.value.columns * (_SEQUENTIAL + _expression(statement.value))
        case Scan():
            return statement.target.rows * statement.target.columns * _BY_ROW
        case Print():
            return 0.0
        case Call(_, targets, sources):
            return max(memref.rows * memref.columns for memref in (*targets, *sources)) * _BY_ROW


def _each(in_pairs: bool) -> float:
    """Nanoseconds of one matmul, in pairs of bfloat16 if the processor multiplies those."""
    return ((bf16_unit() if in_pairs else None) or FLOAT32).nanoseconds


def _expression(expr: Expr) -> float:
    """Nanoseconds of one element of ``expr``."""
    match expr.kind:
        case "load":
            own = _ELEMENT
        case "gather":
            own = _GATHER
        case "act" | "alu":
            own = _OPERATION * operations(expr.kind, expr.op)
        case _:
            own = _OPERATION
    return own + sum(_expression(arg) for arg in expr.args)
