"""Skinny matmuls, of few rows or of one column (gemv).

The moving operand is read once, where it lies, and converted in registers. Such a matmul is bound by memory: to copy
or to convert that operand first would take longer than the matmul. The columns of the result do not depend on each
other; a routine may take a range of them where others take a range of partitions.

Routines call micro-kernels (:class:`_Kernel`) that are told sizes and distances: written into each routine, the code
of one took LLVM 0.24 s, and a kernel may have ten of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import decode, storage_type
from nki.backend.cpu.codegen.elementwise_loops import emit_assign
from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.kernel_ir.nodes import Assign, Expr, Matmul, MemRef, load_of
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.numerics.llvm import (
    F32,
    I8,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    Vectors,
    constant,
    element,
    i64,
    intrinsic,
    prefetch,
    smaller,
    splat,
    steps,
    taken,
    while_,
    write_sums,
)
from nki.numerics.llvm_jit import Module, Passes, engine
from nki.numerics.matmul.contract import CHAIN

_SUMS: Final = {4: 24, 8: 10, 16: 24}
"""Sums that stay in registers, in vectors, by the lanes of a vector; operands need registers as well."""
_MOST_VECTORS: Final = 16
"""Vectors of columns side by side: more would not make the reads of a row longer than memory likes."""
_LEAST_VECTORS: Final = 3
"""Vectors of columns for each stationary element that is loaded; where that needs too many sums, rows are taken in
turns.
"""
_SUMS_OF_BYTES: Final = {4: 24, 8: 8, 16: 24}
_LEAST_OF_BYTES: Final = {4: 3, 8: 1, 16: 3}
"""The same for a moving operand of 8-bit numbers, by the lanes of a vector: to convert a vector takes as long as five
products and constants in registers, so that AVX2 converts one for up to eight rows.
"""
_FETCHED: Final = 512
"""Bytes of a row of a block up to which rows are fetched in advance: the processor sees no pattern in them."""
_ROWS_AHEAD: Final = 32
"""Rows that are fetched in advance; far more of a power of two in length would not fit the sets of the cache."""
_ARGUMENTS: Final = (POINTER, I64, POINTER, I64, POINTER, *[I64] * 6)


def emit_few_rows(r: FunctionBuilder, s: Matmul) -> None:
    """Emit ``s``, for the columns in the routine's range if it has one."""
    left, right = _as_float32(r, s.left), s.right
    columns = (r.first, r.last) if r.by_columns else (i64(0), i64(s.target.columns))
    panels = i64(right.dims[0][0] if len(right.dims) > 1 else 0)
    moving = [r.address(right), i64(right.row_step), panels]
    for first, kernel in _kernels(s, r.lanes):
        stationary = [r.move(r.address(left), i64(4 * first)), i64(left.row_step)]
        place = r.move(r.address(s.target), i64(4 * first * s.target.row_step))
        sizes = [*columns, i64(left.rows), i64(int(s.accumulate))]
        address = engine().fixed(*kernel.module)[kernel.name]
        r.call(address, [place, i64(s.target.row_step), *stationary, *moving, *sizes])


def emit_column(r: FunctionBuilder, s: Matmul) -> None:
    """Emit ``s`` with a dense column as its result: a row, if both operands change places."""
    by_columns, r.by_columns = r.by_columns, bool(r.per_partition(s.target.rows))
    emit_few_rows(r, _as_row(s))
    r.by_columns = by_columns


def skinny_modules(s: Matmul) -> list[Module]:
    """The modules with the micro-kernels that ``s``, of few rows or of one column, calls."""
    row = s if s.has_few_rows else _as_row(s)
    return [kernel.module for kernel in dict.fromkeys(kernel for _, kernel in _kernels(row, engine().vector_width))]


def _as_row(s: Matmul) -> Matmul:
    target = replace(s.target, rows=1, row_step=s.target.rows, dims=((1, s.target.rows),))
    return Matmul(target, s.right, s.left, s.accumulate, s.by_groups)


