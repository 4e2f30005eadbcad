"""Stores of one element per run-time index: a scatter within each partition."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.nodes import IndexedStore
from nki.numerics.llvm import I32, I64


def emit_indexed_store(r: FunctionBuilder, s: IndexedStore) -> None:
    """Emit ``s``."""
    b, size = r.b, s.target.dtype.itemsize
    value = b.load(r.address(s.value), typ=storage_type(s.target.dtype, 1), align=size)
    target, indices = r.address(s.target), r.address(s.indices)

    def row(partition: Value) -> None:
        def element(column: Value) -> None:
            offset = b.add(b.mul(partition, ir.Constant(I64, s.indices.row_step)), column)
            word = b.load(r.move(indices, b.mul(offset, ir.Constant(I64, 4))), typ=I32, align=4)
            index = b.zext(word, I64)
            with b.if_then(b.icmp_unsigned("<", index, ir.Constant(I64, s.target.columns))):
                at = b.add(b.mul(partition, ir.Constant(I64, s.target.row_step)), _offset(r, s, index))
                b.store(value, r.move(target, b.mul(at, ir.Constant(I64, size))), align=size)

        r.counted_loop(s.indices.columns, 1, element)

    r.counted_loop(s.target.rows, 1, row, per_partition=r.per_partition(s.target.rows))


def _offset(r: FunctionBuilder, s: IndexedStore, index: Value) -> Value:
    """The offset of element ``index`` of a partition from the partition's start, in elements."""
    b, offset = r.b, ir.Constant(I64, 0)
    for step, count in reversed(s.target.dims):
        offset = b.add(offset, b.mul(b.urem(index, ir.Constant(I64, count)), ir.Constant(I64, step)))
        index = b.udiv(index, ir.Constant(I64, count))
    return offset
