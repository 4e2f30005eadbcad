"""Builds the kernel IR of an instruction: its ``semantics`` run over expressions.

Stores, reductions and matmuls become statements. What a statement cannot read directly (the input of a
reduction, a pattern that fits no loop) goes through scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from nki.backend.cpu.kernel_ir.flatten_dma import rows_of_flat
from nki.backend.cpu.kernel_ir.nodes import (
    FEW_ROWS,
    NARROW,
    SCRATCH,
    Assign,
    Call,
    CallName,
    Dims,
    Expr,
    ExprKind,
    LoopStatement,
    Matmul,
    MemRef,
    Param,
    Print,
    Reduce,
    Scan,
    load_of,
    loads,
)
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.algebra import Step, column_of, last_of, reinterpreted
from nki.ir.layout import DENSE
from nki.ir.types import Access, coalesced
from nki.isa.tables.alu_operators import BITS
from nki.numerics.matmul.contract import BLOCK, GROUP, MOST_ROWS, PANEL, adds_by_groups
from nki.numerics.matmul.host import bf16_unit, columns_of_block


@dataclass
class KernelIRBuilder:
    """The algebra over expressions, and the statements that it has built."""

    copied: frozenset[int] = frozenset()
    """Operands to copy to scratch memory before anything is written."""
    statements: list[LoopStatement] = field(default_factory=list[LoopStatement])
    scratch_bytes: int = 0

    # Primitives

    def load(self, source: Access | float | Param) -> Expr:
        if not isinstance(source, Access):
            return self.const(source, dt.float32)
        return self._loaded(self._memref_of(source))

    def const(self, value: Any, dtype: DType) -> Expr:
        return Expr("value", dtype, 1, 1, value=value)

    def flat(self, source: Access) -> Expr:
        return self._loaded(self._memref_of(source, flat=True))

    def store(self, target: Access, value: Expr) -> None:
        if target.one_place():
            whole = value.rows == 1 and value.columns == target.size
            value = self.reshape(value, target.partitions) if whole else value
            target, value = last_of(target), self.strided(value, value.columns - 1, 1, 1)
        rows, columns = target.partitions, target.free_elements
        flat = value.rows == 1 and rows > 1 and value.columns == target.size
        memref = self._memref_of(target, flat)
        if memref.rows == 1 and (by_rows := rows_of_flat(memref, value, rows)) is not None:
            self.statements.append(Assign(*by_rows))
            return
        if memref.dtype is dt.float32 and memref.dense_rows and (matmul := _matmul(value, memref)):
            left, right = self._factors(matmul)
            by_groups = matmul.op == "groups"
            self.statements.append(Matmul(memref, left, right, matmul is not value, by_groups))
            return
        if not flat and not (value.rows in (1, rows) and value.columns in (1, columns)):
            shape = f"{value.rows} x {value.columns}"  # a raise also under `python -O`: the code would leave the tile
            raise AssertionError(f"{shape} elements are stored in {rows} x {columns}")
        self.statements.append(Assign(memref, self._compute_products(value)))

    def store_bits(self, target: Access, value: Expr) -> None:
        self.store(reinterpreted(target, value.dtype), value)

    def cast(self, value: Expr, dtype: DType) -> Expr:
        if value.dtype is dtype:
            return value
        return Expr("cast", dtype, value.rows, value.columns, (value,))

    def narrow(self, value: Expr, dtype: DType) -> Expr:
        if not dtype.is_integer:
            return self.cast(value, dtype)
        return Expr("narrow", dtype, value.rows, value.columns, (value,))

    def alu(self, op: str, left: Expr, right: Expr | None = None) -> Expr:
        stored = (left,) if right is None else (left, right)
        args = stored if op in BITS else tuple(self.cast(a, dt.float32) for a in stored)
        return _broadcast("alu", left.dtype if op in BITS else dt.float32, args, op)

    def integer(self, op: str, left: Expr, right: Expr, dtype: DType) -> Expr:
        return _broadcast("integer", dtype, (left, right), op)

    def act(self, function: str, value: Expr, parameter: Expr | None = None) -> Expr:
        args = (value,) if parameter is None else (value, parameter)
        return _broadcast("act", dt.float32, tuple(self.cast(a, dt.float32) for a in args), function)

    def reduce(self, op: str, value: Expr, groups: int = 1, start: Expr | None = None) -> Expr:
        return self._reduce(op, value, groups, False, start)

    def reduce_partitions(self, op: str, value: Expr) -> Expr:
        return self._reduce(op, value, 1, True)

    def scan(self, steps: tuple[Step, ...], values: tuple[Expr, ...], start: Expr) -> Expr:
        sources = tuple(self._dense_panel(self.cast(value, dt.float32)) for value in values)
        init = self._dense_panel(self.cast(start, dt.float32))
        memref = self.new_scratch(max(p.rows for p in sources), max(p.columns for p in sources), dt.float32)
        self.statements.append(Scan(memref, sources, init, steps))
        return load_of(memref)

    def top8(self, value: Expr) -> Expr:
        source = self._dense_panel(self.cast(value, dt.float32))
        return self._call("top8", self.new_scratch(source.rows, 8, dt.float32), (source,), (source.columns,))

    def find(self, value: Expr, wanted: Expr, last_first: bool) -> Expr:
        source, panel = (self._dense_panel(self.cast(expr, dt.float32)) for expr in (value, wanted))
        places = self.new_scratch(source.rows, panel.columns, dt.uint32)
        return self._call("find", places, (source, panel), (source.columns, int(last_first)))

    def put(self, target: Access, places: Expr, value: Expr) -> None:
        sources = self._dense_panel(places), self.materialize(value)
        memref = self._memref_of(target)
        is_strided = len(memref.dims) == 1
        within = memref if is_strided else self.materialize(load_of(memref), copy=True)
        ((step, count),) = within.dims
        self._call("put", within, sources, (count, sources[0].columns, step, within.dtype.itemsize))
        if not is_strided:
            self.statements.append(Assign(memref, load_of(within)))

    def matmul(self, stationary: Expr, moving: Expr) -> Expr:
        args = (self.cast(stationary, dt.float32), self.cast(moving, dt.float32))
        op = "groups" if adds_by_groups(stationary.dtype, moving.dtype) else ""
        return Expr("matmul", dt.float32, stationary.columns, moving.columns, args, op)

    def transpose(self, value: Expr) -> Expr:
        memref = self._single_stride(value)
        step, count = memref.dims[0]
        dims = coalesced([(memref.row_step, memref.rows)])
        return load_of(replace(memref, rows=count, row_step=step, dims=dims))

    def iota(self, pattern: Dims, offset: Any, channel_multiplier: Any, partitions: int) -> Expr:
        columns = math.prod(count for _, count in pattern)
        dims = coalesced(pattern)
        return Expr("iota", dt.int32, partitions, columns, value=(dims, offset, channel_multiplier))

    def select(self, condition: Expr, yes: Expr, no: Expr) -> Expr:
        return _broadcast("select", yes.dtype, (self.cast(condition, dt.float32), yes, no))

    def strided(self, value: Expr, start: int, step: int, count: int | None = None) -> Expr:
        if value.kind == "cast":
            return self.cast(self.strided(value.args[0], start, step, count), value.dtype)
        memref = self._single_stride(value)
        inner, whole = memref.dims[0]
        columns = count or (whole - start + step - 1) // step
        offset = memref.offset + start * inner * memref.dtype.itemsize
        return load_of(replace(memref, offset=offset, dims=((inner * step, columns),)))

    def bits(self, value: Expr, dtype: DType) -> Expr:
        return Expr("bits", dtype, value.rows, value.columns, (value,))

    def unpack(self, value: Expr, index: int) -> Expr:
        return Expr("unpack", dt.float32, value.rows, value.columns, (value,), value=index)

    def pack(self, values: Sequence[Expr], dtype: DType) -> Expr:
        return _broadcast("pack", dtype, tuple(values))

    def stack(self, values: Sequence[Expr], partitions: int) -> Expr:
        columns = sum(v.rows * v.columns for v in values) // partitions
        memref = self.new_scratch(partitions, columns, values[0].dtype)
        offset = memref.offset
        for value in values:
            part = MemRef(SCRATCH, offset, value.rows, value.columns, ((1, value.columns),), memref.dtype)
            self.statements.append(Assign(part, self._compute_products(value)))
            offset += value.rows * value.columns * memref.dtype.itemsize
        return load_of(memref)

    def show(self, prefix: str, value: Expr, shape: tuple[int, ...]) -> None:
        self.statements.append(Print(self.materialize(value, copy=True), prefix, shape))

    def reshape(self, value: Expr, partitions: int) -> Expr:
        memref = self.materialize(value, copy=True)
        columns = value.rows * value.columns // partitions
        return load_of(replace(memref, rows=partitions, row_step=columns, dims=((1, columns),)))

    def gather(self, value: Expr, index: Expr) -> Expr:
        memref = self._single_stride(value)
        first_element = replace(memref, dims=((1, 1),))
        rows = max(value.rows, index.rows)
        return Expr("gather", value.dtype, rows, index.columns, (index,), memref=first_element, value=memref.dims[0])

    def nonzero(self, value: Expr) -> Expr:
        source = self._dense_panel(self.cast(value, dt.float32))
        return self._call(
            "nonzero", self.new_scratch(value.rows, value.columns + 1, dt.int32), (source,), (source.columns,)
        )

    def ranked(self, value: Expr, count: int) -> Expr:
        places = self.new_scratch(value.rows, count, dt.int32)
        pairs = self.new_scratch(2, 2 * value.columns, dt.uint32)  # of key and position, before and after a pass
        source = self._dense_panel(value if value.dtype is dt.bfloat16 else self.cast(value, dt.float32))
        return self._call("ranked", places, (source,), (source.columns, count, source.dtype.itemsize), pairs)

    def xorwow(self, state: Expr, count: int) -> tuple[Expr, Expr]:
        generators = state.columns // 6
        numbers = self.new_scratch(state.rows, -(-count // generators) * generators, dt.uint32)
        after = self.new_scratch(state.rows, state.columns, dt.uint32)
        before = self._dense_panel(state)
        self.statements.append(Call("xorwow", (numbers, after), (before,), (numbers.columns, generators)))
        return load_of(replace(numbers, dims=((1, count),))), load_of(after)

    def column(self, target: Access, index: int) -> Access:
        return column_of(target, index)

    # Helpers

    def _call(
        self, name: CallName, target: MemRef, sources: tuple[MemRef, ...], numbers: tuple[int, ...], *work: MemRef
    ) -> Expr:
        self.statements.append(Call(name, (target,), sources, numbers, work))
        return load_of(target)

    def _memref_of(self, access: Access, flat: bool = False) -> MemRef:
        """The memory of ``access``, by partitions or as one sequence of elements."""
        offset, (rows, *inner) = _in_memory(access)
        count, ((row_step, _),) = (1, ((0, 1),)) if flat else (access.partitions, rows)
        dims = coalesced(chain.from_iterable([rows, *inner] if flat else inner))
        return MemRef(int(access.tensor.name), offset, count, row_step, dims, access.dtype, access.tensor.layout)

    def _loaded(self, memref: MemRef) -> Expr:
        return load_of(self.materialize(load_of(memref), copy=True) if memref.base in self.copied else memref)

    def new_scratch(self, rows: int, columns: int, dtype: DType) -> MemRef:
        """Allocate a dense tile in scratch memory."""
        memref = MemRef(SCRATCH, self.scratch_bytes, rows, columns, ((1, columns),), dtype)
        self.scratch_bytes += -(-rows * columns * dtype.itemsize // 64) * 64
        return memref

    def materialize(self, expr: Expr, copy: bool = False) -> MemRef:
        """The memory of ``expr``, which becomes a load of scratch memory unless it is a load; even then if ``copy``."""
        if expr.kind != "load" or copy:
            value = replace(self._compute_products(expr))
            memref = self.new_scratch(expr.rows, expr.columns, expr.dtype)
            self.statements.append(Assign(memref, value))
            expr.kind, expr.args, expr.memref = "load", (), memref
        assert expr.memref is not None
        return expr.memref

    def _compute_products(self, expr: Expr) -> Expr:
        """Compute every matmul in ``expr`` into scratch memory; gives ``expr``."""
        if expr.kind == "matmul":
            left, right = self._factors(expr)
            memref = self.new_scratch(expr.rows, expr.columns, dt.float32)
            self.statements.append(Matmul(memref, left, right, False, expr.op == "groups"))
            expr.kind, expr.args, expr.memref = "load", (), memref
        for arg in expr.args:
            self._compute_products(arg)
        return expr

    def _factors(self, matmul: Expr) -> tuple[MemRef, MemRef]:
        """The memory of both operands of a matmul, materialized as float32 if the matmul cannot read it."""
        left, right = matmul.args
        transposed = _transposed(left) if matmul.op == "groups" and matmul.columns > 1 else _blocks(matmul)
        return transposed or self._factor(left, False), self._factor(right, True)

    def _factor(self, expr: Expr, may_be_panels: bool) -> MemRef:
        inner = expr.args[0] if expr.kind == "cast" and expr.args[0].dtype in NARROW else expr
        if inner.kind == "load" and inner.memref is not None:
            memref = inner.memref
            if memref.dense_rows or (may_be_panels and memref.in_panels):
                return memref
            if inner is not expr:  # the matmul converts it; it may have instructions for narrow operands
                return self.materialize(inner, copy=True)
        return self._dense_panel(expr)

    def _dense_panel(self, expr: Expr) -> MemRef:
        """The memory of ``expr``, materialized if its rows are not dense; tfloat32 is stored as float32."""
        inner = expr.args[0] if expr.kind == "cast" and expr.args[0].dtype is dt.tfloat32 else expr
        if inner.kind == "load" and inner.memref is not None and inner.memref.dense_rows:
            return inner.memref
        memref = self.materialize(expr)
        return memref if memref.dense_rows else self.materialize(expr, copy=True)

    def _single_stride(self, expr: Expr) -> MemRef:
        """The memory of ``expr``, materialized if that has more than one dimension per partition."""
        memref = self.materialize(expr)
        return memref if len(memref.dims) == 1 else self.materialize(expr, copy=True)

    def exchange(self, value: Expr, to: int, source: int, pipe: int) -> Expr:  # noqa: ARG002  # see below
        """The identity: a core sends to itself. Exchanges between cores were lowered to copies and barriers before."""
        return value

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        """Nothing: a core waits for itself."""

    def _reduce(self, op: str, value: Expr, groups: int, cross_partition: bool, start: Expr | None = None) -> Expr:
        init = None if start is None else load_of(self.materialize(self.cast(start, dt.float32)))
        value = value if op in BITS else self.cast(value, dt.float32)
        # An expression is worth a vector loop of its own; a reduction over partitions is one itself.
        inner = value.args[0] if value.kind == "cast" else value
        if inner.kind != "load" and (not cross_partition or any(expr.kind == "gather" for expr in loads(value))):
            self.materialize(value)
        rows, columns = (1, value.columns) if cross_partition else (value.rows, groups)
        memref = self.new_scratch(rows, columns, value.dtype)
        self.statements.append(Reduce(memref, self._compute_products(value), op, groups, cross_partition, init))
        return load_of(memref)


def _in_memory(access: Access) -> tuple[int, Sequence[Dims]]:
    """The byte of the first element of ``access``, and its steps in memory for each of its dimensions."""
    tensor, size = access.tensor, access.dtype.itemsize
    if tensor.layout is DENSE:
        return access.offset * size, [(step,) for step in access.pattern()]
    sizes = tensor.shape[0], tensor.free_size
    dims = tensor.layout.steps(*sizes, access.offset, access.pattern())
    assert dims is not None, "a tile has a layout in which all accesses to it have steps"
    return tensor.layout.place(*sizes, access.offset) * size, dims


def _transposed(factor: Expr) -> MemRef | None:
    """The memory of a stationary operand that was not transposed, if matmuls in words can read it.

    One that was packed for them lies the same way.
    """
    inner = factor.args[0] if factor.kind == "cast" else factor
    memref = inner.memref if inner.kind == "load" else None
    if memref is None or memref.dtype is not dt.bfloat16 or not memref.is_turned:
        return None
    if memref.rows > MOST_ROWS:
        return None
    return memref if memref.rows % GROUP == memref.columns % PANEL == 0 and bf16_unit() is not None else None


def _blocks(matmul: Expr) -> MemRef | None:
    """The memory of a stationary operand in blocks, if the matmul can read it."""
    left = matmul.args[0]
    if left.kind != "load" or left.memref is None or not left.memref.in_blocks:
        return None
    is_large = matmul.rows > FEW_ROWS and matmul.columns >= PANEL and left.memref.rows > 1
    return left.memref if is_large and columns_of_block() == BLOCK else None


def _broadcast(kind: ExprKind, dtype: DType, args: tuple[Expr, ...], op: str = "") -> Expr:
    """An element-wise expression of the largest size among ``args``."""
    return Expr(kind, dtype, max(a.rows for a in args), max(a.columns for a in args), args, op)


def _matmul(value: Expr, memref: MemRef) -> Expr | None:
    """The matmul that can be written, or added, to ``memref`` directly."""
    if value.kind == "matmul":
        return value
    if value.kind == "alu" and value.op == "add" and value.args[1].kind == "matmul" and value.args[0].memref == memref:
        return value.args[1]
    return None
