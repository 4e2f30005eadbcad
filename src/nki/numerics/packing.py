"""Copies of a stationary operand from which register tiles of a matrix product read memory in order, as LLVM IR.

The columns of the operand, which are the rows of the product, lie in blocks, one behind the other; a block has its
columns of each row beside each other. No tile takes columns of two blocks. Rows of the operand itself may be far apart:
then each is in another page, and if the distance is a power of two, all fight for few sets of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I32,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    at_least,
    i64,
    prefetch,
    scratch,
    steps,
)

_DEPTH: Final = 128
_COLUMNS: Final = 128
"""The most rows and columns of an operand of which a copy is made."""
_WORTH_IT: Final = 128
"""The fewest columns of a product, each of which costs as much as the copy, for which that pays."""
_LANES: Final = 4
_APART: Final = LINE // 4
"""Elements between blocks, so that what is written one after the other is in other sets of the cache."""


def is_worth_it(b: Builder, tile: int, depth: Value, rows: Value, columns: Value) -> Value:
    """True if a product of this size, in tiles of ``tile`` rows, should read a copy of its stationary operand."""
    pays = b.and_(at_least(b, rows, tile + 1), at_least(b, columns, _WORTH_IT))
    return b.and_(pays, b.and_(at_least(b, i64(_COLUMNS), rows), at_least(b, i64(_DEPTH), depth)))


def column(b: Builder, pointer: Value, number: Value, size: Value, block: int) -> Value:
    """Pointer to the first element of a column: ``size`` elements from block to block, or ``block`` in plain rows."""
    whole, rest = b.udiv(number, i64(block)), b.urem(number, i64(block))
    return b.gep(pointer, [b.add(b.mul(whole, size), rest)], source_etype=F32)


class Stationary:
    """The stationary operand of a product as its tiles read it: in place, or packed in blocks of ``block`` columns."""

    def __init__(self, b: Builder, block: int, pointer: Value, stride: Value, blocks: Value) -> None:
        self._block, self._source = block, Matrix(pointer, stride)
        self._pointer, self._stride, self._size = Variable(b, POINTER), Variable(b), Variable(b)
        self._set(pointer, stride, blocks)

    def _set(self, *values: Value) -> None:
        for variable, value in zip((self._pointer, self._stride, self._size), values, strict=True):
            variable.set(value)

    def get(self) -> list[Value]:
        """Pointer, and steps from row to row and from block to block."""
        return [self._pointer.get(), self._stride.get(), self._size.get()]

    def pack(self, b: Builder, copy: ir.Function, depth: Value, rows: Value) -> None:
        """Make a copy with :func:`add_blocks_of_rows` for a product of so many rows; it is read from now on."""
        target = scratch(b, -(-_COLUMNS // self._block) * (self._block * _DEPTH + _APART))
        size = b.add(b.mul(depth, i64(self._block)), i64(_APART))
        b.call(copy, [target, size, self._source.pointer, self._source.stride, depth, rows, i64(0), i64(0)])
        self._set(target, i64(self._block), size)


def add_blocks_of_rows(module: ir.Module, block: int) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_blocks_of_rows(float *blocks, i64 size, const float *source, i64 step, i64 rows, i64 columns,
                                i64 ahead, i64 between)

    ``rows`` dense rows of ``columns`` numbers, ``step`` elements from one to the next, become blocks of ``block``
    columns, ``size`` elements from one to the next. Where blocks have :data:`_LANES` columns, as many rows are copied
    at a time as fill a line of memory. The second-level cache is asked for what lies ``ahead`` rows behind those that
    are copied; 0: for nothing. Behind the last of ``rows``, so many rows ``between`` are left out.
    """
    function, b = _function(module, "nki_blocks_of_rows", [I64, I64])
    target_pointer, size, source_pointer, step, rows, columns, ahead, between = function.args
    target, source = Matrix(target_pointer, size), Matrix(source_pointer, step)
    row, column = Variable(b), Variable(b)
    row.set(i64(0))
    for height in (_LANES, 1) if block == _LANES else (1,):
        with steps(b, rows, height, row) as here:
            column.set(i64(0))
            for width in (_LANES * _LANES, _LANES, 1) if block == _LANES else (block, 1):
                kind = ir.VectorType(F32, width) if width > 1 else F32
                with steps(b, columns, width, column) as start:
                    if height * width * 4 == _LANES * LINE:
                        with b.if_then(b.icmp_signed("!=", ahead, i64(0))):
                            later = b.add(here, ahead)
                            later = b.add(later, b.select(at_least(b, later, rows), between, i64(0)))
                            for n in range(height):
                                prefetch(b, source.at(b, b.add(later, i64(n)), start), level=2)
                    parts = [b.load(source.at(b, b.add(here, i64(n)), start), typ=kind, align=4) for n in range(height)]
                    _store(b, target, parts, here, start, block)
    b.ret_void()
    return function


