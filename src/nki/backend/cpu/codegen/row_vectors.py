"""Sequential reductions of many rows at once: each lane of a vector follows one row.

The elements of a row stay in order, but those of neighbouring rows are far apart in memory. So four columns of as many
rows as a vector has lanes are loaded in pieces of four elements and transposed in registers; that is a few cheap
instructions for each vector of one column, and one addition then serves all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop, load_every
from nki.backend.cpu.kernel_ir.loops import CountedLoop, Cursors, Stream
from nki.backend.cpu.kernel_ir.nodes import Expr, subexpressions
from nki.base import dtype as dt
from nki.numerics.llvm import I32, I64, constant, i64
from nki.numerics.transpose import transposed

PIECE: Final = 4
"""Elements of a row that are loaded together."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that are loaded at once: some pieces of each row, whose elements are pairs of columns if ``paired``."""

    pieces: int
    paired: bool

    @property
    def columns(self) -> int:
        """The number of columns."""
        return PIECE * self.pieces * (2 if self.paired else 1)


class RowVectors:
    """Vectors of columns of ``lanes`` rows, which begin at ``starts``."""

    def __init__(
        self, r: FunctionBuilder, streams: list[Stream], value: Expr, starts: list[Cursors], main: int, step: int
    ) -> None:
        self.r, self.b, self.streams, self.value, self.starts = r, r.b, streams, value, starts
        self.main, self.step = main, step
        self.lanes = len(starts)
        self.leaf = _leaf(value, streams[main].expr)
        """The load of the main stream, with its casts."""
        self.known = {id(part): self._splat(part) for part in _invariants(value, self.leaf)}

    def blocks(self, step: int) -> list[Block]:
        """The blocks in which every ``step``-th element is loaded, largest first; what is left over goes one by one.

        Of float32 a large one is a cache line, if registers suffice. Pairs of bfloat16 are transposed as one word.
        """
        pieces = (4, 1) if self.lanes == 16 else (1,)
        paired = (True, False) if step == 1 and self._decodes_bfloat16() else (False,)
        return [Block(count, pair) for pair in paired for count in (pieces if pair == paired[0] else (1,))]

    def _decodes_bfloat16(self) -> bool:
        load, leaf = self.streams[self.main].expr, self.leaf
        is_decoded = leaf.kind == "cast" and leaf.dtype is dt.float32 and leaf.args[0] is load
        return is_decoded and leaf.args[0].dtype is dt.bfloat16

    def columns(self, cursors: list[Cursors], index: Value, block: Block) -> list[Value]:
        """The elements of all rows, which ``cursors`` follow, in the columns of the ``block`` that ``index`` begins."""
        return [self.applied(vector) for vector in self._columns(cursors, index, self.step, block)]

    def neighbours(self, cursors: list[Cursors], index: Value, block: Block) -> list[Value]:
        """Vectors of elements side by side in memory, whatever the step, without the expression around them."""
        return self._columns(cursors, index, 1, block)

    def _columns(self, cursors: list[Cursors], index: Value, step: int, block: Block) -> list[Value]:
        """All pieces of one row are loaded before those of the next: rows a power of two apart, of which a cache keeps
        few at a time, leave it once.
        """
        width = block.columns // block.pieces
        places = [self.b.add(index, ir.Constant(I64, width * n)) if n else index for n in range(block.pieces)]
        loaded = [[self._piece(row, at, step, block.paired) for at in places] for row in cursors]
        columns: list[Value] = []
        for n in range(block.pieces):
            vectors = [_side_by_side(self.b, [row[n] for row in loaded[first::PIECE]]) for first in range(PIECE)]
            if block.paired:
                columns += [half for vector in transposed(self.b, vectors, PIECE) for half in halves_of(self.b, vector)]
            else:
                columns += transposed(self.b, [self._decoded(vector) for vector in vectors], PIECE)
        return columns

    def column(self, cursors: list[Cursors], index: Value) -> Value:
        """One vector: the elements of all rows in column ``index``."""
        return self.applied(self._each(self.leaf, cursors, index))

    def _each(self, part: Expr, cursors: list[Cursors], index: Value) -> Value:
        """A vector of ``part`` in each row."""
        flat = CountedLoop(1, tuple(self.step * (number == self.main) for number in range(len(self.streams))))
        return self.gathered([InnerLoop(self.r, self.streams, flat, c).value(part, index, 1) for c in cursors])

    def _splat(self, part: Expr) -> Value:
        """A vector of ``part``, which is the same for all elements of a row."""
        return self._each(part, self.starts, ir.Constant(I64, 0))

    def applied(self, vector: Value) -> Value:
        """The whole expression, given its leaf."""
        flat = CountedLoop(1, tuple(0 for _ in self.streams))
        loop = InnerLoop(self.r, self.streams, flat, self.starts[0])
        return loop.given(self.value, self.lanes, {**self.known, id(self.leaf): vector})

    def gathered(self, values: list[Value]) -> Value:
        """A vector of one number of each row."""
        vector: Any = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
        for lane, value in enumerate(values):
            vector = self.b.insert_element(vector, value, ir.Constant(I32, lane))
        return vector

    def _piece(self, cursors: Cursors, index: Value, step: int, paired: bool) -> Value:
        """The stored elements of one row from ``index`` on, or pairs of them."""
        memref = self.streams[self.main].memref
        assert memref is not None
        size = memref.dtype.itemsize
        at = self.r.move(cursors[self.main], self.b.mul(index, ir.Constant(I64, size * step)))
        if step > 1:
            return load_every(self.b, at, memref.dtype, step, PIECE)
        if paired:
            return self.b.load(at, typ=storage_type(dt.float32, PIECE), align=size)
        return self.b.load(at, typ=storage_type(memref.dtype, PIECE), align=size)

    def _decoded(self, stored: Value) -> Value:
        """``stored`` elements with the casts of the expression applied."""
        flat = CountedLoop(1, tuple(1 for _ in self.streams))
        loop = InnerLoop(self.r, self.streams, flat, self.starts[0])
        return loop.converted(self.leaf, stored)


