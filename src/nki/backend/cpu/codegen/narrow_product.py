"""Matrix products of operands of 8 and 16 bits, which are converted on the way.

They are converted a panel at a time, in the cache, to what a routine reads: words of two bfloat16 numbers if the
processor multiplies them as the contract has it, with AMX (:func:`~nki.numerics.matmul_entry.tile_routines`) or in
pairs (:func:`~nki.numerics.matmul_entry.pair_address`), and both operands fit bfloat16, else float32.

The processors' instructions for such words take subnormal numbers for 0. Every product is a multiple of the product of
the last places of the smallest operands, and so is every sum and every rounded sum; if that is at least 2**-126,
nothing subnormal can occur. The conversion therefore finds the smallest exponent of each panel, and a panel for which
nothing is certain takes the way of float32. Numbers of 8 bits are never small enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.consumed_panel import ConsumedPanel
from nki.backend.cpu.codegen.convert import decode, storage_type
from nki.backend.cpu.codegen.function import I32, I64, FunctionBuilder, Value
from nki.backend.cpu.loop_ir.nodes import Gemm, MemRef
from nki.base import dtype as dt
from nki.numerics import matmul_entry
from nki.numerics.llvm import constant, i64, like, prefetch
from nki.numerics.matmul import PANEL

I16: Final = ir.IntType(16)
_LEAST_SUM: Final = 2 * 127 + 2 * 7 - 126
"""The sum of two exponent fields from which on no product of bfloat16 numbers has digits below 2**-126."""
_MAGNITUDE: Final = 0x7FFF
_BLOCK: Final = 32
"""Rows of which a product with a consumer makes all columns before the next ones, where panels need no packing."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows of an operand, ``columns`` of them from ``pointer`` on, to be converted to rows of words at ``target``.

    ``per_partition``: 1 if only the columns of the routine's range are wanted.
    """

    memref: MemRef
    pointer: Value
    columns: int
    target: Value
    width: int
    per_partition: int = 0
    ahead: int = 0
    """Bytes to the next panel, which is fetched meanwhile; 0 if there is none."""


class NarrowProduct:
    """A product of operands of which at least one has fewer than 32 bits: as float32, or in pairs if possible."""

    def __init__(self, r: FunctionBuilder, s: Gemm) -> None:
        self.r, self.s = r, s
        self.depth, self.rows = s.left.rows, s.target.rows
        self.width = -(-self.rows // 16) * 16 + 16  # not a power of two, whose rows would share few sets of the cache
        self.product, self.word_depth = self.words_product()
        """The address of the product of words, 0 if there is none, and what it takes for a depth."""
        self.certain = {dt.bfloat16, dt.bfloat16_words}.isdisjoint({s.left.dtype, s.right.dtype})
        self.left, self.right = self.scratch(self.word_rows() * self.width), self.scratch(self.word_rows() * PANEL)
        self.floats = self.scratch(self.depth * self.width) if self.product else self.left
        """The stationary operand as float32; ``left`` is what the product usually reads."""
        self.words_step = PANEL
        """The step of the moving operand that the product of words takes."""
        self.consumed = None if s.consumer is None else ConsumedPanel(r, s)

    def words_product(self) -> tuple[int, int]:
        """The address of the product of words, 0 if there is none, and the depth that it gets."""
        used = self.s.by_groups and matmul_entry.pairs_pay()
        return matmul_entry.pair_address() if used else 0, -(-self.depth // 2)

    def word_rows(self) -> int:
        """Rows of a converted operand, at most."""
        return self.depth

    def scratch(self, size: int) -> Value:
        """The address of scratch memory for ``size`` words."""
        memref = self.r.loop_ir.new_scratch(1, size, dt.float32)
        self.r.need_scratch()
        return self.r.address(memref)

    def emit(self, first: Value, count: Value) -> None:
        """Emit the product of rows ``first`` to ``first + count - 1``."""
        r, s = self.r, self.s
        limited = r.per_partition(self.rows)
        stationary = Panel(s.left, r.address(s.left), self.rows, self.left, self.width, limited)
        if self.product:
            least = self.pack_stationary(stationary, first, count)
        else:
            least = None
            self._floats(stationary)
        if self.consumed is None or s.right.dtype is not dt.bfloat16_words:
            self.panels((stationary, least), (first, count))
            return
        with r.in_blocks(_BLOCK if limited else 0):
            self.panels((stationary, least), (r.first, r.b.sub(r.last, r.first)) if limited else (first, count))

    def panels(self, left: tuple[Panel, Value | None], rows: tuple[Value, Value]) -> None:
        """All panels of these rows of the result."""
        r, s = self.r, self.s
        whole = s.right.columns // PANEL
        step = s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL

        def panel(number: Value, columns: int = PANEL) -> None:
            source = moved(r, r.address(s.right), number, step * s.right.dtype.itemsize)
            moving = Panel(s.right, source, columns, self.right, PANEL, ahead=step * s.right.dtype.itemsize)
            self._panel(left, moving, number, rows)

        r.counted_loop(whole, 1, panel)
        if rest := s.right.columns % PANEL:
            panel(ir.Constant(I64, whole), rest)

    def _panel(self, left: tuple[Panel, Value | None], moving: Panel, number: Value, rows: tuple[Value, Value]) -> None:
        """One panel of columns of the result."""
        column = self.r.b.mul(number, ir.Constant(I64, PANEL))
        self._product_of_panel(left, moving, column, rows)
        if self.consumed is not None:
            self.consumed.emit(column, moving.columns)

    def _product_of_panel(
        self, left: tuple[Panel, Value | None], moving: Panel, column: Value, rows: tuple[Value, Value]
    ) -> None:
        """Multiply, in words or as float32."""
        b, (stationary, least) = self.r.b, left

        def floats() -> None:
            self.moving_floats(moving)
            self.multiply(moving, column, rows)

        if least is None:
            floats()
            return
        words, other = self.pack_moving(moving)
        if self.certain:
            self.multiply(moving, column, rows, words)
            return
        with b.if_else(self.is_exact(least, other), likely=True) as (then, otherwise):
            with then:
                self.multiply(moving, column, rows, words)
            with otherwise:
                self.stationary_floats(replace(stationary, target=self.floats))
                floats()

    def is_exact(self, *leasts: Value) -> Value:
        """True if no product of numbers of these least magnitudes has digits that the product of words would lose."""
        b = self.r.b
        fields = [b.lshr(b.add(b.zext(value, I32), _i32(1)), _i32(7)) for value in leasts]
        normal = [b.icmp_unsigned(">=", field, _i32(1)) for field in fields]
        large = b.icmp_unsigned(">=", b.add(*fields), _i32(_LEAST_SUM))
        return b.and_(large, b.and_(*normal))

    def pack_stationary(self, stationary: Panel, first: Value, count: Value) -> Value:  # noqa: ARG002  # as others do
        """Convert columns ``first`` to ``first + count - 1`` to words; their least magnitude, as :meth:`to_words`."""
        return self.to_words(stationary)

    def pack_moving(self, moving: Panel) -> tuple[Value, Value]:
        """Convert a panel to words: where they are, and their least magnitude, as :meth:`to_words`."""
        least = self.to_words(moving)
        return self.right, least

    def stationary_words(self, first: Value) -> tuple[Value, Value]:
        """Address and row step of the words of column ``first`` and those behind it."""
        return moved(self.r, self.left, first, 4), ir.Constant(I64, self.width)

    def stationary_floats(self, stationary: Panel) -> None:
        """Convert to float32."""
        self._floats(stationary)

    def moving_floats(self, moving: Panel) -> None:
        """Convert to float32, at ``right``."""
        self._floats(moving)

    def multiply(self, moving: Panel, column: Value, rows: tuple[Value, Value], words: Value | None = None) -> None:
        """Multiply the converted operands: those in ``floats`` and ``right``, or ``words``, all ``moving.columns``."""
        r, width = self.r, ir.Constant(I64, self.width)
        if words is None:
            stationary = moved(r, self.floats, rows[0], 4), width
            self._call(rows, column, moving.columns, stationary, (self.right, i64(PANEL), PANEL))
            return
        stationary, right = self.stationary_words(rows[0]), (words, i64(self.words_step), PANEL)
        self._call(rows, column, moving.columns, stationary, right, (self.product, self.word_depth))

    def _call(
        self,
        rows: tuple[Value, Value],
        column: Value,
        columns: int,
        stationary: tuple[Value, Value],
        moving: tuple[Value, Value, int],
        words: tuple[int, int] | None = None,
    ) -> None:
        """As :func:`call_product`, to the target, or to the panel that the consumer reads."""
        s = self.s
        if self.consumed is not None:
            s, column = replace(s, target=self.consumed.panel), i64(0)
        call_product(self.r, s, rows, column, columns, stationary, moving, words, accumulate=self.accumulate(words))

    def accumulate(self, words: tuple[int, int] | None) -> int:  # noqa: ARG002  # tile products look at them
        """The argument ``accumulate`` of the product, which is of ``words`` or of float32."""
        return int(self.s.accumulate)

    def _floats(self, panel: Panel) -> None:
        """Convert to float32."""
        r = self.r

        def row(k: Value) -> None:
            self._fetch(panel, k)

            def chunk(column: Value, width: int) -> None:
                self._store(panel, k, column, self._bits(panel, k, column, width))

            self._columns(panel, chunk)

        r.counted_loop(self.depth, 1, row)

    def to_words(self, panel: Panel) -> Value:
        """Convert to words of bfloat16; the least magnitude, minus one, of those that are not 0."""
        r, b = self.r, self.r.b
        leasts = {width: r.local(ir.VectorType(I16, 2 * width), _none(width)) for width in (16, 1)}

        def row(k: Value, halves: int) -> None:
            upper, lower = self.rows_of_word(k)
            for number in (upper, lower)[:halves]:
                self._fetch(panel, number)

            def chunk(column: Value, width: int) -> None:
                if halves == 0:
                    self._store(panel, k, column, constant(_none(width).type, 0))
                    return
                words = self._bits(panel, upper, column, width)
                if halves == 2:
                    below = self._bits(panel, lower, column, width)
                    words = b.or_(words, b.lshr(below, constant(below.type, 16)))
                self._store(panel, k, column, words)
                if not self.certain:
                    numbers = b.bitcast(words, ir.VectorType(I16, 2 * width))
                    size = b.sub(b.and_(numbers, constant(numbers.type, _MAGNITUDE)), constant(numbers.type, 1))
                    least = b.load(leasts[width], typ=numbers.type)
                    b.store(b.select(b.icmp_unsigned("<", size, least), size, least), leasts[width])

            self._columns(panel, chunk)

        for start, stop, halves in self.runs_of_words():
            r.counted_loop(stop, 1, partial(row, halves=halves), start)
        if self.certain:
            return ir.Constant(I16, 0)
        found = [self._reduced(b.load(slot, typ=_none(width).type)) for width, slot in leasts.items()]
        return b.select(b.icmp_unsigned("<", *found), *found)

    def rows_of_word(self, k: Value) -> tuple[Value, Value]:
        """The rows in the upper and in the lower half of word ``k``."""
        upper = self.r.b.mul(k, i64(2))
        return upper, self.r.b.add(upper, i64(1))

    def runs_of_words(self) -> list[tuple[int, int, int]]:
        """Ranges of words with both halves, with the upper one, and with none."""
        return [(0, self.depth // 2, 2), (self.depth // 2, (self.depth + 1) // 2, 1)]

    def _reduced(self, vector: Value) -> Value:
        """The least element."""
        b, name = self.r.b, f"llvm.vector.reduce.umin.v{vector.type.count}i16"
        kind = ir.FunctionType(I16, [vector.type])
        return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [vector])

    def _fetch(self, panel: Panel, k: Value) -> None:
        """Fetch row ``k`` of the next panel."""
        if panel.ahead:
            size = panel.memref.dtype.itemsize
            row = self.r.b.mul(k, ir.Constant(I64, panel.memref.row_step * size))
            prefetch(self.r.b, self.r.move(panel.pointer, self.r.b.add(row, ir.Constant(I64, panel.ahead))))

    def _columns(self, panel: Panel, chunk: Callable[..., None]) -> None:
        """Emit ``chunk`` for all columns: sixteen at a time, then one by one."""
        r, whole = self.r, panel.columns // 16 * 16
        for start, stop, width in ((0, whole, 16), (whole, panel.columns, 1)):
            r.counted_loop(stop, width, partial(chunk, width=width), start, panel.per_partition)

    def _bits(self, panel: Panel, k: Value, column: Value, width: int) -> Value:
        """The bits of ``width`` elements of row ``k`` as float32."""
        b, memref = self.r.b, panel.memref
        size = memref.dtype.itemsize
        offset = b.add(b.mul(k, ir.Constant(I64, memref.row_step)), column)
        place = self.r.move(panel.pointer, b.mul(offset, ir.Constant(I64, size)))
        value = decode(b, b.load(place, typ=storage_type(memref.dtype, width), align=size), memref.dtype)
        return b.bitcast(value, like(value, I32))

    def _store(self, panel: Panel, k: Value, column: Value, words: Value) -> None:
        b = self.r.b
        offset = b.add(b.mul(k, ir.Constant(I64, panel.width)), column)
        b.store(words, self.r.move(panel.target, b.mul(offset, ir.Constant(I64, 4))), align=4)


def _none(width: int) -> ir.Constant:
    """The least of no numbers."""
    return constant(ir.VectorType(I16, 2 * width), -1)


def _i32(number: int) -> ir.Constant:
    return ir.Constant(I32, number)


def moved(r: FunctionBuilder, pointer: Value, index: Value, size: int) -> Value:
    """``pointer`` and ``index`` elements of ``size`` bytes."""
    return r.move(pointer, r.b.mul(index, ir.Constant(I64, size)))


def step_of(matrix: MemRef) -> ir.Constant:
    """Elements from row to row of an operand, as the compiled routines take it."""
    return ir.Constant(I64, matrix.row_step if matrix.rows > 1 else matrix.columns)


def call_product(
    r: FunctionBuilder,
    s: Gemm,
    rows: tuple[Value, Value],
    column: Value,
    columns: int,
    stationary: tuple[Value, Value],
    moving: tuple[Value, Value, int],
    words: tuple[int, int] | None = None,
    blocks: int = 0,
    accumulate: int | None = None,
) -> None:
    """Call the product for ``rows`` (the first, how many) and ``columns`` columns of the target from ``column`` on.

    ``stationary`` is a pointer and a row step, ``moving`` has the step from panel to panel as well. ``words`` is the
    address of a product of words, and what it takes for a depth, if that is meant. ``blocks``: elements from block to
    block of the stationary operand, if it lies in blocks. ``accumulate``: what the product gets, if not that of ``s``.
    """
    place = moved(r, r.first_row(s.target), column, 4)
    address, depth = words or (matmul_entry.address(s.by_groups), s.left.rows)
    steps = () if words else (ir.Constant(I64, moving[2]),)
    apart = () if words else (ir.Constant(I64, blocks or matmul_entry.columns_of_block()),)
    adds = int(s.accumulate) if accumulate is None else accumulate
    sizes = (rows[1], *(ir.Constant(I64, n) for n in (columns, depth, adds)))
    r.call(address, [place, step_of(s.target), *stationary, *apart, *moving[:2], *steps, *sizes])
