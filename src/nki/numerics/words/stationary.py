"""Stationary operands of products of words in the order in which processors want them, as LLVM IR.

Words are those of :mod:`nki.numerics.words.operands`, but here the words of a column lie side by side: a column of the
operand, which is a row of the product, is a row of words, group by group. Behind the words of every sixteenth column,
from the first one on, there are notes of the sixteen columns that begin with it: of 16 numbers the least is the least
magnitude of all that are not 0, as bits, minus one (65535 if all are 0). Rows of words are :func:`row_words` apart or
farther.

Numbers are moved, never interpreted.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    i64,
    prefetch,
    scratch,
    steps,
)
from nki.numerics.matmul import CHAIN, PANEL
from nki.numerics.transpose import gather, transposed
from nki.numerics.words.operands import GROUP, Least, WordOrder

BLOCK: Final = 16
"""Columns that share notes; so many begin a range of columns that is packed, or are a multiple of it."""
_PIECE: Final = 4
"""Words in 16 bytes, of which processors shuffle quickly."""
_NOTES: Final = ir.VectorType(I16, BLOCK)


def row_words(depth: int) -> int:
    """Words from one column of ``depth`` elements, a multiple of :data:`GROUP`, to the next, with room for notes."""
    return depth // 2 + CHAIN


def add_pack_columns(module: ir.Module, order: WordOrder) -> ir.Function:
    """Add to ``module`` and return this function, for an operand whose columns are dense.

    ::

        void nki_pack_columns(i32 *words, i64 ldw, const bfloat16 *columns, i64 step, i64 count, i64 groups)

    ``count`` columns, a multiple of :data:`BLOCK`, ``step`` elements from one to the next, become rows of words,
    ``ldw`` words from one to the next, with notes; words are in this ``order``.
    """
    function = _function(module, "nki_pack_columns")
    target, ldw, source, step, count, groups = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    words, columns, least = Matrix(target, ldw), Matrix(source, step, I16), Least(b, GROUP)
    places = [number for word in range(CHAIN) for number in (order.step * word + order.apart, order.step * word)]
    with steps(b, count, BLOCK) as first:
        least.clear()
        with steps(b, i64(BLOCK), 1) as number, steps(b, groups, 1) as group:
            column = b.add(first, number)
            place = columns.at(b, column, b.mul(group, i64(GROUP)))
            numbers = b.load(place, typ=ir.VectorType(I16, GROUP), align=2)
            b.store(_shuffled(b, numbers, numbers, places), words.at(b, column, b.mul(group, i64(CHAIN))), align=4)
            least.add(numbers)
        halves = [_shuffled(b, least.lanes(), least.lanes(), list(range(n, n + BLOCK))) for n in (0, BLOCK)]
        smallest = b.select(b.icmp_unsigned("<", *halves), *halves)
        b.store(smallest, _notes(b, words, first, groups), align=4)
    b.ret_void()
    return function


def add_pack_rows(module: ir.Module, order: WordOrder) -> ir.Function:
    """Add to ``module`` and return this function, for an operand whose rows are dense.

    ::

        void nki_pack_rows(i32 *words, i64 ldw, const bfloat16 *rows, i64 step, i64 count, i64 groups)

    As :func:`add_pack_columns`, but ``step`` elements lead from row to row.
    """
    function = _function(module, "nki_pack_rows")
    target, ldw, source, step, count, groups = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    words, rows, column = Matrix(target, ldw), Matrix(source, step, I16), Variable(b)
    mixed = Matrix(scratch(b, CHAIN * PANEL), i64(PANEL), I32)
    column.set(i64(0))
    for width in (PANEL, BLOCK):
        least = Least(b, width)
        with steps(b, count, width, column) as first:
            least.clear()
            with steps(b, groups, 1) as group:
                _mix(b, mixed, rows, b.mul(group, i64(GROUP)), first, least, order)
                _turn(b, mixed, words, first, b.mul(group, i64(CHAIN)), width)
            for start in range(0, width, BLOCK):
                lanes = list(range(start, start + BLOCK))
                place = _notes(b, words, b.add(first, i64(start)), groups)
                b.store(_shuffled(b, least.lanes(), least.lanes(), lanes), place, align=4)
    b.ret_void()
    return function


def _mix(b: Builder, mixed: Matrix, rows: Matrix, row: Value, column: Value, least: Least, order: WordOrder) -> None:
    """Write the words of a group, which begins at ``row``, and of some columns, to rows of ``mixed``.

    In one operation as processors have it: of eight columns each, first the first four, then the other ones of all.
    """
    width, half = least.count, _PIECE
    parts = [
        [lane for start in range(part, width, 2 * half) for n in range(start, start + half) for lane in (width + n, n)]
        for part in (0, half)
    ]
    with steps(b, i64(CHAIN), 1) as word:
        upper_row = b.add(row, b.mul(word, i64(order.step)))
        numbers: list[Value] = []
        for place in (upper_row, b.add(upper_row, i64(order.apart))):
            prefetch(b, rows.at(b, place, b.add(column, i64(width))), level=2)  # the columns behind these
            numbers.append(b.load(rows.at(b, place, column), typ=ir.VectorType(I16, width), align=2))
        for part, lanes in enumerate(parts):
            b.store(_shuffled(b, numbers[0], numbers[1], lanes), mixed.at(b, word, i64(part * width // 2)), align=4)
        for half_word in numbers:
            least.add(half_word)


def _turn(b: Builder, mixed: Matrix, words: Matrix, column: Value, word: Value, width: int) -> None:
    """Write what :func:`_mix` wrote to rows of ``words`` from ``column`` on, at ``word``."""
    for start in range(0, width, _PIECE):
        part, number = divmod(start, width // 2)
        vectors = [gather(b, mixed, i64(0), i64(start), n, _PIECE, CHAIN // _PIECE) for n in range(_PIECE)]
        for n, vector in enumerate(transposed(b, vectors, _PIECE)):
            place = b.add(column, i64(2 * number + part * _PIECE + n))
            b.store(vector, words.at(b, place, word), align=4)


def add_least_columns(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_least_columns(i16 *result, const i32 *words, i64 ldw, i64 count, i64 groups)

    The least note of ``count`` columns, which are a multiple of :data:`BLOCK`.
    """
    kind = ir.FunctionType(VOID, [POINTER, POINTER, I64, I64, I64])
    function = ir.Function(module, kind, "nki_least_columns")
    result, source, ldw, count, groups = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    words, least = Matrix(source, ldw), Least(b, BLOCK)
    least.clear()
    with steps(b, count, BLOCK) as first:
        least.add_notes(b.load(_notes(b, words, first, groups), typ=_NOTES, align=4))
    b.store(least.get(), result)
    b.ret_void()
    return function


def _function(module: ir.Module, name: str) -> ir.Function:
    """A function of two matrices, each a pointer and a step, and of two sizes."""
    return ir.Function(module, ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, I64, I64]), name)


def _notes(b: Builder, words: Matrix, column: Value, groups: Value) -> Value:
    """The address of the notes of the columns from ``column`` on."""
    return words.at(b, column, b.mul(groups, i64(CHAIN)))


def _shuffled(b: Builder, left: Value, right: Value, lanes: list[int]) -> Value:
    return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))
