"""Element-wise results and their sequential sums by row, in one loop: ``s = f(x); t = reduce(s); d = cast(s)``.

Rows go in groups, columns in chunks: what a chunk of sixteen rows gives lies in a few lines of the first-level cache,
where the sums, whose lanes follow a row each, find it. The statements one after the other would pass all of it through
the second-level cache, once for each. A chunk is summed while the next one is computed, because an addition waits for
the one before it: sums keep their order, and so all bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.alu import ANY_ORDER
from nki.backend.cpu.codegen.convert import encode, encode_normal, side_by_side
from nki.backend.cpu.codegen.function import I32, Builder, FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop
from nki.backend.cpu.codegen.loop_nest import CountedLoop, boundaries, loop_nest
from nki.backend.cpu.codegen.reduce import CHAINS, Nest, VectorTotals, nest_of, vector_stream
from nki.backend.cpu.codegen.row_vectors import PIECE, RowVectors, halves_of
from nki.backend.cpu.codegen.streams import Cursors, Stream, partition_step, pattern_of, streams_of
from nki.backend.cpu.loop_ir.lower import reads_of
from nki.backend.cpu.loop_ir.nodes import (
    SCRATCH,
    Assign,
    LoopStatement,
    MemRef,
    Print,
    Reduce,
    loads,
    subexpressions,
)
from nki.base import dtype as dt
from nki.base.dtype import DType
from nki.numerics.float32 import has_normal_exp, normal_exp
from nki.numerics.llvm import i64
from nki.numerics.simd import Lanes
from nki.numerics.transpose import transposed

GROUP: Final = CHAINS[0]
"""Rows of a group."""
_CHUNK: Final = 128
"""Columns of a chunk, a power of two: with the rows of a group, 8 KiB."""
_PIECES: Final = 4 * PIECE * GROUP
"""Bytes of a piece of each row of a group."""
Keep = Callable[[Value, Value, int], None]
"""Stores elements of a row of a chunk: the first one's number, a multiple of how many, and they, as they are kept."""
Compute = Callable[[Value, Value, Keep, Value, int], None]
"""Emits elements of a row: its number, that of the sum, what keeps them for it, the first column, and how many columns.

Rows with several sums have as many groups of columns, which are counted in each from 0.
"""
_KINDS: Final = frozenset({"load", "value", "alu", "act", "cast"})


@dataclass(frozen=True, slots=True)
class _Statements:
    """The statements that become one loop; ``copy`` converts the elements of ``values``, which nobody else wants."""

    values: Assign
    total: Reduce
    copy: Assign | None

    @property
    def written(self) -> MemRef:
        """The tile that the elements go to."""
        return (self.copy or self.values).target


def emit_summed_rows(r: FunctionBuilder, statements: Sequence[LoopStatement], at: int) -> int:
    """Emit the statements from number ``at`` on that make one such loop; gives how many, 0 if they make none."""
    found = found_rows(statements, at)
    if found is None:
        return 0
    nest = row_sums(r, found.total)
    if nest is None:
        return 0
    streams = [Stream(None, found.written), *streams_of(found.values.value)]
    columns = found.values.target.columns
    patterns = [pattern_of(stream, columns) for stream in streams]
    if boundaries(patterns) != [1, columns]:
        return 0
    (elements,) = loop_nest(patterns, [1, columns])
    if any(step not in (0, 1) for step in elements.steps):
        return 0
    _SummedRows(r, found, nest, streams, elements).emit()
    return 2 if found.copy is None else 3


def found_rows(statements: Sequence[LoopStatement], at: int) -> _Statements | None:
    """The statements from number ``at`` on that compute element by element, sum by row, and convert."""
    values, total, copy = [*statements[at : at + 3], None, None, None][:3]
    if not isinstance(values, Assign) or not isinstance(total, Reduce):
        return None
    if not _computes_rows(values) or not _sums(total, values.target):
        return None
    if values.target.base == SCRATCH:
        others = [*statements[:at], *statements[at + 3 :]]
        if not isinstance(copy, Assign) or not _converts(copy, values.target):
            return None
        if any(_touches(other, values.target) for other in others):
            return None
        found = _Statements(values, total, copy)
    else:
        found = _Statements(values, total, None)
    return found if _in_order(values, found.written) else None


