"""Rows of what DMA moves: flat sequences of elements become rows, so that ranges of them may run by themselves.

DMA sees no partitions: source and target are sequences of elements, each with a pattern of its own. Where both patterns
have a common first dimension, that dimension is the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nki.backend.cpu.kernel_ir.nodes import GRANULE, SCRATCH, Expr, MemRef

_FLAT = ("load", "cast", "alu", "value")


def rows_of_flat(target: MemRef, value: Expr, partitions: int) -> tuple[MemRef, Expr] | None:
    """``target`` and ``value``, flat sequences, as so many rows that there are several granules of them; else None.

    If possible there are as many as ``target`` has ``partitions``.
    """
    if target.columns <= GRANULE or not _is_flat(value, target.columns):
        return None
    firsts = [dims[0][1] for dims in (target.dims, *(load.dims for load in _memrefs(value))) if len(dims) > 1]
    for rows in (partitions, *firsts):
        if rows > GRANULE and target.columns % rows == 0:
            changed, by_rows = _split(target, rows), _by_rows(value, rows)
            if changed is not None and by_rows is not None:
                return changed, by_rows
    return None


def _is_flat(expr: Expr, columns: int) -> bool:
    """True if ``expr`` is element-wise on flat sequences of ``columns`` elements in tensors, and on numbers."""
    if expr.kind == "load":
        return expr.rows == 1 and expr.columns == columns and expr.memref is not None and expr.memref.base != SCRATCH
    return expr.kind in _FLAT and all(_is_flat(arg, columns) for arg in expr.args)


def _memrefs(expr: Expr) -> Iterator[MemRef]:
    if expr.memref is not None:
        yield expr.memref
    for arg in expr.args:
        yield from _memrefs(arg)


def _by_rows(expr: Expr, rows: int) -> Expr | None:
    """``expr`` on ``rows`` rows; None if a pattern has no such dimension."""
    if expr.kind == "value":
        return expr
    memref = None if expr.memref is None else _split(expr.memref, rows)
    args = [_by_rows(arg, rows) for arg in expr.args]
    if (expr.memref is not None and memref is None) or None in args:
        return None
    columns = expr.columns // rows
    return replace(expr, rows=rows, columns=columns, memref=memref, args=tuple(arg for arg in args if arg is not None))


def _split(memref: MemRef, rows: int) -> MemRef | None:
    """``memref``, which is flat, with its first dimension as rows; None if it has none of that size.

    A dimension of ``n * rows`` elements is one of ``rows`` and one of n.
    """
    (step, count), *inner = memref.dims
    if count % rows:
        return None
    rest = count // rows
    if rest > 1:
        inner.insert(0, (step, rest))
    return replace(memref, rows=rows, row_step=step * rest, dims=tuple(inner) or ((1, 1),))
