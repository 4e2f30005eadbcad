"""Matrix products: calls of the compiled routines, which read float32 where it is."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.few_rows import emit_column, emit_few_rows
from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.narrow_product import NarrowProduct, call_product, moved, step_of
from nki.backend.cpu.codegen.word_product import WordProduct
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import NARROW, Gemm
from nki.numerics import matmul_entry
from nki.numerics.llvm import I64
from nki.numerics.matmul import PANEL


def calls_product(s: Gemm) -> bool:
    """True if ``s`` calls the compiled product of float32 numbers."""
    return not (s.has_few_rows or s.is_column) and NARROW.isdisjoint((s.left.dtype, s.right.dtype))


def emit_gemm(r: FunctionBuilder, s: Gemm) -> None:
    """Emit ``s``, for the rows of the target, which are columns of the left operand, in the routine's range."""
    if s.has_few_rows:
        emit_few_rows(r, s)
        return
    if s.is_column:
        emit_column(r, s)
        return
    first, count = r.rounds(CountedLoop(s.target.rows, (), r.per_partition(s.target.rows)))
    if not NARROW.isdisjoint((s.left.dtype, s.right.dtype)):
        words = matmul_entry.word_routines() if s.by_groups else None
        product = NarrowProduct(r, s) if words is None else WordProduct(r, s, words)
        product.emit(first, count)
        return
    blocks = s.left.dims[0][0] if s.left.in_blocks else 0
    stationary = moved(r, r.address(s.left), first, blocks or s.left.dtype.itemsize), step_of(s.left)
    panels = s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL
    moving = r.address(s.right), step_of(s.right), panels
    call_product(r, s, (first, count), ir.Constant(I64, 0), s.right.columns, stationary, moving, blocks=blocks)