def _computes_rows(s: Assign) -> bool:
    """True of a float32 tile of whole groups of dense rows that is computed element by element."""
    target, parts = s.target, subexpressions(s.value)
    shape = target.dtype is dt.float32 and target.dense_rows and target.rows % GROUP == 0
    plain = s.value.kind in ("alu", "act") and all(part.kind in _KINDS for part in parts)
    return shape and plain and any(part.kind == "act" for part in parts) and target.columns >= GROUP


def _sums(s: Reduce, source: MemRef) -> bool:
    """True of a sequential reduction of the rows of ``source``, to memory that nothing else shares."""
    value = s.value
    whole = value.kind == "load" and value.memref == source and s.groups == 1 and not s.cross_partition
    return whole and s.op not in ANY_ORDER and s.target.base == SCRATCH


def _converts(s: Assign, source: MemRef) -> bool:
    """True of the conversion of all of ``source`` to dense rows."""
    value, target = s.value, s.target
    if value.kind != "cast" or value.args[0].kind != "load" or value.args[0].memref != source:
        return False
    return target.dense_rows and target.base != SCRATCH and target.rows == source.rows


def _touches(statement: LoopStatement, memref: MemRef) -> bool:
    """True if ``statement`` may read or write scratch memory of ``memref``."""
    low, high = memref.offset, memref.offset + memref.rows * memref.columns * memref.dtype.itemsize
    touched = [read for read, _ in reads_of(statement)]
    if not isinstance(statement, Print):
        touched.append(statement.target)
    return any(other.base == SCRATCH and low <= other.offset < high for other in touched)


def _in_order(values: Assign, target: MemRef) -> bool:
    """True if what is read of the operand that ``target`` belongs to is read where it is written, as it is.

    Other operands that share memory with it in another way were copied before (:mod:`~nki.backend.cpu.loop_ir.lower`).
    """
    memrefs = [load.memref for load in loads(values.value) if load.memref is not None]
    return all(memref == target for memref in memrefs if memref.base == target.base)


class _SummedRows:
    """The loop of such statements; the first stream is what is written."""

    def __init__(
        self, r: FunctionBuilder, found: _Statements, nest: Nest, streams: list[Stream], elements: CountedLoop
    ) -> None:
        self.r, self.found, self.nest, self.streams, self.elements = r, found, nest, streams, elements
        rows = found.values.target.rows
        self.rows = CountedLoop(rows, tuple(partition_step(s, rows) for s in streams), r.per_partition(rows))
        self.starts = r.start(self.streams)
        self.constants = self._constants()

    def _constants(self) -> dict[int, Value]:
        """The numbers of the expression, which are the same for all rows."""
        loop = InnerLoop(self.r, self.streams, self.elements, self.starts)
        for part in subexpressions(self.found.values.value):
            if part.kind == "value":
                loop.hoist(part)
        return loop.invariants

    def emit(self) -> None:
        """Emit the loop for the rows in the routine's range."""
        emit_groups(self.r, self.found.total, self.nest, self._row)

    def _row(self, row: Value, _group: Value, keep: Keep, column: Value, width: int) -> None:
        """``width`` elements of a row from ``column`` on: for their sum, and where they go."""
        r = self.r
        loop = InnerLoop(r, self.streams, self.elements, r.advanced(self.streams, self.starts, self.rows, row))
        loop.invariants.update(self.constants)
        loop.hoist(self.found.values.value)
        emit_row(r, width, 2 * r.lanes, partial(self._elements, loop, keep, column))

    def _elements(self, loop: InnerLoop, keep: Keep, column: Value, index: Value, size: int) -> None:
        """``size`` elements from ``index`` on, counted from ``column``."""
        r, b, target = self.r, self.r.b, self.found.written
        lanes, value = min(size, r.lanes), self.found.values.value
        places = [b.add(index, i64(at)) for at in range(0, size, lanes)]
        columns = [b.add(column, here) for here in places]
        if size > lanes and value.kind == "act" and value.op == "exp":
            given = [loop.value(value.args[0], here, lanes) for here in columns]
            written = partial(self._written, loop, columns)
            vectors, result = emit_exponentials(b, given, target.dtype, written)
        else:
            vectors = [loop.written(value, here, lanes) for here in columns]
            result = self._encoded(vectors)
        for here, vector in zip(places, vectors, strict=True):
            keep(here, vector, lanes)
        offset = b.mul(columns[0], i64(target.dtype.itemsize))
        b.store(result, r.move(loop.cursors[0], offset), align=target.dtype.itemsize)

    def _written(self, loop: InnerLoop, columns: Sequence[Value]) -> list[Value]:
        return [loop.written(self.found.values.value, column, self.r.lanes) for column in columns]

    def _encoded(self, vectors: list[Value]) -> Value:
        """One vector, or two, as they are stored."""
        result = vectors[0] if len(vectors) == 1 else side_by_side(self.r.b, vectors[0], vectors[1])
        return encode(self.r.b, result, self.found.written.dtype, has_canonical_nan=True)


