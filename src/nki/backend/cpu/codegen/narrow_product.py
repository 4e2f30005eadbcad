"""Matrix products of operands of 8 and 16 bits, which are converted to float32 on the way, a panel at a time, in the
cache. :class:`~nki.backend.cpu.codegen.word_product.WordProduct` multiplies those that fit bfloat16 without that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.consumed_panel import ConsumedPanel
from nki.backend.cpu.codegen.convert import decode, storage_type
from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.nodes import Gemm, MemRef
from nki.base import dtype as dt
from nki.numerics import matmul_entry
from nki.numerics.llvm import I32, I64, i64, like, prefetch
from nki.numerics.matmul import PANEL

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
    """A product of operands of which at least one has fewer than 32 bits, as float32."""

    def __init__(self, r: FunctionBuilder, s: Gemm) -> None:
        self.r, self.s = r, s
        self.depth, self.rows = s.left.rows, s.target.rows
        self.width = -(-self.rows // 16) * 16 + 16  # not a power of two, whose rows would share few sets of the cache
        self.floats, self.right = self.scratch(self.depth * self.width), self.scratch(self.panel_rows() * PANEL)
        """The stationary operand as float32, and a panel of the moving one."""
        self.consumed = None if s.consumer is None else ConsumedPanel(r, s)

    def panel_rows(self) -> int:
        """Rows of a converted panel, at most."""
        return self.depth

    def scratch(self, size: int) -> Value:
        """The address of scratch memory for ``size`` words."""
        memref = self.r.kernel_ir.new_scratch(1, size, dt.float32)
        self.r.need_scratch()
        return self.r.address(memref)

    def emit(self, first: Value, count: Value) -> None:
        """Emit the product of rows ``first`` to ``first + count - 1``."""
        r, s = self.r, self.s
        limited = r.per_partition(self.rows)
        self.prepare(Panel(s.left, r.address(s.left), self.rows, self.floats, self.width, limited), first, count)
        if self.consumed is None or not s.right.layout.pairs:
            self.panels((first, count))
            return
        with r.in_blocks(_BLOCK if limited else 0):
            self.panels((r.first, r.b.sub(r.last, r.first)) if limited else (first, count))

    def prepare(self, stationary: Panel, first: Value, count: Value) -> None:  # noqa: ARG002  # products of words convert those alone
        """Convert columns ``first`` to ``first + count - 1``."""
        self.stationary_floats(stationary)

    def panels(self, rows: tuple[Value, Value]) -> None:
        """All panels of these rows of the result."""
        r, s = self.r, self.s
        whole = s.right.columns // PANEL
        step = s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL

        def panel(number: Value, columns: int = PANEL) -> None:
            source = moved(r, r.address(s.right), number, step * s.right.dtype.itemsize)
            moving = Panel(s.right, source, columns, self.right, PANEL, ahead=step * s.right.dtype.itemsize)
            column = r.b.mul(number, i64(PANEL))
            self.multiply(moving, column, rows)
            if self.consumed is not None:
                self.consumed.emit(column, columns)

        r.counted_loop(whole, 1, panel)
        if rest := s.right.columns % PANEL:
            panel(i64(whole), rest)

    def multiply(self, moving: Panel, column: Value, rows: tuple[Value, Value]) -> None:
        """The columns of the result from ``column`` on that come from a panel."""
        self.multiply_floats(moving, column, rows)

    def multiply_floats(self, moving: Panel, column: Value, rows: tuple[Value, Value]) -> None:
        """The same with the operands as float32, the stationary one in :attr:`floats`."""
        self.moving_floats(moving)
        stationary = moved(self.r, self.floats, rows[0], 4), i64(self.width)
        self.call(rows, column, moving.columns, stationary, (self.right, i64(PANEL), PANEL))

    def stationary_floats(self, stationary: Panel) -> None:
        """Convert to float32."""
        self._floats(stationary)

    def moving_floats(self, moving: Panel) -> None:
        """Convert to float32, at ``right``."""
        self._floats(moving)

    def call(
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

    def accumulate(self, words: tuple[int, int] | None) -> int:  # noqa: ARG002  # products of words look at them
        """The argument ``accumulate`` of the product, which is of ``words`` or of float32."""
        return int(self.s.accumulate)

    def _floats(self, panel: Panel) -> None:
        """Convert to float32."""
        r = self.r

        def row(k: Value) -> None:
            self.fetch(panel, k)

            def chunk(column: Value, width: int) -> None:
                self.store(panel, k, column, self.bits(panel, k, column, width))

            self.columns(panel, chunk)

        r.counted_loop(self.depth, 1, row)

    def fetch(self, panel: Panel, k: Value) -> None:
        """Fetch row ``k`` of the next panel."""
        if panel.ahead:
            size = panel.memref.dtype.itemsize
            row = self.r.b.mul(k, ir.Constant(I64, panel.memref.row_step * size))
            prefetch(self.r.b, self.r.move(panel.pointer, self.r.b.add(row, ir.Constant(I64, panel.ahead))))

    def columns(self, panel: Panel, chunk: Callable[..., None]) -> None:
        """Emit ``chunk`` for all columns: sixteen at a time, then one by one."""
        r, whole = self.r, panel.columns // 16 * 16
        for start, stop, width in ((0, whole, 16), (whole, panel.columns, 1)):
            r.counted_loop(stop, width, partial(chunk, width=width), start, panel.per_partition)

    def bits(self, panel: Panel, k: Value, column: Value, width: int) -> Value:
        """The bits of ``width`` elements of row ``k`` as float32."""
        b, memref = self.r.b, panel.memref
        size = memref.dtype.itemsize
        offset = b.add(b.mul(k, ir.Constant(I64, memref.row_step)), column)
        place = self.r.move(panel.pointer, b.mul(offset, ir.Constant(I64, size)))
        value = decode(b, b.load(place, typ=storage_type(memref.dtype, width), align=size), memref.dtype)
        return b.bitcast(value, like(value, I32))

    def store(self, panel: Panel, k: Value, column: Value, words: Value) -> None:
        b = self.r.b
        offset = b.add(b.mul(k, ir.Constant(I64, panel.width)), column)
        b.store(words, self.r.move(panel.target, b.mul(offset, ir.Constant(I64, 4))), align=4)


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
