"""Element-wise statements of one size in one loop: each reads what those before it have written, out of registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from llvmlite import ir

from nki.backend.cpu.codegen.convert import encode, encode_normal, encode_unseen
from nki.backend.cpu.codegen.elementwise_loops import vectorized_last
from nki.backend.cpu.codegen.function import Builder, FunctionBuilder, Value, halvings
from nki.backend.cpu.codegen.inner_loop import InnerLoop, packs_pairs
from nki.backend.cpu.kernel_ir.loop_nests import CountedLoop, Cursors, Stream
from nki.backend.cpu.kernel_ir.nodes import Expr, Fused, MemRef, subexpressions
from nki.backend.cpu.kernel_ir.rewrite_rules import short_formula
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.isa.tables.alu_operators import BITS
from nki.numerics.functions import ARITHMETIC, FUNCTIONS, Normal
from nki.numerics.llvm import F32, canonical_nan, lanes_of
from nki.numerics.simd import Lanes


@dataclass(slots=True)
class Step:
    """One step of a loop: ``width`` elements from ``column`` on, and what they have in memory, in registers."""

    column: Value
    width: int
    registers: dict[MemRef, Value] = field(default_factory=dict[MemRef, Value])


def emit_fused(r: FunctionBuilder, s: Fused) -> None:
    """Emit ``s``, which has no sums."""
    fused = FusedStatements(s)
    first = s.assigns[0].target
    loops = r.loop_nest(fused.streams, first.rows, first.columns)
    assert loops is not None, "statements that share a loop have patterns that nest"
    loops = vectorized_last(loops, r.lanes)
    r.emit_loops(loops[:-1], fused.streams, lambda cursors: fused.emit_inner_loop(r, loops[-1], cursors))


class FusedStatements:
    """The statements of one loop, and the streams of memory that it follows."""

    def __init__(self, loop: Fused) -> None:
        assigns = self.assigns = loop.assigns
        self.streams: list[Stream] = []
        self.stream_of: dict[int, int] = {}
        """The stream of each expression, by id; what a statement before has written has none."""
        self.targets: list[int] = []
        """The stream of each result; -1 if it stays in a register."""
        self.moved: set[MemRef] = set()
        """Memory of results that a statement moves on without arithmetic: their NaN must be the canonical one."""
        self.unseen: set[int] = set()
        """The ids of roundings to bfloat16 with results that only arithmetic reads; see :func:`_has_short_nan`."""
        self.operands: set[int] = set()
        """The ids of what the operators in such roundings read."""
        known: dict[MemRef, int] = {}
        written: set[MemRef] = set()
        for number, assign in enumerate(assigns):
            for part in subexpressions(assign.value):
                if part.kind == "iota" or (part.kind == "load" and part.memref not in written):
                    self.stream_of.setdefault(id(part), self._stream(part, part.memref, known))
            _note_moved(assign.value, True, self.moved)
            self.targets.append(self._stream(None, assign.target, known) if loop.is_stored(number) else -1)
            written.add(assign.target)
        for assign, stream in zip(assigns, self.targets, strict=True):
            value = assign.value
            is_rounding = value.kind == "cast" and value.dtype is dt.bfloat16 and value.args[0].dtype is dt.float32
            if stream < 0 and assign.target not in self.moved and is_rounding and _has_short_nan(value.args[0]):
                self.unseen.add(id(value))
                self.operands.update(
                    id(arg) for part in subexpressions(value) for arg in part.args if part is not value
                )

    def _stream(self, part: Expr | None, memref: MemRef | None, known: dict[MemRef, int]) -> int:
        """The number of the stream of ``memref``, of ``part`` or of a target; a new one if it is not ``known``."""
        number = None if memref is None else known.get(memref)
        if number is None:
            number = len(self.streams)
            self.streams.append(Stream(part, memref))
            if memref is not None:
                known[memref] = number
        return number

    def emit_inner_loop(self, r: FunctionBuilder, loop: CountedLoop, cursors: Cursors) -> None:
        """Emit the innermost loop: whole vectors, then ever narrower ones for the rest."""
        inner = InnerFusedLoop(r, self, loop, cursors)
        for assign in self.assigns:
            inner.hoist(assign.value)

        def chunk(index: Value, width: int) -> None:
            if width >= r.lanes:
                inner.fetch_ahead(index)
            inner.emit([index], width)

        widths = halvings(2 * r.lanes if self.packs_pairs(r, loop) else r.lanes)
        r.tiled_loop(loop.count, widths, chunk, loop.per_partition)

    def packs(self, wanted: Expr) -> bool:
        """True if ``wanted`` is a result in bfloat16 and no arithmetic that is rounded for it alone.

        To pack what that gives takes longer than to keep it as float32.
        """
        if wanted.kind != "cast" or wanted.args[0].dtype is not dt.bfloat16:
            return False
        values = [assign.value for assign in self.assigns if assign.target == wanted.args[0].memref]
        return id(values[-1]) not in self.unseen

    def rounding_of(self, number: int) -> int:
        """The number of the next assignment, if it rounds the result of that one to bfloat16 and does no more.

        Else that one's.
        """
        assign = self.assigns[number]
        for value in (following.value for following in self.assigns[number + 1 : number + 2]):
            is_rounding = value.kind == "cast" and value.dtype is dt.bfloat16 and value.args[0].kind == "load"
            if is_rounding and value.args[0].memref == assign.target and assign.value.dtype is dt.float32:
                return number + 1
        return number

    @property
    def has_exponentials(self) -> bool:
        """True if one of the results is an exponential, which two vectors at a time compute faster."""
        return any(short_formula(assign.value) is not None for assign in self.assigns)

    def packs_pairs(self, r: FunctionBuilder, loop: CountedLoop) -> bool:
        """True if ``loop`` takes two vectors at a time."""
        targets = [assign.target for assign, stream in zip(self.assigns, self.targets, strict=True) if stream >= 0]
        return packs_pairs(r, [assign.value for assign in self.assigns], targets, loop)


class InnerFusedLoop(InnerLoop):
    """The innermost loop; ``registers`` belong to the step at hand."""

    def __init__(self, r: FunctionBuilder, fused: FusedStatements, loop: CountedLoop, cursors: Cursors) -> None:
        super().__init__(r, fused.streams, loop, cursors)
        self.stream_of = fused.stream_of
        self.fused = fused
        self.registers: dict[MemRef, Value] = {}

    def emit(self, columns: Sequence[Value], width: int) -> list[Step]:
        """Emit all statements for ``width`` elements from each of ``columns`` on; the steps that hold the results.

        Two vectors of whole lanes compute exponentials together.
        """
        steps = [Step(column, width) for column in columns]
        done = 0
        for number, (assign, stream) in enumerate(zip(self.fused.assigns, self.fused.targets, strict=True)):
            if number < done:
                continue
            function = short_formula(assign.value) if len(steps) == 2 else None
            if function is not None:
                done = self._emit_exponentials(number, function, steps)
                continue
            is_seen = stream >= 0 or assign.target in self.fused.moved
            vectors = self._each(self.written if is_seen else self.value, assign.value, steps)
            self._keep(assign.target, stream, steps, vectors)
        return steps

    def _emit_exponentials(self, number: int, function: Expr, steps: Sequence[Step]) -> int:
        """Emit assignment ``number``, an exponential, and its rounding to bfloat16 with it; the next one's number."""
        normal, lanes, last = FUNCTIONS[function.op].normal, self.r.lanes, self.fused.rounding_of(number)
        assign, rounded = self.fused.assigns[number], self.fused.assigns[last]
        assert normal is not None
        given = self._each(self.value, function.args[0], steps)
        others = partial(self._each, self.written, function, steps)
        vectors, pair = _emit_normal_pair(self.b, normal, given, rounded.value.dtype, others)
        if assign.value.dtype is dt.float32:
            self._keep(assign.target, self.fused.targets[number], steps, vectors)
        if rounded.value.dtype is not dt.float32:
            self._keep(rounded.target, -1, steps, [lanes_of(self.b, pair, pair, first, lanes) for first in (0, lanes)])
            if self.fused.targets[last] >= 0:
                self.put(rounded.target, pair, steps[0].column, 2 * lanes, self.fused.targets[last])
        return last + 1

    def _keep(self, target: MemRef, stream: int, steps: Sequence[Step], vectors: Sequence[Value]) -> None:
        """Keep ``vectors`` as what ``target`` holds in ``steps``, and store them if that is a ``stream``."""
        for step, vector in zip(steps, vectors, strict=True):
            step.registers[target] = vector
            if stream >= 0:
                self.store(target, vector, step.column, step.width, stream)

    def _each(self, value: Callable[[Expr, Value, int], Value], expr: Expr, steps: Sequence[Step]) -> list[Value]:
        """The ``value`` of ``expr`` in each of ``steps``."""
        vectors: list[Value] = []
        for step in steps:
            self.registers = step.registers
            vectors.append(value(expr, step.column, step.width))
        return vectors

    def hoist(self, expr: Expr) -> None:
        """Compute the loop invariants of ``expr``. Operands of operators with a short NaN get the canonical one."""
        was_known = id(expr) in self.invariants
        super().hoist(expr)
        value = self.invariants.get(id(expr))
        if value is not None and not was_known and id(expr) in self.fused.operands and value.type == F32:
            self.invariants[id(expr)] = canonical_nan(self.b, value)

    def _compute(self, expr: Expr, index: Value, width: int, computed: dict[int, Value]) -> Value:
        if id(expr) in self.fused.unseen:
            return encode_unseen(self.b, self._get(expr.args[0], index, width, computed))
        return super()._compute(expr, index, width, computed)

    def _is_invariant(self, expr: Expr) -> bool:
        return (expr.kind != "load" or id(expr) in self.stream_of) and super()._is_invariant(expr)

    def _load(self, expr: Expr, index: Value, width: int) -> Value:
        memref = cast(MemRef, expr.memref)
        known = self.registers.get(memref)
        if known is None:
            known = super()._load(expr, index, width)
            self.registers[memref] = known
        # Where lanes follow short rows, what all elements of a row share is no invariant.
        is_operand = id(expr) in self.fused.operands and expr.dtype is dt.float32
        return canonical_nan(self.b, known) if is_operand and self.loop.steps[self.stream_of[id(expr)]] else known