class Chunks:
    """Two chunks of columns of a group of ``rows`` in scratch memory, each of ``width``, a power of two.

    Four words side by side in a row are a *piece*. The pieces of all rows that begin in one column lie one behind the
    other, those of rows k, k + 4, ... of a vector's lanes together: they are loaded as one vector. Four vectors,
    transposed by squares of 4 x 4 words, are columns of words, whose lanes follow the rows.
    """

    dtype: dt.DType = dt.float32
    piece: int = PIECE
    """Columns of a piece."""

    def __init__(self, r: FunctionBuilder, rows: int, width: int) -> None:
        self.r, self.b, self.rows, self.width = r, r.b, rows, width
        self.memory = r.kernel_ir.new_scratch(rows, 2 * width, self.dtype)
        self.bytes_of_column = rows * self.dtype.itemsize
        r.need_scratch()

    def pieces(self, column: Value, index: Value | None = None) -> Value:
        """The pieces that begin ``index`` columns from ``column`` on, where a chunk begins."""
        return self._moved(column, index, self.bytes_of_column)

    def _moved(self, column: Value, index: Value | None, step: int) -> Value:
        """``index`` times ``step`` bytes from the chunk on that begins at ``column``."""
        b, size = self.b, self.bytes_of_column
        constant = isinstance(column, ir.Constant)
        # An addition's last number may differ between routines that share a body.
        start = i64(column.constant & self.width) if constant else b.and_(column, i64(self.width))
        if index is not None and step == size:
            start = b.add(index, start)
        moved = self.r.move(self.r.address(self.memory), b.mul(start, i64(size)))
        return moved if index is None or step == size else self.r.move(moved, b.mul(index, i64(step)))

    def row(self, column: Value, number: Value) -> Value:
        """The first piece of row ``number`` of the chunk that begins at ``column``."""
        b, parts = self.b, self.r.lanes // PIECE
        vector, lane = b.and_(number, i64(-self.r.lanes)), b.and_(number, i64(self.r.lanes - 1))
        together = b.mul(b.and_(lane, i64(PIECE - 1)), i64(parts))
        slot = b.add(vector, b.add(together, b.lshr(lane, i64(PIECE.bit_length() - 1))))
        return self.r.move(self.pieces(column), b.mul(slot, i64(4 * PIECE)))

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
    """Chunks whose rows are dense: a store for each vector, and pieces that are put together as they are loaded.

    Sums of products take 0.65 of the time that they take with pieces, exponentials with their sums 1.03 to 1.09: these
    have no room for more operations on vectors, but for more stores.
    """

    def pieces(self, column: Value, index: Value | None = None) -> Value:
        """The first row's piece that begins ``index`` columns from ``column`` on."""
        return self._moved(column, index, self.dtype.itemsize)

    def row(self, column: Value, number: Value) -> Value:
        """Row ``number`` of the chunk that begins at ``column``."""
        return self.r.move(self.pieces(column), self.b.mul(number, i64(self.width * self.dtype.itemsize)))

    def keep(self, row: Value, index: Value, elements: Value, count: int) -> None:
        """Store ``count`` elements of a row, which begin at ``index``."""
        del count  # one store takes all
        size = self.dtype.itemsize
        self.b.store(elements, self.r.move(row, self.b.mul(index, i64(size))), align=size)

    def _load(self, pieces: Value, first: int, number: int) -> Value:
        b, kind = self.b, ir.VectorType(ir.FloatType(), PIECE)
        rows = range(first + number, first + self.r.lanes, PIECE)
        places = [self.r.move(pieces, i64(row * self.width * self.dtype.itemsize)) for row in rows]
        return _side_by_side(b, [b.load(place, typ=kind, align=4) for place in places])


