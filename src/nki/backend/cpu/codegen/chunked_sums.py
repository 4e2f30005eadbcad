"""Sequential sums by row of what is computed in the same loop.

Rows go in groups, columns in chunks: what a chunk of sixteen rows gives lies in a few lines of the first-level cache,
where the sums, with a row in each lane, find it. A chunk is summed while the next one is computed, because an addition
waits for the one before it.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value, halvings
from nki.backend.cpu.codegen.fused_loop import FusedStatements, InnerFusedLoop
from nki.backend.cpu.codegen.reduce import Totals
from nki.backend.cpu.codegen.row_vectors import PIECE, halves_of, side_by_side
from nki.backend.cpu.kernel_ir.loop_nests import GROUP, CountedLoop, Stream, loop_nest, partition_step, pattern_of
from nki.backend.cpu.kernel_ir.nodes import Fused, Reduce, subexpressions
from nki.base import element_types as dt
from nki.numerics.llvm import I32, i64
from nki.numerics.transpose import transposed

_Place = tuple[Value, Value, Value]
"""Elements of a row: their group of columns, the first one's column in it, and the column at which their chunk begins.
"""
_CHUNK: Final = 128
"""Columns of the chunks of all sums of a loop, a power of two: with the rows of a group, 8 KiB."""


def emit_summed(r: FunctionBuilder, s: Fused) -> None:
    """Emit ``s``, which has sums: the loop for the rows in the routine's range."""
    loop = _SummedLoop(r, s)
    r.counted_loop(loop.rows.count, GROUP, loop.emit, 0, loop.rows.per_partition)


