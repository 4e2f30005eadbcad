"""Skinny matmuls, of few rows or of one column (gemv).

The moving operand is read once, where it lies, and converted in registers. Such a matmul is bound by memory: to copy
or to convert that operand first would take longer than the matmul. The columns of the result do not depend on each
other; a routine may take a range of them where others take a range of partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import decode, storage_type
from nki.backend.cpu.codegen.elementwise_loops import emit_assign
from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.nodes import Assign, Expr, Matmul, MemRef, load_of
from nki.base import element_types as dt
from nki.numerics.llvm import F32, LINE, Variable, canonical_nan, constant, i64, intrinsic, prefetch, splat, steps
from nki.numerics.matmul.contract import CHAIN

_SUMS: Final = {4: 24, 8: 10, 16: 24}
"""Sums that stay in registers, in vectors, by the lanes of a vector; operands need registers as well."""
_MOST_VECTORS: Final = 16
"""Vectors of columns side by side: more would not make the reads of a row longer than memory likes."""
_LEAST_VECTORS: Final = 3
"""Vectors of columns for each stationary element that is loaded; where that needs too many sums, rows are taken in
turns.
"""
_FETCHED: Final = 512
"""Bytes of a row of a block up to which rows are fetched in advance: the processor sees no pattern in them."""
_ROWS_AHEAD: Final = 32
"""Rows that are fetched in advance; far more of a power of two in length would not fit the sets of the cache."""


def emit_few_rows(r: FunctionBuilder, s: Matmul) -> None:
    """Emit ``s``, for the columns in the routine's range if it has one."""
    left = _as_float32(r, s.left)
    sums = _SUMS[r.lanes]
    blocks = -(-s.target.rows // (sums // _LEAST_VECTORS))
    height = -(-s.target.rows // blocks)
    column = Variable(r.b)
    last = r.last if r.by_columns else i64(s.target.columns)
    for first in range(0, s.target.rows, height):
        rows = range(first, min(first + height, s.target.rows))
        column.set(r.first if r.by_columns else i64(0))
        widest = min(_MOST_VECTORS, sums // height)
        for vectors in (widest, *(v for v in (8, 4, 2, 1) if v < widest)):
            with steps(r.b, last, vectors * r.lanes, column) as here:
                _Block(r, s, left, rows, here).emit(vectors, r.lanes)
        for width in (w for w in (8, 4, 2, 1) if s.target.columns % r.lanes & w and w < r.lanes):
            with steps(r.b, last, width, column) as here:
                _Block(r, s, left, rows, here).emit(1, width)


def emit_column(r: FunctionBuilder, s: Matmul) -> None:
    """Emit ``s`` with a dense column as its result: a row, if both operands change places."""
    target = replace(s.target, rows=1, row_step=s.target.rows, dims=((1, s.target.rows),))
    by_columns, r.by_columns = r.by_columns, bool(r.per_partition(s.target.rows))
    emit_few_rows(r, Matmul(target, s.right, s.left, s.accumulate, s.by_groups))
    r.by_columns = by_columns


def _as_float32(r: FunctionBuilder, memref: MemRef) -> MemRef:
    """The stationary operand as float32, converted in scratch memory if it is narrow."""
    if memref.dtype is dt.float32:
        return memref
    result = r.scratch_like(MemRef(0, 0, memref.rows, 0, memref.dims, dt.float32))
    load = load_of(memref)
    emit_assign(r, Assign(result, Expr("cast", dt.float32, memref.rows, memref.columns, (load,))))
    return result


class _Block:
    """The matmul of ``rows`` and of columns from ``here`` on; its sums stay in registers."""

    def __init__(self, r: FunctionBuilder, s: Matmul, left: MemRef, rows: range, here: Value) -> None:
        self.r, self.s, self.left, self.rows, self.here = r, s, left, rows, here

    def emit(self, vectors: int, width: int) -> None:
        """Emit the matmul for ``vectors`` vectors of ``width`` columns."""
        r, b, s = self.r, self.r.b, self.s
        kind = ir.VectorType(F32, width) if width > 1 else F32
        sums = [[r.local(kind, constant(kind, 0.0)) for _ in range(vectors)] for _ in self.rows]
        starts = [self._moving(vector * width) for vector in range(vectors)]
        left, right = self.left, s.right

        def step(k: Value) -> None:
            shift = b.mul(k, i64(right.row_step * right.dtype.itemsize))
            stored = storage_type(right.dtype, width)
            loaded = [b.load(r.move(at, shift), typ=stored, align=right.dtype.itemsize) for at in starts]
            self._fetch(starts[0], k, vectors * width * right.dtype.itemsize)
            columns = [decode(b, vector, right.dtype) for vector in loaded]
            weights = r.move(r.address(left), b.mul(k, i64(4 * left.row_step)))
            for row, totals in zip(self.rows, sums, strict=True):
                weight = splat(b, b.load(r.move(weights, i64(4 * row)), typ=F32, align=4), kind)
                for column, total in zip(columns, totals, strict=True):
                    b.store(intrinsic(b, "fma", kind, [weight, column, b.load(total, typ=kind)]), total)

        if s.by_groups:
            self._by_groups(sums, step)
        else:
            r.counted_loop(left.rows, 1, step)
        for row, totals in zip(self.rows, sums, strict=True):
            for vector, total in enumerate(totals):
                offset = b.add(self.here, i64(row * s.target.row_step + vector * width))
                place = r.move(r.address(s.target), b.mul(offset, i64(4)))
                value = b.load(total, typ=kind)
                if s.accumulate:
                    value = b.fadd(b.load(place, typ=kind, align=4), value)
                b.store(canonical_nan(b, value), place, align=4)

    def _by_groups(self, sums: list[list[Value]], step: Callable[[Value], None]) -> None:
        """Run ``step``, which adds to ``sums``, for all rows, by groups."""
        r, b, depth = self.r, self.r.b, self.left.rows
        slots = [slot for each in sums for slot in each]
        kind = slots[0].allocated_type
        zero = constant(kind, 0.0)
        totals = [r.local(kind, zero) for _ in slots]

        def chain(first: Value, count: int) -> list[Value]:
            """The sums of ``count`` rows, which are 0 again afterwards."""
            r.counted_loop(count, 1, lambda k: step(b.add(first, k)))
            results = [b.load(slot, typ=kind) for slot in slots]
            for slot in slots:
                b.store(zero, slot)
            return results

        def group(first: Value, count: int) -> None:
            results = chain(first, min(count, CHAIN))
            if count > CHAIN:
                second = chain(b.add(first, i64(CHAIN)), count - CHAIN)
                results = [b.fadd(one, two) for one, two in zip(results, second, strict=True)]
            for total, result in zip(totals, results, strict=True):
                b.store(b.fadd(b.load(total, typ=kind), result), total)

        whole = depth // (2 * CHAIN)
        r.counted_loop(whole, 1, lambda number: group(b.mul(number, i64(2 * CHAIN)), 2 * CHAIN))
        if rest := depth % (2 * CHAIN):
            group(i64(whole * 2 * CHAIN), rest)
        for slot, total in zip(slots, totals, strict=True):
            b.store(b.load(total, typ=kind), slot)

    def _fetch(self, start: Value, k: Value, nbytes: int) -> None:
        """Fetch the block's bytes of the row :data:`_ROWS_AHEAD` later, after the last row the bytes of the next
        block.
        """
        b, right = self.r.b, self.s.right
        if nbytes > _FETCHED or len(right.dims) > 1:
            return
        later = b.add(k, i64(min(_ROWS_AHEAD, right.rows)))
        beyond = b.icmp_signed(">=", later, i64(right.rows))
        row = b.select(beyond, b.sub(later, i64(right.rows)), later)
        shift = b.add(b.mul(row, i64(right.row_step * right.dtype.itemsize)), b.select(beyond, i64(nbytes), i64(0)))
        for line in range(0, nbytes, LINE):
            prefetch(b, self.r.move(start, b.add(shift, i64(line))))

    def _moving(self, column: int) -> Value:
        """The address of the moving operand's first row, ``column`` columns behind the first one of the block."""
        b, right = self.r.b, self.s.right
        offset = b.add(self.here, i64(column))
        if len(right.dims) > 1:
            (step, _), (_, panel) = right.dims
            number = b.sdiv(offset, i64(panel))
            offset = b.add(b.mul(number, i64(step)), b.sub(offset, b.mul(number, i64(panel))))
        return self.r.move(self.r.address(right), b.mul(offset, i64(right.dtype.itemsize)))
