"""Matrix products: calls of the compiled routines, and the conversion of operands of 8 and 16 bits on the way.

Operands of float32 are read where they are. Narrow ones are converted a panel at a time, in the cache, to what a
routine reads: words of two bfloat16 numbers if the processor multiplies them as the contract has it, with AMX
(:func:`~nki.numerics.matmul_entry.amx_address`) or in pairs (:func:`~nki.numerics.matmul_entry.pair_address`), and both
operands fit bfloat16, else float32.

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

from nki.backend.cpu.codegen.convert import decode, storage_type
from nki.backend.cpu.codegen.few_rows import emit_column, emit_few_rows
from nki.backend.cpu.codegen.function import I32, I64, FunctionBuilder, Value
from nki.backend.cpu.codegen.loop_nest import CountedLoop
from nki.backend.cpu.loop_ir.nodes import NARROW, Gemm, MemRef
from nki.base import dtype as dt
from nki.numerics import matmul_entry, transpose
from nki.numerics.llvm import constant, like, prefetch
from nki.numerics.matmul import CHAIN, PANEL

I16: Final = ir.IntType(16)
_LEAST_SUM: Final = 2 * 127 + 2 * 7 - 126
"""The sum of two exponent fields from which on no product of bfloat16 numbers has digits below 2**-126."""
_MAGNITUDE: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class _Panel:
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


def emit_gemm(r: FunctionBuilder, s: Gemm) -> None:
    """Emit ``s``, for the rows of the target, which are columns of the left operand, in the routine's range."""
    if s.has_few_rows:
        emit_few_rows(r, s)
        return
    if s.is_column:
        emit_column(r, s)
        return
    first, count = r.rounds(CountedLoop(s.target.rows, (), r.per_partition(s.target.rows)))
    if NARROW.isdisjoint((s.left.dtype, s.right.dtype)):
        stationary = _moved(r, r.address(s.left), first, s.left.dtype.itemsize)
        moving, columns = r.address(s.right), s.right.columns
        panels = s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL
        _call(
            r,
            s,
            (first, count),
            ir.Constant(I64, 0),
            columns,
            (stationary, _step(s.left)),
            (moving, _step(s.right), panels),
        )
    else:
        _Narrow(r, s).emit(first, count)


