"""Prints the kernel IR of an instruction as text, one line per statement.

``%1+8 bfloat16[4 x 2:3]`` is memory 8 bytes from the start of operand 1: 4 partitions of 3 elements, every second one.
``%s`` is scratch memory, ``$2:float32`` a register. A step from partition to partition is shown, after ``/``, unless
partitions are dense.
"""

from __future__ import annotations

from nki.backend.cpu.kernel_ir.lowering_algebra import KernelIRBuilder
from nki.backend.cpu.kernel_ir.nodes import (
    PANEL_BASE,
    REGISTER,
    SCRATCH,
    Assign,
    Call,
    Expr,
    Fused,
    LoopStatement,
    Matmul,
    MemRef,
    PairedSums,
    Param,
    Plain,
    Print,
    Reduce,
    Scan,
)
from nki.ir.layout import DENSE


def show_loops(kernel_ir: KernelIRBuilder) -> str:
    """The statements of an instruction, a line each; those that share a loop below it."""
    return "".join(f"{show_statement(statement)}\n" for statement in kernel_ir.statements)


def show_statement(statement: LoopStatement) -> str:
    """One statement as text."""
    match statement:
        case Fused(assigns):
            head = f"for {assigns[0].target.rows} rows, {assigns[0].target.columns} columns:"
        case PairedSums(even):
            head = f"for {even.value.rows} rows, pairs of columns:"
        case _:
            return _show(statement)
    return "\n  ".join([head, *map(_show, statement.parts)])


def _show(statement: Plain) -> str:
    match statement:
        case Assign(target, value):
            return f"{show_memref(target)} = {show_expr(value)}"
        case Reduce(target, value, op, groups, cross_partition, init):
            words = "partitions" if cross_partition else f"{groups} groups" if groups > 1 else "elements"
            start = "" if init is None else f" from {show_expr(init)}"
            return f"{show_memref(target)} = reduce {op} over {words} of {show_expr(value)}{start}"
        case Matmul(target, left, right, accumulate, by_groups, epilogue):
            assignment, order = "+=" if accumulate else "=", " by groups" if by_groups else ""
            matmul = f"matmul({show_memref(left)}, {show_memref(right)}){order}"
            value = matmul if epilogue is None else f"{show_expr(epilogue)} of {matmul}"
            return f"{show_memref(target)} {assignment} {value}"
        case Print(source, prefix, shape):
            return f"print {prefix!r} {shape} {show_memref(source)}"
        case Scan(target, sources, init, steps):
            operators = ", ".join(f"state {s.op} x" if s.state_first else f"x {s.op} state" for s in steps)
            operands = ", ".join(map(show_memref, sources))
            return f"{show_memref(target)} = scan [{operators}] of {operands} from {show_memref(init)}"
        case Call(function, targets, sources, numbers):
            results, operands = (", ".join(map(show_memref, memrefs)) for memrefs in (targets, sources))
            return f"{results} = {function}({operands}, {', '.join(map(str, numbers))})"


def show_expr(expr: Expr) -> str:
    """An expression as text: a load is its memory, anything else a call."""
    args = [show_expr(arg) for arg in expr.args]
    match expr.kind:
        case "load":
            return show_memref(expr.memref)
        case "value":
            return f"{_number(expr.value)}:{expr.dtype}"
        case "iota":
            dims, offset, multiplier = expr.value
            return f"iota({_dims(dims)}, {_number(offset)}, {_number(multiplier)})"
        case "gather":
            return f"gather({show_memref(expr.memref)}, {_dims((expr.value,))}, {args[0]})"
        case "cast" | "narrow" | "bits" | "pack":
            return f"{expr.kind}[{expr.dtype}]({', '.join(args)})"
        case "unpack":
            return f"unpack[{expr.value}]({args[0]})"
        case _:
            return f"{expr.op or expr.kind}({', '.join(args)})"


def show_memref(memref: MemRef | None) -> str:
    """Strided memory as text; see the module."""
    if memref is None:
        return "?"
    if memref.base == REGISTER:
        return f"${memref.offset}:{memref.dtype}"
    base = {SCRATCH: "%s", PANEL_BASE: "%panel"}.get(memref.base, f"%{memref.base}")
    offset = f"+{memref.offset}" if memref.offset else ""
    dense = memref.rows == 1 or memref.row_step == memref.columns
    step = "" if dense else f"/{memref.row_step}"
    layout = "" if memref.layout is DENSE else f" in {memref.layout.name}"
    return f"{base}{offset} {memref.dtype}[{memref.rows}{step} x {_dims(memref.dims)}]{layout}"


def _dims(dims: tuple[tuple[int, int], ...]) -> str:
    return " x ".join(str(count) if step == 1 else f"{step}:{count}" for step, count in dims)


def _number(value: object) -> str:
    if not isinstance(value, Param):
        return str(value)
    return f"{'float' if value.in_frame else 'immediate'} {value.index}"
