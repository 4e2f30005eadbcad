"""Matmuls: operands as a matrix unit reads them, and its micro-kernel, panel by panel.

1. A matmul of few rows, or of one column, is bound by memory: :mod:`~nki.backend.cpu.codegen.skinny_matmul`.
2. Operands of float32 are read where they are, in one call (:func:`_emit_float32`).
3. Operands of 8 and 16 bits (:class:`_LowPrecision`) are read in place or converted to scratch memory: the stationary
   one at once, the moving one a panel at a time, in the cache. They become pairs of bfloat16 where sums go by groups
   and the processor has a unit for pairs, and float32 otherwise.
4. The epilogue computes from each panel of the result before the next one (:class:`_Epilogue`).
5. An operand that matmuls read more than once was copied before, to a tile in the layout that they read: by the same
   conversions (:func:`emit_layout_copy`).

Units for pairs take subnormal numbers for 0. Every product is a multiple of the product of the last places of the
smallest operands, and so is every sum and every rounded sum; if that is at least 2**-126, nothing subnormal can occur.
The subnormal guard of each panel tells its smallest exponent, and a panel for which nothing is certain takes the way of
float32. Numbers of 8 bits are never small enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from llvmlite import ir

from nki.backend.cpu.codegen.convert import decode, storage_type, upper_halves
from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop
from nki.backend.cpu.codegen.skinny_matmul import emit_column, emit_few_rows, skinny_modules
from nki.backend.cpu.kernel_ir.loop_nests import CountedLoop, Stream, partition_step, streams_of
from nki.backend.cpu.kernel_ir.nodes import NARROW, PANEL_BASE, Assign, Matmul, MemRef, loads, subexpressions
from nki.base import element_types as dt
from nki.ir.layout import Layout
from nki.numerics.llvm import I16, I32, I64, constant, i64, like, prefetch
from nki.numerics.llvm_jit import Module
from nki.numerics.matmul.amx import AS_SUMMED
from nki.numerics.matmul.contract import BLOCK, BLOCKS, CHAIN, GROUP, MOST_ROWS, PAIR_COLUMNS, PAIR_PANELS, PANEL
from nki.numerics.matmul.host import bf16_unit, columns_of_block, has_blocks
from nki.numerics.matmul.units import FLOAT32, MatrixUnit, columns_to_blocks, float32_unit

_ROWS: Final = 32
"""Rows of which a matmul with an epilogue makes all columns before the next ones, where panels are read in place."""
_AHEAD: Final = 2 * CHAIN
"""Columns of an operand behind those that are converted, which are fetched meanwhile."""
_ROWS_AHEAD: Final = 32
"""Rows ahead of a copy at which memory outside of tiles is asked for; loads of the rows below come next as a rule."""
_LEAST_SUM: Final = 2 * 127 + 2 * 7 - 126
"""The sum of two exponent fields from which on no product of bfloat16 numbers has digits below 2**-126."""


def kernels_of(s: Matmul) -> list[Module]:
    """The modules with the micro-kernels of float32 numbers that ``s`` calls."""
    if s.has_few_rows or s.is_column:
        return skinny_modules(s)
    return [float32_unit(s.by_groups).module] if _is_float32(s) else []


def _is_float32(s: Matmul) -> bool:
    return NARROW.isdisjoint((s.left.dtype, s.right.dtype))


def emit_matmul(r: FunctionBuilder, s: Matmul) -> None:
    """Emit ``s``, for the rows of the target, which are columns of the left operand, in the routine's range."""
    rows = r.rounds(CountedLoop(s.target.rows, (), r.per_partition(s.target.rows)))
    if s.has_few_rows:
        emit_few_rows(r, s)
    elif s.is_column:
        emit_column(r, s)
    elif _is_float32(s):
        _emit_float32(r, s, rows)
    else:
        unit = bf16_unit() if s.by_groups and s.left.rows <= MOST_ROWS else None
        _LowPrecision(r, s, unit).emit(rows)


