"""Matrix products in the tile registers of AMX, and what packs their operands.

Operands of bfloat16 in whole groups are packed by compiled routines (:mod:`nki.numerics.amx_operands` and
:mod:`nki.numerics.amx_stationary`), others are converted by
:class:`~nki.backend.cpu.codegen.narrow_product.NarrowProduct`. An operand of dtype ``bfloat16_words`` was packed
before, for several products or threads.
"""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.loop_nest import CountedLoop
from nki.backend.cpu.codegen.narrow_product import I16, NarrowProduct, Panel, moved
from nki.backend.cpu.loop_ir.nodes import Assign, Gemm, MemRef
from nki.base import dtype as dt
from nki.numerics import transpose
from nki.numerics.amx_matmul import AS_SUMMED
from nki.numerics.amx_operands import GROUP, MOST_ROWS, NOTES
from nki.numerics.amx_stationary import row_words
from nki.numerics.llvm import i64
from nki.numerics.matmul import CHAIN, PANEL
from nki.numerics.matmul_entry import TileRoutines, tile_routines


class TileProduct(NarrowProduct):
    """A product by groups of operands that fit bfloat16."""

    def __init__(self, r: FunctionBuilder, s: Gemm, tiles: TileRoutines) -> None:
        self.tiles = tiles
        self.groups = -(-s.left.rows // GROUP)
        super().__init__(r, s)
        self.is_packed = s.left.dtype is dt.bfloat16_words
        self.turned_width = s.left.dims[0][0] // 2 if self.is_packed else row_words(GROUP * self.groups)
        """Words in a row of the stationary operand as AMX reads it."""
        self.turned = r.address(s.left) if self.is_packed else self.scratch(self.width * self.turned_width)
        self.least = r.local(I16, ir.Constant(I16, 0))
        self.words_step = s.right.dims[0][0] // 2 if len(s.right.dims) > 1 else PANEL

    def words_product(self) -> tuple[int, int]:
        return self.tiles.product, self.groups

    def word_rows(self) -> int:
        return max(self.depth, CHAIN * self.groups) + NOTES // (4 * PANEL) + 1

    def accumulate(self, words: tuple[int, int] | None) -> int:
        if words is not None and self.consumed is not None and self.consumed.takes_any_nan:
            return AS_SUMMED
        return super().accumulate(words)

    def emit(self, first: Value, count: Value) -> None:
        self.r.call(self.tiles.begin, [])
        super().emit(first, count)
        self.r.call(self.tiles.end, [])

    def panels(self, left: tuple[Panel, Value | None], rows: tuple[Value, Value]) -> None:
        """All panels of these rows of the result: in one call, if they were packed and need no consumer."""
        r, s, least = self.r, self.s, left[1]
        if s.right.dtype is not dt.bfloat16_words or self.consumed is not None or least is None:
            super().panels(left, rows)
            return
        words, depth, count = r.address(s.right), i64(self.depth), i64(s.right.columns // PANEL)
        moving = Panel(s.right, words, s.right.columns, self.right, PANEL)
        r.call(self.tiles.least, [self.least, words, depth, count])
        with r.b.if_else(self.is_exact(least, r.b.load(self.least, typ=I16)), likely=True) as (then, otherwise):
            with then:
                self.multiply(moving, i64(0), rows, words)
            with otherwise:
                super().panels(left, rows)

    def stationary_words(self, first: Value) -> tuple[Value, Value]:
        return moved(self.r, self.turned, first, 4 * self.turned_width), i64(self.turned_width)

    def pack_stationary(self, stationary: Panel, first: Value, count: Value) -> Value:
        r, memref, words = self.r, stationary.memref, self.stationary_words(first)
        sizes = count, i64(self.groups)
        if self.is_packed:
            pass
        elif memref.is_turned:
            step = memref.dims[0][0]
            r.call(self.tiles.pack_columns, [*words, moved(r, stationary.pointer, first, 2 * step), i64(step), *sizes])
        elif _is_packable(memref) and self.rows % PANEL == 0:
            rows = moved(r, stationary.pointer, first, 2), i64(memref.row_step)
            r.call(self.tiles.pack_rows, [*words, *rows, *sizes])
        else:
            least = self.to_words(stationary)
            source = moved(r, self.left, first, 4), i64(self.width)
            r.call(transpose.address(4), [*words, *source, i64(CHAIN * self.groups), count])
            return least
        r.call(self.tiles.least_columns, [self.least, *words, *sizes])
        return r.b.load(self.least, typ=I16)

    def pack_moving(self, moving: Panel) -> tuple[Value, Value]:
        r, memref = self.r, moving.memref
        words = self.right
        if memref.dtype is dt.bfloat16_words:
            words = moving.pointer
        elif _is_packable(memref) and moving.columns == PANEL:
            depth = i64(self.depth)
            source = moving.pointer, i64(memref.row_step), i64(moving.ahead // 2)
            r.call(self.tiles.pack_panels, [words, *source, i64(0), depth, depth, i64(1)])
        else:
            return super().pack_moving(moving)
        r.call(self.tiles.least, [self.least, words, i64(self.depth), i64(1)])
        return words, r.b.load(self.least, typ=I16)

    def stationary_floats(self, stationary: Panel) -> None:
        memref, r = stationary.memref, self.r
        pointer, step = stationary.pointer, i64(memref.row_step)
        if self.is_packed:
            sizes = i64(self.rows), i64(self.depth // 2)
            words = self.left, i64(self.width)
            r.call(transpose.address(4), [*words, *self.stationary_words(i64(0)), *sizes])
            sizes = i64(self.depth), i64(self.rows)
            r.call(self.tiles.unpack, [stationary.target, i64(stationary.width), *words, *sizes])
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
        r.call(self.tiles.widen, [stationary.target, i64(stationary.width), pointer, step, *sizes])

    def moving_floats(self, moving: Panel) -> None:
        memref, depth = moving.memref, i64(self.depth)
        if memref.dtype is dt.bfloat16_words:
            panel = i64(PANEL)
            self.r.call(self.tiles.unpack, [self.right, panel, moving.pointer, panel, depth, panel])
        elif _is_packable(memref) and moving.columns == PANEL:
            rows = moving.pointer, i64(memref.row_step), depth, i64(PANEL)
            self.r.call(self.tiles.widen, [self.right, i64(PANEL), *rows])
        else:
            super().moving_floats(moving)

    def rows_of_word(self, k: Value) -> tuple[Value, Value]:
        upper = self.r.b.add(k, self.r.b.and_(k, i64(-CHAIN)))
        return upper, self.r.b.add(upper, i64(CHAIN))

    def runs_of_words(self) -> list[tuple[int, int, int]]:  # whole groups
        first = self.depth // GROUP * CHAIN
        rest = self.depth - 2 * first
        both, some = first + max(rest - CHAIN, 0), first + min(rest, CHAIN)
        return [(0, both, 2), (both, some, 1), (some, self.groups * CHAIN, 0)]


def emit_packing(r: FunctionBuilder, s: Assign) -> None:
    """Emit ``s``, whose target has the order of tile registers; its source is bfloat16 in whole groups.

    The target is a moving operand in panels, whose partitions are rows, or a stationary one, whose partitions are
    columns.
    """
    tiles, source, target = tile_routines(), s.value.memref, s.target
    assert tiles is not None
    assert source is not None
    first, count = r.rounds(CountedLoop(target.rows, (), r.per_partition(target.rows)))
    if target.row_step == PANEL:
        steps = [i64(source.row_step), i64(PANEL), first, r.b.add(first, count), i64(target.rows)]
        panels = i64(target.columns // PANEL)
        r.call(tiles.pack_panels, [r.address(target), r.address(source), *steps, panels])
        return
    words = moved(r, r.address(target), first, 2 * target.row_step), i64(target.row_step // 2)
    place = moved(r, r.address(source), first, 2 * source.row_step)
    is_dense = source.dims[0][0] == 1
    step = i64(source.row_step if is_dense else source.dims[0][0])
    routine = tiles.pack_columns if is_dense else tiles.pack_rows
    r.call(routine, [*words, place, step, count, i64(target.columns // GROUP)])


def _is_packable(memref: MemRef) -> bool:
    """True of bfloat16 in whole groups, with dense rows."""
    return memref.dtype is dt.bfloat16 and memref.rows % GROUP == 0 and memref.rows <= MOST_ROWS
