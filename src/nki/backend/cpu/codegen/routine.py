"""Machine code for one instruction: the statements of its kernel IR, one after the other, in a routine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from nki.backend.cpu.codegen.chunked_sums import emit_summed
from nki.backend.cpu.codegen.elementwise_loops import emit_assign, emit_columns
from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.fused_loop import emit_fused
from nki.backend.cpu.codegen.matmul import emit_layout_copy, emit_matmul
from nki.backend.cpu.codegen.reduce import emit_reduce
from nki.backend.cpu.codegen.row_operations import emit_call, emit_scan
from nki.backend.cpu.kernel_ir.accesses import Split, Use, column_split, partition_split
from nki.backend.cpu.kernel_ir.cost import nanoseconds
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.lowering_algebra import KernelIRBuilder
from nki.backend.cpu.kernel_ir.nodes import (
    Aliases,
    Assign,
    Call,
    Fused,
    LoopStatement,
    Matmul,
    PairedSums,
    Print,
    Reduce,
    Scan,
)
from nki.backend.cpu.native import library
from nki.backend.cpu.native.callbacks import printer
from nki.ir.indirection.runtime_index import split_rows
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE
from nki.ir.types import Buffer, is_row_indexed
from nki.numerics.llvm import POINTER, i64


class EmittedRoutine(NamedTuple):
    """Facts about a routine: the bytes of scratch memory that it needs, and the partitions that it may be split over.

    ``partitions`` is 0 if the routine must run whole; a matmul of few rows, and some transpositions, count the columns
    of their result instead.
    Else calls with ranges of partitions that cover all of them, in any order, are one call, to the bit; calls at one
    time need scratch memory each. ``uses`` are the operands' bytes that a range uses, ``nanoseconds`` a rough estimate
    of a whole run; both only if the routine may be split.
    """

    scratch: int
    partitions: int
    uses: tuple[Use, ...] = ()
    nanoseconds: float = 0.0


def emit_routine(module: ir.Module, name: str, inst: Inst, aliases: Aliases, lanes: int) -> EmittedRoutine:
    """Add the routine ``name`` of ``inst`` to ``module``, with vectors of ``lanes`` floats.

    An instruction with an index for each row becomes a loop over them.
    """
    kernel_ir = routine_ir(inst, aliases)
    split = _split(inst, kernel_ir.statements, aliases)
    routine = FunctionBuilder(module, name, kernel_ir, inst, lanes, split.count, split.by_columns)
    with routine.for_each_row():
        for number, statement in enumerate(kernel_ir.statements):
            routine.for_all = number in split.whole
            _emit(routine, statement)
        routine.for_all = False
    routine.end_writes()
    routine.b.ret_void()
    if not split.count:
        return EmittedRoutine(kernel_ir.scratch_bytes, 0)
    return EmittedRoutine(kernel_ir.scratch_bytes, split.count, split.uses, nanoseconds(kernel_ir.statements))


def routine_ir(inst: Inst, aliases: Aliases) -> KernelIRBuilder:
    """The kernel IR of the routine of ``inst``: of its first row, if an operand has an index for each row."""
    return lower(next(split_rows(inst)) if inst.form.has_runtime_index else inst, aliases)


def _split(inst: Inst, statements: Sequence[LoopStatement], aliases: Aliases) -> Split:
    """The ranges that the routine may run as: of columns if it is one of those, else of partitions."""
    if not _same_in_ranges(inst):
        return Split()
    by_columns = column_split(statements, aliases, _turns(inst), _loads(inst))
    return by_columns if by_columns.count else partition_split(statements, aliases)


def _turns(inst: Inst) -> bool:
    """True of a transposition that is split by the partitions that it reads: the instructions before use the same ones.

    What is in PSUM has a copy as its reader, which wants the partitions of the result.
    """
    turn = inst.as_transpose()
    return turn is not None and turn.dst.buffer is not Buffer.psum


def _loads(inst: Inst) -> bool:
    """True of a copy from HBM. One of a stationary operand is split by columns, which are partitions of its matmuls.

    What it reads was written in no particular partitions.
    """
    copy = inst.as_copy()
    return copy is not None and copy.src.buffer.is_hbm


def _same_in_ranges(inst: Inst) -> bool:
    """True if every call finds the run-time indices that the first one found, and there is not one for each row."""
    written = {access.tensor for access in inst.writes()}
    dynamic = [access for access in inst.accesses() if access.dynamic is not None]
    return not any(is_row_indexed(a) or (a.dynamic is not None and a.dynamic.source.tensor in written) for a in dynamic)


def _emit(r: FunctionBuilder, statement: LoopStatement) -> None:
    match statement:
        case Assign(target) if target.layout is not DENSE and emit_layout_copy(r, statement):
            pass
        case Assign():
            (emit_columns if r.by_columns else emit_assign)(r, statement)
        case Reduce():
            emit_reduce(r, statement)
        case Fused():
            (emit_summed if statement.sums else emit_fused)(r, statement)
        case PairedSums(even, odd):
            emit_reduce(r, even, odd)
        case Scan():
            emit_scan(r, statement)
        case Call():
            emit_call(r, statement)
        case Print(source, prefix, shape):
            callback = i64(id(printer(prefix, shape, source.dtype))).inttoptr(POINTER)
            r.call(library.address("print"), [r.frame, r.address(source), callback])
        case Matmul():
            emit_matmul(r, statement)