class _SummedLoop:
    """The statements of a loop and the sums of what some of them compute, by groups of rows and chunks of columns.

    Rows with several groups of columns have a sum for each group, in which columns count from 0. Nothing is asked for
    ahead: measured with RMSNorm of 1024 columns, it cost 12 %.
    """

    def __init__(self, r: FunctionBuilder, s: Fused) -> None:
        self.r, self.b = r, r.b
        self.fused = FusedStatements(s)
        first = s.sums[0]
        self.paired = len(s.sums) == 1 and self.fused.packs(first.value)
        """True if bfloat16 is kept as it is stored, and decoded where it is added."""
        self.wanted = [first.value.args[0]] if self.paired else [total.value for total in s.sums]
        streams, rows, columns = self.fused.streams, first.value.rows, first.value.columns
        self.groups, self.columns = first.groups, columns // first.groups
        patterns = [pattern_of(stream, columns) for stream in streams]
        self.by_group, self.elements = loop_nest(patterns, [1, self.columns, columns])
        self.rows = CountedLoop(rows, tuple(partition_step(stream, rows) for stream in streams), r.per_partition(rows))
        self.by_pairs = self.fused.packs_pairs(r, self.elements) or self.fused.has_exponentials
        self.chunk = _CHUNK >> (len(s.sums) - 1).bit_length()
        self.width = min(self.chunk, self.columns)
        kind = PairedChunks if self.paired else Chunks if self.fused.has_exponentials else DenseChunks
        self.piece = kind.piece
        self.share = -(-self.width // self.piece // GROUP) * self.piece
        """Columns of a chunk that are added with each row of the next one, as long as there are some left."""
        r.need_scratch()
        self.starts = r.start(streams)
        self.numbers = self._numbers()
        self.sums = [_Sum(r, total, kind(r, GROUP, self.chunk)) for total in s.sums]

    def _numbers(self) -> dict[int, Value]:
        """The numbers of the expressions, which are the same for all rows."""
        loop = InnerFusedLoop(self.r, self.fused, self.elements, self.starts)
        for assign in self.fused.assigns:
            for part in subexpressions(assign.value):
                if part.kind == "value":
                    loop.hoist(part)
        return loop.invariants

    def emit(self, row: Value) -> None:
        """A group of rows from number ``row`` on."""
        if self.groups > 1 and self.columns == self.width and self.width % self.share == 0:
            self._chunks(row, None)
        else:
            self.r.counted_loop(self.groups, 1, lambda group: self._chunks(row, group))

    def _chunks(self, row: Value, group: Value | None) -> None:
        """The chunks of ``group`` of columns: each is added while the next one is computed.

        Without a ``group`` each chunk is one, with a sum of its own.
        """
        r, b, width, rest = self.r, self.b, self.width, self.columns % self.width
        step, stop = (1, self.groups) if group is None else (width, self.columns - rest)
        totals = None if group is None else self._totals(row, group)

        def at(index: Value) -> _Place:
            return (index, i64(0), b.mul(index, i64(self.chunk))) if group is None else (group, index, index)

        def chunk(index: Value) -> None:
            before = b.sub(index, i64(step))
            has_before = b.icmp_signed(">=", before, i64(0))
            added, place = totals or self._totals(row, before), at(before)[-1]

            def one(number: Value) -> None:
                self._row(row, number, at(index), width)
                if stop > step:
                    first = b.mul(number, i64(self.share))
                    is_inside = b.icmp_signed("<", first, i64(width))
                    with b.if_then(b.and_(has_before, is_inside) if self.share * GROUP > width else has_before):
                        for column in range(0, self.share, self.piece):
                            self._add(added, place, b.add(first, i64(column)))

            r.counted_loop(GROUP, 1, one)
            if group is None:
                with b.if_then(has_before):
                    _store(added)

        r.counted_loop(stop, step, chunk)
        last = totals or self._totals(row, i64(stop - step))
        self._add_chunk(last, (stop - step) * self.chunk if group is None else stop - step, width)
        if rest:
            r.counted_loop(GROUP, 1, lambda number: self._row(row, number, at(i64(stop)), rest))
            self._add_chunk(last, stop, rest)
        _store(last)

    def _row(self, first: Value, number: Value, place: _Place, width: int) -> None:
        """Compute ``width`` elements of row ``first + number``, and keep what the sums take of them in their chunks."""
        group, start, chunk = place
        r, b, lanes, streams = self.r, self.b, self.r.lanes, self.fused.streams
        rows = [each.chunks.row(chunk, number) for each in self.sums]
        cursors = r.advanced(streams, self.starts, self.rows, b.add(first, number))
        loop = InnerFusedLoop(r, self.fused, self.elements, r.advanced(streams, cursors, self.by_group, group))
        loop.invariants.update(self.numbers)
        loop.by_words &= self.paired  # what is kept goes in order
        for assign in self.fused.assigns:
            loop.hoist(assign.value)

        def elements(index: Value, size: int) -> None:
            places, columns = [index], [b.add(start, index)]
            if size > lanes and self.fused.has_exponentials:
                size = lanes
                places, columns = ([at, b.add(at, i64(lanes))] for (at,) in (places, columns))
            for at, step in zip(places, loop.emit(columns, size), strict=True):
                loop.registers = step.registers
                for each, row, wanted in zip(self.sums, rows, self.wanted, strict=True):
                    each.chunks.keep(row, at, loop.in_order(loop.value(wanted, step.column, size), size), size)

        r.tiled_loop(width, halvings(2 * lanes if self.by_pairs else lanes), elements)

    def _totals(self, row: Value, group: Value) -> list[list[Totals]]:
        """The sums of ``group`` of the rows from ``row`` on: some vectors for each reduction."""
        return [each.totals(row, group) for each in self.sums]

    def _add_chunk(self, totals: list[list[Totals]], column: int, width: int) -> None:
        """Add the ``width`` elements of all rows from ``column`` on, where a chunk begins."""
        done = self.r.tiled_loop(width, (self.piece,), lambda index, _: self._add(totals, i64(column), index))
        if done < width:
            self._add(totals, i64(column), i64(done), width - done)

    def _add(self, totals: list[list[Totals]], column: Value, index: Value, count: int | None = None) -> None:
        """Add the first ``count`` elements of each row's piece at ``index`` of the chunk from ``column`` on."""
        for each, own in zip(self.sums, totals, strict=True):
            for vectors in each.chunks.columns(each.chunks.pieces(column, index))[:count]:
                for total, vector in zip(own, vectors, strict=True):
                    total.add(vector)


def _store(totals: list[list[Totals]]) -> None:
    for total in (total for own in totals for total in own):
        total.store(GROUP)


class _Sum:
    """One of the reductions that share a loop, and the chunks that hold what it adds."""

    def __init__(self, r: FunctionBuilder, s: Reduce, chunks: Chunks) -> None:
        self.r, self.s, self.chunks, rows = r, s, chunks, s.value.rows
        self.streams = [Stream(None, s.target), *([] if s.init is None else [Stream(s.init, s.init.memref)])]
        self.starts = r.start(self.streams)
        self.by_row = CountedLoop(rows, tuple(partition_step(stream, rows) for stream in self.streams))
        self.by_group = CountedLoop(s.groups, (1, 0))

    def totals(self, row: Value, group: Value) -> list[Totals]:
        """Sums ``group`` of the rows from ``row`` on."""
        r = self.r
        starts = r.advanced(self.streams, self.starts, self.by_group, group)
        rows = [r.advanced(self.streams, starts, self.by_row, at) for at in r.following(row, GROUP)]
        return [Totals(r, self.s, rows[first : first + r.lanes]) for first in range(0, GROUP, r.lanes)]


class Chunks:
    """Two chunks of columns of a group of ``rows`` in scratch memory, each of ``width``, a power of two.

    Four words side by side in a row are a *piece*. The pieces of all rows that begin in one column lie one behind the
    other, those of rows k, k + 4, ... of a vector's lanes together: they are loaded as one vector. Four vectors,
    transposed by squares of 4 x 4 words, are columns of words; their lanes follow the rows.
    """

    dtype: dt.DType = dt.float32
    piece: int = PIECE
    """Columns of a piece."""

    def __init__(self, r: FunctionBuilder, rows: int, width: int) -> None:
        self.r, self.b, self.rows, self.width = r, r.b, rows, width
        self.memory = r.kernel_ir.new_scratch(rows, 2 * width, self.dtype)
        r.need_scratch()

    def pieces(self, column: Value, index: Value) -> Value:
        """The pieces that begin ``index`` columns from ``column`` on, where a chunk begins."""
        return self._column(self.b.add(index, self._first(column)))

    def _first(self, column: Value) -> Value:
        """The first column in memory of the chunk that begins at ``column``."""
        # An addition's last number may differ between routines that share a body.
        is_constant = isinstance(column, ir.Constant)
        return i64(column.constant & self.width) if is_constant else self.b.and_(column, i64(self.width))

    def _column(self, number: Value) -> Value:
        """Column ``number`` in memory."""
        return self.r.move(self.r.address(self.memory), self.b.mul(number, i64(self.rows * self.dtype.itemsize)))

    def row(self, column: Value, number: Value) -> Value:
        """The first piece of row ``number`` of the chunk that begins at ``column``."""
        b, parts = self.b, self.r.lanes // PIECE
        vector, lane = b.and_(number, i64(-self.r.lanes)), b.and_(number, i64(self.r.lanes - 1))
        together = b.mul(b.and_(lane, i64(PIECE - 1)), i64(parts))
        slot = b.add(vector, b.add(together, b.lshr(lane, i64(PIECE.bit_length() - 1))))
        return self.r.move(self._column(self._first(column)), b.mul(slot, i64(4 * PIECE)))

    def keep(self, row: Value, index: Value, elements: Value, count: int) -> None:
        """Store ``count`` elements of a row, which begin at ``index``, a multiple of ``count``."""
        b, piece, size = self.b, self.piece, self.dtype.itemsize
        bytes_of_pieces = 4 * PIECE * self.rows
        at = self.r.move(row, b.mul(b.lshr(index, i64(piece.bit_length() - 1)), i64(bytes_of_pieces)))
        if count < piece:
            b.store(elements, self.r.move(at, b.mul(b.and_(index, i64(piece - 1)), i64(size))), align=size)
            return
        for first in range(0, count, piece):
            mask = ir.Constant(ir.VectorType(I32, piece), list(range(first, first + piece)))
            part = b.shuffle_vector(elements, elements, mask)
            b.store(part, self.r.move(at, i64(first // piece * bytes_of_pieces)), align=size)

    def columns(self, pieces: Value) -> list[list[Value]]:
        """The columns of ``pieces``: the vectors of each, one behind the other."""
        squares: list[list[Value]] = []
        for first in range(0, self.rows, self.r.lanes):
            words = transposed(self.b, [self._load(pieces, first, number) for number in range(PIECE)], PIECE)
            squares.append(self._elements(words))
        return [list(column) for column in zip(*squares, strict=True)]

    def _load(self, pieces: Value, first: int, number: int) -> Value:
        """The pieces of rows ``number``, ``number`` + 4, ... of the vector that follows the rows from ``first`` on."""
        lanes = self.r.lanes
        place = self.r.move(pieces, i64(4 * (PIECE * first + lanes * number)))
        return self.b.load(place, typ=ir.VectorType(ir.FloatType(), lanes), align=4)

    def _elements(self, words: list[Value]) -> list[Value]:
        return words


class PairedChunks(Chunks):
    """Chunks of bfloat16: a word is a pair of columns."""

    dtype = dt.bfloat16
    piece = 2 * PIECE

    def _elements(self, words: list[Value]) -> list[Value]:
        return [half for word in words for half in halves_of(self.b, word)]


class DenseChunks(Chunks):
    """Chunks with dense rows: a store for each vector, and pieces that are put together as they are loaded.

    Sums of products take 0.65 of the time that they take with pieces, exponentials with their sums 1.03 to 1.09: these
    have no room for more operations on vectors, but for more stores.
    """

    def pieces(self, column: Value, index: Value) -> Value:
        """The first row's piece that begins ``index`` columns from ``column`` on."""
        return self.r.move(self._column(self._first(column)), self.b.mul(index, i64(self.dtype.itemsize)))

    def row(self, column: Value, number: Value) -> Value:
        """Row ``number`` of the chunk that begins at ``column``."""
        return self.r.move(self._column(self._first(column)), self.b.mul(number, i64(self.width * self.dtype.itemsize)))

    def keep(self, row: Value, index: Value, elements: Value, count: int) -> None:
        """Store ``count`` elements of a row, which begin at ``index``."""
        del count  # one store takes all
        size = self.dtype.itemsize
        self.b.store(elements, self.r.move(row, self.b.mul(index, i64(size))), align=size)

    def _load(self, pieces: Value, first: int, number: int) -> Value:
        b, kind = self.b, ir.VectorType(ir.FloatType(), PIECE)
        rows = range(first + number, first + self.r.lanes, PIECE)
        places = [self.r.move(pieces, i64(row * self.width * self.dtype.itemsize)) for row in rows]
        return side_by_side(b, [b.load(place, typ=kind, align=4) for place in places])
