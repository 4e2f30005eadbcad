"""Sequential sums by row of what is computed in the same loop.

Rows go in groups, columns in chunks: what a chunk of sixteen rows gives lies in a few lines of the first-level cache,
where the sums, with a row in each lane, find it. A chunk is summed while the next one is computed, because an addition
waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import encode, encode_normal
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value
from nki.backend.cpu.codegen.reduce import VectorTotals
from nki.backend.cpu.codegen.row_vectors import Chunks, RowVectors
from nki.backend.cpu.kernel_ir.loops import CountedLoop, Cursors, partition_step
from nki.backend.cpu.kernel_ir.nodes import Expr, Reduce
from nki.backend.cpu.kernel_ir.reductions import GROUP, Nest, vector_stream
from nki.base.dtype import DType
from nki.numerics.functions import FUNCTIONS, Normal
from nki.numerics.llvm import i64, lanes_of
from nki.numerics.simd import Lanes

_CHUNK: Final = 128
"""Columns of the chunks of all sums of a loop, a power of two: with the rows of a group, 8 KiB."""
Keep = Callable[[Value, Value, int], None]
"""Stores elements of a row of a chunk: the first one's number, a multiple of how many, and they, as they are kept."""
Compute = Callable[[Value, Value, Sequence[Keep], Value, int], None]
"""Emits elements of a row: its number, that of its group of columns, what keeps them for each reduction, the first
column, and how many columns.

A reduction gives rows with several groups of columns, which are counted in each from 0, as many sums.
"""


def normal_of(expr: Expr) -> Normal | None:
    """The short formula of the function ``expr`` for normal results, which two vectors share."""
    return FUNCTIONS[expr.op].normal if expr.kind == "act" else None


def emit_normal_pair(
    b: Builder, normal: Normal, given: Sequence[Value], dtype: DType, others: Callable[[], Sequence[Value]]
) -> tuple[list[Value], Value]:
    """A function of two vectors, and both results side by side as elements of ``dtype``.

    Mostly all are normal numbers, which takes fewer operations for the same bits.
    ``others`` emits the function of any numbers, with the canonical NaN.
    """
    low, high = given
    lanes, all_lanes = Lanes(b, low), ir.IntType(low.type.count)
    are_normal = b.icmp_signed("==", b.bitcast(normal.holds(lanes, given), all_lanes), ir.Constant(all_lanes, -1))
    ways: list[tuple[list[Value], Value]] = []
    with b.if_else(are_normal, likely=True) as (then, otherwise):
        with then:
            low, high = (normal.formula(lanes, x) for x in given)
            ways.append(([low, high, encode_normal(b, low, high, dtype)], b.block))
        with otherwise:
            low, high = others()
            stored = encode(b, lanes_of(b, low, high, 0, 2 * low.type.count), dtype, has_canonical_nan=True)
            ways.append(([low, high, stored], b.block))
    results: list[Value] = [b.phi(value.type) for value in ways[0][0]]
    for values, block in ways:
        for result, value in zip(results, values, strict=True):
            result.add_incoming(value, block)
    return results[:2], results[2]


def emit_groups(
    r: FunctionBuilder, sums: Sequence[tuple[Reduce, Nest]], compute: Compute, kind: type[Chunks] = Chunks
) -> None:
    """Emit reductions of one size with what they load, which ``compute`` computes row by row, in the routine's range.

    ``kind``: the chunks that hold what is added.
    """
    chunk = _CHUNK >> (len(sums) - 1).bit_length()
    groups = _Groups(r, [_Sum(r, s, nest, kind(r, GROUP, chunk)) for s, nest in sums], compute, chunk)
    rows = sums[0][0].value.rows
    r.counted_loop(rows, GROUP, groups.emit, 0, r.per_partition(rows))


def emit_row(r: FunctionBuilder, width: int, most: int, compute: Callable[[Value, int], None]) -> None:
    """Emit ``compute``, which takes the first of some elements and how many, for all ``width``.

    As many as ``most`` go at a time, a power of two, then fewer.
    """
    done, size = 0, most
    while size >= 1:
        whole = (width - done) // size * size
        r.counted_loop(done + whole, size, partial(_sized, compute, size), done)
        done += whole
        size //= 2


def _sized(compute: Callable[[Value, int], None], size: int, index: Value) -> None:
    compute(index, size)


class _Sum:
    """One of the reductions that share a loop, and the chunks that hold what it adds."""

    def __init__(self, r: FunctionBuilder, s: Reduce, nest: Nest, chunks: Chunks) -> None:
        self.r, self.s, self.nest, self.chunks = r, s, nest, chunks
        self.main = vector_stream(s, nest)
        self.starts = r.start(nest.streams)
        rows, others = s.value.rows, nest.streams[1:]
        self.by_row = CountedLoop(rows, (s.target.row_step, *(partition_step(stream, rows) for stream in others)))
        self.by_sum = CountedLoop(s.groups, (1, *(0 for _ in others)))

    def keep(self, column: Value, number: Value) -> Keep:
        """A function that stores elements of row ``number`` of the chunk that begins at ``column``."""
        return partial(self.chunks.keep, self.chunks.row(column, number))

    def totals(self, row: Value, group: Value) -> list[VectorTotals]:
        """Sums ``group`` of the rows from ``row`` on."""
        r, nest, memory = self.r, self.nest, self.chunks.pieces(i64(0))
        starts = r.advanced(nest.streams, self.starts, self.by_sum, group)
        chains: list[Cursors] = [
            {**r.advanced(nest.streams, starts, self.by_row, at), self.main: memory} for at in r.following(row, GROUP)
        ]
        totals: list[VectorTotals] = []
        for first in range(0, GROUP, r.lanes):
            rows = RowVectors(r, nest.streams, self.s.value, chains[first : first + r.lanes], self.main, 1)
            totals.append(VectorTotals(r, self.s, nest, rows, r.lanes))
        return totals

    def add(self, totals: list[VectorTotals], column: Value, index: Value, count: int | None = None) -> None:
        """Add the first ``count`` elements of each row's piece number ``index`` of the chunk from ``column`` on."""
        for vectors in self.chunks.columns(self.chunks.pieces(column, index))[:count]:
            for total, vector in zip(totals, vectors, strict=True):
                total.add(vector)