class _Narrow:
    """A product of operands of which one at least has fewer than 32 bits."""

    def __init__(self, r: FunctionBuilder, s: Gemm) -> None:
        self.r, self.s = r, s
        self.depth, self.rows = s.left.rows, s.target.rows
        self.width = -(-self.rows // 16) * 16 + 16  # not a power of two, whose rows would share few sets of the cache
        self.amx = matmul_entry.amx_address() if s.by_groups else 0
        self.words = self.amx or (matmul_entry.pair_address() if s.by_groups else 0)
        self.certain = dt.bfloat16 not in {s.left.dtype, s.right.dtype}
        self.groups = -(-self.depth // (2 * CHAIN))
        self.turned_width = (self.groups + 1) * CHAIN
        """Words in a row of the stationary operand as AMX reads it."""
        depth = max(self.depth, CHAIN * self.groups) if self.amx else self.depth
        self.left, self.right = self._scratch(depth * self.width), self._scratch(depth * PANEL)
        self.floats = self._scratch(self.depth * self.width) if self.words else self.left
        """The stationary operand as float32; ``left`` is what the product usually reads."""
        self.turned = self._scratch(self.width * self.turned_width) if self.amx else self.left

    def _scratch(self, size: int) -> Value:
        memref = self.r.loop_ir.new_scratch(1, size, dt.float32)
        self.r.need_scratch()
        return self.r.address(memref)

    def emit(self, first: Value, count: Value) -> None:
        """Emit the product of rows ``first`` to ``first + count - 1``."""
        r, s = self.r, self.s
        limited = r.per_partition(self.rows)
        stationary = _Panel(s.left, r.address(s.left), self.rows, self.left, self.width, limited)
        if self.words:
            least = self._words(stationary)
            if self.amx:
                self._turn(first, count)
        else:
            least = None
            self._floats(stationary)
        whole = s.right.columns // PANEL
        step = s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL

        def panel(number: Value, columns: int = PANEL) -> None:
            source = _moved(r, r.address(s.right), number, step * s.right.dtype.itemsize)
            moving = _Panel(s.right, source, columns, self.right, PANEL, ahead=step * s.right.dtype.itemsize)
            self._panel((stationary, least), moving, number, (first, count))

        r.counted_loop(whole, 1, panel)
        if rest := s.right.columns % PANEL:
            panel(ir.Constant(I64, whole), rest)

    def _panel(
        self, left: tuple[_Panel, Value | None], moving: _Panel, number: Value, rows: tuple[Value, Value]
    ) -> None:
        """One panel of columns of the result."""
        b, (stationary, least) = self.r.b, left

        def floats() -> None:
            self._floats(moving)
            self._multiply(moving, number, rows, False)

        if least is None:
            floats()
            return
        other = self._words(moving)
        if self.certain:
            self._multiply(moving, number, rows, True)
            return
        fields = [b.lshr(b.add(b.zext(value, I32), _i32(1)), _i32(7)) for value in (least, other)]
        normal = [b.icmp_unsigned(">=", field, _i32(1)) for field in fields]
        large = b.icmp_unsigned(">=", b.add(*fields), _i32(_LEAST_SUM))
        with b.if_else(b.and_(large, b.and_(*normal)), likely=True) as (then, otherwise):
            with then:
                self._multiply(moving, number, rows, True)
            with otherwise:
                self._floats(replace(stationary, target=self.floats))
                floats()

    def _turn(self, first: Value, count: Value) -> None:
        """Transpose columns of words of the stationary operand to rows."""
        r = self.r
        source = _moved(r, self.left, first, 4), ir.Constant(I64, self.width)
        target = self._turned_row(first), ir.Constant(I64, self.turned_width)
        r.call(transpose.address(4), [*target, *source, ir.Constant(I64, CHAIN * self.groups), count])

    def _turned_row(self, row: Value) -> Value:
        return _moved(self.r, self.turned, row, 4 * self.turned_width)

    def _multiply(self, moving: _Panel, number: Value, rows: tuple[Value, Value], words: bool) -> None:
        """Multiply the converted operands."""
        r = self.r
        if words and self.amx:
            stationary = self._turned_row(rows[0]), ir.Constant(I64, self.turned_width)
        else:
            stationary = _moved(r, self.left if words else self.floats, rows[0], 4), ir.Constant(I64, self.width)
        right = self.right, ir.Constant(I64, PANEL), PANEL
        column = r.b.mul(number, ir.Constant(I64, PANEL))
        if words:
            depth = self.groups if self.amx else -(-self.depth // 2)
            _call(r, self.s, rows, column, moving.columns, stationary, right, (self.words, depth))
        else:
            _call(r, self.s, rows, column, moving.columns, stationary, right)

    def _floats(self, panel: _Panel) -> None:
        """Convert to float32."""
        r = self.r

        def row(k: Value) -> None:
            self._fetch(panel, k)

            def chunk(column: Value, width: int) -> None:
                self._store(panel, k, column, self._bits(panel, k, column, width))

            self._columns(panel, chunk)

        r.counted_loop(self.depth, 1, row)

    def _words(self, panel: _Panel) -> Value:
        """Convert to words of bfloat16; the least magnitude, minus one, of those that are not 0."""
        r, b = self.r, self.r.b
        leasts = {width: r.local(ir.VectorType(I16, 2 * width), _none(width)) for width in (16, 1)}

        def row(k: Value, halves: int) -> None:
            upper, lower = self._rows_of_word(k)
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

        for start, stop, halves in self._runs_of_words():
            r.counted_loop(stop, 1, partial(row, halves=halves), start)
        if self.certain:
            return ir.Constant(I16, 0)
        found = [self._reduced(b.load(slot, typ=_none(width).type)) for width, slot in leasts.items()]
        return b.select(b.icmp_unsigned("<", *found), *found)

    def _rows_of_word(self, k: Value) -> tuple[Value, Value]:
        """The rows in the upper and in the lower half of word ``k``."""
        b = self.r.b
        if not self.amx:
            upper = b.mul(k, ir.Constant(I64, 2))
            return upper, b.add(upper, ir.Constant(I64, 1))
        upper = b.add(k, b.and_(k, ir.Constant(I64, -CHAIN)))
        return upper, b.add(upper, ir.Constant(I64, CHAIN))

    def _runs_of_words(self) -> list[tuple[int, int, int]]:
        """Ranges of words with both halves, with the upper one, and with none: AMX reads whole groups."""
        if not self.amx:
            return [(0, self.depth // 2, 2), (self.depth // 2, (self.depth + 1) // 2, 1)]
        first = self.depth // (2 * CHAIN) * CHAIN
        rest = self.depth - 2 * first
        both, some = first + max(rest - CHAIN, 0), first + min(rest, CHAIN)
        return [(0, both, 2), (both, some, 1), (some, self.groups * CHAIN, 0)]

    def _reduced(self, vector: Value) -> Value:
        """The least element."""
        b, name = self.r.b, f"llvm.vector.reduce.umin.v{vector.type.count}i16"
        kind = ir.FunctionType(I16, [vector.type])
        return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [vector])

    def _fetch(self, panel: _Panel, k: Value) -> None:
        """Fetch row ``k`` of the next panel."""
        if panel.ahead:
            size = panel.memref.dtype.itemsize
            row = self.r.b.mul(k, ir.Constant(I64, panel.memref.row_step * size))
            prefetch(self.r.b, self.r.move(panel.pointer, self.r.b.add(row, ir.Constant(I64, panel.ahead))))

    def _columns(self, panel: _Panel, chunk: Callable[..., None]) -> None:
        """Emit ``chunk`` for all columns: sixteen at a time, then one by one."""
        r, whole = self.r, panel.columns // 16 * 16
        for start, stop, width in ((0, whole, 16), (whole, panel.columns, 1)):
            r.counted_loop(stop, width, partial(chunk, width=width), start, panel.per_partition)

    def _bits(self, panel: _Panel, k: Value, column: Value, width: int) -> Value:
        """The bits of ``width`` elements of row ``k`` as float32."""
        b, memref = self.r.b, panel.memref
        size = memref.dtype.itemsize
        offset = b.add(b.mul(k, ir.Constant(I64, memref.row_step)), column)
        place = self.r.move(panel.pointer, b.mul(offset, ir.Constant(I64, size)))
        value = decode(b, b.load(place, typ=storage_type(memref.dtype, width), align=size), memref.dtype)
        return b.bitcast(value, like(value, I32))

    def _store(self, panel: _Panel, k: Value, column: Value, words: Value) -> None:
        b = self.r.b
        offset = b.add(b.mul(k, ir.Constant(I64, panel.width)), column)
        b.store(words, self.r.move(panel.target, b.mul(offset, ir.Constant(I64, 4))), align=4)


def _none(width: int) -> ir.Constant:
    """The least of no numbers."""
    return constant(ir.VectorType(I16, 2 * width), -1)


def _i32(number: int) -> ir.Constant:
    return ir.Constant(I32, number)


def _moved(r: FunctionBuilder, pointer: Value, index: Value, size: int) -> Value:
    return r.move(pointer, r.b.mul(index, ir.Constant(I64, size)))


def _step(matrix: MemRef) -> ir.Constant:
    """Elements from row to row of an operand, as the compiled routines take it."""
    return ir.Constant(I64, matrix.row_step if matrix.rows > 1 else matrix.columns)


def _call(
    r: FunctionBuilder,
    s: Gemm,
    rows: tuple[Value, Value],
    column: Value,
    columns: int,
    stationary: tuple[Value, Value],
    moving: tuple[Value, Value, int],
    words: tuple[int, int] | None = None,
) -> None:
    """Call the product for ``rows`` (the first, how many) and ``columns`` columns of the target from ``column`` on.

    ``stationary`` is a pointer and a row step, ``moving`` has the step from panel to panel as well. ``words`` is the
    address of a product of words, and what it takes for a depth, if that is meant.
    """
    place = _moved(r, r.first_row(s.target), column, 4)
    address, depth = words or (matmul_entry.address(s.by_groups), s.left.rows)
    steps = () if words else (ir.Constant(I64, moving[2]),)
    sizes = (rows[1], *(ir.Constant(I64, n) for n in (columns, depth, int(s.accumulate))))
    r.call(address, [place, _step(s.target), *stationary, *moving[:2], *steps, *sizes])