def halves_of(b: Builder, pairs: Value) -> tuple[Value, Value]:
    """Both columns of pairs of bfloat16, as float32: the first one is in the low half of each word."""
    words = b.bitcast(pairs, ir.VectorType(I32, pairs.type.count))
    low = b.shl(words, constant(words.type, 16))
    high = b.and_(words, constant(words.type, 0xFFFF0000))
    return b.bitcast(low, pairs.type), b.bitcast(high, pairs.type)


def _side_by_side(b: Builder, pieces: list[Value]) -> Value:
    while len(pieces) > 1:
        lanes = list(range(2 * pieces[0].type.count))
        mask = ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
        pieces = [b.shuffle_vector(left, right, mask) for left, right in zip(pieces[::2], pieces[1::2], strict=True)]
    return pieces[0]


def _leaf(value: Expr, load: Expr | None) -> Expr:
    """The casts of ``load`` in ``value``, as far as nothing else takes what they convert."""
    parts = subexpressions(value)
    part = next(part for part in parts if part is load)
    while True:
        takers = list({id(p): p for p in parts if any(arg is part for arg in p.args)}.values())
        if len(takers) != 1 or takers[0].kind != "cast":
            return part
        part = takers[0]


def _invariants(value: Expr, leaf: Expr) -> list[Expr]:
    """The largest parts of ``value`` that do not contain ``leaf``."""
    if value is leaf:
        return []
    if all(part is not leaf for part in subexpressions(value)):
        return [value]
    return [part for arg in value.args for part in _invariants(arg, leaf)]


def follow(
    r: FunctionBuilder,
    rows: RowVectors,
    last: CountedLoop,
    cursors: list[Cursors],
    step: Callable[[Value], None],
) -> None:
    """Call ``step`` with the vector of each column in turn, along the innermost loop."""
    done = whole = 0
    for block in rows.blocks(rows.step):
        whole = done + (last.count - done) // block.columns * block.columns

        def columns(index: Value, block: Block = block) -> None:
            for vector in rows.columns(cursors, index, block):
                step(vector)

        r.counted_loop(whole, block.columns, columns, done)
        done = whole
    for index in range(whole, last.count):
        step(rows.column(cursors, ir.Constant(I64, index)))
