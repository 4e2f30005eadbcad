"""Element-wise statements: one expression, one loop nest."""

from __future__ import annotations

from typing import Final, cast

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.codegen.inner_loop import emit_inner_loop
from nki.backend.cpu.kernel_ir.loop_nests import CountedLoop, Cursors, Stream, streams_of
from nki.backend.cpu.kernel_ir.nodes import Assign, Expr, MemRef, load_of, subexpressions
from nki.numerics import transpose
from nki.numerics.llvm import I64

LEAST_TRANSPOSED: Final = 4
"""Rows and columns from which on a transposition is worth a call."""


def emit_assign(r: FunctionBuilder, s: Assign) -> None:
    """Emit ``s``."""
    streams = [Stream(None, s.target), *streams_of(s.value)]
    loops = r.loop_nest(streams, s.target.rows, s.target.columns)
    if loops is None:
        _emit_through_scratch(r, s)
        return
    if transposition := _transposition(s, loops):
        by_source, by_target = transposition
        outer = [loop for loop in loops if loop is not by_source and loop is not by_target]
        r.emit_loops(outer, streams, lambda cursors: _emit_transposition(r, s, streams, transposition, cursors))
        return
    loops = vectorized_last(loops, r.lanes)
    r.emit_loops(loops[:-1], streams, lambda cursors: emit_inner_loop(r, s, streams, loops[-1], cursors))


def _emit_through_scratch(r: FunctionBuilder, s: Assign) -> None:
    """Emit ``s`` with patterns that share no loop nest: they meet in dense scratch memory."""
    materialize_strided(r, s.value)
    iotas = [part for part in subexpressions(s.value) if part.kind == "iota"]
    if any(len(iota.value[0]) > 1 for iota in iotas) or len(s.target.dims) > 1:
        dense = r.scratch_like(s.target)
        emit_assign(r, Assign(dense, s.value))
        emit_assign(r, Assign(s.target, load_of(dense)))
    else:
        emit_assign(r, s)


def materialize_strided(r: FunctionBuilder, expr: Expr) -> None:
    """Copy what ``expr`` loads with more than one dimension to dense scratch memory, and load it from there."""
    for part in subexpressions(expr):
        if part.kind == "load" and len(cast(MemRef, part.memref).dims) > 1:
            dense = r.scratch_like(cast(MemRef, part.memref))
            emit_assign(r, Assign(dense, load_of(cast(MemRef, part.memref))))
            part.memref = dense


def _transposition(s: Assign, loops: list[CountedLoop]) -> tuple[CountedLoop, CountedLoop] | None:
    """The loops along which the source and the target of a copy run densely, if those are two; None otherwise."""
    if s.value.kind != "load":
        return None
    long = [loop for loop in loops if loop.count >= LEAST_TRANSPOSED]
    by_source = next((loop for loop in long if loop.steps[1] == 1 and loop.steps[0]), None)
    by_target = next((loop for loop in long if loop.steps[0] == 1 and loop.steps[1]), None)
    if by_source is None or by_target is None or by_source is by_target:
        return None
    return by_source, by_target


def _emit_transposition(
    r: FunctionBuilder, s: Assign, streams: list[Stream], loops: tuple[CountedLoop, CountedLoop], cursors: Cursors
) -> None:
    """Call the routine that transposes, in place of ``loops``."""
    by_source, by_target = loops
    (first_column, columns), (first_row, rows) = r.rounds(by_source), r.rounds(by_target)
    for loop, first in ((by_source, first_column), (by_target, first_row)):
        cursors = r.advanced(streams, cursors, loop, first) if loop.per_partition else cursors
    ldo, ldi = ir.Constant(I64, by_source.steps[0]), ir.Constant(I64, by_target.steps[1])
    r.call(transpose.address(s.target.dtype.itemsize), [cursors[0], ldo, cursors[1], ldi, rows, columns])


def emit_columns(r: FunctionBuilder, s: Assign) -> None:
    """Emit ``s``, a transposition, for the columns in the routine's range."""
    target, source = s.target, cast(MemRef, s.value.memref)
    (step, _), size = source.dims[0], target.dtype.itemsize
    count = r.b.sub(r.last, r.first)
    places = [
        r.move(r.address(memref), r.b.mul(r.first, ir.Constant(I64, column * size)))
        for memref, column in ((target, 1), (source, step))
    ]
    ldo, ldi, rows = (ir.Constant(I64, number) for number in (target.row_step, step, target.rows))
    with r.b.if_then(r.b.icmp_signed(">", count, ir.Constant(I64, 0))):
        r.call(transpose.address(size), [places[0], ldo, places[1], ldi, count, rows])


def vectorized_last(loops: list[CountedLoop], lanes: int) -> list[CountedLoop]:
    """Move the loop to vectorize to the end: the innermost one, unless it is short and another is long."""
    longest = max(range(len(loops)), key=lambda i: loops[i].count)
    if loops[-1].count >= min(lanes, 8) or loops[longest].count < 2 * loops[-1].count:
        return loops
    return [*loops[:longest], *loops[longest + 1 :], loops[longest]]
