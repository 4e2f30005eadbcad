"""Reductions: sequential ones of several rows side by side, vectors where the order is free, and over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.elementwise_loops import materialize_strided
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value, halvings
from nki.backend.cpu.codegen.inner_loop import InnerLoop
from nki.backend.cpu.codegen.row_vectors import RowVectors, gathered
from nki.backend.cpu.kernel_ir.loop_nests import (
    ANY_ORDER,
    GROUP,
    IDENTITIES,
    CountedLoop,
    Cursors,
    Nest,
    Stream,
    nest_of,
    partition_step,
    streams_of,
)
from nki.backend.cpu.kernel_ir.nodes import Reduce
from nki.isa.tables.alu_operators import BITS
from nki.numerics.functions import emit_alu, emit_bits
from nki.numerics.llvm import F32, I32, canonical_nan, constant, i64, lanes_of

_CHAINS: Final = (GROUP, 8, 4, 2, 1)
"""Sequential reductions that run side by side, so that one addition need not wait for the one before it."""
_PARTIAL_VECTORS: Final = 4
"""Vectors of partial results in a reduction of free order, for the same reason."""
_RELATIONS: Final = {"maximum": ">", "minimum": "<"}
"""The extremes, and the comparison that a number must pass to replace one."""
_BIT: Final = ir.IntType(1)


def emit_reduce(r: FunctionBuilder, s: Reduce, odd: Reduce | None = None) -> None:
    """Emit ``s``; or the sequential reductions of the even and of the ``odd`` elements of rows, in one loop."""
    if s.cross_partition:
        _across_partitions(r, s)
        return
    nest = nest_of(s, r.per_partition)
    if nest is None:
        materialize_strided(r, s.value)
        emit_reduce(r, s)
        return
    last = nest.inner[-1]
    if s.op in ANY_ORDER and last.count >= r.lanes and all(step in (0, 1) for step in last.steps[1:]):
        _in_any_order(r, nest)
        return
    other = None if odd is None else nest_of(odd, r.per_partition)
    _in_order(r, [nest] if other is None else [nest, other])


def _in_order(r: FunctionBuilder, nests: Sequence[Nest]) -> None:
    """Strictly sequential reductions; several rows run side by side."""
    nest, *odd = nests
    *outer, side = sorted(nest.outer, key=lambda loop: loop.count) or [CountedLoop(1, (0,) * len(nest.streams))]
    sizes = (GROUP, side.count % GROUP or 1) if nest.main else _CHAINS

    def block(cursors: Cursors) -> None:
        begins = [(nest, side, cursors), *((half, half.outer[0], r.start(half.streams)) for half in odd)]

        def group(index: Value, count: int) -> None:
            starts = [
                [r.advanced(each.streams, begin, loop, at) for at in r.following(index, count)]
                for each, loop, begin in begins
            ]
            if nest.main and (count > 1 or odd):
                for first in range(0, count, r.lanes):
                    _in_lanes(r, nests, [rows[first : first + r.lanes] for rows in starts])
            else:
                _in_chains(r, nest, starts[0])

        r.tiled_loop(side.count, sizes, group, side.per_partition)

    r.emit_loops(outer, nest.streams, block)


def _in_chains(r: FunctionBuilder, nest: Nest, starts: list[Cursors]) -> None:
    """Reductions of rows that begin at ``starts``, an element of each row in turn."""
    totals = [Totals(r, nest.statement, [row]) for row in starts]

    def element(rows: list[Cursors]) -> None:
        for total, row in zip(totals, rows, strict=True):
            loop = InnerLoop(r, nest.streams, CountedLoop(1, (0,) * len(nest.streams)), row)
            total.add(loop.value(nest.statement.value, i64(0), 1))

    r.emit_side_by_side(nest.inner, nest.streams, starts, element)
    for total in totals:
        total.store(1)


def _in_lanes(r: FunctionBuilder, nests: Sequence[Nest], starts: list[list[Cursors]]) -> None:
    """Reductions of rows that begin at ``starts``, one in each lane of a vector; for two nests, of both halves of rows.

    A lane too many does the work of the last row again, and its result is not stored.
    """
    count, nest, ways = len(starts[0]), nests[0], len(nests)
    starts = [rows + rows[-1:] * (r.lanes - count) for rows in starts]
    vectors = [RowVectors(r, each, rows) for each, rows in zip(nests, starts, strict=True)]
    totals = [Totals(r, each.statement, rows) for each, rows in zip(nests, starts, strict=True)]
    columns = sum(each.inner[-1].count for each in nests)
    step = vectors[0].step // ways

    def line(rows: list[Cursors]) -> None:
        def block(index: Value, size: int) -> None:
            loaded = vectors[0].columns(rows, index, step, size)
            values = [vectors[number % ways].applied(column) for number, column in enumerate(loaded)]
            for number, value in enumerate(values):
                totals[number % ways].add(value)

        done = r.tiled_loop(columns, vectors[0].sizes(step), block)
        for index in range(done, columns):
            half = index % ways
            totals[half].add(vectors[half].column(starts[half] if half else rows, i64(index // ways)))

    r.emit_side_by_side(nest.inner[:-1], nest.streams, starts[0], line)
    for total in totals:
        total.store(count)


class Totals:
    """The results of sequential reductions so far, of rows that begin at ``starts``: one in each lane of a vector."""

    def __init__(self, r: FunctionBuilder, s: Reduce, starts: list[Cursors]) -> None:
        self.r, self.s, self.starts = r, s, starts
        initial = gathered(r.b, [_initial(r, s, cursors) for cursors in starts])
        self.kind = initial.type
        self.total = r.local(self.kind, initial)
        has_start = s.init is not None or s.op in IDENTITIES
        self.is_first = None if has_start else r.local(_BIT, ir.Constant(_BIT, 1))

    def add(self, value: Value) -> None:
        """Take the next element of each row."""
        b = self.r.b
        result = _combine(b, self.s.op, b.load(self.total, typ=self.kind), value)
        if self.is_first is not None:
            result = b.select(b.load(self.is_first, typ=_BIT), value, result)
            b.store(ir.Constant(_BIT, 0), self.is_first)
        b.store(result, self.total)

    def store(self, count: int) -> None:
        """Store the results of the first ``count`` rows."""
        b = self.r.b
        result = _result(b, self.s, b.load(self.total, typ=self.kind))
        for lane, cursors in enumerate(self.starts[:count]):
            one = result if len(self.starts) == 1 else b.extract_element(result, ir.Constant(I32, lane))
            b.store(one, cursors[0], align=self.s.target.dtype.itemsize)


def _in_any_order(r: FunctionBuilder, nest: Nest) -> None:
    """Reductions in any order: each lane of a vector by itself, then the lanes with each other."""

    def one(start: Cursors) -> None:
        if nest.statement.op not in _RELATIONS:
            _Partials(r, nest, _PARTIAL_VECTORS).emit(start)
            return
        quick = _QuickExtreme(r, nest, _PARTIAL_VECTORS)
        with r.b.if_then(quick.is_uncertain(quick.emit(start)), likely=False):
            _Partials(r, nest, 1).emit(start)

    r.emit_loops(nest.outer, nest.streams, one)


class _Partials:
    """One reduction of free order: up to ``most`` vectors of partial results, combined at the end."""

    def __init__(self, r: FunctionBuilder, nest: Nest, most: int) -> None:
        self.r, self.b, self.nest, self.s, self.last = r, r.b, nest, nest.statement, nest.inner[-1]
        self.wide = storage_type(self.s.target.dtype, r.lanes)
        self.identity = _identity(self.s.op, self.wide)
        self.totals = [r.local(self.wide, self.identity) for _ in range(min(most, self.last.count // r.lanes))]

    def emit(self, start: Cursors) -> Value:
        """Emit the reduction of what begins at ``start``; its result."""
        initial = _initial(self.r, self.s, start)
        self.r.emit_side_by_side(self.nest.inner[:-1], self.nest.streams, [start], self._line)
        total = _combine(self.b, self.s.op, initial, self._folded())
        self.b.store(_result(self.b, self.s, total), start[0], align=self.s.target.dtype.itemsize)
        return total

    def _line(self, chains: list[Cursors]) -> None:
        """Take a row in. The last vector ends with it; what that has in common with the one before counts once."""
        r, lanes, count = self.r, self.r.lanes, self.last.count
        row = InnerLoop(r, self.nest.streams, self.last, chains[0])
        row.hoist(self.s.value)

        def chunk(index: Value, size: int) -> None:
            self._take([row.value(self.s.value, self.b.add(index, i64(at)), lanes) for at in range(0, size, lanes)])

        done = r.tiled_loop(count, (len(self.totals) * lanes,), chunk)
        for index in range(done, count - lanes + 1, lanes):
            self._take([row.value(self.s.value, i64(index), lanes)])
        if rest := count % lanes:
            is_new = ir.Constant(ir.VectorType(_BIT, lanes), [int(lane >= lanes - rest) for lane in range(lanes)])
            vector = row.value(self.s.value, i64(count - lanes), lanes)
            self._take([self.b.select(is_new, vector, self.identity)])

    def _take(self, values: list[Value]) -> None:
        """Take a vector for each of the first totals in."""
        for value, slot in zip(values, self.totals, strict=False):
            self.b.store(self._step(self.b.load(slot, typ=self.wide), value), slot)

    def _step(self, total: Value, value: Value) -> Value:
        """Both combined, numbers or vectors."""
        return _combine(self.b, self.s.op, total, value)

    def _folded(self) -> Value:
        """All lanes of all vectors, combined."""
        b = self.b
        vectors = [b.load(total, typ=self.wide) for total in self.totals]
        while len(vectors) > 1:
            vectors = [*vectors[2:], self._step(*vectors[:2])]
        (lanes,) = vectors
        while (half := lanes.type.count // 2) > 1:
            lanes = self._step(*(lanes_of(b, lanes, lanes, first, half) for first in (0, half)))
        return self._step(*(b.extract_element(lanes, ir.Constant(I32, lane)) for lane in (0, 1)))


class _QuickExtreme(_Partials):
    """The largest or smallest of many numbers, as IEEE 754-2019 has it: NaN wins, -0 is less than +0.

    A comparison and a choice for each vector, which processors do in one instruction, are right for all numbers but NaN
    and zeros. So the loop only notes if any number was NaN. If one was, or if the result is a zero, the loop must run
    again with the full rule.
    """

    def __init__(self, r: FunctionBuilder, nest: Nest, most: int) -> None:
        super().__init__(r, nest, most)
        self.flags = ir.VectorType(_BIT, r.lanes)
        self.nan = r.local(self.flags, constant(self.flags, 0))
        """The lanes that have seen a NaN."""

    def _take(self, values: list[Value]) -> None:
        super()._take(values)
        for left, right in zip(values[::2], [*values[1::2], values[-1]], strict=False):
            unordered = self.b.fcmp_unordered("uno", left, right)
            self.b.store(self.b.or_(self.b.load(self.nan, typ=self.flags), unordered), self.nan)

    def _step(self, total: Value, value: Value) -> Value:
        return self.b.select(self.b.fcmp_ordered(_RELATIONS[self.s.op], value, total), value, total)

    def is_uncertain(self, total: Value) -> Value:
        """True if ``total``, the extreme of all vectors, may not be the extreme of all numbers."""
        b, word = self.b, ir.IntType(self.r.lanes)
        any_nan = b.icmp_unsigned("!=", b.bitcast(b.load(self.nan, typ=self.flags), word), ir.Constant(word, 0))
        return b.or_(any_nan, b.fcmp_ordered("==", total, ir.Constant(F32, 0.0)))


def _across_partitions(r: FunctionBuilder, s: Reduce) -> None:
    """A reduction over partitions: vectors of columns, one partition after the other."""
    streams = [Stream(None, s.target), *streams_of(s.value)]
    loops = r.loop_nest(streams, 1, s.target.columns)
    assert loops is not None, "a reduction over partitions reads one tile, whose pattern nests with a dense one"
    columns = loops[-1]
    steps = tuple(partition_step(stream, s.value.rows) if stream.expr is not None else 0 for stream in streams)
    partitions = CountedLoop(s.value.rows, steps)

    def line(cursors: Cursors) -> None:
        def chunk(index: Value, width: int) -> None:
            kind = storage_type(s.target.dtype, width)
            total = r.local(kind, _identity(s.op, kind))

            def partition(number: Value) -> None:
                row = InnerLoop(r, streams, columns, r.advanced(streams, cursors, partitions, number))
                value = row.value(s.value, index, width)
                r.b.store(_combine(r.b, s.op, r.b.load(total, typ=kind), value), total)

            r.counted_loop(partitions.count, 1, partition)
            result = _result(r.b, s, r.b.load(total, typ=kind))
            InnerLoop(r, streams, columns, cursors).store(s.target, result, index, width)

        r.tiled_loop(columns.count, halvings(r.lanes), chunk)

    r.emit_loops(loops[:-1], streams, line)


def _combine(b: Builder, op: str, total: Value, value: Value) -> Value:
    return emit_bits(b, op, total, value) if op in BITS else emit_alu(b, op, total, value)


def _result(b: Builder, s: Reduce, total: Value) -> Value:
    """The total as it is written: with the canonical NaN, unless it is a pattern of bits."""
    return total if s.op in BITS else canonical_nan(b, total)


def _initial(r: FunctionBuilder, s: Reduce, cursors: Cursors) -> Value:
    """The first operand of a reduction: its initial value, which is the last stream, else the operator's identity."""
    kind = storage_type(s.target.dtype, 1)
    if s.init is None:
        return _identity(s.op, kind)
    return r.b.load(cursors[len(cursors) - 1], align=s.target.dtype.itemsize, typ=kind)


def _identity(op: str, kind: ir.Type) -> ir.Constant:
    return constant(kind, IDENTITIES.get(op, 0.0))
