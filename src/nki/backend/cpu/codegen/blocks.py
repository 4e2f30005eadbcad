"""Copies and transpositions to a stationary operand that lies in blocks, from which products read memory in order.

See :data:`~nki.numerics.matmul.BLOCK`: the columns of a block lie side by side in each row, the rows of a block behind
each other.
"""

from __future__ import annotations

from typing import Final

from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.narrow_product import moved
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import Assign, MemRef
from nki.numerics import matmul_entry
from nki.numerics.llvm import i64
from nki.numerics.matmul import BLOCK

_AHEAD: Final = 32
"""Rows ahead of a copy at which memory outside of tiles is asked for; loads of the rows below come next as a rule."""


def emit_blocks(r: FunctionBuilder, s: Assign) -> bool:
    """Emit ``s``, which fills blocks with dense rows or columns as they are; False, and nothing, of another one."""
    source = s.value.memref
    if s.value.kind != "load" or source is None or not s.target.in_blocks or source.rows != s.target.rows:
        return False
    if source.row_step == 1 and len(source.dims) == 1:
        _emit_columns(r, s.target, source)
    elif source.dense_rows and matmul_entry.columns_of_block() == BLOCK:  # else it copies to wider blocks
        _emit_rows(r, s.target, source)
    else:
        return False
    return True


def _emit_rows(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy the rows of the routine's range, or the columns of it, which has whole blocks."""
    size, step = target.dims[0][0], source.row_step
    if r.by_columns:
        (first, count), columns, per_number = (r.first, i64(target.rows)), r.b.sub(r.last, r.first), (size, 4)
    else:
        first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
        columns, per_number = i64(target.columns), (4 * BLOCK, 4 * step)
    places = (
        moved(r, r.address(target), first, per_number[0]),
        i64(size),
        moved(r, r.address(source), first, per_number[1]),
        i64(step),
    )
    ahead = i64(_AHEAD if r.is_far(source) else 0), r.b.sub(i64(target.rows), count)
    r.call(matmul_entry.blocks_of_rows_address(), [*places, count, columns, *ahead])


def _emit_columns(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy the columns of the routine's range, which has whole blocks."""
    size, step = target.dims[0][0], source.dims[0][0]
    first, last = (r.first, r.last) if r.by_columns else (i64(0), i64(target.columns))
    places = (
        moved(r, r.address(target), first, size),
        i64(size),
        moved(r, r.address(source), first, 4 * step),
        i64(step),
    )
    r.call(matmul_entry.blocks_of_columns_address(), [*places, r.b.sub(last, first), i64(target.rows)])
