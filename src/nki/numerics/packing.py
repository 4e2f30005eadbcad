"""Copies of a stationary operand from which register tiles of a matrix product read memory in order, as LLVM IR.

The columns of the operand, which are the rows of the product, lie in blocks, one behind the other; a block has its
columns of each row beside each other. No tile takes columns of two blocks. Rows of the operand itself may be far apart:
then each is in another page, and if the distance is a power of two, all fight for few sets of the cache.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I64,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    at_least,
    i64,
    scratch,
    smaller,
    steps,
)
from nki.numerics.transpose import joined, transposed

DEPTH: Final = 128
COLUMNS: Final = 128
"""The most rows and columns of an operand of which a copy is made."""
WORTH_IT: Final = 128
"""The fewest columns of a product, each of which costs as much as the copy, for which that pays."""
LEAST_DEPTH: Final = 16
"""The fewest rows of an operand that :func:`add_pack_turned` packs: those of a step of it."""
_LANES: Final = 4


def is_worth_it(b: Builder, tile: int, depth: Value, rows: Value, columns: Value) -> Value:
    """True if a product of this size, in tiles of ``tile`` rows, should read a copy of its stationary operand."""
    pays = b.and_(at_least(b, rows, tile + 1), at_least(b, columns, WORTH_IT))
    return b.and_(pays, b.and_(at_least(b, i64(COLUMNS), rows), at_least(b, i64(DEPTH), depth)))


def column(b: Builder, pointer: Value, number: Value, size: Value, block: int) -> Value:
    """Pointer to the first element of a column: ``size`` elements from block to block, or ``block`` in plain rows."""
    whole, rest = b.udiv(number, i64(block)), b.urem(number, i64(block))
    return b.gep(pointer, [b.add(b.mul(whole, size), rest)], source_etype=F32)


class Stationary:
    """The stationary operand of a product as its tiles read it: in place, or packed in blocks of ``block`` columns."""

    def __init__(self, b: Builder, block: int, pointer: Value, stride: Value) -> None:
        self._block, self._source = block, Matrix(pointer, stride)
        self._pointer, self._stride, self._size = Variable(b, POINTER), Variable(b), Variable(b)
        self._set(pointer, stride, i64(block))

    def _set(self, *values: Value) -> None:
        for variable, value in zip((self._pointer, self._stride, self._size), values, strict=True):
            variable.set(value)

    def get(self) -> list[Value]:
        """Pointer, and step from row to row."""
        return [self._pointer.get(), self._stride.get()]

    def size(self) -> Value:
        """Elements from block to block, for :func:`column`."""
        return self._size.get()

    def take_packed(self, b: Builder, pointer: Value, depth: Value) -> None:
        """Read a copy that was made before."""
        self._set(pointer, i64(self._block), b.mul(depth, i64(self._block)))

    def pack(self, b: Builder, depth: Value, rows: Value) -> None:
        """Make a copy for a product of so many rows; it is what is read from now on."""
        target = scratch(b, -(-COLUMNS // self._block) * self._block * DEPTH)
        size = b.mul(depth, i64(self._block))
        _pack(b, target, self._source, (depth, rows), size, self._block)
        self._set(target, i64(self._block), size)


def _pack(b: Builder, target: Value, source: Matrix, shape: tuple[Value, Value], size: Value, block: int) -> None:
    """Copy ``shape`` elements of ``source``, rows and columns, to blocks of ``block`` columns, a multiple of 4."""
    place = Variable(b, POINTER)
    with steps(b, shape[0], 1) as row:
        counter = Variable(b)
        counter.set(i64(0))
        place.set(b.gep(target, [b.mul(row, i64(block))], source_etype=F32))
        for width in (block, _LANES, 1):
            kind = ir.VectorType(F32, width) if width > 1 else F32
            with steps(b, shape[1], width, counter) as here:
                b.store(b.load(source.at(b, row, here), typ=kind, align=4), place.get(), align=4)
                place.set(b.gep(place.get(), [size if width == block else i64(width)], source_etype=F32))


def blocks_size(block: int, depth: int, columns: int) -> int:
    """Elements of a copy in blocks, with those behind it that :func:`add_pack_turned` may write."""
    return -(-columns // block) * block * depth + _LANES


def add_pack_turned(module: ir.Module, block: int) -> ir.Function:
    """Add to ``module`` and return this function, for an operand whose columns are dense.

    ::

        void nki_pack_turned(float *blocks, const float *columns, i64 step, i64 count, i64 depth)

    ``count`` columns of ``depth`` rows, ``step`` elements from one column to the next, become blocks of ``block``
    columns, a multiple of 4. ``depth`` is at least :data:`LEAST_DEPTH`. Up to four elements behind a block are written.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64, I64]), "nki_pack_turned")
    target, source, step, count, depth = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    columns, last = Matrix(source, step), b.sub(depth, i64(LEAST_DEPTH))
    with steps(b, b.add(count, i64(block - 1)), block) as first:
        numbers = [smaller(b, b.add(first, i64(n)), b.sub(count, i64(1))) for n in range(block)]
        rows = Matrix(b.gep(target, [b.mul(first, depth)], source_etype=F32), i64(block))
        with steps(b, b.add(depth, i64(LEAST_DEPTH - 1)), LEAST_DEPTH) as some_row:
            _turn(b, rows, columns, numbers, smaller(b, some_row, last))
    b.ret_void()
    return function


def _turn(b: Builder, rows: Matrix, columns: Matrix, numbers: list[Value], first: Value) -> None:
    """Write the elements of the columns of these ``numbers`` in the rows from ``first`` on.

    A line of the cache of each column is read at once: columns a power of two apart fight for few sets of it. Rows are
    written one after the other, as whole vectors, of which each overwrites what is too much of the one before.
    """
    kind, pieces = ir.VectorType(F32, _LANES), range(0, LEAST_DEPTH, _LANES)
    places = [b.add(first, i64(piece)) for piece in pieces]
    loaded = [[b.load(columns.at(b, n, place), typ=kind, align=4) for place in places] for n in numbers]
    for part, place in enumerate(places):
        vectors = [joined(b, [column[part] for column in loaded[number::_LANES]]) for number in range(_LANES)]
        for number, vector in enumerate(transposed(b, vectors, _LANES)):
            b.store(vector, rows.at(b, b.add(place, i64(number)), i64(0)), align=4)
