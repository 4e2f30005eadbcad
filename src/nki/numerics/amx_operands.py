"""Operands of :mod:`nki.numerics.amx_matmul` in the order in which tile registers want them, as LLVM IR.

A word holds two bfloat16 numbers: word w of group g has row 32 g + w of an operand in the upper half, and row
32 g + 16 + w in the lower one. The words of :data:`PANEL` columns lie in a *panel*: words one behind the other, each
with its columns side by side. Behind the words there is a note for each 16 rows of the operand: the least magnitude of
their numbers that is not 0, as bits, minus one (65535 if all are 0). A product needs it to rule out subnormal numbers.

Numbers are moved, never interpreted.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from nki.numerics.llvm import (
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    constant,
    i64,
    prefetch,
    scratch,
    steps,
    while_,
)
from nki.numerics.matmul import CHAIN, PANEL

I16: Final = ir.IntType(16)
GROUP: Final = 2 * CHAIN
"""Rows of a group, two in each word."""
NOTES: Final = 64
"""Bytes of notes behind the words of a panel."""
MOST_ROWS: Final = NOTES // 2 * CHAIN
"""Rows of an operand, of which there is room for notes."""
_ROW: Final = ir.VectorType(I16, PANEL)
_WORDS: Final = ir.VectorType(I32, CHAIN)
_MAGNITUDE: Final = 0x7FFF
_LOWER: Final = [number for column in range(CHAIN) for number in (PANEL + column, column)]
_UPPER: Final = [number + CHAIN for number in _LOWER]
"""Numbers of the first and of the second half of the columns of two rows, the second row's first, as words."""


def panel_bytes(depth: int) -> int:
    """Bytes of a panel with its notes; ``depth``: multiple of :data:`GROUP`, at most :data:`MOST_ROWS`."""
    return 2 * PANEL * depth + NOTES


def add_pack_panels(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_pack_panels(void *panels, const bfloat16 *rows, i64 step, i64 ahead, i64 first, i64 last, i64 depth,
                             i64 count)

    Rows ``first`` to ``last`` - 1 of an operand of ``depth`` rows become words of ``count`` panels. ``step`` and
    ``ahead`` count elements from row to row and from panel to panel of the operand. ``first`` and ``last`` are
    multiples of 16: a half of a word may be written without the other one, which keeps its contents. The rows of the
    panel after each one, which need not exist, are fetched meanwhile.
    """
    kind = ir.FunctionType(VOID, [POINTER, POINTER, *[I64] * 6])
    function = ir.Function(module, kind, "nki_pack_panels")
    target, source, step, ahead, first, last, depth, count = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    size = b.add(b.mul(depth, i64(2 * PANEL)), i64(NOTES))
    with steps(b, count, 1) as number:
        panel = b.gep(target, [b.mul(number, size)], source_etype=ir.IntType(8))
        rows = Matrix(b.gep(source, [b.mul(number, ahead)], source_etype=I16), step, I16)
        notes = b.gep(panel, [b.mul(depth, i64(PANEL))], source_etype=I16)
        start = Variable(b)
        start.set(first)
        with b.if_then(b.icmp_signed("!=", b.and_(first, i64(CHAIN)), i64(0))):
            _pack_half(b, panel, rows, first, notes)
            start.set(b.add(first, i64(CHAIN)))
        with steps(b, last, GROUP, start) as here:
            _pack_group(b, panel, rows, here, notes, ahead)
        with b.if_then(b.icmp_signed("<", start.get(), last)):
            _pack_half(b, panel, rows, start.get(), notes)
    b.ret_void()
    return function


def _pack_group(b: Builder, panel: Value, rows: Matrix, first: Value, notes: Value, ahead: Value) -> None:
    """Write the words of rows ``first`` to ``first`` + 31."""
    leasts = [_Least(b, PANEL) for _ in range(2)]
    following = Matrix(rows.at(b, first, ahead), rows.stride, I16)
    with steps(b, i64(CHAIN), 1) as word:
        upper = _load(b, rows.at(b, b.add(first, word), i64(0)))
        lower = _load(b, rows.at(b, b.add(first, b.add(word, i64(CHAIN))), i64(0)))
        for row in (word, b.add(word, i64(CHAIN))):
            prefetch(b, following.at(b, row, i64(0)))
        place = _word(b, panel, first, word)
        for part, lanes in enumerate((_LOWER, _UPPER)):
            words = b.shuffle_vector(upper, lower, _lanes(lanes))
            b.store(words, b.gep(place, [i64(PANEL * part)], source_etype=I16), align=2)
        for least, row in zip(leasts, (upper, lower), strict=True):
            least.add(row)
    for part, least in enumerate(leasts):
        _note(b, notes, b.add(first, i64(CHAIN * part)), least)


def _pack_half(b: Builder, panel: Value, rows: Matrix, first: Value, notes: Value) -> None:
    """Write the halves of words that rows ``first`` to ``first`` + 15 are."""
    least = _Least(b, PANEL)
    is_upper = b.icmp_signed("==", b.and_(first, i64(CHAIN)), i64(0))
    mine = b.select(is_upper, *(_mask([lane % 2 == half for lane in range(PANEL)]) for half in (1, 0)))
    with steps(b, i64(CHAIN), 1) as word:
        row = _load(b, rows.at(b, b.add(first, word), i64(0)))
        place = _word(b, panel, b.and_(first, i64(-GROUP)), word)
        for part, lanes in enumerate((_LOWER, _UPPER)):
            both = b.shuffle_vector(row, row, _lanes(lanes))
            _masked_store(b, both, b.gep(place, [i64(PANEL * part)], source_etype=I16), mine)
        least.add(row)
    _note(b, notes, first, least)


def _word(b: Builder, panel: Value, first: Value, word: Value) -> Value:
    """The address of a word of the group that begins at row ``first``."""
    return b.gep(panel, [b.add(b.mul(first, i64(PANEL)), b.mul(word, i64(2 * PANEL)))], source_etype=I16)


def _note(b: Builder, notes: Value, row: Value, least: _Least) -> None:
    b.store(least.get(), b.gep(notes, [b.udiv(row, i64(CHAIN))], source_etype=I16), align=2)


def add_least(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return ``void nki_least(i16 *result, const void *panel, i64 depth)``: the least note."""
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64]), "nki_least")
    result, panel, depth = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    least = Variable(b, I16)
    least.set(ir.Constant(I16, -1))
    _add_notes(b, b.gep(panel, [b.mul(depth, i64(PANEL))], source_etype=I16), depth, least)
    b.store(least.get(), result)
    b.ret_void()
    return function


