"""Matrix transposition, as LLVM IR: elements of 1, 2 or 4 bytes are moved, never interpreted.

A block is loaded in pieces of 16 bytes, because x86 shuffles cheaply within 16 bytes only: a vector takes its pieces
from rows that lie as far apart as a piece is long, so that the transposed pieces, side by side, are a whole vector of
output.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from llvmlite import ir

from nki.numerics.llvm import I64, POINTER, VOID, Builder, Matrix, Value, at_least, i64, shuffled, smaller, steps
from nki.numerics.llvm_jit import engine

_PIECE: Final = 16  # bytes


def add_transpose(module: ir.Module, lanes: int, itemsize: int = 4) -> ir.Function:
    """Add to ``module``, for vectors of ``lanes`` (4, 8 or 16) floats, and return this function.

    ::

        void nki_transpose(void *out, i64 ldo, const void *in, i64 ldi, i64 rows, i64 columns)

    For 1 and 2 bytes the name ends in ``_1`` and ``_2``.
    ``out[c, r] = in[r, c]`` for ``rows`` x ``columns`` elements of ``itemsize`` bytes; ``in`` and ``out`` are row-major
    and must not overlap; ``ldo`` and ``ldi`` count elements from row to row. Sizes may be 0.
    """
    kind = ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, I64, I64])
    function = ir.Function(module, kind, "nki_transpose" if itemsize == 4 else f"nki_transpose_{itemsize}")
    out_pointer, ldo, in_pointer, ldi, rows, columns = function.args
    element = ir.IntType(8 * itemsize)
    out, source = Matrix(out_pointer, ldo, element), Matrix(in_pointer, ldi, element)
    b = ir.IRBuilder(function.append_basic_block())
    piece = _PIECE // itemsize
    for pieces in sorted({4 * lanes // _PIECE, 1}, reverse=True):
        with b.if_then(b.and_(at_least(b, rows, pieces * piece), at_least(b, columns, piece))):
            _blocks(b, out, source, rows, columns, pieces)
            b.ret_void()
    with steps(b, columns, 1) as column, steps(b, rows, 1) as row:
        b.store(b.load(source.at(b, row, column), typ=element), out.at(b, column, row))
    b.ret_void()
    return function


def _blocks(b: Builder, out: Matrix, source: Matrix, rows: Value, columns: Value, pieces: int) -> None:
    """Transpose in blocks of ``pieces`` x 16 bytes of rows and 16 bytes of columns; both sizes are at least one block.

    The last block of a direction is moved back to end at the edge: it writes some elements again, with equal values.
    """
    width = 8 * _PIECE // source.element.width
    height = pieces * width
    last_row, last_column = b.sub(rows, i64(height)), b.sub(columns, i64(width))
    with steps(b, b.add(rows, i64(height - 1)), height) as some_row:
        row = smaller(b, some_row, last_row)
        with steps(b, b.add(columns, i64(width - 1)), width) as some_column:
            column = smaller(b, some_column, last_column)
            vectors = [gather(b, source, row, column, i, width, pieces) for i in range(width)]
            for i, vector in enumerate(transposed(b, vectors, width)):
                place = out.at(b, b.add(column, i64(i)), row)
                b.store(vector, place, align=source.element.width // 8)


def gather(b: Builder, source: Matrix, row: Value, column: Value, first: int, width: int, pieces: int) -> Value:
    """The ``pieces`` at ``column``, of ``width`` elements, of rows ``row + first``, ``row + first + width``, ..., side
    by side.
    """
    kind = ir.VectorType(source.element, width)
    vectors = [
        b.load(source.at(b, b.add(row, i64(first + j * width)), column), typ=kind, align=source.element.width // 8)
        for j in range(pieces)
    ]
    while len(vectors) > 1:
        both = range(2 * vectors[0].type.count)
        vectors = [shuffled(b, left, right, both) for left, right in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def transposed(b: Builder, vectors: list[Value], width: int) -> list[Value]:
    """Transpose the ``width`` x ``width`` squares that lie side by side in ``width`` vectors.

    Every round interleaves vector i with vector i + width/2, so that after log2(width) rounds the index of the vector
    and the index in the piece have changed places.
    """
    count, half = vectors[0].type.count, width // 2
    low, high = (
        [lane for start in range(part, count, width) for i in range(start, start + half) for lane in (i, i + count)]
        for part in (0, half)
    )
    for _ in range(width.bit_length() - 1):
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [shuffled(b, *pair, lanes) for pair in pairs for lanes in (low, high)]
    return vectors


@cache
def address(itemsize: int) -> int:
    """Address of the compiled routine for elements of ``itemsize`` bytes, for code that calls it directly."""
    module = ir.Module("nki_transpose")
    function = add_transpose(module, engine().vector_width, itemsize)
    return engine().compile(module)[function.name]
