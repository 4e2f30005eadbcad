"""Reductions: sequential chains side by side, vectors where the order is free, and reductions over partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen import row_vectors
from nki.backend.cpu.codegen.alu import emit_alu, emit_bits
from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.elementwise import materialize_strided
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop
from nki.backend.cpu.codegen.minmax import RELATIONS, QuickExtreme
from nki.backend.cpu.kernel_ir.loops import (
    CountedLoop,
    Cursors,
    Stream,
    boundaries,
    coalesced,
    loop_nest,
    partition_step,
    pattern_of,
    streams_of,
)
from nki.backend.cpu.kernel_ir.nodes import Reduce
from nki.backend.cpu.kernel_ir.reductions import ANY_ORDER, GROUP, IDENTITIES, Nest, nest_of, vector_stream
from nki.isa.tables.alu import BITS
from nki.numerics.llvm import I32, I64, canonical_nan, constant

CHAINS: Final = (GROUP, 8, 4, 2, 1)
"""Sequential reductions that run side by side, so that one addition need not wait for the one before it."""
PARTIAL_VECTORS: Final = 4
"""Vectors of partial results in a reduction of free order, for the same reason."""


def emit_reduce(r: FunctionBuilder, s: Reduce) -> None:
    """Emit ``s``."""
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
        _in_any_order(r, s, nest)
    else:
        _in_order(r, s, nest)


def _in_order(r: FunctionBuilder, s: Reduce, nest: Nest) -> None:
    """Strictly sequential reductions, several of them side by side."""
    outer = sorted(nest.outer, key=lambda loop: loop.count)
    side = outer[-1] if outer else CountedLoop(1, tuple(0 for _ in nest.streams))
    main = vector_stream(s, nest)

    def block(cursors: Cursors) -> None:
        done = 0
        for chains in chains_of(side.count, main > 0):
            whole = (side.count - done) // chains * chains

            def group(index: Value, chains: int = chains) -> None:
                starts = [r.advanced(nest.streams, cursors, side, at) for at in r.following(index, chains)]
                if main and chains > 1:
                    _emit_vectors(r, s, nest, starts, main)
                else:
                    emit_chains(r, s, nest, starts)

            r.counted_loop(done + whole, chains, group, done, side.per_partition)
            done += whole

    r.emit_loops(outer[:-1], nest.streams, block)


def chains_of(count: int, in_vectors: bool) -> list[int]:
    """The sizes of the groups in which ``count`` reductions run: as many of the first as fit, then of the next.

    ``in_vectors``: the lanes of a vector take what is left over at once, however many that is.
    """
    sizes: list[int] = []
    for size in CHAINS:
        if in_vectors and size < CHAINS[0]:
            return [*sizes, count] if count else sizes
        if count >= size:
            sizes.append(size)
            count %= size
    return sizes


def emit_chains(r: FunctionBuilder, s: Reduce, nest: Nest, starts: list[Cursors]) -> None:
    """Sequential reductions that begin at ``starts``, one step of each in turn."""
    b, streams = r.b, nest.streams
    kind = storage_type(s.target.dtype, 1)
    totals = [r.local(kind, _initial(r, s, streams, cursors)) for cursors in starts]
    no_identity = s.init is None and s.op not in IDENTITIES
    is_first = r.local(ir.IntType(1), ir.Constant(ir.IntType(1), 1)) if no_identity else None

    def element(chains: list[Cursors]) -> None:
        for total, cursors in zip(totals, chains, strict=True):
            row = InnerLoop(r, streams, CountedLoop(1, tuple(0 for _ in streams)), cursors)
            value = row.value(s.value, ir.Constant(I64, 0), 1)
            result = _combine(b, s.op, b.load(total, typ=kind), value)
            if is_first is not None:
                result = b.select(b.load(is_first, typ=ir.IntType(1)), value, result)
            b.store(result, total)
        if is_first is not None:
            b.store(ir.Constant(ir.IntType(1), 0), is_first)

    _emit_inner(r, nest.inner, streams, starts, element)
    for total, cursors in zip(totals, starts, strict=True):
        b.store(_result(b, s, b.load(total, typ=kind)), cursors[0], align=s.target.dtype.itemsize)


def _emit_vectors(r: FunctionBuilder, s: Reduce, nest: Nest, starts: list[Cursors], main: int) -> None:
    """Sequential reductions that begin at ``starts``, a vector's lanes at a time."""
    streams = nest.streams
    groups = [starts[first : first + r.lanes] for first in range(0, len(starts), r.lanes)]
    for group in groups:
        lanes = in_all_lanes(r, group)
        rows = row_vectors.RowVectors(r, streams, s.value, lanes, main, nest.inner[-1].steps[main] or 1)
        total = VectorTotals(r, s, nest, rows, len(group))

        def line(
            chains: list[Cursors],
            rows: row_vectors.RowVectors = rows,
            step: Callable[[Value], None] = total.add,
        ) -> None:
            row_vectors.follow(r, rows, nest.inner[-1], chains, step)

        _emit_inner(r, nest.inner[:-1], streams, lanes, line)
        total.store()