def _kernels(s: Matmul, lanes: int) -> list[tuple[int, _Kernel]]:
    """The micro-kernels of ``s``, each with its first row."""
    rows, panel = s.target.rows, s.right.dims[1][1] if len(s.right.dims) > 1 else 0
    are_bytes = s.right.dtype.itemsize == 1
    sums, least = (_SUMS_OF_BYTES[lanes], _LEAST_OF_BYTES[lanes]) if are_bytes else (_SUMS[lanes], _LEAST_VECTORS)
    blocks = -(-rows // (sums // least))
    height = -(-rows // blocks)
    vectors = min(_MOST_VECTORS, sums // height)  # of the last rows, too: the cache lines are the same ones
    is_ragged = s.target.columns % lanes != 0
    return [
        (first, _Kernel(s.right.dtype, min(height, rows - first), vectors, lanes, s.by_groups, panel, is_ragged))
        for first in range(0, rows, height)
    ]


def _as_float32(r: FunctionBuilder, memref: MemRef) -> MemRef:
    """The stationary operand as float32, converted in scratch memory if it is narrow."""
    if memref.dtype is dt.float32:
        return memref
    result = r.scratch_like(MemRef(0, 0, memref.rows, 0, memref.dims, dt.float32))
    load = load_of(memref)
    emit_assign(r, Assign(result, Expr("cast", dt.float32, memref.rows, memref.columns, (load,))))
    return result


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A micro-kernel, compiled once for all matmuls that differ in sizes and distances alone.

    ::

        void NAME(float *out, i64 ldo, const float *stationary, i64 lds, const void *moving, i64 ldm, i64 panels,
                  i64 first, i64 last, i64 depth, i64 accumulate)

    Of ``rows`` rows of the result, the columns from ``first`` to ``last``, up to ``vectors`` vectors of them at a time.
    ``ldo``, ``lds`` and ``ldm`` count elements from row to row, ``panels`` elements from one panel of ``panel`` columns
    of ``moving``, which is of ``dtype``, to the next; with ``panel`` 0 rows are plain. ``is_ragged``: the columns need
    not be whole vectors.
    """

    dtype: DType
    rows: int
    vectors: int
    lanes: int
    by_groups: bool
    panel: int
    is_ragged: bool

    @property
    def name(self) -> str:
        """Its name, which is the module's, too."""
        words = [f"nki_skinny_{self.dtype.name}_{self.rows}x{self.vectors}x{self.lanes}"]
        words += ["by_groups"] * self.by_groups + [f"panels_{self.panel}"] * (self.panel > 0)
        return "_".join(words + ["ragged"] * self.is_ragged)

    @property
    def module(self) -> Module:
        """The module with it alone."""
        return self.name, self._made, Passes.brief

    def _made(self) -> str:
        module = ir.Module(self.name)
        function = ir.Function(module, ir.FunctionType(VOID, _ARGUMENTS), self.name)
        b = ir.IRBuilder(function.append_basic_block())
        column = Variable(b, start=function.args[7])
        for vectors in (self.vectors, *(v for v in (8, 4, 2, 1) if v < self.vectors)):
            self._columns(b, function, column, vectors, self.lanes)
        for width in (w for w in (8, 4, 2, 1) if self.is_ragged and w < self.lanes):
            self._columns(b, function, column, 1, width)
        b.ret_void()
        return taken(module)

    def _columns(self, b: Builder, function: ir.Function, column: Variable, vectors: int, width: int) -> None:
        """Blocks of ``vectors`` vectors of ``width`` columns, as many as fit."""
        with steps(b, function.args[8], vectors * width, column) as here:
            _Block(b, self, function.args, vectors, width).emit(here)


class _Block:
    """The matmul of ``vectors`` vectors of ``width`` columns; its sums stay in registers."""

    def __init__(self, b: Builder, kernel: _Kernel, args: Sequence[Value], vectors: int, width: int) -> None:
        self.b, self.kernel, self.vectors, self.width = b, kernel, vectors, width
        self.out, self.ldo, self.stationary, self.lds, self.moving, ldm, self.panels = args[:7]
        self.depth, self.accumulate = args[9:]
        self.kind = ir.VectorType(F32, width) if width > 1 else F32
        self.pitch = b.mul(ldm, i64(kernel.dtype.itemsize))
        self.row, self.weights, self.shift = Variable(b), Variable(b, POINTER), Variable(b)

    def emit(self, here: Value) -> None:
        """Emit the matmul for columns from ``here`` on."""
        b, rows = self.b, self.kernel.rows
        starts = [self._moving(here, vector * self.width) for vector in range(self.vectors)]
        self.row.set(i64(0))
        self.weights.set(self.stationary)
        self.shift.set(i64(0))
        step = partial(self._step, starts, self._distances())
        sums = self._by_groups(step) if self.kernel.by_groups else self._chain(self.depth, step)
        adds = b.icmp_signed("!=", self.accumulate, i64(0))
        out = Matrix(self.out, self.ldo)
        places = [
            out.at(b, i64(row), b.add(here, i64(vector * self.width)))
            for row in range(rows)
            for vector in range(self.vectors)
        ]
        v = Vectors(b, self.width)
        write_sums(b, adds, [(v, total, place) for total, place in zip(sums, places, strict=True)])

    def _sums(self, number: float = 0.0) -> list[Variable]:
        return [
            Variable(self.b, self.kind, constant(self.kind, number)) for _ in range(self.kernel.rows * self.vectors)
        ]

    def _step(self, starts: Sequence[Value], ahead: tuple[Value, Value, Value], sums: Sequence[Variable]) -> None:
        """Add the products of one row of both operands to ``sums``, and go on to the next row."""
        b, dtype = self.b, self.kernel.dtype
        shift, weights = self.shift.get(), self.weights.get()
        stored = storage_type(dtype, self.width)
        loaded = [b.load(_moved(b, at, shift), typ=stored, align=dtype.itemsize) for at in starts]
        self._fetch(starts[0], shift, ahead)
        columns = [decode(b, vector, dtype) for vector in loaded]
        slots = iter(sums)
        for row in range(self.kernel.rows):
            weight = splat(b, b.load(element(b, weights, row), typ=F32, align=4), self.kind)
            for column in columns:
                total = next(slots)
                total.set(intrinsic(b, "fma", self.kind, [weight, column, total.get()]))
        self.row.set(b.add(self.row.get(), i64(1)))
        self.weights.set(element(b, weights, self.lds))
        self.shift.set(b.add(shift, self.pitch))

    def _chain(self, stop: Value, step: Callable[[Sequence[Variable]], None]) -> list[Value]:
        """The sums of the rows before ``stop`` that are left."""
        sums = self._sums()
        with while_(self.b, lambda: self.b.icmp_signed("<", self.row.get(), stop)):
            step(sums)
        return [total.get() for total in sums]

    def _by_groups(self, step: Callable[[Sequence[Variable]], None]) -> list[Value]:
        """The sums of all rows, by groups of two chains."""
        b, totals = self.b, self._sums()
        with while_(b, lambda: b.icmp_signed("<", self.row.get(), self.depth)):
            group = self._sums(-0.0)  # to which a number is added without a change
            end = smaller(b, b.add(self.row.get(), i64(2 * CHAIN)), self.depth)
            with while_(b, lambda: b.icmp_signed("<", self.row.get(), end)):
                chain = self._chain(smaller(b, b.add(self.row.get(), i64(CHAIN)), end), step)
                for total, one in zip(group, chain, strict=True):
                    total.set(b.fadd(total.get(), one))
            for total, one in zip(totals, group, strict=True):
                total.set(b.fadd(total.get(), one.get()))
        return [total.get() for total in totals]

    def _distances(self) -> tuple[Value, Value, Value]:
        """For :meth:`_fetch`: rows that have one ahead, bytes to that, and bytes to a row of the next block instead."""
        b = self.b
        ahead = smaller(b, self.depth, _ROWS_AHEAD)
        rows = b.sub(self.depth, ahead)
        return rows, b.mul(ahead, self.pitch), b.sub(i64(self._nbytes), b.mul(rows, self.pitch))

    @property
    def _nbytes(self) -> int:
        return self.vectors * self.width * self.kernel.dtype.itemsize

    def _fetch(self, start: Value, shift: Value, ahead: tuple[Value, Value, Value]) -> None:
        """Fetch the block's bytes of the row :data:`_ROWS_AHEAD` later, after the last row the bytes of the next
        block.
        """
        b, (rows, onward, following) = self.b, ahead
        if self._nbytes > _FETCHED or self.kernel.panel:
            return
        beyond = b.icmp_signed(">=", self.row.get(), rows)
        shift = b.add(shift, b.select(beyond, following, onward))
        for line in range(0, self._nbytes, LINE):
            prefetch(b, _moved(b, start, b.add(shift, i64(line))))

    def _moving(self, here: Value, column: int) -> Value:
        """The address of the moving operand's first row, ``column`` columns behind ``here``."""
        b, panel = self.b, self.kernel.panel
        offset = b.add(here, i64(column))
        if panel:
            number = b.sdiv(offset, i64(panel))
            offset = b.add(b.mul(number, self.panels), b.sub(offset, b.mul(number, i64(panel))))
        return _moved(b, self.moving, b.mul(offset, i64(self.kernel.dtype.itemsize)))


def _moved(b: Builder, pointer: Value, nbytes: Value) -> Value:
    return element(b, pointer, nbytes, I8)
