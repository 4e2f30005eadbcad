"""The innermost loop of an element-wise statement: here a row becomes a vector loop.

:func:`emit_inner_loop` emits the loop: whole vectors first, then ever narrower ones for the rest of the row.
:class:`InnerLoop` emits the expressions in it, on vectors and on single elements alike, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from llvmlite import ir

from nki.backend.cpu.codegen.convert import (
    decode,
    decode_part,
    encode,
    encode_mostly_normal,
    encode_parts,
    storage_type,
)
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value, halvings
from nki.backend.cpu.kernel_ir.loop_nests import CountedLoop, Cursors, Stream
from nki.backend.cpu.kernel_ir.nodes import GRANULE, Assign, Expr, MemRef, subexpressions
from nki.base import element_types as dt
from nki.isa.tables.alu_operators import BITS, TRUTHS
from nki.numerics.functions import emit, emit_alu, emit_bits, emit_integer, operations
from nki.numerics.llvm import AVX512, I8, I32, I64, LINE, canonical_nan, constant, lanes_of, prefetch, splat

_LARGEST_SHUFFLED: Final = 4
"""The largest step for which vectors are shuffled out of vectors of neighbours; others are loaded one by one."""

_AHEAD: Final = 2048
"""Bytes ahead of a load at which memory is asked for: about a microsecond of a loop with a few functions."""
_LONG: Final = 8 * _AHEAD
"""Bytes of a row from which on a request ahead at its end is seldom in vain."""
_MOST_OPERATIONS: Final = 10
"""Operations of a function that two vectors at a time compute before they are rounded."""
_LEAST_AROUND: Final = 128
"""Elements of a loop from which on its results are worth a second loop."""


class InnerLoop:
    """The expressions of one innermost loop. Loop invariants are computed once, before it."""

    def __init__(self, routine: FunctionBuilder, streams: list[Stream], loop: CountedLoop, cursors: Cursors) -> None:
        self.r = routine
        self.b = routine.b
        self.streams = streams
        self.stream_of = {id(stream.expr): i for i, stream in enumerate(streams) if stream.expr is not None}
        self.loop = loop
        self.cursors = cursors
        self.invariants: dict[int, Value] = {}
        self.by_words = routine.lanes == AVX512 and all(
            step == 0 or (step == 1 and _is_bfloat16(s)) for step, s in zip(loop.steps, streams, strict=True)
        )
        """True if two vectors at a time are words of two bfloat16 each: first all low halves, then all high ones."""
        self.around = -1
        """The stream with whole lines that are written around the caches; -1: none."""

    def hoist(self, expr: Expr) -> None:
        """Compute the loop invariants of ``expr``."""
        if expr.kind == "value" or self._is_invariant(expr):
            if id(expr) not in self.invariants:
                self.invariants[id(expr)] = self._compute(expr, ir.Constant(I64, 0), 1, {})
            return
        for arg in expr.args:
            self.hoist(arg)

    def _is_invariant(self, expr: Expr) -> bool:
        if id(expr) in self.stream_of and self.loop.steps[self.stream_of[id(expr)]] != 0:
            return False
        return expr.kind == "value" or all(self._is_invariant(arg) for arg in expr.args)

    def fetch_ahead(self, index: Value) -> None:
        """Ask for what later rounds load from memory outside of tiles, which is in no cache."""
        for number, stream in enumerate(self.streams):
            memref = stream.memref
            if stream.expr is None or memref is None or stream.expr.kind != "load" or self.loop.steps[number] != 1:
                continue
            if self.r.is_far(memref) and _goes_on(memref):
                prefetch(self.b, self.r.move(self._address(number, memref, index), ir.Constant(I64, _AHEAD)))

    def value(self, expr: Expr, index: Value, width: int) -> Value:
        """``expr`` at elements ``index`` … ``index + width - 1`` of the row."""
        return self._get(expr, index, width, {})

    def written(self, expr: Expr, index: Value, width: int) -> Value:
        """:meth:`value` as it is written: the canonical NaN for every NaN that was computed and not only moved."""
        return self._written(expr, index, width, {})

    def _written(self, expr: Expr, index: Value, width: int, computed: dict[int, Value]) -> Value:
        if expr.dtype is not dt.float32 or expr.kind in ("load", "gather"):
            return self._get(expr, index, width, computed)  # what is narrower than float32 got its NaN from a cast
        if expr.kind == "select":
            condition, yes, no = expr.args
            arms = [self._written(arm, index, width, computed) for arm in (yes, no)]
            return self._select(self._get(condition, index, width, computed), *arms)
        value = self._get(expr, index, width, computed)
        return canonical_nan(self.b, value) if _may_be_nan(expr) else value

    def given(self, expr: Expr, width: int, known: dict[int, Value]) -> Value:
        """``expr``, given some of its parts, by their ``id``: all that depend on the loop."""
        return self._get(expr, ir.Constant(I64, 0), width, dict(known))

    def converted(self, expr: Expr, loaded: Value) -> Value:
        """``expr``, casts of one load, given what was loaded."""
        if expr.kind == "load":
            return loaded
        inner = expr.args[0]
        return encode(self.b, decode(self.b, self.converted(inner, loaded), inner.dtype), expr.dtype)

    def _get(self, expr: Expr, index: Value, width: int, computed: dict[int, Value]) -> Value:
        value = computed.get(id(expr))
        if value is None:
            invariant = self.invariants.get(id(expr))
            value = self._compute(expr, index, width, computed) if invariant is None else self._splat(invariant, width)
            computed[id(expr)] = value
        return value

    def _splat(self, scalar: Value, width: int) -> Value:
        return scalar if width == 1 else splat(self.b, scalar, ir.VectorType(scalar.type, width))

    def _compute(self, expr: Expr, index: Value, width: int, computed: dict[int, Value]) -> Value:
        b = self.b
        match expr.kind:
            case "load":
                return self._load(expr, index, width)
            case "value":
                return self._splat(self._literal(expr), width)
            case "iota":
                return self._iota(expr, index, width)
            case "bits":
                patterns = self._written(expr.args[0], index, width, computed)
                return b.bitcast(patterns, storage_type(expr.dtype, width))
            case _:
                args = [self._get(a, index, width, computed) for a in expr.args]
        match expr.kind:
            case "cast" if expr.args[0].op in TRUTHS and expr.args[0].kind == "alu":
                return _truth(b, args[0], expr.dtype)
            case "cast":
                return encode_mostly_normal(b, decode(b, args[0], expr.args[0].dtype), expr.dtype)
            case "narrow":
                return _narrow(b, args[0], expr.dtype)
            case "alu" if expr.op in BITS:
                return emit_bits(b, expr.op, args[0], args[1] if len(args) > 1 else None)
            case "alu":
                return emit_alu(b, expr.op, args[0], args[1] if len(args) > 1 else None)
            case "integer":
                signed = (expr.args[0].dtype.kind == "i", expr.args[1].dtype.kind == "i")
                return emit_integer(b, expr.op, args[0], args[1], signed)
            case "act":
                return emit(b, expr.op, *args)
            case "unpack":
                return decode_part(b, args[0], expr.args[0].dtype, expr.value)
            case "pack":
                return encode_parts(b, args, expr.dtype)
            case "select":
                return self._select(*args)
            case "gather":
                if width != 1:
                    raise AssertionError("statements that gather go element by element")
                return self._gather(expr, index, args[0])
            case _:
                raise AssertionError(expr.kind)

    def _select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.b.select(self.b.fcmp_unordered("!=", condition, constant(condition.type, 0.0)), yes, no)

    def _literal(self, expr: Expr) -> Value:
        b = self.b
        number = self.r.number(expr.value)
        if expr.dtype.is_integer or expr.dtype.is_packed:
            return b.trunc(b.fptosi(number, I64), storage_type(expr.dtype, 1))
        return encode(b, b.fptrunc(number, ir.FloatType()), expr.dtype)

    def _address(self, stream: int, memref: MemRef, index: Value) -> Value:
        step = cast(int, self.loop.steps[stream]) * memref.dtype.itemsize
        moved = self.b.mul(index, ir.Constant(I64, step))
        return self.b.gep(self.cursors[stream], [moved], source_etype=I8)

    def _load(self, expr: Expr, index: Value, width: int) -> Value:
        stream, memref = self.stream_of[id(expr)], cast(MemRef, expr.memref)
        step, size = self.loop.steps[stream], memref.dtype.itemsize
        kind = storage_type(memref.dtype, 1)
        if step == 0 or width == 1:
            return self._splat(self.b.load(self._address(stream, memref, index), align=size, typ=kind), width)
        if step == 1:
            wide = storage_type(memref.dtype, width)
            if self.by_words and width == 2 * self.r.lanes:
                return self._halves(self._address(stream, memref, index))
            return self.b.load(self._address(stream, memref, index), align=size, typ=wide)
        if step is not None and 1 < step <= _LARGEST_SHUFFLED:
            return load_every(self.b, self._address(stream, memref, index), memref.dtype, step, width)
        result = ir.Constant(ir.VectorType(kind, width), ir.Undefined)
        for lane in range(width):
            at = self._address(stream, memref, self.b.add(index, ir.Constant(I64, lane)))
            element = self.b.load(at, align=size, typ=kind)
            result = self.b.insert_element(result, element, ir.Constant(I32, lane))
        return result

    def _halves(self, pointer: Value) -> Value:
        """Two vectors of bfloat16: the low halves of words, then the high ones."""
        b, lanes = self.b, self.r.lanes
        words = b.load(pointer, align=2, typ=ir.VectorType(I32, lanes))
        upper = b.lshr(words, constant(words.type, 16))
        low, high = (b.trunc(half, storage_type(dt.bfloat16, lanes)) for half in (words, upper))
        return lanes_of(b, low, high, 0, 2 * lanes)

    def _gather(self, expr: Expr, index: Value, gathered: Value) -> Value:
        """Element number ``gathered`` of a row; a number outside reads the row's first element and gives poison."""
        b = self.b
        stream, memref = self.stream_of[id(expr)], cast(MemRef, expr.memref)
        step, count = expr.value
        size = memref.dtype.itemsize
        word = ir.IntType(8 * size)
        number = (b.sext if expr.args[0].dtype.kind == "i" else b.zext)(gathered, I64)
        inside = b.icmp_unsigned("<", number, ir.Constant(I64, count))
        moved = b.mul(b.select(inside, number, ir.Constant(I64, 0)), ir.Constant(I64, step * size))
        at = b.gep(self._address(stream, memref, index), [moved], source_etype=I8)
        poison = ir.Constant(word, int.from_bytes(memref.dtype.poison, "little"))
        element = b.select(inside, b.load(at, align=size, typ=word), poison)
        return b.bitcast(element, storage_type(memref.dtype, 1))

    def store(self, target: MemRef, value: Value, index: Value, width: int, stream: int = 0) -> None:
        """Write ``width`` elements of the target, which is that stream."""
        self.put(target, self.in_order(value, width), index, width, stream)

    def put(self, target: MemRef, value: Value, index: Value, width: int, stream: int) -> None:
        """Write ``width`` elements in the order in which they lie in memory."""
        step, size = self.loop.steps[stream], target.dtype.itemsize
        if step == 1 or width == 1:
            is_around = stream == self.around and width * size % LINE == 0
            store = self.b.store(value, self._address(stream, target, index), align=LINE if is_around else size)
            if is_around:
                store.set_metadata("nontemporal", self.b.module.add_metadata([ir.Constant(I32, 1)]))
            return
        for lane in range(width):
            at = self._address(stream, target, self.b.add(index, ir.Constant(I64, lane)))
            self.b.store(self.b.extract_element(value, ir.Constant(I32, lane)), at, align=size)

    def in_order(self, value: Value, width: int) -> Value:
        """``width`` elements as they lie in memory."""
        lanes = self.r.lanes
        if not self.by_words or width != 2 * lanes:
            return value
        order = [number // 2 + lanes * (number % 2) for number in range(width)]
        return self.b.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, width), order))

    def copying_loop(self, widths: Sequence[int], chunk: Callable[[Value, int], None]) -> None:
        """Emit the loop: ``chunk`` copies as many elements as the first of ``widths`` says, then the next.

        A large result, if it begins where a line of memory does, gets whole lines around the caches: in a loop of its
        own, as such a store must be aligned. Loops that compute gain 5 % by that on one thread, and lose 10 to 15 %
        on two.
        """
        r, loop, widest = self.r, self.loop, widths[0]
        whole = loop.count // widest * widest
        targets = [number for number, stream in enumerate(self.streams) if self._passes_caches(number, stream, widest)]
        if not targets or whole < _LEAST_AROUND:
            r.tiled_loop(loop.count, widths, chunk, loop.per_partition)
            return
        rest = self.b.and_(self.b.ptrtoint(self.cursors[targets[0]], I64), ir.Constant(I64, LINE - 1))
        with self.b.if_else(self.b.icmp_signed("==", rest, ir.Constant(I64, 0))) as (then, otherwise):
            with then:
                self.around = targets[0]
                r.tiled_loop(whole, [widest], chunk, loop.per_partition)
                self.around = -1
            with otherwise:
                r.tiled_loop(whole, [widest], chunk, loop.per_partition)
        r.has_passed_caches = True
        r.tiled_loop(loop.count, widths[1:], chunk, loop.per_partition, whole)

    def _passes_caches(self, number: int, stream: Stream, width: int) -> bool:
        """True of a dense result that is written around the caches, with whole lines of ``width`` elements."""
        memref = stream.memref
        if stream.expr is not None or memref is None or self.loop.steps[number] != 1:
            return False
        return width * memref.dtype.itemsize % LINE == 0 and self.r.passes_caches(memref)

    def _iota(self, expr: Expr, index: Value, width: int) -> Value:
        b = self.b
        stream = self.stream_of[id(expr)]
        step = self.loop.steps[stream]
        factor = self.r.integer(expr.value[2]) if step is None else ir.Constant(I32, step)
        first = b.add(self.cursors[stream], b.mul(b.trunc(index, I32), factor))
        if width == 1:
            return first
        lanes = ir.Constant(ir.VectorType(I32, width), [ir.Constant(I32, lane) for lane in range(width)])
        return b.add(self._splat(first, width), b.mul(lanes, self._splat(factor, width)))


