"""Row operations, which walk each partition step by step: positions of non-zeros, ranking, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import decode, storage_type
from nki.backend.cpu.codegen.function import FunctionBuilder
from nki.backend.cpu.kernel_ir.loops import CountedLoop, Cursors, Stream
from nki.backend.cpu.kernel_ir.nodes import MemRef, RowOp
from nki.base import dtype as dt
from nki.numerics.llvm import F32, I8, I32, I64, Builder, Value, Variable, constant, i64, steps

WEYL: Final = 362437
"""Increment of XORWOW's counter (Marsaglia 2003)."""
_BUCKETS: Final = 256


def emit_row_op(r: FunctionBuilder, s: RowOp) -> None:
    """Emit ``s``."""
    shared = s.outputs if s.op == "ranked" else ()  # memory to work in, the same for every row
    moving = [memref for memref in (s.target, s.source, *s.outputs) if memref not in shared]
    streams = [Stream(None, memref) for memref in (*moving, *shared)]
    row_steps = (*(memref.row_step for memref in moving), *(0 for _ in shared))
    rows = CountedLoop(s.target.rows, row_steps, r.per_partition(s.target.rows))
    emit = {"nonzero": _nonzero, "ranked": _ranked, "xorwow": _xorwow}[s.op]
    r.emit_loops([rows], streams, lambda cursors: emit(r, s, cursors))


def _element(b: Builder, base: Value, index: Value, size: int) -> Value:
    return b.gep(base, [b.mul(index, i64(size))], source_etype=I8)


def _source(r: FunctionBuilder, source: MemRef, row: Value, index: Value) -> Value:
    """Element ``index`` of a row of the source, as stored."""
    at = _element(r.b, row, index, source.dims[0][0] * source.dtype.itemsize)
    return r.b.load(at, typ=storage_type(source.dtype, 1), align=source.dtype.itemsize)


def _nonzero(r: FunctionBuilder, s: RowOp, cursors: Cursors) -> None:
    """Write each position where that of the next non-zero element belongs; it stays if its element is not 0."""
    b, out = r.b, cursors[0]
    columns = s.source.columns
    nonzeros = Variable(b)
    nonzeros.set(i64(0))
    with steps(b, i64(columns), 1) as index:
        b.store(b.trunc(index, I32), _element(b, out, nonzeros.get(), 4), align=4)
        value = decode(b, _source(r, s.source, cursors[1], index), s.source.dtype)
        is_nonzero = b.fcmp_unordered("!=", value, constant(F32, 0.0))
        nonzeros.set(b.add(nonzeros.get(), b.zext(is_nonzero, I64)))
    with steps(b, i64(columns), 1, _from(b, nonzeros.get())) as index:
        b.store(ir.Constant(I32, -1), _element(b, out, index, 4), align=4)
    b.store(b.trunc(nonzeros.get(), I32), _element(b, out, i64(columns), 4), align=4)


def _from(b: Builder, start: Value) -> Variable:
    counter = Variable(b)
    counter.set(start)
    return counter


def _ranked(r: FunctionBuilder, s: RowOp, cursors: Cursors) -> None:
    """Sort pairs of key and position by the bytes of their keys, lowest byte first; the last pairs are the largest."""
    b, columns = r.b, s.source.columns
    out, source, pairs, counts = (cursors[i] for i in range(4))
    pairs_in, pairs_out = pairs, _element(b, pairs, i64(columns), 8)
    last = i64(columns - 1)
    with steps(b, i64(columns), 1) as index:
        position = b.sub(last, index)  # sorting keeps the order of equal keys: the earlier comes last
        key = _key(b, decode(b, _source(r, s.source, source, position), s.source.dtype))
        b.store(b.or_(b.shl(b.zext(key, I64), i64(32)), position), _element(b, pairs_in, index, 8), align=8)
    # The key's lower half follows from the upper one where the float32 was a bfloat16.
    for byte in range(2 if s.source.dtype is dt.bfloat16 else 0, 4):
        _pass(b, (pairs_in, pairs_out), counts, columns, 32 + 8 * byte)
        pairs_in, pairs_out = pairs_out, pairs_in
    first = i64(columns - s.target.columns)
    with steps(b, i64(s.target.columns), 1) as index:
        pair = b.load(_element(b, pairs_in, b.add(first, index), 8), typ=I64, align=8)
        b.store(b.trunc(pair, I32), _element(b, out, index, 4), align=4)


