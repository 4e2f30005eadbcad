"""Copies of a stationary operand from which register tiles of a matrix product read memory in order, as LLVM IR.

The columns of the operand, which are the rows of the product, lie in blocks, one behind the other; a block has its
columns of each row beside each other. No tile takes columns of two blocks. Rows of the operand itself may be far apart:
then each is in another page, and if the distance is a power of two, all fight for few sets of the cache.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nki.numerics.llvm import F32, POINTER, Builder, Matrix, Value, Variable, at_least, i64, scratch, steps

_DEPTH: Final = 128
_COLUMNS: Final = 128
"""The most rows and columns of an operand of which a copy is made."""
_WORTH_IT: Final = 128
"""The fewest columns of a product, each of which costs as much as the copy, for which that pays."""
_LANES: Final = 4


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

    def pack(self, b: Builder, depth: Value, rows: Value) -> None:
        """Make a copy for a product of so many rows; it is what is read from now on."""
        target = scratch(b, -(-_COLUMNS // self._block) * self._block * _DEPTH)
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