def _function(module: ir.Module, name: str, others: Sequence[ir.Type] = ()) -> tuple[ir.Function, Builder]:
    """A function of two matrices, each a pointer and a step, of two sizes, and of ``others``."""
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, I64, I64, *others]), name)
    return function, ir.IRBuilder(function.append_basic_block())


def _store(b: Builder, target: Matrix, parts: list[Value], row: Value, column: Value, block: int) -> None:
    """Store the numbers of some columns of one row, or of :data:`_LANES` rows, a vector for each, in their blocks."""
    number, width = b.sdiv(column, i64(block)), getattr(parts[0].type, "count", 1)
    place = target.at(b, number, b.mul(row, i64(block)))
    if width == 1:
        for n, part in enumerate(parts):
            within = b.add(b.srem(column, i64(block)), i64(n * block))
            b.store(part, b.gep(place, [within], source_etype=F32), align=4)
        return
    if len(parts) == _LANES:
        lines = _lines(b, parts)
    else:
        lines = [_shuffled(b, parts[0], parts[0], range(n, n + block)) for n in range(0, width, block)]
    for n, line in enumerate(lines):
        b.store(line, b.gep(place, [b.mul(target.stride, i64(n))], source_etype=F32), align=4)


def _lines(b: Builder, rows: list[Value]) -> list[Value]:
    """The first four numbers of all four ``rows`` side by side, then the second ones, and so on."""
    if rows[0].type.count == _LANES:
        halves = [_shuffled(b, rows[n], rows[n + 1], range(2 * _LANES)) for n in (0, 2)]
        return [_shuffled(b, halves[0], halves[1], range(4 * _LANES))]
    for together in (2, 1):  # fours that stay together
        fours = [range(_LANES * n, _LANES * (n + 1)) for n in range(8)]
        pairs = [(rows[0], rows[1]), (rows[2], rows[3])] if together == 2 else [(rows[0], rows[2]), (rows[1], rows[3])]
        orders = ((0, 1, 4, 5), (2, 3, 6, 7)) if together == 2 else ((0, 2, 4, 6), (1, 3, 5, 7))
        rows = [_shuffled(b, *pair, [lane for n in order for lane in fours[n]]) for pair in pairs for order in orders]
    return rows


def add_blocks_of_columns(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_blocks_of_columns(float *blocks, i64 size, const float *source, i64 step, i64 columns, i64 rows)

    ``columns`` dense columns of ``rows`` numbers, ``step`` elements from one to the next, become blocks of
    :data:`_LANES` columns, whose numbers alternate; their number is a multiple of that. ``size`` elements lead from
    block to block.
    """
    function, b = _function(module, "nki_blocks_of_columns")
    target_pointer, size, source_pointer, step, columns, rows = function.args
    blocks, source, row = Matrix(target_pointer, size), Matrix(source_pointer, step), Variable(b)
    with steps(b, columns, _LANES) as column:
        row.set(i64(0))
        for height in (_LANES * _LANES, 1):
            with steps(b, rows, height, row) as here:
                kind = ir.VectorType(F32, height) if height > 1 else F32
                places = [source.at(b, b.add(column, i64(n)), here) for n in range(_LANES)]
                numbers = [b.load(place, typ=kind, align=4) for place in places]
                for n, vector in enumerate(_alternating(b, numbers) if height > 1 else numbers):
                    place = b.add(b.mul(here, i64(_LANES)), i64(height * n))
                    b.store(vector, blocks.at(b, b.sdiv(column, i64(_LANES)), place), align=4)
    b.ret_void()
    return function


def _alternating(b: Builder, vectors: list[Value]) -> list[Value]:
    """The first numbers of all four ``vectors``, then the second ones, and so on: as many in each result."""
    first, second = _merged(b, vectors[0], vectors[1], 1), _merged(b, vectors[2], vectors[3], 1)
    return [part for pair in zip(first, second, strict=True) for part in _merged(b, *pair, 2)]


def _merged(b: Builder, left: Value, right: Value, together: int) -> list[Value]:
    """Numbers of ``left`` and ``right`` in turn, some ``together``: the first half of the result, and the second."""
    count = left.type.count
    turns = range(0, count, together)
    lanes = [lane for start in turns for side in (0, count) for lane in range(side + start, side + start + together)]
    return [_shuffled(b, left, right, half) for half in (lanes[:count], lanes[count:])]


def _shuffled(b: Builder, left: Value, right: Value, lanes: Sequence[int]) -> Value:
    """The numbers of ``left`` and ``right`` that ``lanes`` name, those of ``right`` behind those of ``left``."""
    return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))