def add_pack_columns(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function, for a stationary operand whose columns are dense.

    ::

        void nki_pack_columns(i32 *words, i64 ldw, const bfloat16 *columns, i64 step, i64 count, i64 groups, i16 *least)

    ``count`` columns, ``step`` elements from one to the next, become rows of words, ``ldw`` words from one to the next,
    as :func:`~nki.numerics.amx_matmul.add_amx_matmul` reads them. ``least`` gets the note of all their numbers.
    """
    kind = ir.FunctionType(VOID, [POINTER, I64, POINTER, I64, I64, I64, POINTER])
    function = ir.Function(module, kind, "nki_pack_columns")
    target, ldw, source, step, count, groups, result = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    least = _Least(b, GROUP)
    order = [number for word in range(CHAIN) for number in (CHAIN + word, word)]
    with steps(b, count, 1) as column, steps(b, groups, 1) as group:
        at = b.add(b.mul(column, step), b.mul(group, i64(GROUP)))
        numbers = _load(b, b.gep(source, [at], source_etype=I16))
        place = b.add(b.mul(column, ldw), b.mul(group, i64(CHAIN)))
        words = b.shuffle_vector(numbers, numbers, _lanes(order))
        b.store(words, b.gep(target, [place], source_etype=I32), align=4)
        least.add(numbers)
    b.store(least.get(), result)
    b.ret_void()
    return function


def add_pack_rows(module: ir.Module, pack: ir.Function, transpose: ir.Function) -> ir.Function:
    """Add to ``module`` and return this function, for a stationary operand whose rows are dense.

    ::

        void nki_pack_rows(i32 *words, i64 ldw, const bfloat16 *rows, i64 step, i64 first, i64 count, i64 depth,
                           i16 *least)

    Columns ``first`` to ``first`` + ``count`` - 1 of ``rows``, which are ``step`` elements apart, become rows of words,
    the first column of the operand at ``words``; else as :func:`add_pack_columns`. Columns of whole panels are read and
    written. ``pack`` is what :func:`add_pack_panels` gives, ``transpose`` transposes elements of 4 bytes.
    """
    kind = ir.FunctionType(VOID, [POINTER, I64, POINTER, *[I64] * 4, POINTER])
    function = ir.Function(module, kind, "nki_pack_rows")
    target, ldw, source, step, first, count, depth, result = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    panel = scratch(b, panel_bytes(MOST_ROWS) // 4)
    words = b.udiv(depth, i64(2))
    last, column = b.add(first, count), Variable(b)
    column.set(b.and_(first, i64(-PANEL)))
    least = Variable(b, I16)
    least.set(ir.Constant(I16, -1))
    notes = b.gep(panel, [b.mul(depth, i64(PANEL))], source_etype=I16)
    with while_(b, lambda: b.icmp_signed("<", column.get(), last)):
        here = column.get()
        rows = b.gep(source, [here], source_etype=I16)
        b.call(pack, [panel, rows, step, i64(PANEL), i64(0), depth, depth, i64(1)])
        place = b.gep(target, [b.mul(here, ldw)], source_etype=I32)
        b.call(transpose, [place, ldw, panel, i64(PANEL), words, i64(PANEL)])
        _add_notes(b, notes, depth, least)
        column.set(b.add(here, i64(PANEL)))
    b.store(least.get(), result)
    b.ret_void()
    return function


def _add_notes(b: Builder, notes: Value, depth: Value, least: Variable) -> None:
    """Let ``least`` be the least of itself and the notes of a panel."""
    with steps(b, b.udiv(depth, i64(CHAIN)), 1) as row:
        note = b.load(b.gep(notes, [row], source_etype=I16), typ=I16, align=2)
        least.set(b.select(b.icmp_unsigned("<", note, least.get()), note, least.get()))


def add_widen(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function, for products that tile registers would compute wrongly.

    ::

        void nki_widen(float *target, i64 ldt, const bfloat16 *rows, i64 step, i64 count, i64 columns)

    ``count`` dense rows, ``step`` elements apart, become rows of float32; ``columns`` is a multiple of 16.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64] * 2 + [I64] * 2), "nki_widen")
    target, ldt, source, step, count, columns = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    out, rows = Matrix(target, ldt), Matrix(source, step, I16)
    with steps(b, count, 1) as row, steps(b, columns, CHAIN) as column:
        numbers = b.load(rows.at(b, row, column), typ=ir.VectorType(I16, CHAIN), align=2)
        b.store(b.shl(b.zext(numbers, _WORDS), constant(_WORDS, 16)), out.at(b, row, column), align=4)
    b.ret_void()
    return function


def add_unpack_panel(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return ``void nki_unpack_panel(float *rows, const void *panel, i64 depth)``.

    The words of a panel become ``depth`` dense rows of float32.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64]), "nki_unpack_panel")
    target, panel, depth = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    out, source = Matrix(target, i64(PANEL)), Matrix(panel, i64(PANEL))
    with steps(b, b.udiv(depth, i64(2)), 1) as word, steps(b, i64(PANEL), CHAIN) as column:
        words = b.load(source.at(b, word, column), typ=_WORDS, align=4)
        row = b.add(word, b.and_(word, i64(-CHAIN)))
        b.store(b.and_(words, constant(_WORDS, -1 << 16)), out.at(b, row, column), align=4)
        b.store(b.shl(words, constant(_WORDS, 16)), out.at(b, b.add(row, i64(CHAIN)), column), align=4)
    b.ret_void()
    return function


class _Least:
    """The note of all rows that were added."""

    def __init__(self, b: Builder, lanes: int) -> None:
        self._b, self._kind = b, ir.VectorType(I16, lanes)
        self._slot = Variable(b, self._kind)
        self._slot.set(constant(self._kind, -1))

    def add(self, row: Value) -> None:
        b = self._b
        size = b.sub(b.and_(row, constant(self._kind, _MAGNITUDE)), constant(self._kind, 1))
        least = self._slot.get()
        self._slot.set(b.select(b.icmp_unsigned("<", size, least), size, least))

    def get(self) -> Value:
        name = f"llvm.vector.reduce.umin.v{self._kind.count}i16"
        return self._b.call(_declared(self._b, name, I16, [self._kind]), [self._slot.get()])


def _load(b: Builder, place: Value) -> Value:
    return b.load(place, typ=_ROW, align=2)


def _masked_store(b: Builder, value: Value, place: Value, mask: Value) -> None:
    arguments = [value, place, ir.Constant(I32, 2), mask]
    name = f"llvm.masked.store.v{PANEL}i16.p0"
    b.call(_declared(b, name, VOID, [argument.type for argument in arguments]), arguments)


def _declared(b: Builder, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    return b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(result, arguments), name)


def _lanes(numbers: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(numbers)), numbers)


def _mask(lanes: list[bool]) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(1), len(lanes)), [int(lane) for lane in lanes])
