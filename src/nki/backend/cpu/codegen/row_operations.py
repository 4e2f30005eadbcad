"""Operations that walk the elements of each partition one after the other: scans, and calls of functions in C."""

from __future__ import annotations

from functools import partial
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.loop_nests import CountedLoop
from nki.backend.cpu.kernel_ir.nodes import Call, MemRef, Scan
from nki.backend.cpu.native import library
from nki.base import element_types as dt
from nki.numerics.functions import emit_alu, operations
from nki.numerics.llvm import F32, I64, canonical_nan

_CHAINS: Final = 4
"""Partitions side by side, so that an operation need not wait for the one before it. More of them would not help: rows
of a power of two elements share one set of the cache.
"""
_MOST_OPERATIONS: Final = 100
"""Operations of an operator; longer ones leave nothing to wait for."""


def emit_call(r: FunctionBuilder, s: Call) -> None:
    """Emit ``s``, of ``native/row_operations.c``, for the partitions of the routine's range.

    The function gets an address and a row step of each dense matrix, targets first, the number of their rows, the
    numbers, and the addresses of the memory to work in.
    """
    arguments: list[Value] = []
    for matrix in (*s.targets, *s.sources):
        step = matrix.row_step if matrix.rows > 1 else matrix.columns
        arguments += [r.first_row(matrix), ir.Constant(I64, step)]
    _, rows = r.rounds(CountedLoop(s.target.rows, (), r.per_partition(s.target.rows)))
    numbers = [ir.Constant(I64, number) for number in s.numbers]
    r.call(library.address(s.function, "row_operations"), [*arguments, rows, *numbers, *map(r.address, s.work)])


def emit_scan(r: FunctionBuilder, s: Scan) -> None:
    """Emit ``s``, a few partitions side by side."""
    is_long = any(operations("alu", step.op) > _MOST_OPERATIONS for step in s.steps)
    rows, sizes = s.target.rows, (1,) if is_long else (_CHAINS, 1)
    r.tiled_loop(rows, sizes, partial(_rows, r, s), r.per_partition(rows))


def _rows(r: FunctionBuilder, s: Scan, first: Value, count: int) -> None:
    """The states of ``count`` partitions from ``first`` on."""
    b = r.b
    rows = [b.add(first, ir.Constant(I64, number)) for number in range(count)]
    out, init, *sources = ([_row(r, memref, row) for row in rows] for memref in (s.target, s.init, *s.sources))
    states = [r.local(F32, b.load(pointer, typ=F32, align=4)) for pointer in init]

    def element(index: Value) -> None:
        for number, state in enumerate(states):
            total = b.load(state, typ=F32)
            for step, memref, pointers in zip(s.steps, s.sources, sources, strict=True):
                at = _element(r, pointers[number], index) if memref.columns > 1 else pointers[number]
                value = b.load(at, typ=F32, align=4)
                total = emit_alu(b, step.op, *((total, value) if step.state_first else (value, total)))
            b.store(total, state)
            b.store(total, _element(r, out[number], index), align=4)

    r.counted_loop(s.target.columns, 1, element)
    # In vectors and from the cache, which is faster than to look at each element for itself.
    r.tiled_loop(s.target.columns, (r.lanes, 1), partial(_settle, r, out))


def _settle(r: FunctionBuilder, rows: list[Value], index: Value, width: int) -> None:
    """Write the canonical NaN for every NaN among ``width`` elements of each of the ``rows``, from ``index`` on."""
    for row in rows:
        place = _element(r, row, index)
        states = r.b.load(place, typ=storage_type(dt.float32, width), align=4)
        r.b.store(canonical_nan(r.b, states), place, align=4)


def _row(r: FunctionBuilder, memref: MemRef, row: Value) -> Value:
    """The address of partition ``row``; the only one serves all."""
    step = memref.row_step * memref.dtype.itemsize if memref.rows > 1 else 0
    return r.move(r.address(memref), r.b.mul(row, ir.Constant(I64, step)))


def _element(r: FunctionBuilder, pointer: Value, index: Value) -> Value:
    return r.move(pointer, r.b.mul(index, ir.Constant(I64, 4)))
