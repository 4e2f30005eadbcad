"""Element-wise statements of one size in one loop: each reads what those before it have written, out of registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from nki.backend.cpu.codegen.alu import ARITHMETIC
from nki.backend.cpu.codegen.chunked_sums import Keep, emit_groups, emit_normal_pair, emit_row, normal_of
from nki.backend.cpu.codegen.convert import encode_unseen
from nki.backend.cpu.codegen.elementwise import vectorized_last
from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop, packs_pairs
from nki.backend.cpu.codegen.row_vectors import Chunks, DenseChunks, PairedChunks
from nki.backend.cpu.kernel_ir.loops import CountedLoop, Cursors, Stream, loop_nest, partition_step, pattern_of
from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Assign, Expr, Fused, MemRef, Reduce, subexpressions
from nki.backend.cpu.kernel_ir.reductions import Nest, row_sums
from nki.base import dtype as dt
from nki.isa.tables.alu import BITS
from nki.numerics.llvm import F32, canonical_nan, i64, lanes_of


def emit_fused(r: FunctionBuilder, s: Fused) -> None:
    """Emit ``s``."""
    fused = _Fused(s)
    if s.sums:
        _Summed(r, fused, s.sums).emit()
        return
    first = s.assigns[0].target
    loops = r.loop_nest(fused.streams, first.rows, first.columns)
    assert loops is not None, "statements that share a loop have patterns that nest"
    loops = vectorized_last(loops, r.lanes)
    r.emit_loops(loops[:-1], fused.streams, lambda cursors: fused.emit_inner_loop(r, loops[-1], cursors))


class _Fused:
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
        """The ids of roundings to bfloat16 whose results only arithmetic reads; see :func:`_has_short_nan`."""
        self.operands: set[int] = set()
        """The ids of what the operators in such roundings read."""
        known: dict[MemRef, int] = {}
        written: set[MemRef] = set()
        for number, assign in enumerate(assigns):
            for part in subexpressions(assign.value):
                if part.kind == "iota" or (part.kind == "load" and part.memref not in written):
                    self.stream_of.setdefault(id(part), self._stream(part, known))
            _note_moved(assign.value, True, self.moved)
            self.targets.append(self._target(assign.target, known) if loop.is_stored(number) else -1)
            written.add(assign.target)
        for assign, stream in zip(assigns, self.targets, strict=True):
            value = assign.value
            is_rounding = value.kind == "cast" and value.dtype is dt.bfloat16 and value.args[0].dtype is dt.float32
            if stream < 0 and assign.target not in self.moved and is_rounding and _has_short_nan(value.args[0]):
                self.unseen.add(id(value))
                self.operands.update(
                    id(arg) for part in subexpressions(value) for arg in part.args if part is not value
                )

    def _stream(self, part: Expr, known: dict[MemRef, int]) -> int:
        if part.memref is None or part.memref not in known:
            self.streams.append(Stream(part, part.memref))
            if part.memref is None:
                return len(self.streams) - 1
            known[part.memref] = len(self.streams) - 1
        return known[part.memref]

    def _target(self, target: MemRef, known: dict[MemRef, int]) -> int:
        if target not in known:
            known[target] = len(self.streams)
            self.streams.append(Stream(None, target))
        return known[target]

    def emit_inner_loop(self, r: FunctionBuilder, loop: CountedLoop, cursors: Cursors) -> None:
        """Emit the innermost loop: whole vectors, then ever narrower ones for the rest."""
        inner = _InnerLoop(r, self, loop, cursors)
        for assign in self.assigns:
            inner.hoist(assign.value)
        done, width = 0, 2 * r.lanes if self.packs_pairs(r, loop) else r.lanes
        while width >= 1:
            whole = (loop.count - done) // width * width
            if whole:

                def chunk(index: Value, width: int = width) -> None:
                    if width >= r.lanes:
                        inner.fetch_ahead(index)
                    inner.emit(index, width)

                r.counted_loop(done + whole, width, chunk, done, loop.per_partition)
                done += whole
            width //= 2

    def packs(self, wanted: Expr) -> bool:
        """True if ``wanted`` is a result in bfloat16 and no arithmetic that is rounded for it alone.

        To pack what that gives takes longer than to keep it as float32.
        """
        if wanted.kind != "cast" or wanted.args[0].dtype is not dt.bfloat16:
            return False
        values = [assign.value for assign in self.assigns if assign.target == wanted.args[0].memref]
        return id(values[-1]) not in self.unseen

    def rounding_of(self, number: int) -> int | None:
        """The number of the next assignment, if it rounds the result of that one to bfloat16 and does no more."""
        following = self.assigns[number + 1 : number + 2]
        value = following[0].value if following else None
        if value is None or value.kind != "cast" or value.dtype is not dt.bfloat16 or value.args[0].kind != "load":
            return None
        assign = self.assigns[number]
        is_rounded = value.args[0].memref == assign.target and assign.value.dtype is dt.float32
        return number + 1 if is_rounded else None

    @property
    def has_exponentials(self) -> bool:
        """True if one of the results is an exponential, which two vectors at a time compute faster."""
        return any(_with_short_formula(assign) is not None for assign in self.assigns)

    def packs_pairs(self, r: FunctionBuilder, loop: CountedLoop) -> bool:
        """True if ``loop`` takes two vectors at a time."""
        targets = [assign.target for assign, stream in zip(self.assigns, self.targets, strict=True) if stream >= 0]
        return packs_pairs(r, [assign.value for assign in self.assigns], targets, loop)


class _InnerLoop(InnerLoop):
    """The innermost loop; ``registers`` hold what the elements of one step have in memory."""

    def __init__(self, r: FunctionBuilder, fused: _Fused, loop: CountedLoop, cursors: Cursors) -> None:
        super().__init__(r, fused.streams, loop, cursors)
        self.stream_of = fused.stream_of
        self.fused = fused
        self.registers: dict[MemRef, Value] = {}

    def emit(self, index: Value, width: int) -> None:
        """Emit all statements for elements ``index`` … ``index + width - 1``."""
        self.registers = {}
        for assign, stream in zip(self.fused.assigns, self.fused.targets, strict=True):
            is_seen = stream >= 0 or assign.target in self.fused.moved
            value = (self.written if is_seen else self.value)(assign.value, index, width)
            self.registers[assign.target] = value
            if stream >= 0:
                self.store(assign.target, value, index, width, stream)

    def emit_pair(self, columns: Sequence[Value]) -> list[dict[MemRef, Value]]:
        """Emit all statements for the two vectors of elements at ``columns``; the registers of each."""
        registers: list[dict[MemRef, Value]] = [{}, {}]
        done = 0
        for number, (assign, stream) in enumerate(zip(self.fused.assigns, self.fused.targets, strict=True)):
            if number < done:
                continue
            function = _with_short_formula(assign)
            if function is not None:
                done = self._emit_exponentials(number, function, columns, registers)
                continue
            is_seen = stream >= 0 or assign.target in self.fused.moved
            vectors = self._each(self.written if is_seen else self.value, assign.value, columns, registers)
            self._keep(assign.target, stream, columns, registers, vectors)
        return registers

    def _emit_exponentials(
        self, number: int, function: Expr, columns: Sequence[Value], registers: Sequence[dict[MemRef, Value]]
    ) -> int:
        """Emit assignment ``number``, an exponential, and its rounding to bfloat16 with it; the next one's number."""
        assign, stream = self.fused.assigns[number], self.fused.targets[number]
        normal, lanes = normal_of(function), self.r.lanes
        assert normal is not None
        last = self.fused.rounding_of(number) or number
        rounded = self.fused.assigns[last]
        given = self._each(self.value, function.args[0], columns, registers)
        others = partial(self._each, self.written, function, columns, registers)
        vectors, pair = emit_normal_pair(self.b, normal, given, rounded.value.dtype, others)
        if assign.value.dtype is dt.float32:
            self._keep(assign.target, stream, columns, registers, vectors)
        if rounded.value.dtype is not dt.float32:
            halves = [lanes_of(self.b, pair, pair, first, lanes) for first in (0, lanes)]
            self._keep(rounded.target, -1, columns, registers, halves)
            if self.fused.targets[last] >= 0:
                self.put(rounded.target, pair, columns[0], 2 * lanes, self.fused.targets[last])
        return last + 1

    def _keep(
        self,
        target: MemRef,
        stream: int,
        columns: Sequence[Value],
        registers: Sequence[dict[MemRef, Value]],
        vectors: Sequence[Value],
    ) -> None:
        """Keep ``vectors`` as what ``target`` holds at ``columns``, and store them if that is a ``stream``."""
        for own, column, vector in zip(registers, columns, vectors, strict=True):
            own[target] = vector
            if stream >= 0:
                self.store(target, vector, column, self.r.lanes, stream)

    def _each(
        self,
        value: Callable[[Expr, Value, int], Value],
        expr: Expr,
        columns: Sequence[Value],
        registers: Sequence[dict[MemRef, Value]],
    ) -> list[Value]:
        """The ``value`` of ``expr`` at each of ``columns``, given what ``registers`` hold there."""
        vectors: list[Value] = []
        for own, column in zip(registers, columns, strict=True):
            self.registers = own
            vectors.append(value(expr, column, self.r.lanes))
        return vectors

    def hoist(self, expr: Expr) -> None:
        """Compute the loop invariants of ``expr``. Those of operators whose NaN must be short get the canonical one."""
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


