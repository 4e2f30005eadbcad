"""Matrix products: calls of the compiled routines, which read float32 where it is."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.few_rows import emit_column, emit_few_rows
from nki.backend.cpu.codegen.function import I64, FunctionBuilder, Value
from nki.backend.cpu.codegen.loop_nest import CountedLoop
from nki.backend.cpu.codegen.narrow_product import NarrowProduct, call_product, moved, step_of
from nki.backend.cpu.codegen.tile_product import TileProduct
from nki.backend.cpu.loop_ir.nodes import NARROW, Gemm
from nki.base import dtype as dt
from nki.numerics import matmul_entry, packing
from nki.numerics.jit import engine
from nki.numerics.matmul import PANEL, block_of


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
        tiles = matmul_entry.tile_routines() if s.by_groups else None
        product = NarrowProduct(r, s) if tiles is None else TileProduct(r, s, tiles)
        product.emit(first, count)
        return
    panels = s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL
    moving = r.address(s.right), step_of(s.right), panels
    if s.left.is_turned:
        _emit_turned(r, s, (first, count), moving)
        return
    stationary = moved(r, r.address(s.left), first, s.left.dtype.itemsize), step_of(s.left)
    call_product(r, s, (first, count), ir.Constant(I64, 0), s.right.columns, stationary, moving)


def _emit_turned(r: FunctionBuilder, s: Gemm, rows: tuple[Value, Value], moving: tuple[Value, Value, int]) -> None:
    """Emit ``s`` for ``rows`` (the first, how many); its stationary operand, whose columns are dense, is packed."""
    (step, count), depth = s.left.dims[0], s.left.rows
    size = packing.blocks_size(block_of(engine().vector_width), depth, count)
    memref = r.loop_ir.new_scratch(1, size, dt.float32)
    r.need_scratch()
    blocks = r.address(memref)
    source = moved(r, r.address(s.left), rows[0], step * s.left.dtype.itemsize)
    constants = [ir.Constant(I64, number) for number in (step, depth, moving[2], s.right.columns, int(s.accumulate))]
    step_value, depth_value, panels, columns, accumulates = constants
    r.call(matmul_entry.pack_turned_address(), [blocks, source, step_value, rows[1], depth_value])
    target = r.first_row(s.target), step_of(s.target)
    sizes = [panels, rows[1], columns, depth_value, accumulates]
    r.call(matmul_entry.packed_address(), [*target, blocks, *moving[:2], *sizes])