def emit_exponentials(
    b: Builder, given: Sequence[Value], dtype: DType, others: Callable[[], Sequence[Value]]
) -> tuple[list[Value], Value]:
    """The exponentials of two vectors, and both side by side as elements of ``dtype``.

    Mostly all are normal numbers, which takes fewer operations for the same bits.
    ``others`` emits the exponentials of any numbers, with the canonical NaN.
    """
    low, high = given
    lanes, all_lanes = Lanes(b, low), ir.IntType(low.type.count)
    are_normal = b.icmp_signed("==", b.bitcast(has_normal_exp(lanes, given), all_lanes), ir.Constant(all_lanes, -1))
    ways: list[tuple[list[Value], Value]] = []
    with b.if_else(are_normal, likely=True) as (then, otherwise):
        with then:
            low, high = (normal_exp(lanes, x) for x in given)
            ways.append(([low, high, encode_normal(b, low, high, dtype)], b.block))
        with otherwise:
            low, high = others()
            stored = encode(b, side_by_side(b, low, high), dtype, has_canonical_nan=True)
            ways.append(([low, high, stored], b.block))
    results: list[Value] = [b.phi(value.type) for value in ways[0][0]]
    for values, block in ways:
        for result, value in zip(results, values, strict=True):
            result.add_incoming(value, block)
    return results[:2], results[2]


def row_sums(r: FunctionBuilder, s: Reduce) -> Nest | None:
    """The loops of ``s``, if it is a sum of rows, or of groups of columns, that :func:`emit_groups` can emit."""
    nest = nest_of(r, s)
    return nest if nest is not None and len(nest.inner) == 1 and vector_stream(s, nest) else None


def emit_groups(r: FunctionBuilder, s: Reduce, nest: Nest, compute: Compute, paired: bool = False) -> None:
    """Emit ``s`` with what it loads, which ``compute`` computes row by row, for the rows in the routine's range.

    ``paired``: what is kept for a sum is bfloat16.
    """
    groups = _Groups(r, s, nest, compute, paired)
    r.counted_loop(s.value.rows, GROUP, groups.emit, 0, r.per_partition(s.value.rows))


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