def in_all_lanes(r: FunctionBuilder, starts: list[Cursors]) -> list[Cursors]:
    """``starts``, with the last one again in each lane that is left over."""
    return starts + [starts[-1]] * (r.lanes - len(starts))


class VectorTotals:
    """The totals of reductions of the rows of ``rows``, one in each lane, of which the first ``count`` are stored."""

    def __init__(self, r: FunctionBuilder, s: Reduce, nest: Nest, rows: row_vectors.RowVectors, count: int) -> None:
        self.r, self.s, self.rows, self.count = r, s, rows, count
        initial = rows.gathered([_initial(r, s, nest.streams, cursors) for cursors in rows.starts])
        self.kind = initial.type
        self.total = r.local(self.kind, initial)

    def add(self, vector: Value) -> None:
        """Take the next element of each row."""
        b = self.r.b
        b.store(_combine(b, self.s.op, b.load(self.total, typ=self.kind), vector), self.total)

    def store(self) -> None:
        """Store the results."""
        b = self.r.b
        result = _result(b, self.s, b.load(self.total, typ=self.kind))
        for lane, cursors in enumerate(self.rows.starts[: self.count]):
            element = b.extract_element(result, ir.Constant(I32, lane))
            b.store(element, cursors[0], align=self.s.target.dtype.itemsize)


def _emit_inner(
    r: FunctionBuilder,
    loops: list[CountedLoop],
    streams: list[Stream],
    chains: list[Cursors],
    body: Callable[[list[Cursors]], None],
) -> None:
    """Emit ``loops`` around ``body``, which gets the cursors of every chain."""
    if not loops:
        body(chains)
        return

    def inside(index: Value) -> None:
        moved = [r.advanced(streams, cursors, loops[0], index) for cursors in chains]
        _emit_inner(r, loops[1:], streams, moved, body)

    r.counted_loop(loops[0].count, 1, inside)


def _in_any_order(r: FunctionBuilder, s: Reduce, nest: Nest) -> None:
    """Reductions whose order is free: each lane of a vector by itself, then the lanes with each other."""

    def one(start: Cursors) -> None:
        if s.op not in RELATIONS:
            _lanes_by_themselves(r, s, nest, start, PARTIAL_VECTORS)
            return
        uncertain = _quick_extreme(r, s, nest, start)
        with r.b.if_then(uncertain, likely=False):
            _lanes_by_themselves(r, s, nest, start, 1)

    r.emit_loops(nest.outer, nest.streams, one)


