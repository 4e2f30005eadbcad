"""Copies that fill a tile in a layout that matrix products read: conversions of :mod:`nki.numerics.matmul.conversions`.

The source is dense rows, or dense columns, of the same dtype. Other copies to blocks are plain loops.
"""

from __future__ import annotations

from typing import Final

from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.matmul import Operand, convert
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import Assign
from nki.numerics.layouts import PAIR_COLUMNS, PAIR_PANELS
from nki.numerics.llvm import i64
from nki.numerics.matmul.contract import PANEL
from nki.numerics.matmul.host import bf16_unit, has_blocks
from nki.numerics.matmul.units import FLOAT32, columns_to_blocks

_AHEAD: Final = 32
"""Rows ahead of a copy at which memory outside of tiles is asked for; loads of the rows below come next as a rule."""


def emit_layout_copy(r: FunctionBuilder, s: Assign) -> bool:
    """Emit ``s``, for the routine's range, if a conversion does it; False, and nothing, otherwise."""
    source, target, layout, size = s.value.memref, s.target, s.target.layout, s.target.dtype.itemsize
    if s.value.kind != "load" or source is None:
        return False
    if not layout.pairs and not (target.in_blocks and source.rows == target.rows):
        return False
    # Partitions are the rows of the operand, or of pairs in columns its columns.
    rows, columns, row_step, column_step = target.rows, target.columns, source.row_step, source.dims[0][0]
    if layout == PAIR_COLUMNS:
        rows, columns, row_step, column_step = columns, rows, column_step, row_step
    is_turned = row_step == 1 and len(source.dims) == 1
    if not (layout.pairs or is_turned or (source.dense_rows and has_blocks())):
        return False
    step = target.row_step if layout == PAIR_COLUMNS else target.dims[0][0]
    to = Operand(layout.name, r.address(target), layout.block(rows, PANEL) if layout == PAIR_PANELS else step, size)
    from_ = Operand("columns" if is_turned else "rows", r.address(source), column_step if is_turned else row_step, size)
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    span, width = (first, r.b.add(first, count)), i64(columns)
    if r.by_columns or layout == PAIR_COLUMNS:
        if r.by_columns:
            first, count = r.first, r.b.sub(r.last, r.first)
        to, from_, span, width = to.columns(r, first), from_.columns(r, first), (i64(0), i64(rows)), count
    ahead = _AHEAD if layout.pairs else _AHEAD * row_step if r.is_far(source) and not is_turned else 0
    convert(r, _address(f"{from_.layout}_to_{layout.name}"), from_, to, span, width, rows, ahead)
    return True


def _address(layouts: str) -> int:
    """The address of a conversion."""
    if layouts == "columns_to_blocks":
        return columns_to_blocks()
    unit = FLOAT32 if layouts == "rows_to_blocks" else bf16_unit()
    assert unit is not None
    return unit.address(f"nki_{layouts}")
