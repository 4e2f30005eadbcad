"""Sequential reductions of many rows at once: each lane of a vector follows one row.

The elements of a row stay in order, but neighbouring rows are far apart in memory. So four columns of as many
rows as a vector has lanes are loaded in pieces of four elements and transposed in registers; that is a few cheap
instructions for each vector of one column, and one addition then serves all rows.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop, load_every
from nki.backend.cpu.kernel_ir.loop_nests import CountedLoop, Cursors, Nest
from nki.backend.cpu.kernel_ir.nodes import Expr, subexpressions
from nki.base import element_types as dt
from nki.numerics.llvm import I32, constant, i64
from nki.numerics.transpose import transposed

PIECE: Final = 4
"""Elements of a row that are loaded together."""


class RowVectors:
    """Vectors of columns of the rows of a reduction that begin at ``starts``, one in each lane."""

    def __init__(self, r: FunctionBuilder, nest: Nest, starts: list[Cursors]) -> None:
        self.r, self.b, self.streams, self.value, self.starts = r, r.b, nest.streams, nest.statement.value, starts
        self.main, self.step = nest.main, nest.inner[-1].steps[nest.main] or 1
        self.lanes = len(starts)
        self.leaf = _leaf(self.value, nest.streams[nest.main].expr)
        """The load of the main stream, with its casts."""
        self.known = {id(part): self._each(part, starts, i64(0)) for part in _invariants(self.value, self.leaf)}

    def sizes(self, step: int) -> list[int]:
        """Numbers of every ``step``-th element of a row to load at once, largest first; the rest goes one by one.

        Of float32 the largest is a cache line, if registers suffice. Pairs of bfloat16 are transposed as one word.
        """
        pieces = (4, 1) if self.lanes == 16 else (1,)
        return [*(2 * PIECE * n for n in pieces), PIECE] if self._has_pairs(step) else [PIECE * n for n in pieces]

    def _has_pairs(self, step: int) -> bool:
        load, leaf = self.streams[self.main].expr, self.leaf
        is_decoded = leaf.kind == "cast" and leaf.dtype is dt.float32 and leaf.args[0] is load
        return step == 1 and is_decoded and leaf.args[0].dtype is dt.bfloat16

    def columns(self, cursors: list[Cursors], index: Value, step: int, size: int) -> list[Value]:
        """Every ``step``-th element of the rows that ``cursors`` follow, ``size`` from ``index`` on: a vector of each.

        They are elements of the main stream with its casts, without the expression around them. All pieces of one row
        are loaded before those of the next: rows a power of two apart, of which a cache keeps few at a time, leave it
        once.
        """
        paired = self._has_pairs(step) and size > PIECE
        width = 2 * PIECE if paired else PIECE
        places = [self.b.add(index, i64(at)) if at else index for at in range(0, size, width)]
        loaded = [[self._piece(row, at, step, paired) for at in places] for row in cursors]
        columns, decoded = list[Value](), self._loop(self.starts[0])
        for pieces in zip(*loaded, strict=True):
            vectors = [side_by_side(self.b, list(pieces[first::PIECE])) for first in range(PIECE)]
            if paired:
                columns += [half for vector in transposed(self.b, vectors, PIECE) for half in halves_of(self.b, vector)]
            else:
                columns += transposed(self.b, [decoded.converted(self.leaf, vector) for vector in vectors], PIECE)
        return columns

    def column(self, cursors: list[Cursors], index: Value) -> Value:
        """The expression in column ``index`` of all rows: one vector."""
        return self.applied(self._each(self.leaf, cursors, index))

    def applied(self, vector: Value) -> Value:
        """The whole expression, given its leaf."""
        return self._loop(self.starts[0]).given(self.value, self.lanes, {**self.known, id(self.leaf): vector})

    def _each(self, part: Expr, cursors: list[Cursors], index: Value) -> Value:
        """A vector of ``part`` in each row."""
        return gathered(self.b, [self._loop(row).value(part, index, 1) for row in cursors])

    def _loop(self, cursors: Cursors) -> InnerLoop:
        """The expressions of one row."""
        steps = tuple(self.step * (number == self.main) for number in range(len(self.streams)))
        return InnerLoop(self.r, self.streams, CountedLoop(1, steps), cursors)

    def _piece(self, cursors: Cursors, index: Value, step: int, paired: bool) -> Value:
        """The stored elements of one row from ``index`` on, or pairs of them."""
        memref = self.streams[self.main].memref
        assert memref is not None
        size = memref.dtype.itemsize
        at = self.r.move(cursors[self.main], self.b.mul(index, i64(size * step)))
        if step > 1:
            return load_every(self.b, at, memref.dtype, step, PIECE)
        kind = storage_type(dt.float32 if paired else memref.dtype, PIECE)
        return self.b.load(at, typ=kind, align=size)


def gathered(b: Builder, values: list[Value]) -> Value:
    """A vector of one number of each row; that number itself if there is one row."""
    if len(values) == 1:
        return values[0]
    vector: Any = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
    for lane, value in enumerate(values):
        vector = b.insert_element(vector, value, ir.Constant(I32, lane))
    return vector


def halves_of(b: Builder, pairs: Value) -> tuple[Value, Value]:
    """Both columns of pairs of bfloat16, as float32: the first one is in the low half of each word."""
    words = b.bitcast(pairs, ir.VectorType(I32, pairs.type.count))
    low = b.shl(words, constant(words.type, 16))
    high = b.and_(words, constant(words.type, 0xFFFF0000))
    return b.bitcast(low, pairs.type), b.bitcast(high, pairs.type)


def side_by_side(b: Builder, pieces: list[Value]) -> Value:
    """One vector of all ``pieces``."""
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
