"""Copies that fill a tile in a layout that matrix products read: conversions of :mod:`nki.numerics.matmul.conversions`.

The source is dense rows, or dense columns, of the same dtype. Other copies to blocks are plain loops.
"""

from __future__ import annotations

from typing import Final

from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.matmul import call_conversion, moved
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import Assign, MemRef
from nki.numerics.layouts import PAIR_PANELS
from nki.numerics.llvm import i64
from nki.numerics.matmul.contract import PANEL
from nki.numerics.matmul.host import bf16_unit, has_blocks
from nki.numerics.matmul.units import FLOAT32, columns_to_blocks

_AHEAD: Final = 32
"""Rows ahead of a copy at which memory outside of tiles is asked for; loads of the rows below come next as a rule."""


def emit_layout_copy(r: FunctionBuilder, s: Assign) -> bool:
    """Emit ``s`` if a conversion does it; False, and nothing, otherwise."""
    source, target = s.value.memref, s.target
    if s.value.kind != "load" or source is None:
        return False
    if target.layout.pairs:
        (_to_pair_panels if target.layout == PAIR_PANELS else _to_pair_columns)(r, target, source)
        return True
    if not target.in_blocks or source.rows != target.rows:
        return False
    if source.row_step == 1 and len(source.dims) == 1:
        _columns_to_blocks(r, target, source)
    elif source.dense_rows and has_blocks():
        _rows_to_blocks(r, target, source)
    else:
        return False
    return True


def _unit_address(layouts: str) -> int:
    unit = bf16_unit()
    assert unit is not None
    return unit.address(f"nki_{layouts}")


def _to_pair_panels(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy the rows of the routine's range."""
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    places = (r.address(target), PAIR_PANELS.block(target.rows, PANEL)), (r.address(source), source.row_step)
    sizes = i64(target.columns), target.rows
    call_conversion(r, _unit_address("rows_to_pair_panels"), places, (first, r.b.add(first, count)), sizes, PANEL)


def _to_pair_columns(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy the columns of the operand, which are partitions of the target, in the routine's range."""
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    is_turned = source.dims[0][0] == 1
    step, name = (source.row_step, "columns") if is_turned else (source.dims[0][0], "rows")
    begin = moved(r, r.address(target), first, 2 * target.row_step)
    places = (begin, target.row_step), (moved(r, r.address(source), first, 2 * source.row_step), step)
    rows = i64(0), i64(target.columns)
    address = _unit_address(f"{name}_to_pair_columns")
    call_conversion(r, address, places, rows, (count, target.columns), _AHEAD)


def _rows_to_blocks(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy the rows of the routine's range, or the columns of it, which has whole blocks."""
    size, step, pointers = target.dims[0][0], source.row_step, (r.address(target), r.address(source))
    if r.by_columns:
        first, last, columns = i64(0), i64(target.rows), r.b.sub(r.last, r.first)
        pointers = moved(r, pointers[0], r.first, size), moved(r, pointers[1], r.first, 4)
    else:
        first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
        last, columns = r.b.add(first, count), i64(target.columns)
    places = (pointers[0], size), (pointers[1], step)
    ahead = _AHEAD * step if r.is_far(source) else 0
    call_conversion(r, FLOAT32.address("nki_rows_to_blocks"), places, (first, last), (columns, target.rows), ahead)


def _columns_to_blocks(r: FunctionBuilder, target: MemRef, source: MemRef) -> None:
    """Copy the columns of the routine's range, which has whole blocks."""
    size, step = target.dims[0][0], source.dims[0][0]
    first, last = (r.first, r.last) if r.by_columns else (i64(0), i64(target.columns))
    places = (moved(r, r.address(target), first, size), size), (moved(r, r.address(source), first, 4 * step), step)
    call_conversion(r, columns_to_blocks(), places, (i64(0), i64(target.rows)), (r.b.sub(last, first), target.rows))