def _quick_extreme(r: FunctionBuilder, s: Reduce, nest: Nest, start: Cursors) -> Value:
    """A maximum or minimum of numbers of which none is NaN; true if there was one, or if zeros may differ."""
    b, last = r.b, nest.inner[-1]
    extreme = QuickExtreme.start(r, s.op, r.lanes, last.count // r.lanes)
    initial = _initial(r, s, nest.streams, start)

    def line(chains: list[Cursors]) -> None:
        row = InnerLoop(r, nest.streams, last, chains[0])
        row.hoist(s.value)
        extreme.line(last.count, lambda index: row.value(s.value, index, r.lanes))

    _emit_inner(r, nest.inner[:-1], nest.streams, [start], line)
    result = _combine(b, s.op, initial, extreme.folded())
    b.store(_result(b, s, result), start[0], align=4)
    return extreme.is_uncertain(result)


def _lanes_by_themselves(r: FunctionBuilder, s: Reduce, nest: Nest, start: Cursors, most: int) -> None:
    """One reduction, with up to ``most`` vectors of partial results."""
    b, last = r.b, nest.inner[-1]
    kind, wide = storage_type(s.target.dtype, 1), storage_type(s.target.dtype, r.lanes)
    partials = min(most, last.count // r.lanes)
    chunk_size = partials * r.lanes
    whole = last.count // chunk_size * chunk_size
    vectors = last.count // r.lanes * r.lanes
    totals = [r.local(wide, _identity(s.op, wide)) for _ in range(partials)]
    rest = r.local(kind, _initial(r, s, nest.streams, start))

    def line(chains: list[Cursors]) -> None:
        row = InnerLoop(r, nest.streams, last, chains[0])
        row.hoist(s.value)

        def vector(at: Value, total: Value) -> None:
            b.store(_combine(b, s.op, b.load(total, typ=wide), row.value(s.value, at, r.lanes)), total)

        def chunk(index: Value) -> None:
            for number, total in enumerate(totals):
                vector(b.add(index, ir.Constant(I64, number * r.lanes)), total)

        r.counted_loop(whole, chunk_size, chunk)
        for index in range(whole, vectors, r.lanes):
            vector(ir.Constant(I64, index), totals[0])
        _take_single(r, s, row, rest, range(vectors, last.count))

    _emit_inner(r, nest.inner[:-1], nest.streams, [start], line)
    result = _folded(r, s, [b.load(total, typ=wide) for total in totals], b.load(rest, typ=kind))
    b.store(_result(b, s, result), start[0], align=s.target.dtype.itemsize)


def _take_single(r: FunctionBuilder, s: Reduce, row: InnerLoop, total: Value, elements: range) -> None:
    """Combine the ``elements`` of a row, one by one, with the local variable ``total``."""
    kind = storage_type(s.target.dtype, 1)
    for index in elements:
        value = row.value(s.value, ir.Constant(I64, index), 1)
        r.b.store(_combine(r.b, s.op, r.b.load(total, typ=kind), value), total)


def _folded(r: FunctionBuilder, s: Reduce, vectors: list[Value], single: Value) -> Value:
    """All lanes of ``vectors`` and ``single``, combined."""
    b = r.b
    while len(vectors) > 1:
        vectors = [
            *(_combine(b, s.op, *pair) for pair in zip(vectors[::2], vectors[1::2], strict=False)),
            *vectors[len(vectors) // 2 * 2 :],
        ]
    lanes = vectors[0]
    while (count := lanes.type.count) > 1:
        halves = [
            ir.Constant(ir.VectorType(I32, count // 2), list(range(at, at + count // 2))) for at in (0, count // 2)
        ]
        lanes = _combine(b, s.op, *(b.shuffle_vector(lanes, lanes, half) for half in halves))
    return _combine(b, s.op, single, b.extract_element(lanes, ir.Constant(I32, 0)))


def _across_partitions(r: FunctionBuilder, s: Reduce) -> None:
    """A reduction over partitions: vectors of columns, one partition after the other."""
    streams = [Stream(None, s.target), *streams_of(s.value)]
    patterns = [pattern_of(stream, s.target.columns) for stream in streams]
    cuts = boundaries(patterns)
    if cuts is None:
        raise AssertionError("a reduction over partitions reads one tile, whose pattern nests with a dense one")
    loops = coalesced(loop_nest(patterns, cuts)) or [CountedLoop(1, tuple(0 for _ in streams))]
    steps = tuple(partition_step(stream, s.value.rows) if stream.expr is not None else 0 for stream in streams)
    partitions, columns = CountedLoop(s.value.rows, steps), loops[-1]

    def line(cursors: Cursors) -> None:
        row = InnerLoop(r, streams, columns, cursors)
        done, width = 0, r.lanes
        while width >= 1:
            whole = (columns.count - done) // width * width
            if whole:

                def chunk(index: Value, width: int = width) -> None:
                    total = _column_chunk(r, s, streams, (partitions, columns), cursors, index, width)
                    row.store(s.target, total, index, width)

                r.counted_loop(done + whole, width, chunk, done)
                done += whole
            width //= 2

    r.emit_loops(loops[:-1], streams, line)


def _column_chunk(
    r: FunctionBuilder,
    s: Reduce,
    streams: list[Stream],
    loops: tuple[CountedLoop, CountedLoop],
    cursors: Cursors,
    at: Value,
    width: int,
) -> Value:
    """``width`` columns from column ``at``, reduced over all partitions; ``loops`` are over partitions and columns."""
    b, (partitions, columns) = r.b, loops
    kind = storage_type(s.target.dtype, width)
    total = r.local(kind, _identity(s.op, kind))

    def partition(p: Value) -> None:
        row = InnerLoop(r, streams, columns, r.advanced(streams, cursors, partitions, p))
        value = row.value(s.value, at, width)
        b.store(_combine(b, s.op, b.load(total, typ=kind), value), total)

    r.counted_loop(partitions.count, 1, partition)
    return _result(b, s, b.load(total, typ=kind))


def _combine(b: Builder, op: str, total: Value, value: Value) -> Value:
    return emit_bits(b, op, total, value) if op in BITS else emit_alu(b, op, total, value)


def _result(b: Builder, s: Reduce, total: Value) -> Value:
    """The total as it is written: with the canonical NaN, unless it is a pattern of bits."""
    return total if s.op in BITS else canonical_nan(b, total)


def _initial(r: FunctionBuilder, s: Reduce, streams: list[Stream], cursors: Cursors) -> Value:
    """The first operand of a reduction: its initial value, which is the last stream, else the operator's identity."""
    kind = storage_type(s.target.dtype, 1)
    if s.init is None:
        return _identity(s.op, kind)
    return r.b.load(cursors[len(streams) - 1], align=s.target.dtype.itemsize, typ=kind)


def _identity(op: str, kind: ir.Type) -> ir.Constant:
    return constant(kind, IDENTITIES.get(op, 0.0))