def _emit_normal_pair(
    b: Builder, normal: Normal, given: Sequence[Value], dtype: DType, others: Callable[[], Sequence[Value]]
) -> tuple[list[Value], Value]:
    """A function of two vectors, and both results side by side as elements of ``dtype``.

    Mostly all are normal numbers, which takes fewer operations for the same bits.
    ``others`` emits the function of any numbers, with the canonical NaN.
    """
    low, high = given
    lanes, all_lanes = Lanes(b, low), ir.IntType(low.type.count)
    are_normal = b.icmp_signed("==", b.bitcast(normal.holds(lanes, given), all_lanes), ir.Constant(all_lanes, -1))
    ways: list[tuple[list[Value], Value]] = []
    with b.if_else(are_normal, likely=True) as (then, otherwise):
        with then:
            low, high = (normal.formula(lanes, x) for x in given)
            ways.append(([low, high, encode_normal(b, low, high, dtype)], b.block))
        with otherwise:
            low, high = others()
            stored = encode(b, lanes_of(b, low, high, 0, 2 * low.type.count), dtype, has_canonical_nan=True)
            ways.append(([low, high, stored], b.block))
    results: list[Value] = [b.phi(value.type) for value in ways[0][0]]
    for values, block in ways:
        for result, value in zip(results, values, strict=True):
            result.add_incoming(value, block)
    return results[:2], results[2]


