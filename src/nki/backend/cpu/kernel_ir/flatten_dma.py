"""Rows of what DMA moves: flat sequences of elements become rows, so that ranges of them may run by themselves.

DMA sees no partitions: source and target are sequences of elements, each with a pattern of its own. Where both patterns
have a common first dimension, that dimension is the rows.
"""

from __future__ import annotations

from dataclasses import replace

from nki.backend.cpu.kernel_ir.nodes import GRANULE, SCRATCH, Expr, MemRef, loads, mapped, subexpressions

_FLAT = ("load", "cast", "alu", "value")


def rows_of_flat(target: MemRef, value: Expr, partitions: int) -> tuple[MemRef, Expr] | None:
    """``target`` and ``value``, flat sequences, as so many rows that there are several granules of them; else None.

    If possible there are as many as ``target`` has ``partitions``.
    """
    if target.columns <= GRANULE or not all(_is_flat(part, target.columns) for part in subexpressions(value)):
        return None
    patterns = [memref.dims for memref in (target, *(load.memref for load in loads(value))) if memref is not None]
    for rows in (partitions, *(dims[0][1] for dims in patterns if len(dims) > 1)):
        if rows > GRANULE and all(dims[0][1] % rows == 0 for dims in patterns):
            return _split(target, rows), mapped(value, lambda part, rows=rows: _by_rows(part, rows))
    return None


def _is_flat(part: Expr, columns: int) -> bool:
    """True of what is element-wise on flat sequences of ``columns`` elements in tensors, and on numbers."""
    if part.kind == "load":
        return part.rows == 1 and part.columns == columns and part.memref is not None and part.memref.base != SCRATCH
    return part.kind in _FLAT


def _by_rows(part: Expr, rows: int) -> Expr:
    if part.kind == "value":
        return part
    memref = None if part.memref is None else _split(part.memref, rows)
    return replace(part, rows=rows, columns=part.columns // rows, memref=memref)


def _split(memref: MemRef, rows: int) -> MemRef:
    """``memref``, which is flat, with its first dimension as rows: one of ``n * rows`` elements as ``rows`` of n."""
    (step, count), *inner = memref.dims
    rest = count // rows
    if rest > 1:
        inner.insert(0, (step, rest))
    return replace(memref, rows=rows, row_step=step * rest, dims=tuple(inner) or ((1, 1),))
