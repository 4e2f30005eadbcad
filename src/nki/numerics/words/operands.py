"""Moving operands of products of words in the order in which processors want them, as LLVM IR.

A word holds two bfloat16 numbers, in an order of words: :data:`TILES` for :mod:`nki.numerics.words.amx_matmul`,
:data:`PAIRS` for :mod:`nki.numerics.words.pair_matmul`. The words of :data:`PANEL` columns lie in a *panel*: words one
behind the other, each with its columns side by side. Behind the words there is a note for each 16 rows of the operand:
the least magnitude of their numbers that is not 0, as bits, minus one (65535 if all are 0). A product needs it to rule
out subnormal numbers.

Numbers are moved, never interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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
    constant,
    i64,
    prefetch,
    steps,
)
from nki.numerics.matmul import CHAIN, PANEL

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


@dataclass(frozen=True, slots=True)
class WordOrder:
    """The rows of an operand in word w of group g: 32 g + ``step`` w in the upper half, and ``apart`` rows on."""

    step: int
    apart: int

    def rows(self, b: Builder, word: Value) -> tuple[Value, Value]:
        """The rows of an operand in the upper and in the lower half of a word, counted from the first group on."""
        upper = b.add(word, b.and_(word, i64(-CHAIN))) if self.step == 1 else b.mul(word, i64(self.step))
        return upper, b.add(upper, i64(self.apart))

    def depth(self, rows: int) -> int:
        """The depth of a product of so many rows, as it takes that: in groups, in tile registers, or in chains."""
        return -(-rows // (GROUP if self.step == 1 else CHAIN))

    def runs(self, depth: int) -> list[tuple[int, int, int]]:
        """Ranges of words with both halves, with the upper one, and with none, of whole groups of ``depth`` rows."""
        groups, rest = divmod(depth, GROUP)
        first = groups * CHAIN
        if self.step == 1:
            both, some = first + max(rest - CHAIN, 0), first + min(rest, CHAIN)
        else:
            both, some = first + rest // 2, first + (rest + 1) // 2
        return [(0, both, 2), (both, some, 1), (some, -(-depth // GROUP) * CHAIN, 0)]


TILES: Final = WordOrder(1, CHAIN)
"""Words of tile registers: each of the two chains of a group has its own half."""
PAIRS: Final = WordOrder(2, 1)
"""Words of pairs: two rows that follow each other."""


def panel_bytes(depth: int) -> int:
    """Bytes of a panel with its notes; ``depth``: multiple of :data:`GROUP`, at most :data:`MOST_ROWS`."""
    return 2 * PANEL * depth + NOTES


def add_pack_panels(module: ir.Module, order: WordOrder) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_pack_panels(void *panels, const bfloat16 *rows, i64 step, i64 ahead, i64 first, i64 last, i64 depth,
                             i64 count)

    Rows ``first`` to ``last`` - 1 of an operand of ``depth`` rows become words of ``count`` panels, in this ``order``.
    ``step`` and ``ahead`` count elements from row to row and from panel to panel of the operand. ``first`` and ``last``
    are multiples of 16: a half of a word may be written without the other one, which keeps its contents. The rows of
    the panel after each one, which need not exist, are fetched meanwhile.
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
        pack = _pack_pairs if order == PAIRS else _pack_tiles
        pack(b, panel, rows, (first, last), notes, ahead)
    b.ret_void()
    return function


def _pack_pairs(b: Builder, panel: Value, rows: Matrix, ends: tuple[Value, Value], notes: Value, ahead: Value) -> None:
    """Write the words of a range of rows: each has two rows of one chain."""
    start = Variable(b)
    start.set(ends[0])
    with steps(b, ends[1], CHAIN, start) as here:
        upper, lower = _pack_words(b, panel, rows, here, CHAIN // 2, PAIRS, ahead)
        upper.add_notes(lower.lanes())
        _note(b, notes, here, upper)


def _pack_tiles(b: Builder, panel: Value, rows: Matrix, ends: tuple[Value, Value], notes: Value, ahead: Value) -> None:
    """Write the words of a range of rows, which may begin and end with a half of a word."""
    start = Variable(b)
    start.set(ends[0])
    with b.if_then(b.icmp_signed("!=", b.and_(ends[0], i64(CHAIN)), i64(0))):
        _pack_half(b, panel, rows, ends[0], notes)
        start.set(b.add(ends[0], i64(CHAIN)))
    with steps(b, ends[1], GROUP, start) as here:
        for part, least in enumerate(_pack_words(b, panel, rows, here, CHAIN, TILES, ahead)):
            _note(b, notes, b.add(here, i64(CHAIN * part)), least)
    with b.if_then(b.icmp_signed("<", start.get(), ends[1])):
        _pack_half(b, panel, rows, start.get(), notes)


def _pack_words(
    b: Builder, panel: Value, rows: Matrix, first: Value, count: int, order: WordOrder, ahead: Value
) -> list[Least]:
    """Write ``count`` words, from that of row ``first`` on; notes of their upper, and of their lower halves."""
    leasts = [Least(b, PANEL) for _ in range(2)]
    following = Matrix(rows.at(b, first, ahead), rows.stride, I16)
    with steps(b, i64(count), 1) as word:
        numbers = b.mul(word, i64(order.step)), b.add(b.mul(word, i64(order.step)), i64(order.apart))
        upper, lower = (_load(b, rows.at(b, b.add(first, number), i64(0))) for number in numbers)
        for number in numbers:
            prefetch(b, following.at(b, number, i64(0)))
        place = _word(b, panel, first, word)
        for part, lanes in enumerate((_LOWER, _UPPER)):
            words = b.shuffle_vector(upper, lower, _lanes(lanes))
            b.store(words, b.gep(place, [i64(PANEL * part)], source_etype=I16), align=2)
        for least, row in zip(leasts, (upper, lower), strict=True):
            least.add(row)
    return leasts


def _pack_half(b: Builder, panel: Value, rows: Matrix, first: Value, notes: Value) -> None:
    """Write the halves of words that rows ``first`` to ``first`` + 15 are."""
    least = Least(b, PANEL)
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


def _note(b: Builder, notes: Value, row: Value, least: Least) -> None:
    b.store(least.get(), b.gep(notes, [b.udiv(row, i64(CHAIN))], source_etype=I16), align=2)


def add_least(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_least(i16 *result, const void *panels, i64 depth, i64 count)

    The least note of ``count`` panels.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64]), "nki_least")
    result, panels, depth, count = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    least = Variable(b, I16)
    least.set(ir.Constant(I16, -1))
    words = b.mul(depth, i64(PANEL))
    with steps(b, count, 1) as number, steps(b, b.udiv(depth, i64(CHAIN)), 1) as row:
        place = b.add(b.mul(number, b.add(words, i64(NOTES // 2))), b.add(words, row))
        note = b.load(b.gep(panels, [place], source_etype=I16), typ=I16, align=2)
        least.set(b.select(b.icmp_unsigned("<", note, least.get()), note, least.get()))
    b.store(least.get(), result)
    b.ret_void()
    return function


def add_widen(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function, for products that those of words would compute wrongly.

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


def add_unpack(module: ir.Module, order: WordOrder) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_unpack(float *rows, i64 ldr, const i32 *words, i64 ldw, i64 depth, i64 columns)

    ``depth`` / 2 rows of words in this ``order``, ``ldw`` apart, become ``depth`` rows of float32; ``columns`` is a
    multiple of 16.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64] * 2 + [I64] * 2), "nki_unpack")
    target, ldr, words_pointer, ldw, depth, columns = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    out, source = Matrix(target, ldr), Matrix(words_pointer, ldw)
    with steps(b, b.udiv(depth, i64(2)), 1) as word, steps(b, columns, CHAIN) as column:
        words = b.load(source.at(b, word, column), typ=_WORDS, align=4)
        upper, lower = order.rows(b, word)
        b.store(b.and_(words, constant(_WORDS, -1 << 16)), out.at(b, upper, column), align=4)
        b.store(b.shl(words, constant(_WORDS, 16)), out.at(b, lower, column), align=4)
    b.ret_void()
    return function


class Least:
    """The notes of all numbers that were added, ``count`` at a time, and the least of them."""

    def __init__(self, b: Builder, count: int) -> None:
        self.count = count
        self._b, self._kind = b, ir.VectorType(I16, count)
        self._slot = Variable(b, self._kind)
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._slot.set(constant(self._kind, -1))

    def add(self, numbers: Value) -> None:
        """Add the bits of bfloat16 numbers."""
        b = self._b
        self.add_notes(b.sub(b.and_(numbers, constant(self._kind, _MAGNITUDE)), constant(self._kind, 1)))

    def add_notes(self, notes: Value) -> None:
        """Add notes of other numbers."""
        least = self._slot.get()
        self._slot.set(self._b.select(self._b.icmp_unsigned("<", notes, least), notes, least))

    def lanes(self) -> Value:
        """All notes."""
        return self._slot.get()

    def get(self) -> Value:
        """The least note."""
        name = f"llvm.vector.reduce.umin.v{self.count}i16"
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
