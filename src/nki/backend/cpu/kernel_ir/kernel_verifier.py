"""The specification of the kernel IR, as code: what holds of statements after the builder and after every rule.

Rules run it under ``OPEN_NKI_CHECK_STAGES=1``, as in the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nki.backend.cpu.kernel_ir.accesses import reads_of, targets_of
from nki.backend.cpu.kernel_ir.nodes import (
    PANEL_BASE,
    REGISTER,
    SCRATCH,
    Assign,
    Expr,
    ExprKind,
    Fused,
    LoopStatement,
    Matmul,
    MemRef,
    PairedSums,
    Plain,
    Reduce,
    flat,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.shared_loop import may_share_loop
from nki.base import element_types as dt

_ARGUMENTS: Final[dict[ExprKind, tuple[int, ...]]] = {
    "load": (0,),
    "value": (0,),
    "iota": (0,),
    "cast": (1,),
    "narrow": (1,),
    "bits": (1,),
    "unpack": (1,),
    "gather": (1,),
    "alu": (1, 2),
    "act": (1, 2),
    "integer": (2,),
    "select": (3,),
}
"""The numbers of arguments of each kind of expression; ``pack`` has any, ``matmul`` is a statement by then."""


def verify(statements: Sequence[LoopStatement], after: str) -> None:
    """Raise ``AssertionError`` unless ``statements`` are legal; ``after`` names the rule that made them."""
    written: list[tuple[int, int]] = []
    """Ranges of bytes of scratch memory."""
    for number, statement in enumerate(statements):
        complaint = _complaint(statement) or _early(statement, written)
        assert not complaint, f"after {after}, statement {number}: {complaint}"


def _complaint(statement: LoopStatement) -> str:
    """The first thing that is wrong with a statement; "" if nothing is."""
    if isinstance(statement, Fused):
        return _shared_loop(statement)
    if isinstance(statement, PairedSums):
        sizes = {(part.value.rows, part.value.columns) for part in statement.parts}
        rows = {rows for rows, _ in sizes}
        return "" if len(rows) == 1 else f"one loop over rows of {sizes}"
    return _plain(statement, set())


def _shared_loop(loop: Fused) -> str:
    written = set[MemRef]()
    for part in loop.parts:
        complaint = _plain(part, written)
        if complaint:
            return complaint
        written.add(part.target)
    return "" if may_share_loop(loop) else "statements that must not share a loop"


def _plain(statement: Plain, registers: set[MemRef]) -> str:
    """The same of a statement by itself; ``registers`` hold what earlier ones of a shared loop gave."""
    for memref, _ in reads_of(statement):
        if memref.base == REGISTER and memref not in registers:
            return "a register is read that nothing in its loop has written"
    match statement:
        case Assign(target, value):
            whole = value.rows == 1 and value.columns in (1, target.rows * target.columns)
            if not whole and not (value.rows in (1, target.rows) and value.columns in (1, target.columns)):
                return f"{value.rows} x {value.columns} elements for {target.rows} x {target.columns}"
            return _expression(value)
        case Reduce(target, value, _, groups, cross_partition, init):
            size = (1, value.columns) if cross_partition else (value.rows, groups)
            if (target.rows, target.columns) != size or value.columns % groups:
                return f"a reduction to {target.rows} x {target.columns} and not to {size}"
            return _expression(value) or ("" if init is None else _expression(init))
        case Matmul(target, left, right, _, _, epilogue):
            if (left.rows, left.columns, right.columns) != (right.rows, target.rows, target.columns):
                return "operands of a matmul do not fit its result"
            if epilogue is None:
                return "" if target.dtype is dt.float32 else "a matmul is not float32"
            return _expression(epilogue)
        case _:
            return ""


def _expression(value: Expr) -> str:
    for part in subexpressions(value):
        if part.kind != "pack" and len(part.args) not in _ARGUMENTS.get(part.kind, ()):
            return f"{part.kind} of {len(part.args)} arguments"
        if (part.memref is None) != (part.kind not in ("load", "gather")):
            return f"{part.kind} has memory, or has none"
        memref = part.memref if part.kind == "load" else None
        if memref is not None and (memref.rows, memref.columns, memref.dtype) != (part.rows, part.columns, part.dtype):
            return "a load has another size or dtype than its memory"
        for arg in part.args:
            if arg.rows not in (1, part.rows) or arg.columns not in (1, part.columns):
                return f"{part.kind} of {arg.rows} x {arg.columns} is {part.rows} x {part.columns}"
    return ""


def _early(statement: LoopStatement, written: list[tuple[int, int]]) -> str:
    """A complaint if scratch memory is read that nothing has written; what it writes is ``written`` afterwards."""
    for part in flat([statement]):
        for memref, _ in reads_of(part):
            low, high = memref.span
            if memref.base == SCRATCH and not any(low < end and start < high for start, end in written):
                return "scratch memory is read that nothing has written"
            if memref.base == PANEL_BASE and not isinstance(part, Matmul):
                return "a panel is read outside of its matmul"
        written += [memref.span for memref in targets_of(part) if memref.base == SCRATCH]
    return ""
