"""Looking for extreme and for equal elements of each partition: compiled once, for any number of elements.

The routines get dense rows of float32. They give the results of :mod:`nki.backend.numpy.top8`, bit for bit.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from llvmlite import ir

from nki.numerics.jit import engine
from nki.numerics.llvm import (
    F32,
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    at_least,
    constant,
    i64,
    like,
    splat,
    steps,
    while_,
)

EIGHT: Final = 8
_ABS: Final = 0x7FFFFFFF
_NAN: Final = 0x7FC00000
"""The canonical NaN, which is above the keys of all numbers."""
_LEAST: Final = -0x80000000
"""Below the key of every number."""


def add_top8(module: ir.Module, lanes: int) -> ir.Function:
    """Add to ``module``, for vectors of ``lanes`` floats, and return this function.

    ::

        void nki_top8(float *out, i64 ldo, const float *in, i64 ldi, i64 rows, i64 columns)

    The eight largest of the ``columns`` elements (at least eight) of each row, in descending order; ``ldo`` and ``ldi``
    count elements from row to row.
    """
    kind = ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, I64, I64])
    function = ir.Function(module, kind, "nki_top8")
    out_pointer, ldo, in_pointer, ldi, rows, columns = function.args
    out, source = Matrix(out_pointer, ldo), Matrix(in_pointer, ldi)
    b: Builder = ir.IRBuilder(function.append_basic_block())
    best = [Variable(b, I32) for _ in range(EIGHT)]

    def insert(row: Value, column: Value) -> None:
        """Let one element sink to its place among the best."""
        fresh = _key(b, b.load(source.at(b, row, column), typ=F32, align=4))
        for variable in best:
            held = variable.get()
            above = b.icmp_signed(">=", held, fresh)
            variable.set(b.select(above, held, fresh))
            fresh = b.select(above, fresh, held)

    with steps(b, rows, 1) as row:
        for variable in best:
            variable.set(ir.Constant(I32, _LEAST))
        column = Variable(b)
        column.set(i64(0))
        with steps(b, columns, lanes, column) as start:
            vector = b.load(source.at(b, row, start), typ=ir.VectorType(F32, lanes), align=4)
            keys = _key(b, vector)
            over = Variable(b)
            over.set(_mask(b, b.icmp_signed(">", keys, splat(b, best[-1].get(), keys.type)), lanes))
            with while_(b, lambda over=over: b.icmp_signed("!=", over.get(), i64(0))):
                insert(row, b.add(start, _lowest(b, over.get())))
                over.set(b.and_(over.get(), b.sub(over.get(), i64(1))))
        with steps(b, columns, 1, column) as start:
            insert(row, start)
        for number, variable in enumerate(best):
            word = b.bitcast(_flipped(b, variable.get()), F32)
            b.store(word, out.at(b, row, i64(number)), align=4)
    b.ret_void()
    return function


def _flipped(b: Builder, word: Value) -> Value:
    """Bits of a float as an integer of the same order, and back."""
    sign = b.ashr(word, constant(word.type, 31))
    return b.xor(word, b.and_(sign, constant(word.type, _ABS)))


def _key(b: Builder, value: Value) -> Value:
    """An integer of the order of numbers, -0 below +0, NaN at the top."""
    word = b.bitcast(value, like(value, I32))
    return b.select(b.fcmp_unordered("uno", value, value), constant(word.type, _NAN), _flipped(b, word))


def _mask(b: Builder, flags: Value, lanes: int) -> Value:
    """A vector of truth values as bits of an integer, the first lane the lowest."""
    return b.zext(b.bitcast(flags, ir.IntType(lanes)), I64)


def _lowest(b: Builder, mask: Value) -> Value:
    """The number of the lowest bit that is set; there is one."""
    one = ir.IntType(1)
    count = b.module.globals.get("llvm.cttz.i64") or ir.Function(
        b.module, ir.FunctionType(I64, [I64, one]), "llvm.cttz.i64"
    )
    return b.call(count, [mask, ir.Constant(one, 1)])


def add_find(module: ir.Module, lanes: int) -> ir.Function:
    """Add to ``module``, for vectors of ``lanes`` floats, and return this function.

    ::

        void nki_find(u32 *out, i64 ldo, const float *in, i64 ldi, const float *wanted, i64 ldw, i64 rows, i64 columns,
                      i64 last_first)

    Where in its row of ``in`` each of the eight elements of the row of ``wanted`` is; all ones if it is nowhere. The
    first of equal wanted elements (if ``last_first``: the last) gets the first place, the next one the next.
    """
    search = _add_search(module, lanes)
    kind = ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, POINTER, I64, I64, I64, I64])
    function = ir.Function(module, kind, "nki_find")
    out_pointer, ldo, in_pointer, ldi, wanted_pointer, ldw, rows, columns, last_first = function.args
    out, source, wanted = Matrix(out_pointer, ldo, I32), Matrix(in_pointer, ldi), Matrix(wanted_pointer, ldw)
    b: Builder = ir.IRBuilder(function.append_basic_block())
    with steps(b, rows, 1) as row, steps(b, i64(EIGHT), 1) as turn:
        backward = b.icmp_signed("!=", last_first, i64(0))

        def number(turn: Value) -> Value:
            """The wanted element whose turn it is."""
            return b.select(backward, b.sub(i64(EIGHT - 1), turn), turn)

        value = b.load(wanted.at(b, row, number(turn)), typ=F32, align=4)
        start = Variable(b)
        start.set(i64(0))
        with steps(b, turn, 1) as earlier:
            other = b.load(wanted.at(b, row, number(earlier)), typ=F32, align=4)
            taken = b.zext(b.load(out.at(b, row, number(earlier)), typ=I32, align=4), I64)
            same = b.fcmp_ordered("==", value, other)
            start.set(b.select(same, b.add(taken, i64(1)), start.get()))
        position = b.call(search, [source.at(b, row, i64(0)), columns, value, start.get()])
        b.store(b.trunc(position, I32), out.at(b, row, number(turn)), align=4)
    b.ret_void()
    return function


def _add_search(module: ir.Module, lanes: int) -> ir.Function:
    """``i64 search(const float *row, i64 columns, float wanted, i64 start)``: its first place from ``start``, or -1."""
    function = ir.Function(module, ir.FunctionType(I64, [POINTER, I64, F32, I64]), "search")
    function.linkage = "internal"
    pointer, columns, wanted, start = function.args
    row = Matrix(pointer, columns)
    b: Builder = ir.IRBuilder(function.append_basic_block())
    vector = ir.VectorType(F32, lanes)
    column = Variable(b)
    column.set(start)
    everywhere = splat(b, wanted, vector)
    with steps(b, columns, lanes, column) as at:
        element = b.load(row.at(b, i64(0), at), typ=vector, align=4)
        same = _mask(b, b.fcmp_ordered("==", element, everywhere), lanes)
        with b.if_then(b.icmp_signed("!=", same, i64(0))):
            b.ret(b.add(at, _lowest(b, same)))
    with while_(b, lambda: b.not_(at_least(b, column.get(), columns))):
        at = column.get()
        with b.if_then(b.fcmp_ordered("==", b.load(row.at(b, i64(0), at), typ=F32, align=4), wanted)):
            b.ret(at)
        column.set(b.add(at, i64(1)))
    b.ret(i64(-1))
    return function


@cache
def _addresses() -> dict[str, int]:
    module = ir.Module("nki_search")
    for add in (add_top8, add_find):
        add(module, engine().vector_width)
    return engine().compile(module)


def top8_address() -> int:
    """Address of the compiled :func:`add_top8`, for code that calls it directly."""
    return _addresses()["nki_top8"]


def find_address() -> int:
    """Address of the compiled :func:`add_find`, for code that calls it directly."""
    return _addresses()["nki_find"]
