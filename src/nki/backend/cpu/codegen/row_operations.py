"""Operations that walk the elements of each partition one after the other: calls of ``native/row_operations.c``."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import FindIndex, MemRef, RowOp, Top8
from nki.backend.cpu.native import library
from nki.numerics.llvm import I64


def emit_row_operation(r: FunctionBuilder, s: Top8 | FindIndex | RowOp) -> None:
    """Emit ``s``, for the partitions of the routine's range."""
    match s:
        case Top8(target, source):
            _call(r, "top8", (target, source), _numbers(source.columns))
        case FindIndex(target, source, wanted, last_first):
            _call(r, "find", (target, source, wanted), _numbers(source.columns, int(last_first)))
        case RowOp("nonzero", target, source):
            _call(r, "nonzero", (target, source), _numbers(source.columns))
        case RowOp("ranked", target, source, (pairs,)):
            numbers = _numbers(source.columns, target.columns, source.dtype.itemsize)
            _call(r, "ranked", (target, source), [*numbers, r.address(pairs)])
        case RowOp(_, target, source, (after,)):
            _call(r, "xorwow", (target, source, after), _numbers(target.columns, source.columns // 6))
        case _:
            raise TypeError(s)


def _call(r: FunctionBuilder, name: str, matrices: tuple[MemRef, ...], others: list[Value]) -> None:
    """Call a function of dense matrices, each an address and a row step, the number of their rows, and ``others``."""
    arguments = [value for matrix in matrices for value in (r.first_row(matrix), *_numbers(_row_step(matrix)))]
    _, rows = r.rounds(CountedLoop(matrices[0].rows, (), r.per_partition(matrices[0].rows)))
    r.call(library.address(name, "row_operations"), [*arguments, rows, *others])


def _row_step(matrix: MemRef) -> int:
    return matrix.row_step if matrix.rows > 1 else matrix.columns


def _numbers(*numbers: int) -> list[Value]:
    return [ir.Constant(I64, number) for number in numbers]