def _moved(r: FunctionBuilder, pointer: Value, index: Value, size: int) -> Value:
    """``pointer`` and ``index`` elements of ``size`` bytes."""
    return r.move(pointer, r.b.mul(index, ir.Constant(I64, size)))


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand, or a panel of it, in memory; ``layout`` is one that conversions name.

    ``step`` counts elements from row to row, or from block to block.
    """

    layout: str
    pointer: Value
    step: int
    itemsize: int = 2

    def columns(self, r: FunctionBuilder, first: Value) -> _Operand:
        """Its columns from ``first`` on."""
        step = 1 if self.layout in ("rows", "float32") else self.step // (BLOCK if self.layout == BLOCKS.name else 1)
        return replace(self, pointer=_moved(r, self.pointer, first, self.itemsize * step))


def _convert(
    r: FunctionBuilder,
    address: int,
    source: _Operand,
    target: _Operand,
    rows: tuple[Value, Value],
    columns: Value,
    depth: int,
    ahead: int = 0,
) -> None:
    """Call a conversion for a range of rows and so many columns of an operand of ``depth`` rows."""
    places = [value for each in (target, source) for value in (each.pointer, i64(each.step))]
    r.call(address, [*places, *rows, columns, i64(depth), i64(ahead)])


def emit_layout_copy(r: FunctionBuilder, s: Assign) -> bool:
    """Emit ``s``, for the routine's range, if a conversion does it; False, and nothing, otherwise.

    The source is dense rows, or dense columns, of the same dtype. Other copies to blocks are plain loops.
    """
    source, target, layout, size = s.value.memref, s.target, s.target.layout, s.target.dtype.itemsize
    if s.value.kind != "load" or source is None:
        return False
    if not layout.pairs and not (target.in_blocks and source.rows == target.rows):
        return False
    # Partitions are the rows of the operand, or of pairs in columns its columns.
    rows, columns, row_step, column_step = target.rows, target.columns, source.row_step, source.dims[0][0]
    if layout == PAIR_COLUMNS:
        rows, columns, row_step, column_step = columns, rows, column_step, row_step
    is_turned = row_step == 1 and len(source.dims) == 1
    if not (layout.pairs or is_turned or (source.dense_rows and has_blocks())):
        return False
    name, step = ("columns", column_step) if is_turned else ("rows", row_step)
    from_ = _Operand(name, r.address(source), step, size)
    step = target.row_step if layout == PAIR_COLUMNS else target.dims[0][0]
    to = _Operand(layout.name, r.address(target), layout.block(rows, PANEL) if layout == PAIR_PANELS else step, size)
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    span, width = (first, r.b.add(first, count)), i64(columns)
    if r.by_columns or layout == PAIR_COLUMNS:
        if r.by_columns:
            first, count = r.first, r.b.sub(r.last, r.first)
        to, from_, span, width = to.columns(r, first), from_.columns(r, first), (i64(0), i64(rows)), count
    ahead = _AHEAD if layout.pairs else _ROWS_AHEAD * row_step if r.is_far(source) and not is_turned else 0
    _convert(r, _address(f"{name}_to_{layout.name}"), from_, to, span, width, rows, ahead)
    return True


def _address(layouts: str) -> int:
    """The address of a conversion."""
    if layouts == "columns_to_blocks":
        return columns_to_blocks()
    unit = FLOAT32 if layouts == "rows_to_blocks" else bf16_unit()
    assert unit is not None
    return unit.address(f"nki_{layouts}")


def _emit_float32(r: FunctionBuilder, s: Matmul, rows: tuple[Value, Value]) -> None:
    """Emit one call of the micro-kernel on operands that are in place."""
    blocks = s.left.dims[0][0] if s.left.in_blocks else 0
    stationary = _moved(r, r.address(s.left), rows[0], blocks or 4), _step(s.left), i64(blocks or columns_of_block())
    moving = r.address(s.right), _step(s.right), i64(s.right.dims[0][0] if len(s.right.dims) > 1 else PANEL)
    sizes = rows[1], i64(s.right.columns), i64(s.left.rows), i64(int(s.accumulate))
    r.call(float32_unit(s.by_groups).address(), [r.first_row(s.target), _step(s.target), *stationary, *moving, *sizes])


def _step(matrix: MemRef) -> ir.Constant:
    """Elements from row to row, as the micro-kernels take it."""
    return ir.Constant(I64, matrix.row_step if matrix.rows > 1 else matrix.columns)


@dataclass(frozen=True, slots=True)
class _Panel:
    """Columns of the moving operand from ``start`` on."""

    start: Value
    columns: int
    pointer: Value


class _LowPrecision:
    """A matmul with at least one operand of fewer than 32 bits, on a unit for pairs or as float32."""

    def __init__(self, r: FunctionBuilder, s: Matmul, unit: MatrixUnit | None) -> None:
        self.r, self.s, self.unit = r, s, unit
        self.depth = -(-s.left.rows // GROUP) * GROUP if unit else s.left.rows
        self.width = -(-s.target.rows // CHAIN) * CHAIN
        self.limited = r.per_partition(s.target.rows)
        self.floats = self._scratch("float32", self.depth, self.width + CHAIN)
        """The stationary operand as float32; rows of a power of two would share few sets of the cache."""
        self.float_panel = self._scratch("float32", self.depth, PANEL)
        self.epilogue = None if s.epilogue is None else _Epilogue(r, s, unit.tile[0] if unit else 1)
        self.least = r.local(I16, ir.Constant(I16, 0))
        if unit is not None and not s.right.layout.pairs:
            self.pair_panel = self._scratch(PAIR_PANELS.name, 1, PAIR_PANELS.block(self.depth, PANEL))
            if not _is_whole(s.right) or s.right.columns % PANEL:
                self.whole_panel = self._scratch("rows", self.depth, PANEL)

    def _scratch(self, layout: str, rows: int, columns: int) -> _Operand:
        """Scratch memory for an operand, of bfloat16 if its layout is not "float32"."""
        dtype = dt.float32 if layout == "float32" else dt.bfloat16
        memref = self.r.kernel_ir.new_scratch(rows, columns, dtype)
        self.r.need_scratch()
        return _Operand(layout, self.r.address(memref), columns, dtype.itemsize)

    def emit(self, rows: tuple[Value, Value]) -> None:
        """Emit the matmul of ``rows`` of the target, the first one and their number."""
        r, s = self.r, self.s
        around = [self.unit.address(f"nki_{self.unit.name}_{when}") if self.unit else 0 for when in ("begin", "end")]
        if around[0]:
            r.call(around[0], [])
        self._prepare_stationary(*rows)
        if self.epilogue is None or not s.right.layout.pairs:
            self._emit_panels(rows)
        else:
            with r.in_blocks(_ROWS if self.limited else 0):
                self._emit_panels((r.first, r.b.sub(r.last, r.first)) if self.limited else rows)
        if around[1]:
            r.call(around[1], [])

    def _prepare_stationary(self, first: Value, count: Value) -> None:
        """Convert columns ``first`` to ``first + count - 1``, if they are not in place."""
        r, left = self.r, self.s.left
        if self.unit is None:
            self._decode(left, r.address(left), left.columns, self.floats, self.limited)
            return
        if left.layout.pairs or left.is_turned:
            layout = left.layout.name if left.layout.pairs else "columns"
            self.stationary = _Operand(layout, r.address(left), left.dims[0][0])
        elif _is_whole(left) and left.columns % CHAIN == 0:
            self.stationary = _Operand("rows", r.address(left), left.row_step)
        else:
            self.stationary = self._scratch("rows", self.depth, self.width)
            self._fill(self.stationary)
            self._decode(left, r.address(left), left.columns, self.stationary, self.limited)
            count = r.b.and_(r.b.add(count, i64(CHAIN - 1)), i64(-CHAIN))
        self.pairs = self.stationary
        if not left.layout.pairs:
            self.pairs = self._scratch(PAIR_COLUMNS.name, self.width, PAIR_COLUMNS.block(self.depth, 1))
            target, source = (each.columns(r, first) for each in (self.pairs, self.stationary))
            self._convert(source, target, count, _AHEAD)
        blocks = r.b.udiv(count, i64(CHAIN))
        self.least_of_stationary = self._least_magnitude(
            PAIR_COLUMNS, self.pairs.columns(r, first).pointer, CHAIN * self.pairs.step, blocks
        )

    def _emit_panels(self, rows: tuple[Value, Value]) -> None:
        """All panels of these rows of the result: in one call, if they are in place and there is no epilogue."""
        right = self.s.right
        if self.unit is None or not right.layout.pairs or self.epilogue is not None:
            self._emit_each_panel(rows)
            return
        pointer, count = self.r.address(right), right.columns // PANEL
        least = self._least_magnitude(PAIR_PANELS, pointer, self._panel_step, i64(count))
        with self.r.b.if_else(self._is_exact(least), likely=True) as (then, otherwise):
            with then:
                self._call(self.unit, _Panel(i64(0), right.columns, pointer), rows, self.pairs, pointer)
            with otherwise:
                self._emit_each_panel(rows)

    def _emit_each_panel(self, rows: tuple[Value, Value]) -> None:
        r, right = self.r, self.s.right
        whole, size = right.columns // PANEL, self._panel_step * right.dtype.itemsize

        def panel(number: Value, columns: int = PANEL) -> None:
            start = r.b.mul(number, i64(PANEL))
            self._emit_panel(_Panel(start, columns, _moved(r, r.address(right), number, size)), rows)
            if self.epilogue is not None:
                self.epilogue.emit(start, columns)

        r.counted_loop(whole, 1, panel)
        if rest := right.columns % PANEL:
            panel(i64(whole), rest)

    @property
    def _panel_step(self) -> int:
        """Elements of the moving operand from panel to panel."""
        right = self.s.right
        return right.dims[0][0] if len(right.dims) > 1 else PANEL

    def _emit_panel(self, panel: _Panel, rows: tuple[Value, Value]) -> None:
        """The columns of the result that come from a panel."""
        right = self.s.right
        if self.unit is None:
            self._decode(right, panel.pointer, panel.columns, self.float_panel, ahead=self._panel_step)
            self._call_float32(panel, rows)
            return
        if right.layout.pairs:
            source = pairs = _Operand(right.layout.name, panel.pointer, self._panel_step)
        else:
            if _is_whole(right) and panel.columns == PANEL:
                source = _Operand("rows", panel.pointer, right.row_step)
            else:
                source = self.whole_panel
                self._fill(source)
                self._decode(right, panel.pointer, panel.columns, source, ahead=self._panel_step)
            pairs = self.pair_panel
            self._convert(source, pairs, i64(PANEL), self._panel_step)
        least = self._least_magnitude(PAIR_PANELS, pairs.pointer, 0, i64(1))
        with self.r.b.if_else(self._is_exact(least), likely=True) as (then, otherwise):
            with then:
                self._call(self.unit, panel, rows, self.pairs, pairs.pointer)
            with otherwise:
                self._convert(self.stationary, self.floats, i64(self.width))
                self._convert(source, self.float_panel, i64(PANEL))
                self._call_float32(panel, rows)

    def _call_float32(self, panel: _Panel, rows: tuple[Value, Value]) -> None:
        """Call the micro-kernel of float32 on operands in scratch memory."""
        self._call(float32_unit(self.s.by_groups), panel, rows, self.floats, self.float_panel.pointer)

    def _call(
        self, unit: MatrixUnit, panel: _Panel, rows: tuple[Value, Value], stationary: _Operand, moving: Value
    ) -> None:
        """Call a micro-kernel for columns of the target, or for the panel that the epilogue reads.

        Steps of pairs count words, of two numbers each.
        """
        r, s, target, column, adds = self.r, self.s, self.s.target, panel.start, int(self.s.accumulate)
        if self.epilogue is not None:
            target, column = self.epilogue.panel, i64(0)
            adds = AS_SUMMED if unit.takes_pairs and self.epilogue.takes_any_nan else adds
        left, right = (stationary.step, columns_of_block()), (PANEL, PANEL)
        if unit.takes_pairs:
            left, right = (stationary.step // 2,), (self._panel_step // 2,)
        operands = stationary.columns(r, rows[0]).pointer, *map(i64, left), moving, *map(i64, right)
        sizes = rows[1], *map(i64, (panel.columns, unit.depth(s.left.rows), adds))
        r.call(unit.address(), [_moved(r, r.first_row(target), column, 4), _step(target), *operands, *sizes])

    def _convert(self, source: _Operand, target: _Operand, columns: Value, ahead: int = 0) -> None:
        """Copy so many columns from layout to layout."""
        assert self.unit is not None
        address = self.unit.address(f"nki_{source.layout}_to_{target.layout}")
        _convert(self.r, address, source, target, (i64(0), i64(self.depth)), columns, self.depth, ahead)

    def _least_magnitude(self, layout: Layout, block: Value, step: int, blocks: Value) -> Value:
        """The least of the guards behind each of some blocks of pairs; the first block is given."""
        assert self.unit is not None
        r, guards = self.r, self.depth // CHAIN if layout is PAIR_PANELS else 1
        place = r.move(block, i64(2 * self.depth * layout.width))
        r.call(self.unit.address("nki_least_magnitude"), [self.least, place, i64(step), blocks, i64(guards)])
        return r.b.load(self.least, typ=I16)

    def _is_exact(self, least: Value) -> Value:
        """True if no product with numbers of this least magnitude has digits that the unit would lose."""
        b = self.r.b
        both = self.least_of_stationary, least
        fields = [b.lshr(b.add(b.zext(value, I32), constant(I32, 1)), constant(I32, 7)) for value in both]
        normal = [b.icmp_unsigned(">=", field, constant(I32, 1)) for field in fields]
        return b.and_(b.icmp_unsigned(">=", b.add(*fields), constant(I32, _LEAST_SUM)), b.and_(*normal))

    def _fill(self, operand: _Operand) -> None:
        """Fill dense rows of bfloat16 with zeros: those rows and columns that are there for whole groups and panels."""
        kind = ir.VectorType(I16, CHAIN)

        def chunk(number: Value) -> None:
            self.r.b.store(constant(kind, 0), _moved(self.r, operand.pointer, number, 2), align=2)

        self.r.counted_loop(self.depth * operand.step, CHAIN, chunk)

    def _decode(
        self, source: MemRef, pointer: Value, columns: int, target: _Operand, per_partition: int = 0, ahead: int = 0
    ) -> None:
        """Convert columns to dense rows, of a dtype that has all their numbers; fetch elements ``ahead`` meanwhile.

        ``per_partition``: 1 if only the columns of the routine's range are wanted.
        """
        r, b, size = self.r, self.r.b, source.dtype.itemsize

        def row(k: Value) -> None:
            from_ = _moved(r, pointer, k, source.row_step * size)
            to = _moved(r, target.pointer, k, target.step * target.itemsize)
            if ahead:
                prefetch(b, r.move(from_, i64(ahead * size)))

            def chunk(column: Value, width: int) -> None:
                place = _moved(r, from_, column, size)
                value = decode(b, b.load(place, typ=storage_type(source.dtype, width), align=size), source.dtype)
                if target.layout != "float32":
                    value = upper_halves(b, b.bitcast(value, like(value, I32)))
                b.store(value, _moved(r, to, column, target.itemsize), align=target.itemsize)

            whole = columns // CHAIN * CHAIN
            for start, stop, width in ((0, whole, CHAIN), (whole, columns, 1)):
                r.counted_loop(stop, width, partial(chunk, width=width), start, per_partition)

        r.counted_loop(source.rows, 1, row)


def _is_whole(memref: MemRef) -> bool:
    """True of bfloat16 in whole groups, with dense rows."""
    return memref.dtype is dt.bfloat16 and memref.rows % GROUP == 0


class _Epilogue:
    """The epilogue of a matmul: its panel, which the first-level cache holds, and the loops that compute from it."""

    def __init__(self, r: FunctionBuilder, s: Matmul, tile: int) -> None:
        """``tile``: rows of a register tile; only whole tiles are written."""
        assert s.epilogue is not None
        self.r, self.target, self.value = r, s.target, s.epilogue
        whole_tiles = -(-s.target.rows // tile) * tile
        self.panel = replace(r.kernel_ir.new_scratch(whole_tiles, PANEL, dt.float32), rows=s.target.rows)
        r.need_scratch()
        for load in loads(self.value):
            if cast(MemRef, load.memref).base == PANEL_BASE:
                load.memref = self.panel
        self.streams = [Stream(None, s.target), *streams_of(self.value)]
        rows = s.target.rows
        steps = tuple(partition_step(stream, rows) for stream in self.streams)
        self.rows = CountedLoop(rows, steps, r.per_partition(rows))
        columns = tuple(cast(MemRef, stream.memref).columns for stream in self.streams)
        self.elements = CountedLoop(s.target.columns, tuple(int(count > 1) for count in columns))
        self.starts = r.start(self.streams)
        first = InnerLoop(r, self.streams, self.elements, self.starts)
        for part in subexpressions(self.value):
            if part.kind == "value":
                first.hoist(part)
        self.constants = first.invariants

    @property
    def takes_any_nan(self) -> bool:
        """True if the bits of a NaN in the panel change no result: it is not only moved.

        (Bit operators do not take float32.)
        """
        return self.value.kind != "load"

    def emit(self, column: Value, columns: int) -> None:
        """Compute ``columns`` columns of the target from ``column`` on, in the routine's range of partitions."""
        r = self.r
        moved = {
            number: cursor
            if self.streams[number].memref == self.panel
            else r.advance(self.streams[number], cursor, self.elements.steps[number], column)
            for number, cursor in self.starts.items()
        }

        def row(index: Value) -> None:
            loop = InnerLoop(r, self.streams, self.elements, r.advanced(self.streams, moved, self.rows, index))
            loop.invariants.update(self.constants)
            loop.hoist(self.value)
            done, width = 0, r.lanes
            while done < columns:
                while done + width <= columns:
                    at = ir.Constant(I64, done)
                    loop.store(self.target, loop.written(self.value, at, width), at, width)
                    done += width
                width //= 2

        r.counted_loop(self.rows.count, 1, row, 0, self.rows.per_partition)
