"""Matrix products in the tile registers of AMX, and what packs their operands.

Operands of bfloat16 in whole groups are packed by compiled routines (:mod:`nki.numerics.amx_operands`), others are
converted by :class:`~nki.backend.cpu.codegen.narrow_product.NarrowProduct`. A moving operand of dtype
``bfloat16_words`` was packed before, for several products or threads.
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
from nki.numerics.llvm import i64
from nki.numerics.matmul import CHAIN, PANEL
from nki.numerics.matmul_entry import TileRoutines, tile_routines


class TileProduct(NarrowProduct):
    """A product by groups of operands that fit bfloat16."""

    def __init__(self, r: FunctionBuilder, s: Gemm, tiles: TileRoutines) -> None:
        self.tiles = tiles
        self.groups = -(-s.left.rows // GROUP)
        super().__init__(r, s)
        self.turned_width = (self.groups + 1) * CHAIN
        """Words in a row of the stationary operand as AMX reads it."""
        self.turned = self.scratch(self.width * self.turned_width)
        self.least = r.local(I16, ir.Constant(I16, 0))

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

    def stationary_words(self, first: Value) -> tuple[Value, Value]:
        return moved(self.r, self.turned, first, 4 * self.turned_width), i64(self.turned_width)

    def pack_stationary(self, stationary: Panel, first: Value, count: Value) -> Value:
        r, memref = self.r, stationary.memref
        if memref.is_turned:
            step = memref.dims[0][0]
            columns = moved(r, stationary.pointer, first, 2 * step), i64(step), count
            r.call(self.tiles.pack_columns, [*self.stationary_words(first), *columns, i64(self.groups), self.least])
        elif _is_packable(memref) and self.rows % PANEL == 0:
            rows = stationary.pointer, i64(memref.row_step), first, count, i64(self.depth)
            r.call(self.tiles.pack_rows, [*self.stationary_words(i64(0)), *rows, self.least])
        else:
            least = self.to_words(stationary)
            words = moved(r, self.left, first, 4), i64(self.width)
            r.call(transpose.address(4), [*self.stationary_words(first), *words, i64(CHAIN * self.groups), count])
            return least
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
        r.call(self.tiles.least, [self.least, words, i64(self.depth)])
        return words, r.b.load(self.least, typ=I16)

    def stationary_floats(self, stationary: Panel) -> None:
        memref, r = stationary.memref, self.r
        pointer, step = stationary.pointer, i64(memref.row_step)
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
            self.r.call(self.tiles.unpack_panel, [self.right, moving.pointer, depth])
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
    """Emit ``s``, whose target has the order of tile registers; its source has dense rows of bfloat16."""
    tiles, source = tile_routines(), s.value.memref
    assert tiles is not None
    assert source is not None
    first, count = r.rounds(CountedLoop(s.target.rows, (), r.per_partition(s.target.rows)))
    steps = [i64(source.row_step), i64(PANEL), first, r.b.add(first, count), i64(s.target.rows)]
    panels = i64(s.target.columns // PANEL)
    r.call(tiles.pack_panels, [r.address(s.target), r.address(source), *steps, panels])


def _is_packable(memref: MemRef) -> bool:
    """True of bfloat16 in whole groups, with dense rows."""
    return memref.dtype is dt.bfloat16 and memref.rows % GROUP == 0 and memref.rows <= MOST_ROWS