class _Summed:
    """The statements of ``fused`` with sequential sums of what some of them compute, row by row.

    Nothing is asked for ahead: measured with RMSNorm of 1024 columns, it cost 12 %.
    """

    def __init__(self, r: FunctionBuilder, fused: _Fused, totals: Sequence[Reduce]) -> None:
        self.r, self.fused = r, fused
        self.wanted = [total.value for total in totals]
        self.paired = len(totals) == 1 and fused.packs(totals[0].value)
        """True if bfloat16 is kept as it is stored, and decoded where it is added."""
        if self.paired:
            self.wanted = [totals[0].value.args[0]]
        value = totals[0].value
        rows, columns = value.rows, value.columns
        chunks = MemRef(SCRATCH, 0, rows, columns, ((1, columns),), dt.float32)  # each row is at its place in a chunk
        self.totals = [replace(total, value=Expr("load", dt.float32, rows, columns, memref=chunks)) for total in totals]
        patterns = [pattern_of(stream, columns) for stream in fused.streams]
        self.by_group, self.elements = loop_nest(patterns, [1, columns // totals[0].groups, columns])
        steps = tuple(partition_step(stream, rows) for stream in fused.streams)
        self.rows = CountedLoop(rows, steps, r.per_partition(rows))

    def emit(self) -> None:
        """Emit the loop for the rows in the routine's range."""
        self.r.need_scratch()
        starts = self.r.start(self.fused.streams)
        numbers = self._numbers(starts)

        def row(number: Value, group: Value, keeps: Sequence[Keep], column: Value, width: int) -> None:
            cursors = self.r.advanced(self.fused.streams, starts, self.rows, number)
            cursors = self.r.advanced(self.fused.streams, cursors, self.by_group, group)
            loop = _InnerLoop(self.r, self.fused, self.elements, cursors)
            loop.invariants.update(numbers)
            loop.by_words &= self.paired  # what is kept goes in order
            for assign in self.fused.assigns:
                loop.hoist(assign.value)
            by_pairs = self.fused.packs_pairs(self.r, self.elements) or self.fused.has_exponentials
            most = 2 * self.r.lanes if by_pairs else self.r.lanes
            emit_row(self.r, width, most, partial(self._elements, loop, keeps, column))

        sums: list[tuple[Reduce, Nest]] = []
        for total in self.totals:
            nest = row_sums(total, self.r.per_partition)
            assert nest is not None, "sums of dense rows have loops"
            sums.append((total, nest))
        kind = PairedChunks if self.paired else Chunks if self.fused.has_exponentials else DenseChunks
        emit_groups(self.r, sums, row, kind)

    def _numbers(self, starts: Cursors) -> dict[int, Value]:
        """The numbers of the expressions, which are the same for all rows."""
        loop = _InnerLoop(self.r, self.fused, self.elements, starts)
        for assign in self.fused.assigns:
            for part in subexpressions(assign.value):
                if part.kind == "value":
                    loop.hoist(part)
        return loop.invariants

    def _elements(self, loop: _InnerLoop, keeps: Sequence[Keep], column: Value, index: Value, size: int) -> None:
        """``size`` elements from ``index`` on, counted from ``column``."""
        b, lanes = self.r.b, self.r.lanes
        at = b.add(column, index)
        if size > lanes and self.fused.has_exponentials:
            places = [index, b.add(index, i64(lanes))]
            columns = [at, b.add(at, i64(lanes))]
            for place, here, registers in zip(places, columns, loop.emit_pair(columns), strict=True):
                loop.registers = registers
                for keep, wanted in zip(keeps, self.wanted, strict=True):
                    keep(place, loop.value(wanted, here, lanes), lanes)
            return
        loop.emit(at, size)
        for keep, wanted in zip(keeps, self.wanted, strict=True):
            keep(index, loop.in_order(loop.value(wanted, at, size), size), size)


def _with_short_formula(assign: Assign) -> Expr | None:
    """The function with a short formula (an exponential) that ``assign`` stores in float32 or bfloat16; or None."""
    value = assign.value
    if value.kind == "cast" and value.dtype is dt.bfloat16 and value.args[0].dtype is dt.float32:
        value = value.args[0]
    return value if normal_of(value) is not None else None


def _has_short_nan(expr: Expr) -> bool:
    """True of arithmetic on bfloat16, and on what all elements of a row share, whose NaN is canonical.

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
    """Note the memory that ``expr`` loads and whose NaN are seen; ``moves``: its own value is."""
    if expr.kind == "load" and moves and expr.memref is not None:
        moved.add(expr.memref)
    is_arithmetic = (expr.kind == "alu" and expr.op not in BITS) or expr.kind == "act"
    is_arithmetic |= expr.kind == "cast" and expr.dtype not in (dt.float32, dt.tfloat32)  # each has one NaN
    for number, arg in enumerate(expr.args):
        _note_moved(arg, moves and not (is_arithmetic or (expr.kind == "select" and number == 0)), moved)
