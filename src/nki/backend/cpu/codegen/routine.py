"""Machine code for one instruction: the statements of its loop IR, one after the other, in a routine."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.elementwise import emit_assign
from nki.backend.cpu.codegen.function import I64, Routine
from nki.backend.cpu.codegen.indexed_store import emit_indexed_store
from nki.backend.cpu.codegen.reduce import emit_reduce
from nki.backend.cpu.codegen.rowwise import emit_row_op
from nki.backend.cpu.codegen.scan import emit_scan
from nki.backend.cpu.loop_ir.lower import Aliases, lower
from nki.backend.cpu.loop_ir.nodes import (
    Assign,
    FindIndex,
    Gemm,
    IndexedStore,
    LoopStatement,
    MemRef,
    Print,
    Reduce,
    RowOp,
    Scan,
    Top8,
)
from nki.backend.cpu.runtime import print_callback
from nki.ir.instruction import Inst
from nki.ir.runtime_index import split_rows
from nki.numerics import matmul_entry, top8


def emit_routine(module: ir.Module, name: str, inst: Inst, aliases: Aliases, lanes: int) -> int:
    """Add the routine ``name`` of ``inst`` to ``module``, with vectors of ``lanes`` floats.

    Gives the bytes of scratch memory that it needs. An instruction with an index for each row becomes a loop over them.
    """
    loop_ir = lower(next(split_rows(inst)), aliases)
    routine = Routine(module, name, loop_ir, inst, lanes)
    with routine.for_each_row():
        for statement in loop_ir.statements:
            _emit(routine, statement)
    routine.b.ret_void()
    return loop_ir.scratch_bytes


def _emit(r: Routine, statement: LoopStatement) -> None:
    match statement:
        case Assign():
            emit_assign(r, statement)
        case Reduce():
            emit_reduce(r, statement)
        case Scan():
            emit_scan(r, statement)
        case IndexedStore():
            emit_indexed_store(r, statement)
        case RowOp():
            emit_row_op(r, statement)
        case Print(source, prefix, shape):
            number = print_callback.number(prefix, shape, source.dtype)
            r.call(print_callback.address(), [r.address(source), ir.Constant(I64, number)])
        case Gemm(target, left, right, accumulate):
            # The matrix product is one tuned routine, which the NumPy executor calls too.
            numbers = (left.columns, right.columns, left.rows, int(accumulate))
            _call(r, matmul_entry.address(), (target, left, right), numbers)
        case Top8(target, source):
            _call(r, top8.top8_address(), (target, source), (source.rows, source.columns))
        case FindIndex(target, source, wanted, last_first):
            _call(r, top8.find_address(), (target, source, wanted), (source.rows, source.columns, int(last_first)))


def _call(r: Routine, routine: int, matrices: tuple[MemRef, ...], numbers: tuple[int, ...]) -> None:
    """Call a compiled routine that takes matrices, each an address and a step from row to row, and then numbers."""
    arguments = [
        value
        for matrix in matrices
        for value in (r.address(matrix), ir.Constant(I64, matrix.row_step if matrix.rows > 1 else matrix.columns))
    ]
    r.call(routine, [*arguments, *(ir.Constant(I64, n) for n in numbers)])
