"""Copies and transpositions to a stationary operand that lies in blocks, from which products read memory in order.

See :data:`~nki.numerics.matmul.BLOCK`: the columns of a block lie side by side in each row, the rows of a block behind
each other.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.loop_nest import CountedLoop
from nki.backend.cpu.loop_ir.nodes import Assign, MemRef
from nki.numerics.llvm import F32, Matrix, Value, Variable, i64, steps
from nki.numerics.matmul import BLOCK
from nki.numerics.packing import copy_to_blocks, shuffled

_ROWS: Final = 16
"""Rows of columns that are copied at a time."""


def emit_blocks(r: FunctionBuilder, s: Assign) -> bool:
    """Emit ``s``, which fills blocks with dense rows or columns as they are; False, and nothing, of another one."""
    source = s.value.memref
    if s.value.kind != "load" or source is None or not s.target.in_blocks or source.rows != s.target.rows:
        return False
    if _is_turned(source):
        _emit_columns(r, s.target, source)
    elif _has_dense_rows(source):
        _emit_rows(r, s.target, source)
    else:
        return False
    return True


def _is_turned(source: MemRef) -> bool:
    """True if columns are dense, each at one distance from the one before."""
    distances = {step for step, _ in source.dims[1:]} | {step // BLOCK for step, _ in source.dims[:-1]}
    return source.row_step == 1 and (len(source.dims) == 1 or (len(source.dims) == 2 and len(distances) == 1))


def _has_dense_rows(source: MemRef) -> bool:
    return source.dense_rows or source.dims == ((BLOCK, source.columns // BLOCK), (1, BLOCK))


def _emit_rows(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy rows."""
    b = r.b
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    blocks = Matrix(r.address(target), i64(target.dims[0][0]))
    rows = Matrix(r.address(source), i64(source.row_step))
    copy_to_blocks(b, blocks, rows, (first, b.add(first, count)), i64(target.columns), BLOCK)


def _emit_columns(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy columns, those of a block at a time: their numbers alternate."""
    b, depth, step = r.b, target.rows, source.dims[-1][0]
    first, last = (r.first, r.last) if r.by_columns else (i64(0), i64(target.columns))
    columns, blocks = Matrix(r.address(source), i64(step)), Matrix(r.address(target), i64(target.dims[0][0]))
    shift = i64(BLOCK.bit_length() - 1)
    start, row = Variable(b), Variable(b)
    start.set(b.ashr(first, shift))
    with steps(b, b.ashr(last, shift), 1, start) as block:
        column = b.mul(block, i64(BLOCK))
        row.set(i64(0))
        for height in (_ROWS, 1):
            with steps(b, i64(depth), height, row) as here:
                kind = ir.VectorType(F32, height) if height > 1 else F32
                places = [columns.at(b, b.add(column, i64(n)), here) for n in range(BLOCK)]
                numbers = [b.load(place, typ=kind, align=4) for place in places]
                for n, vector in enumerate(_alternating(b, numbers) if height > 1 else numbers):
                    b.store(vector, blocks.at(b, block, b.add(b.mul(here, i64(BLOCK)), i64(height * n))), align=4)


def _alternating(b: Any, vectors: list[Value]) -> list[Value]:
    """The first numbers of all four ``vectors``, then the second ones, and so on: sixteen in each result."""
    first, second = _merged(b, vectors[0], vectors[1], 1), _merged(b, vectors[2], vectors[3], 1)
    return [part for pair in zip(first, second, strict=True) for part in _merged(b, *pair, 2)]


def _merged(b: Any, left: Value, right: Value, together: int) -> list[Value]:
    """Numbers of ``left`` and ``right`` in turn, some ``together``: the first half of the result, and the second."""
    count = left.type.count
    turns = range(0, count, together)
    lanes = [lane for start in turns for side in (0, count) for lane in range(side + start, side + start + together)]
    return [shuffled(b, left, right, half) for half in (lanes[:count], lanes[count:])]
