"""Operations that walk the elements of each partition one after the other: calls of ``native/row_operations.c``."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import Call
from nki.backend.cpu.native import library
from nki.numerics.llvm import I64


def emit_call(r: FunctionBuilder, s: Call) -> None:
    """Emit ``s``, for the partitions of the routine's range.

    The function gets an address and a row step of each dense matrix, targets first, the number of their rows, the
    numbers, and the addresses of the memory to work in.
    """
    arguments: list[Value] = []
    for matrix in (*s.targets, *s.sources):
        step = matrix.row_step if matrix.rows > 1 else matrix.columns
        arguments += [r.first_row(matrix), ir.Constant(I64, step)]
    _, rows = r.rounds(CountedLoop(s.target.rows, (), r.per_partition(s.target.rows)))
    numbers = [ir.Constant(I64, number) for number in s.numbers]
    r.call(library.address(s.function, "row_operations"), [*arguments, rows, *numbers, *map(r.address, s.work)])