def _has_short_nan(expr: Expr) -> bool:
    """True of arithmetic with a canonical NaN: on bfloat16, and on what all elements of a row share.

    Processors pass on the payload of one of the operands' NaN, or make one without payload. So the low half of each NaN
    in ``expr`` is 0.
    """
    if expr.kind == "cast":
        return expr.dtype is dt.float32 and expr.args[0].kind == "load" and expr.args[0].dtype is dt.bfloat16
    if expr.kind not in ("alu", "act") or expr.op not in ARITHMETIC:
        return False
    return all(_has_short_nan(arg) or _is_shared(arg) for arg in expr.args)


def _is_shared(expr: Expr) -> bool:
    """True of float32 that is the same for all elements of a row."""
    is_repeated = expr.memref is not None and all(step == 0 or count == 1 for step, count in expr.memref.dims)
    return expr.dtype is dt.float32 and (expr.kind == "value" or (expr.kind == "load" and is_repeated))


def _note_moved(expr: Expr, moves: bool, moved: set[MemRef]) -> None:
    """Note the memory that ``expr`` loads with NaN that are seen; ``moves``: its own value is seen."""
    if expr.kind == "load" and moves and expr.memref is not None:
        moved.add(expr.memref)
    is_arithmetic = (expr.kind == "alu" and expr.op not in BITS) or expr.kind == "act"
    is_arithmetic |= expr.kind == "cast" and expr.dtype not in (dt.float32, dt.tfloat32)  # each has one NaN
    for number, arg in enumerate(expr.args):
        _note_moved(arg, moves and not (is_arithmetic or (expr.kind == "select" and number == 0)), moved)