def _key(b: Builder, value: Value) -> Value:
    """An unsigned word that orders as the float32 does: -0 below +0, NaN above all."""
    word = b.bitcast(value, I32)
    flipped = b.xor(word, b.or_(b.ashr(word, ir.Constant(I32, 31)), ir.Constant(I32, 0x80000000)))
    return b.select(b.fcmp_unordered("uno", value, value), ir.Constant(I32, 0xFFFFFFFF), flipped)


def _pass(b: Builder, memory: tuple[Value, Value], counts: Value, columns: int, shift: int) -> None:
    """Move the pairs in order of one byte, keeping the order of equal ones."""
    pairs_in, pairs_out = memory

    def pair_and_bucket(index: Value) -> tuple[Value, Value]:
        pair = b.load(_element(b, pairs_in, index, 8), typ=I64, align=8)
        bucket = b.and_(b.lshr(pair, i64(shift)), i64(_BUCKETS - 1))
        return pair, _element(b, counts, bucket, 4)

    with steps(b, i64(_BUCKETS), 1) as bucket:
        b.store(ir.Constant(I32, 0), _element(b, counts, bucket, 4), align=4)
    with steps(b, i64(columns), 1) as index:
        _, slot = pair_and_bucket(index)
        b.store(b.add(b.load(slot, typ=I32, align=4), ir.Constant(I32, 1)), slot, align=4)
    total = Variable(b, I32)
    total.set(ir.Constant(I32, 0))
    with steps(b, i64(_BUCKETS), 1) as bucket:
        slot = _element(b, counts, bucket, 4)
        count = b.load(slot, typ=I32, align=4)
        b.store(total.get(), slot, align=4)
        total.set(b.add(total.get(), count))
    with steps(b, i64(columns), 1) as index:
        pair, slot = pair_and_bucket(index)
        to = b.load(slot, typ=I32, align=4)
        b.store(pair, _element(b, pairs_out, b.zext(to, I64), 8), align=8)
        b.store(b.add(to, ir.Constant(I32, 1)), slot, align=4)


def _xorwow(r: FunctionBuilder, s: RowOp, cursors: Cursors) -> None:
    """A row's generators side by side in vectors, one for each word of their states."""
    b = r.b
    out, source, after = (cursors[i] for i in range(3))
    generators = s.source.columns // 6
    kind = storage_type(dt.uint32, generators)
    words: list[Any] = []
    for word in range(6):
        each = [_source(r, s.source, source, i64(6 * g + word)) for g in range(generators)]
        words.append(_vector(b, each))
    variables = [r.local(kind, word) for word in words]
    with steps(b, i64(s.target.columns // generators), 1) as index:
        x, y, z, w, v, d = (b.load(variable, typ=kind) for variable in variables)
        t = b.xor(x, b.lshr(x, constant(kind, 2)))
        t = b.xor(t, b.shl(t, constant(kind, 1)))
        new = b.xor(b.xor(v, b.shl(v, constant(kind, 4))), t)
        counter = b.add(d, constant(kind, WEYL))
        for variable, value in zip(variables, (y, z, w, v, new, counter), strict=True):
            b.store(value, variable)
        b.store(b.add(counter, new), _element(b, out, index, 4 * generators), align=4)
    for word, variable in enumerate(variables):
        value = b.load(variable, typ=kind)
        for g in range(generators):
            lane = value if generators == 1 else b.extract_element(value, ir.Constant(I32, g))
            b.store(lane, _element(b, after, i64(6 * g + word), 4), align=4)


def _vector(b: Builder, values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    result = ir.Constant(ir.VectorType(I32, len(values)), ir.Undefined)
    for lane, value in enumerate(values):
        result = b.insert_element(result, value, ir.Constant(I32, lane))
    return result