class _Groups:
    """The groups of rows of reductions, each with the sums of all groups of columns."""

    def __init__(self, r: FunctionBuilder, sums: Sequence[_Sum], compute: Compute, chunk: int) -> None:
        self.r, self.sums, self.compute, self.chunk = r, sums, compute, chunk
        self.groups = sums[0].s.groups
        self.columns = sums[0].nest.inner[0].count
        self.width = min(chunk, self.columns)
        self.piece = sums[0].chunks.piece
        self.share = -(-self.width // self.piece // GROUP) * self.piece
        """Columns of a chunk that are added with each row of the next one, as long as there are some left."""

    def emit(self, row: Value) -> None:
        """A group of rows from number ``row`` on."""
        if self.groups > 1 and self.columns == self.width and self.width % self.share == 0:
            self._short_sums(row)
        else:
            self.r.counted_loop(self.groups, 1, partial(self._long_sum, row))

    def _short_sums(self, row: Value) -> None:
        """Sums of one chunk each, which are added while the next one is computed."""
        r, groups, width = self.r, self.groups, self.width

        def chunk(group: Value) -> None:
            place = r.b.mul(group, i64(self.chunk))
            before, totals = r.b.sub(place, i64(self.chunk)), self._totals(row, r.b.sub(group, i64(1)))
            has_sum = r.b.icmp_signed(">", group, i64(0))

            def one(number: Value) -> None:
                self._row(row, number, group, (place, i64(0)), width)
                first = r.b.mul(number, i64(self.share))
                is_inside = r.b.and_(has_sum, r.b.icmp_signed("<", first, i64(width)))
                with r.b.if_then(is_inside):
                    self._add_share(totals, before, first)

            r.counted_loop(GROUP, 1, one)
            with r.b.if_then(has_sum):
                _store(totals)

        r.counted_loop(groups, 1, chunk)
        totals = self._totals(row, i64(groups - 1))
        self._add_chunk(totals, (groups - 1) * self.chunk, width)
        _store(totals)

    def _long_sum(self, row: Value, group: Value) -> None:
        """The sums of group ``group`` of columns, whose chunks are added while the next ones are computed."""
        r, width = self.r, self.width
        totals, whole = self._totals(row, group), self.columns // width * width

        def chunk(column: Value) -> None:
            r.counted_loop(GROUP, 1, partial(one, column))

        def one(column: Value, number: Value) -> None:
            self._row(row, number, group, (column, column), width)
            if whole > width:
                before, first = r.b.sub(column, i64(width)), r.b.mul(number, i64(self.share))
                has_share = r.b.icmp_signed(">=", before, i64(0))
                if self.share * GROUP > width:
                    has_share = r.b.and_(has_share, r.b.icmp_signed("<", first, i64(width)))
                with r.b.if_then(has_share):
                    self._add_share(totals, before, first)

        r.counted_loop(whole, width, chunk)
        self._add_chunk(totals, whole - width, width)
        if rest := self.columns - whole:
            columns = i64(whole), i64(whole)
            r.counted_loop(GROUP, 1, lambda number: self._row(row, number, group, columns, rest))
            self._add_chunk(totals, whole, rest)
        _store(totals)

    def _row(self, first: Value, number: Value, group: Value, columns: tuple[Value, Value], width: int) -> None:
        """Elements of row ``number`` of the group of rows that begins with ``first``, in group ``group`` of columns.

        There are ``width`` from a column on; ``columns`` are that at which their chunk begins, and that.
        """
        keeps = [one.keep(columns[0], number) for one in self.sums]
        self.compute(self.r.b.add(first, number), group, keeps, columns[1], width)

    def _totals(self, row: Value, group: Value) -> _Totals:
        return [(one, one.totals(row, group)) for one in self.sums]

    def _add_share(self, totals: _Totals, before: Value, first: Value) -> None:
        """Add the share of columns from ``first`` on of the chunk that begins at ``before``."""
        for at in range(0, self.share, self.piece):
            index = self.r.b.add(first, i64(at))
            for one, own in totals:
                one.add(own, before, index)

    def _add_chunk(self, totals: _Totals, column: int, width: int) -> None:
        """Add the ``width`` elements of all rows from ``column`` on, where a chunk begins."""
        piece = self.piece
        done = width // piece * piece

        def add(index: Value, count: int | None = None) -> None:
            for one, own in totals:
                one.add(own, i64(column), index, count)

        self.r.counted_loop(done, piece, add)
        if done < width:
            add(i64(done), width - done)


_Totals = list[tuple[_Sum, list[VectorTotals]]]
"""Reductions, each with the totals of a group of rows."""


def _store(totals: _Totals) -> None:
    for _, own in totals:
        for total in own:
            total.store()