class _Chunks:
    """Two chunks of a group of rows in scratch memory.

    Four words side by side in a row are a *piece*: as many elements of float32, or pairs of bfloat16 if ``paired``.
    The pieces of all rows that begin in one column lie one behind the other, those of rows k, k + 4, ... of a vector's
    lanes together: they are loaded as one vector. Four vectors, transposed by squares of 4 x 4 words, are columns of
    words, whose lanes follow the rows.
    """

    def __init__(self, r: FunctionBuilder, paired: bool) -> None:
        self.r, self.b, self.paired = r, r.b, paired
        self.memory = r.loop_ir.new_scratch(GROUP, 2 * _CHUNK, dt.bfloat16 if paired else dt.float32)
        self.piece = 2 * PIECE if paired else PIECE
        """Columns of a piece."""
        r.need_scratch()

    def pieces(self, column: Value, index: Value | None = None) -> Value:
        """The pieces that begin ``index`` columns from ``column`` on, where a chunk begins."""
        constant = isinstance(column, ir.Constant)
        # An addition's last number may differ between routines that share a body.
        start = i64(column.constant & _CHUNK) if constant else self.b.and_(column, i64(_CHUNK))
        start = start if index is None else self.b.add(index, start)
        return self.r.move(self.r.address(self.memory), self.b.mul(start, i64(_PIECES // self.piece)))

    def row(self, column: Value, number: Value) -> Value:
        """The first piece of row ``number`` of the chunk that begins at ``column``."""
        b, parts = self.b, self.r.lanes // PIECE
        vector, lane = b.and_(number, i64(-self.r.lanes)), b.and_(number, i64(self.r.lanes - 1))
        together = b.mul(b.and_(lane, i64(PIECE - 1)), i64(parts))
        slot = b.add(vector, b.add(together, b.lshr(lane, i64(PIECE.bit_length() - 1))))
        return self.r.move(self.pieces(column), b.mul(slot, i64(4 * PIECE)))

    def keep(self, row: Value, index: Value, elements: Value, count: int) -> None:
        """Store ``count`` elements of a row, which begin at ``index``, a multiple of ``count``."""
        b, piece = self.b, self.piece
        size = self.memory.dtype.itemsize
        at = self.r.move(row, b.mul(b.lshr(index, i64(piece.bit_length() - 1)), i64(_PIECES)))
        if count < piece:
            b.store(elements, self.r.move(at, b.mul(b.and_(index, i64(piece - 1)), i64(size))), align=size)
            return
        for first in range(0, count, piece):
            mask = ir.Constant(ir.VectorType(I32, piece), list(range(first, first + piece)))
            part = b.shuffle_vector(elements, elements, mask)
            b.store(part, self.r.move(at, i64(first // piece * _PIECES)), align=size)

    def columns(self, pieces: Value) -> list[list[Value]]:
        """The columns of ``pieces``: the vectors of each, one behind the other."""
        b, size = self.b, 4 * self.r.lanes
        kind = ir.VectorType(ir.FloatType(), self.r.lanes)
        squares: list[list[Value]] = []
        for part in range(0, _PIECES, PIECE * size):
            places = [self.r.move(pieces, i64(part + at)) for at in range(0, PIECE * size, size)]
            words = transposed(b, [b.load(place, typ=kind, align=4) for place in places], PIECE)
            squares.append([half for word in words for half in halves_of(b, word)] if self.paired else words)
        return [list(column) for column in zip(*squares, strict=True)]


class _Groups:
    """The groups of rows of one reduction, each with the sums of all groups of columns."""

    def __init__(self, r: FunctionBuilder, s: Reduce, nest: Nest, compute: Compute, paired: bool) -> None:
        self.r, self.s, self.nest, self.compute = r, s, nest, compute
        self.columns = nest.inner[0].count
        self.width = min(_CHUNK, self.columns)
        self.chunks = _Chunks(r, paired)
        self.main = vector_stream(s, nest)
        self.starts = r.start(nest.streams)
        rows, others = s.value.rows, nest.streams[1:]
        self.by_row = CountedLoop(rows, (s.target.row_step, *(partition_step(stream, rows) for stream in others)))
        self.by_sum = CountedLoop(s.groups, (1, *(0 for _ in others)))

    def emit(self, row: Value) -> None:
        """A group of rows from number ``row`` on."""
        piece = self.chunks.piece
        share = -(-self.width // piece // GROUP) * piece
        if self.s.groups > 1 and self.columns == self.width and self.width % share == 0:
            self._short_sums(row, share)
        else:
            self.r.counted_loop(self.s.groups, 1, partial(self._long_sum, row))

    def _short_sums(self, row: Value, share: int) -> None:
        """Sums of one chunk each, of which ``share`` columns are added with each row of the next sum's chunk."""
        r, groups, width = self.r, self.s.groups, self.width

        def chunk(group: Value) -> None:
            place = r.b.mul(group, i64(_CHUNK))
            before, totals = r.b.sub(place, i64(_CHUNK)), self._totals(row, r.b.sub(group, i64(1)))
            has_sum = r.b.icmp_signed(">", group, i64(0))

            def one(number: Value) -> None:
                self._row(row, number, group, (place, i64(0)), width)
                first = r.b.mul(number, i64(share))
                is_inside = r.b.and_(has_sum, r.b.icmp_signed("<", first, i64(width)))
                with r.b.if_then(is_inside):
                    for at in range(0, share, self.chunks.piece):
                        self._sum(totals, before, r.b.add(first, i64(at)))

            r.counted_loop(GROUP, 1, one)
            with r.b.if_then(has_sum):
                for total in totals:
                    total.store()

        r.counted_loop(groups, 1, chunk)
        totals = self._totals(row, i64(groups - 1))
        self._sum_chunk(totals, (groups - 1) * _CHUNK, width)
        for total in totals:
            total.store()

    def _long_sum(self, row: Value, group: Value) -> None:
        """The sum of group ``group`` of columns, whose chunks are added while the next ones are computed."""
        r, width = self.r, self.width
        totals, whole = self._totals(row, group), self.columns // width * width

        def chunk(column: Value) -> None:
            r.counted_loop(GROUP, 1, partial(one, column))

        def one(column: Value, number: Value) -> None:
            self._row(row, number, group, (column, column), width)
            if whole > width:
                before = r.b.sub(column, i64(width))
                with r.b.if_then(r.b.icmp_signed(">=", before, i64(0))):
                    share = width // GROUP
                    for at in range(0, share, self.chunks.piece):
                        self._sum(totals, before, r.b.add(r.b.mul(number, i64(share)), i64(at)))

        r.counted_loop(whole, width, chunk)
        self._sum_chunk(totals, whole - width, width)
        if rest := self.columns - whole:
            columns = i64(whole), i64(whole)
            r.counted_loop(GROUP, 1, lambda number: self._row(row, number, group, columns, rest))
            self._sum_chunk(totals, whole, rest)
        for total in totals:
            total.store()

    def _row(self, first: Value, number: Value, group: Value, columns: tuple[Value, Value], width: int) -> None:
        """Elements of row ``number`` of the group of rows that begins with ``first``, in group ``group`` of columns.

        There are ``width`` from a column on; ``columns`` are that at which their chunk begins, and that.
        """
        place = self.chunks.row(columns[0], number)
        self.compute(self.r.b.add(first, number), group, partial(self.chunks.keep, place), columns[1], width)

    def _totals(self, row: Value, group: Value) -> list[VectorTotals]:
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

    def _sum_chunk(self, totals: list[VectorTotals], column: int, width: int) -> None:
        """Add the ``width`` elements of all rows from ``column`` on, where a chunk begins."""
        piece = self.chunks.piece
        done = width // piece * piece
        self.r.counted_loop(done, piece, partial(self._sum, totals, i64(column)))
        if done < width:
            self._sum(totals, i64(column), i64(done), width - done)

    def _sum(self, totals: list[VectorTotals], column: Value, index: Value, count: int | None = None) -> None:
        """Add the first ``count`` elements of each row's piece number ``index`` of the chunk from ``column`` on."""
        for vectors in self.chunks.columns(self.chunks.pieces(column, index))[:count]:
            for total, vector in zip(totals, vectors, strict=True):
                total.add(vector)


__all__ = [
    "GROUP",
    "Keep",
    "emit_exponentials",
    "emit_groups",
    "emit_row",
    "emit_summed_rows",
    "found_rows",
    "row_sums",
]
