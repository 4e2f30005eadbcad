"""Matrix products by groups of operands that fit bfloat16, in words of two numbers, and what packs their operands.

The processor multiplies words with AMX or in pairs, as the contract has it
(:func:`~nki.numerics.matmul_entry.word_routines`). Operands of bfloat16 in whole groups are packed by compiled routines
(:mod:`nki.numerics.words.operands` and :mod:`nki.numerics.words.stationary`), others are converted here, a panel at a
time. An operand in a layout of pairs was packed before, for several products or threads.

The processors' instructions for words take subnormal numbers for 0. Every product is a multiple of the product of
the last places of the smallest operands, and so is every sum and every rounded sum; if that is at least 2**-126,
nothing subnormal can occur. Packing therefore finds the smallest exponent of each panel, and a panel for which nothing
is certain takes the way of float32. Numbers of 8 bits are never small enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.narrow_product import NarrowProduct, Panel, moved
from nki.backend.cpu.kernel_ir.loops import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import Assign, Gemm, MemRef
from nki.base import dtype as dt
from nki.numerics import transpose
from nki.numerics.llvm import I16, I32, constant, i64
from nki.numerics.matmul import CHAIN, PANEL
from nki.numerics.matmul_entry import WordRoutines, word_routines
from nki.numerics.words.amx_matmul import AS_SUMMED
from nki.numerics.words.operands import GROUP, MOST_ROWS, NOTES
from nki.numerics.words.stationary import row_words

_LEAST_SUM: Final = 2 * 127 + 2 * 7 - 126
"""The sum of two exponent fields from which on no product of bfloat16 numbers has digits below 2**-126."""
_MAGNITUDE: Final = 0x7FFF


class WordProduct(NarrowProduct):
    """A product by groups of operands that fit bfloat16."""

    def __init__(self, r: FunctionBuilder, s: Gemm, routines: WordRoutines) -> None:
        self.routines = routines
        self.groups = -(-s.left.rows // GROUP)
        super().__init__(r, s)
        self.certain = dt.bfloat16 not in (s.left.dtype, s.right.dtype)
        self.is_packed = s.left.layout.pairs
        self.left = self.scratch(self.panel_rows() * self.width)
        """Words of the stationary operand, those of a row side by side."""
        self.turned_width = s.left.dims[0][0] // 2 if self.is_packed else row_words(GROUP * self.groups)
        """Words in a row of the stationary operand as products read it, those of a column side by side."""
        self.turned = r.address(s.left) if self.is_packed else self.scratch(self.width * self.turned_width)
        self.least = r.local(I16, ir.Constant(I16, 0))
        self.words_step = s.right.dims[0][0] // 2 if len(s.right.dims) > 1 else PANEL

    def panel_rows(self) -> int:
        return max(self.depth, CHAIN * self.groups) + NOTES // (4 * PANEL) + 1

    def accumulate(self, words: tuple[int, int] | None) -> int:
        if words is not None and self.consumed is not None and self.consumed.takes_any_nan:
            return AS_SUMMED
        return super().accumulate(words)

    def emit(self, first: Value, count: Value) -> None:
        if self.routines.begin:
            self.r.call(self.routines.begin, [])
        super().emit(first, count)
        if self.routines.end:
            self.r.call(self.routines.end, [])

    def prepare(self, stationary: Panel, first: Value, count: Value) -> None:
        self.stationary = stationary
        self.least_of_stationary = self._pack_stationary(replace(stationary, target=self.left), first, count)

    def panels(self, rows: tuple[Value, Value]) -> None:
        """All panels of these rows of the result: in one call, if they were packed and need no consumer."""
        r, s = self.r, self.s
        if not s.right.layout.pairs or self.consumed is not None:
            super().panels(rows)
            return
        words, depth, count = r.address(s.right), i64(self.depth), i64(s.right.columns // PANEL)
        moving = Panel(s.right, words, s.right.columns, self.right, PANEL)
        r.call(self.routines.least, [self.least, words, depth, count])
        least = r.b.load(self.least, typ=I16)
        with r.b.if_else(self._is_exact(self.least_of_stationary, least), likely=True) as (then, otherwise):
            with then:
                self._multiply_words(moving, i64(0), rows, words)
            with otherwise:
                super().panels(rows)

    def multiply(self, moving: Panel, column: Value, rows: tuple[Value, Value]) -> None:
        """Multiply, in words or as float32."""
        words, least = self._pack_moving(moving)
        if self.certain:
            self._multiply_words(moving, column, rows, words)
            return
        is_exact = self._is_exact(self.least_of_stationary, least)
        with self.r.b.if_else(is_exact, likely=True) as (then, otherwise):
            with then:
                self._multiply_words(moving, column, rows, words)
            with otherwise:
                self.stationary_floats(self.stationary)
                self.multiply_floats(moving, column, rows)

    def _multiply_words(self, moving: Panel, column: Value, rows: tuple[Value, Value], words: Value) -> None:
        """Multiply ``moving.columns`` columns, packed at ``words``."""
        right = words, i64(self.words_step), PANEL
        product = self.routines.product, self.routines.order.depth(self.depth)
        self.call(rows, column, moving.columns, self._stationary_words(rows[0]), right, product)

    def _is_exact(self, *leasts: Value) -> Value:
        """True if no product of numbers of these least magnitudes has digits that the product of words would lose."""
        b = self.r.b
        fields = [b.lshr(b.add(b.zext(value, I32), _i32(1)), _i32(7)) for value in leasts]
        normal = [b.icmp_unsigned(">=", field, _i32(1)) for field in fields]
        large = b.icmp_unsigned(">=", b.add(*fields), _i32(_LEAST_SUM))
        return b.and_(large, b.and_(*normal))

    def _stationary_words(self, first: Value) -> tuple[Value, Value]:
        """Address and row step of the words of column ``first`` and those behind it."""
        return moved(self.r, self.turned, first, 4 * self.turned_width), i64(self.turned_width)

    def _pack_stationary(self, stationary: Panel, first: Value, count: Value) -> Value:
        """Pack columns ``first`` to ``first + count - 1``; their least magnitude, as :meth:`_to_words`."""
        r, memref, words = self.r, stationary.memref, self._stationary_words(first)
        sizes = count, i64(self.groups)
        if self.is_packed:
            pass
        elif memref.is_turned:
            step = memref.dims[0][0]
            columns = moved(r, stationary.pointer, first, 2 * step), i64(step)
            r.call(self.routines.pack_columns, [*words, *columns, *sizes])
        elif _is_packable(memref) and self.rows % PANEL == 0:
            rows = moved(r, stationary.pointer, first, 2), i64(memref.row_step)
            r.call(self.routines.pack_rows, [*words, *rows, *sizes])
        else:
            least = self._to_words(stationary)
            source = moved(r, self.left, first, 4), i64(self.width)
            r.call(transpose.address(4), [*words, *source, i64(CHAIN * self.groups), count])
            return least
        r.call(self.routines.least_columns, [self.least, *words, *sizes])
        return r.b.load(self.least, typ=I16)

    def _pack_moving(self, moving: Panel) -> tuple[Value, Value]:
        """Pack a panel, if it is not: where its words are, and their least magnitude, as :meth:`_to_words`."""
        r, memref = self.r, moving.memref
        words = self.right
        if memref.layout.pairs:
            words = moving.pointer
        elif _is_packable(memref) and moving.columns == PANEL:
            depth = i64(self.depth)
            source = moving.pointer, i64(memref.row_step), i64(moving.ahead // 2)
            r.call(self.routines.pack_panels, [words, *source, i64(0), depth, depth, i64(1)])
        else:
            return words, self._to_words(moving)
        r.call(self.routines.least, [self.least, words, i64(self.depth), i64(1)])
        return words, r.b.load(self.least, typ=I16)

    def stationary_floats(self, stationary: Panel) -> None:
        memref, r = stationary.memref, self.r
        pointer, step = stationary.pointer, i64(memref.row_step)
        if self.is_packed:
            sizes = i64(self.rows), i64(self.depth // 2)
            words = self.left, i64(self.width)
            r.call(transpose.address(4), [*words, *self._stationary_words(i64(0)), *sizes])
            sizes = i64(self.depth), i64(self.rows)
            r.call(self.routines.unpack, [stationary.target, i64(stationary.width), *words, *sizes])
            return
        if memref.is_turned:
            size = memref.rows * memref.columns * memref.dtype.itemsize
            pointer, step = self.scratch(-(-size // 4)), i64(memref.columns)
            source = stationary.pointer, i64(memref.dims[0][0]), i64(memref.columns), i64(memref.rows)
            r.call(transpose.address(memref.dtype.itemsize), [pointer, step, *source])
        elif not (_is_packable(memref) and self.rows % PANEL == 0):
            super().stationary_floats(stationary)
            return
        sizes = i64(self.depth), i64(self.rows)
        r.call(self.routines.widen, [stationary.target, i64(stationary.width), pointer, step, *sizes])

    def moving_floats(self, moving: Panel) -> None:
        memref, depth = moving.memref, i64(self.depth)
        if memref.layout.pairs:
            panel = i64(PANEL)
            self.r.call(self.routines.unpack, [self.right, panel, moving.pointer, panel, depth, panel])
        elif _is_packable(memref) and moving.columns == PANEL:
            rows = moving.pointer, i64(memref.row_step), depth, i64(PANEL)
            self.r.call(self.routines.widen, [self.right, i64(PANEL), *rows])
        else:
            super().moving_floats(moving)

    def _to_words(self, panel: Panel) -> Value:
        """Convert to words of bfloat16; the least magnitude, minus one, of those that are not 0."""
        r, b = self.r, self.r.b
        leasts = {width: r.local(ir.VectorType(I16, 2 * width), _none(width)) for width in (16, 1)}

        def row(k: Value, halves: int) -> None:
            upper, lower = self.routines.order.rows(b, k)
            for number in (upper, lower)[:halves]:
                self.fetch(panel, number)

            def chunk(column: Value, width: int) -> None:
                if halves == 0:
                    self.store(panel, k, column, constant(_none(width).type, 0))
                    return
                words = self.bits(panel, upper, column, width)
                if halves == 2:
                    below = self.bits(panel, lower, column, width)
                    words = b.or_(words, b.lshr(below, constant(below.type, 16)))
                self.store(panel, k, column, words)
                if not self.certain:
                    numbers = b.bitcast(words, ir.VectorType(I16, 2 * width))
                    size = b.sub(b.and_(numbers, constant(numbers.type, _MAGNITUDE)), constant(numbers.type, 1))
                    least = b.load(leasts[width], typ=numbers.type)
                    b.store(b.select(b.icmp_unsigned("<", size, least), size, least), leasts[width])

            self.columns(panel, chunk)

        for start, stop, halves in self.routines.order.runs(self.depth):
            r.counted_loop(stop, 1, partial(row, halves=halves), start)
        if self.certain:
            return ir.Constant(I16, 0)
        found = [self._reduced(b.load(slot, typ=_none(width).type)) for width, slot in leasts.items()]
        return b.select(b.icmp_unsigned("<", *found), *found)

    def _reduced(self, vector: Value) -> Value:
        """The least element."""
        b, name = self.r.b, f"llvm.vector.reduce.umin.v{vector.type.count}i16"
        kind = ir.FunctionType(I16, [vector.type])
        return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [vector])


def emit_packing(r: FunctionBuilder, s: Assign) -> None:
    """Emit ``s``, whose target has words in the order of products; its source is bfloat16 in whole groups.

    The target is a moving operand in panels, whose partitions are rows, or a stationary one, whose partitions are
    columns.
    """
    routines, source, target = word_routines(), s.value.memref, s.target
    assert routines is not None
    assert source is not None
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    if target.row_step == PANEL:
        steps = [i64(source.row_step), i64(PANEL), first, r.b.add(first, count), i64(target.rows)]
        panels = i64(target.columns // PANEL)
        r.call(routines.pack_panels, [r.address(target), r.address(source), *steps, panels])
        return
    words = moved(r, r.address(target), first, 2 * target.row_step), i64(target.row_step // 2)
    place = moved(r, r.address(source), first, 2 * source.row_step)
    is_dense = source.dims[0][0] == 1
    step = i64(source.row_step if is_dense else source.dims[0][0])
    routine = routines.pack_columns if is_dense else routines.pack_rows
    r.call(routine, [*words, place, step, count, i64(target.columns // GROUP)])


def _is_packable(memref: MemRef) -> bool:
    """True of bfloat16 in whole groups, with dense rows."""
    return memref.dtype is dt.bfloat16 and memref.rows % GROUP == 0 and memref.rows <= MOST_ROWS


def _none(width: int) -> ir.Constant:
    """The least of no numbers."""
    return constant(ir.VectorType(I16, 2 * width), -1)


def _i32(number: int) -> ir.Constant:
    return ir.Constant(I32, number)