def load_every(b: Builder, pointer: Value, dtype: dt.DType, step: int, width: int) -> Value:
    """Every ``step``-th element from ``pointer`` on, ``width`` of them: vectors of neighbours, shuffled.

    The last vector ends with the last element that is wanted, so nothing beyond it is read.
    """
    size, kind = dtype.itemsize, storage_type(dtype, width)
    last = (width - 1) * step
    result: Value = ir.Constant(kind, ir.Undefined)
    for number in range(step):
        first = min(number * width, last + 1 - width)
        done = first if number == 0 else min((number - 1) * width, last + 1 - width) + width
        at = b.gep(pointer, [ir.Constant(I64, first * size)], source_etype=I8)
        vector = b.load(at, align=size, typ=kind)
        places = [width + n * step - first if done <= n * step < first + width else n for n in range(width)]
        mask = ir.Constant(ir.VectorType(I32, width), places)
        result = b.shuffle_vector(result, vector, mask)
    return result


def emit_inner_loop(r: FunctionBuilder, s: Assign, streams: list[Stream], loop: CountedLoop, cursors: Cursors) -> None:
    """Emit the vectorized loop of ``s``: whole vectors, then ever narrower ones for the rest."""
    row = InnerLoop(r, streams, loop, cursors)
    row.hoist(s.value)
    # Gathers come element by element anyway, and much shorter code does so in a plain loop.
    gathers = any(part.kind == "gather" for part in subexpressions(s.value))
    widest = 1 if gathers else 2 * r.lanes if packs_pairs(r, [s.value], [s.target], loop) else r.lanes

    def chunk(index: Value, width: int) -> None:
        if width >= r.lanes:
            row.fetch_ahead(index)
        row.store(s.target, row.written(s.value, index, width), index, width)

    if s.value.kind == "load":
        row.copying_loop(halvings(widest), chunk)
    else:
        r.tiled_loop(loop.count, halvings(widest), chunk, loop.per_partition)


