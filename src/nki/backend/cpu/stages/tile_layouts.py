"""The layouts that tiles of matmuls may have, one row each.

What matrix units read is declared beside them (:mod:`nki.numerics.matmul.contract`), any other layout here. A row tells
which operand of which matmuls is fastest in the layout, which tiles gain by it, and what other instructions can do with
such a tile. Stage ``layouts`` knows no layout by name: for a new one, add a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from nki.backend.cpu.kernel_ir.nodes import FEW_ROWS
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.instruction import Inst
from nki.ir.layout import Layout
from nki.ir.types import Access, Buffer
from nki.ir.windows import transposed
from nki.isa.tables.enums import engine
from nki.numerics.llvm import LINE
from nki.numerics.matmul.contract import (
    BLOCK,
    BLOCKS,
    FITS_BFLOAT16,
    GROUP,
    MOST_ROWS,
    PAIR_COLUMNS,
    PAIR_PANELS,
    PANEL,
    PANELS,
)
from nki.numerics.matmul.host import has_blocks, has_pairs
from nki.transforms.rewriter import is_plain

_CROWDED: Final = 256
"""Elements of float32: rows of a multiple of them share few sets of the first-level cache."""
_LEAST_ROWS: Final = 32
"""Rows of sums from which on they are too many for their sets."""


def _always(*_: object) -> bool:
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class TileLayout:
    """A row. Of the rows for one operand, the first that exists and claims the operand decides."""

    layout: Layout
    operand: Literal["result", "stationary", "moving"]
    suits: Callable[[DType, int, int], bool]
    """True if a tile of this dtype, with so many rows and columns, gains."""
    takes: Callable[[Inst, Access], bool]
    """True if an instruction that is no matmul can use the access in the layout; of operands, if it can fill them."""
    exists: Callable[[], bool] = _always
    """True if matmuls on this processor read the layout."""
    claims: Callable[[Access], bool] = _always
    """True if later rows are not asked about the operand."""
    wants: Callable[[Access, Access | None], bool] = _always
    """True if a matmul is fastest with the operand in the layout; the other operand, if there is one, comes second."""
    fits: Callable[[Access], bool] = _always
    """True if an instruction can use this window of such a tile. All its elements are at regular steps."""

    @property
    def buffer(self) -> Buffer:
        """The memory of the operand."""
        return Buffer.psum if self.operand == "result" else Buffer.sbuf


def rows_moved(inst: Inst) -> Access | None:
    """The source of a copy or of a transposition, as the rows of its result; None of other instructions."""
    copy, turn = inst.as_copy(), inst.as_transpose()
    return copy.src if copy is not None else transposed(turn.src) if turn is not None else None


# Sums of matmuls

PADDED: Final = Layout("padded", pad=LINE // dt.float32.itemsize)
"""Rows a line further apart: if a power of two bytes lies between them, they share few sets of the cache."""


def _crowds_the_cache(dtype: DType, rows: int, columns: int) -> bool:
    return dtype is dt.float32 and rows >= _LEAST_ROWS and columns % _CROWDED == 0


def _has_no_runtime_index(inst: Inst, _access: Access) -> bool:
    return not (inst.form).has_runtime_index


# Operands: windows of rows as they are, filled with what copies and transpositions only move


def _in_rows(access: Access) -> bool:
    return len(access.shape) == 2 and access.strides == (access.tensor.free_size, 1)


def _in_whole_rows(access: Access) -> bool:
    return _in_rows(access) and access.shape[0] == access.tensor.shape[0]


def _in_whole_groups(access: Access) -> bool:
    """Whole groups of columns: what packs pairs, and what reads them, takes no parts."""
    return _in_whole_rows(access) and not access.shape[1] % PANEL | access.offset % PANEL


def _source(inst: Inst, access: Access) -> Access | None:
    """The matrix that ``inst`` moves to ``access`` unchanged; None if it does anything else."""
    moved = inst.as_copy() or inst.as_transpose()
    if moved is None or moved.dst is not access or moved.src.tensor is access.tensor or len(moved.src.shape) != 2:
        return None
    return moved.src if moved.src.dtype is access.dtype and is_plain(inst) else None


def _rows(inst: Inst, access: Access) -> Access | None:
    """The rows of what ``inst`` moves to ``access``, as :func:`_source`."""
    rows = rows_moved(inst) if _source(inst, access) is not None else None
    return rows if rows is not None and rows.shape == access.shape else None


def _panel_loads(inst: Inst, access: Access) -> bool:
    is_whole = access.shape == access.tensor.shape and inst.engines == (engine.dma,)
    return is_whole and inst.as_copy() is not None and _rows(inst, access) is not None


def _fills_blocks(inst: Inst, access: Access) -> bool:
    source = _source(inst, access)
    return source is not None and source.strides[1] == 1


def _fills_pair_panels(inst: Inst, access: Access) -> bool:
    rows = _rows(inst, access)
    return rows is not None and inst.as_copy() is not None and rows.strides[1] == 1


def _fills_pair_columns(inst: Inst, access: Access) -> bool:
    """Of dense rows, or of dense columns."""
    rows = _rows(inst, access)
    if rows is None:
        return False
    row, column = rows.strides
    return (column == 1 and row > 0) or (row == 1 and column >= rows.shape[0])


def _has_whole_pairs(dtype: DType, rows: int, columns: int) -> bool:
    return dtype is dt.bfloat16 and rows % GROUP == columns % PANEL == 0 and rows <= MOST_ROWS


def _is_paired(access: Access) -> bool:
    return access.dtype is dt.bfloat16 and access.partitions % GROUP == 0


def _wants_blocks(stationary: Access, moving: Access | None) -> bool:
    if moving is None or moving.dtype is not dt.float32:
        return False
    return stationary.free_elements > FEW_ROWS and moving.free_elements >= PANEL


TILE_LAYOUTS: Final = (
    TileLayout(layout=PADDED, operand="result", suits=_crowds_the_cache, takes=_has_no_runtime_index),
    TileLayout(
        layout=PAIR_PANELS,
        operand="moving",
        exists=has_pairs,
        claims=_is_paired,
        wants=lambda _, other: other is not None and other.dtype in FITS_BFLOAT16 and other.free_elements > FEW_ROWS,
        suits=_has_whole_pairs,
        takes=_fills_pair_panels,
        fits=_in_whole_groups,
    ),
    TileLayout(
        layout=PANELS,
        operand="moving",
        suits=lambda _, rows, columns: rows > 1 and columns % PANEL == 0 and columns != PANEL,
        takes=_panel_loads,
        fits=_in_rows,
    ),
    TileLayout(
        layout=PAIR_COLUMNS,
        operand="stationary",
        exists=has_pairs,
        claims=_is_paired,
        wants=lambda _, other: other is not None and other.dtype in FITS_BFLOAT16 and other.free_elements > 1,
        suits=_has_whole_pairs,
        takes=_fills_pair_columns,
        fits=_in_whole_groups,
    ),
    TileLayout(
        layout=BLOCKS,
        operand="stationary",
        exists=has_blocks,
        claims=lambda stationary: stationary.dtype is dt.float32,
        wants=_wants_blocks,
        suits=lambda dtype, rows, columns: dtype is dt.float32 and rows > 1 and columns % BLOCK == 0,
        takes=_fills_blocks,
        fits=_in_whole_rows,
    ),
)
"""The table. Where windows are copied to tiles of their own (layouts of pairs), in the order of the copies."""
