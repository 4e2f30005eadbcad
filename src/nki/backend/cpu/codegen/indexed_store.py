"""Writing one element to places of each partition that are known only at run time."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.function import I64, Routine, Value
from nki.backend.cpu.loop_ir.nodes import Put
from nki.numerics.llvm import I32


def put(r: Routine, s: Put) -> None:
    """Emit ``s``."""
    b, size = r.b, s.place.dtype.itemsize
    value = b.load(r.start(s.value), typ=storage_type(s.place.dtype, 1), align=size)
    target, numbers = r.start(s.place), r.start(s.numbers)

    def row(index: Value) -> None:
        def number(column: Value) -> None:
            inside = b.add(b.mul(index, ir.Constant(I64, s.numbers.row_step)), column)
            word = b.load(r.move(numbers, b.mul(inside, ir.Constant(I64, 4))), typ=I32, align=4)
            there = b.zext(word, I64)
            with b.if_then(b.icmp_unsigned("<", there, ir.Constant(I64, s.place.columns))):
                at = b.add(b.mul(index, ir.Constant(I64, s.place.row_step)), _offset(r, s, there))
                b.store(value, r.move(target, b.mul(at, ir.Constant(I64, size))), align=size)

        r.count(s.numbers.columns, 1, number)

    r.count(s.place.rows, 1, row)


def _offset(r: Routine, s: Put, number: Value) -> Value:
    """How many elements from the start of its partition element ``number`` is."""
    b, offset = r.b, ir.Constant(I64, 0)
    for step, count in reversed(s.place.dims):
        offset = b.add(offset, b.mul(b.urem(number, ir.Constant(I64, count)), ir.Constant(I64, step)))
        number = b.udiv(number, ir.Constant(I64, count))
    return offset