def packs_pairs(r: FunctionBuilder, values: Sequence[Expr], targets: Sequence[MemRef], loop: CountedLoop) -> bool:
    """True if two vectors at a time are rounded to bfloat16, as one instruction packs both; no range may split them.

    Functions keep their constants in registers; two vectors leave too few of them.
    """
    parts = [part for value in values for part in subexpressions(value)]
    plain = all(
        part.kind in ("load", "value", "cast", "alu")
        or (part.kind == "act" and operations("act", part.op) <= _MOST_OPERATIONS)
        for part in parts
    )
    whole = GRANULE * loop.per_partition % (2 * r.lanes) == 0
    return plain and whole and any(target.dtype is dt.bfloat16 for target in targets)


def _is_bfloat16(stream: Stream) -> bool:
    return stream.memref is not None and stream.memref.dtype is dt.bfloat16


def _goes_on(memref: MemRef) -> bool:
    """True if what is ahead of a load is loaded later: in rows that lie side by side, or in long ones."""
    is_long = memref.columns * memref.dtype.itemsize >= _LONG
    return memref.dense_rows and (is_long or memref.row_step == memref.columns)


def _may_be_nan(expr: Expr) -> bool:
    """False of float32 expressions that give numbers only."""
    if expr.kind == "cast":
        return not (expr.args[0].dtype.is_integer or expr.args[0].dtype is dt.bool_)
    return expr.kind != "alu" or expr.op not in TRUTHS


def _truth(b: Builder, value: Value, dtype: dt.DType) -> Value:
    """``value``, 1.0 or 0.0 in each lane, as an element of ``dtype``: LLVM sees the comparison through this choice."""
    zero = constant(value.type, 0.0)
    ways = [encode(b, constant(value.type, number), dtype) for number in (1.0, 0.0)]
    return b.select(b.fcmp_unordered("!=", value, zero), *ways)


def _narrow(b: Builder, value: Value, dtype: dt.DType) -> Value:
    """int32 to another integer dtype, saturated."""
    if dtype is dt.int32:
        return value
    low, high = (0, int(dtype.largest)) if dtype.kind == "u" else (-int(dtype.largest) - 1, int(dtype.largest))
    bounds = [(">", min(high, 0x7FFFFFFF)), ("<", low)]
    for relation, bound in bounds:
        limit = constant(value.type, bound)
        value = b.select(b.icmp_signed(relation, value, limit), limit, value)
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    kind = storage_type(dtype, lanes)
    return value if dtype.itemsize == 4 else b.trunc(value, kind)
