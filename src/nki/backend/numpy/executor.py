"""The NumPy executor: runs the semantics of one instruction after the other, as they are written.

Matrix products, activation functions and ``power`` are the compiled primitives that native code uses too, so that both
executors agree to the bit; everything else here is NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from nki.backend.numpy import alu_operations, top8
from nki.backend.numpy.gather_scatter import execute_indirect, gathered
from nki.backend.numpy.memory import Array, Memory
from nki.backend.numpy.rank_exchange import RankExchange, takes_part
from nki.backend.numpy.values import Runs, Value, laid_out, runs_of, states
from nki.base import element_types as dt
from nki.base.dtype_conversion import canonical_nan, from_float32, to_float32
from nki.base.element_types import DType
from nki.base.tensor_text import device_print
from nki.ir.algebra import Step, column_of, reinterpreted
from nki.ir.effects import Collective
from nki.ir.execution_observer import ExecutionObserver
from nki.ir.indirection.gather_offsets import Offsets, group_of, index_reads, indirect_operands, lists
from nki.ir.indirection.runtime_index import largest_index, out_of_bounds, split_rows
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, While, note_loop
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, is_element_indexed
from nki.isa.tables.alu_operators import BITS
from nki.numerics import numpy_entry
from nki.numerics.matmul.contract import adds_by_groups
from nki.numerics.matmul.host import matmul
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin


class Reference:
    """The algebra over NumPy arrays."""

    def __init__(self, memory: Memory, participant: Participant | None = None) -> None:
        self.memory = memory
        self.participant = participant
        self.running: Inst | None = None
        self.observer: ExecutionObserver | None = None
        self.prints = True
        """``nl.device_print`` prints."""

    def run(self, body: Iterable[Statement]) -> None:
        """Execute instructions and loops, one after the other."""
        for statement in body:
            if isinstance(statement, Inst):
                self.execute(statement)
            else:
                self.repeat(statement, statement.body, self.rounds(statement))

    def repeat(self, loop: Loop, body: Sequence[Statement], rounds: Iterator[None]) -> None:
        """Execute ``body`` in each of the ``rounds`` of ``loop``."""
        try:
            for _ in rounds:
                if self.participant is not None:
                    self.participant.check()
                self.run(body)
        except BaseException as error:
            note_loop(error, loop)
            raise

    def rounds(self, loop: Loop) -> Iterator[None]:
        """As many items as the loop has iterations; the register of the loop is set, or tested, before each."""
        if self.observer is not None:
            self.observer.enters_loop(loop)
        if isinstance(loop, While):
            while self._word(loop, loop.register):
                yield
            return
        bounds = (loop.start, loop.stop)
        start, stop = (self._word(loop, bound) if isinstance(bound, Access) else bound for bound in bounds)
        for value in range(start, stop, loop.step):
            self.memory.window(loop.register)[...] = value
            if self.observer is not None:
                self.observer.counts_iteration(loop)
            yield

    def _word(self, loop: Loop, register: Access) -> int:
        if self.observer is not None:
            self.observer.reads_index(loop, register)
        return int(self.memory.window(register).item())

    def execute(self, inst: Inst) -> None:
        """Execute one instruction. Raises :class:`OutOfBoundsError` if a run-time index leads outside its tensor."""
        self.running = inst
        collective = inst.as_collective()
        if collective is None:
            self._execute_alone(inst)
        elif not takes_part(collective):
            return
        elif self.participant is None:
            self._execute_alone(inst)
        else:
            self._execute_collective(inst, collective, self.participant)

    def _execute_collective(self, inst: Inst, collective: Collective, participant: Participant) -> None:
        """Exchange with other ranks as one core of this one; cores with memory of their own come together, and exchange
        one after the other.
        """
        if not (collective.groups and collective.per_core):
            if collective.acts_on(participant.rank):
                self._execute_alone(inst)
            return
        cores = range(participant.rendezvous.count)
        for core in cores:
            participant.barrier(inst, cores, inst.mnemonic)
            if core == participant.rank:
                self._execute_alone(inst)
        participant.barrier(inst, cores, inst.mnemonic)

    def _execute_alone(self, inst: Inst) -> None:
        if self.observer is not None and inst.effects.contents is not None:
            self.observer.starts(inst)
        if not inst.indexed_by():
            self._execute_resolved(inst)
            return
        for row in split_rows(inst):
            if self.observer is not None:
                for index in index_reads(row):
                    self.observer.reads_index(row, index)
            if resolved := self._resolved(row):
                self._execute_resolved(resolved)

    def rerun(self, inst: Inst) -> None:
        """Execute ``inst``, with its indices resolved, once more and unwatched."""
        observer, self.observer = self.observer, None
        execute_indirect(inst, self)
        self.observer = observer

    def _execute_resolved(self, inst: Inst) -> None:
        observer = self.observer
        if observer is not None:
            observer.begin(inst)
        if inst.indexed_by():
            execute_indirect(inst, self)
        else:
            inst.semantics(self)
        if observer is not None:
            observer.end()

    def _resolved(self, inst: Inst) -> Inst | None:
        """``inst`` with run-time indices resolved; None if one is out of bounds and the instruction is skipped then.

        Element-indexed operands stay as they are; their offsets are checked.
        """
        for _, f, access in indirect_operands(inst):
            offsets = self.offsets(inst, access)
            outside = offsets[offsets > largest_index(access)]
            if len(outside):
                raise out_of_bounds(inst, f.name, access, int(outside[0]))
        indexed = {i: (f, a) for i, (f, a) in enumerate(inst.operands()) if a.dynamic and not is_element_indexed(a)}
        if not indexed:
            return inst
        resolved = {i: self.followed(a) for i, (_, a) in indexed.items()}
        for i, (f, access) in indexed.items():
            if resolved[i] is None and not inst.skips_out_of_bounds:
                raise out_of_bounds(inst, f.name, access, self.index(access))
        complete = {i: access for i, access in resolved.items() if access is not None}
        return inst.with_operands(complete) if len(complete) == len(resolved) else None

    def offsets(self, inst: Inst, access: Access) -> Offsets:
        """The offsets by which ``inst`` chooses the elements of ``access``, for each group of partitions."""
        assert access.dynamic is not None
        return lists(self.memory.window(access.dynamic.source), group_of(inst), access.shape[1])

    def contents(self, inst: Inst, access: Access) -> Array:
        """The elements of an operand of ``inst``, in its shape; gathered, if it is element-indexed."""
        if not is_element_indexed(access):
            return self.memory.window(access)
        return gathered(self.memory, access, self.offsets(inst, access))

    def index(self, access: Access) -> int:
        """The run-time index of ``access``: up to 32 bits unsigned, as on hardware; one of 64 bits with its sign."""
        assert access.dynamic is not None
        source = access.dynamic.source
        value = int(self.memory.window(source).item())
        return value if source.dtype.itemsize == 8 else value % (1 << 32)

    def followed(self, access: Access) -> Access | None:
        """``access`` at its run-time index; None if that is outside its tensor."""
        assert access.dynamic is not None
        index = self.index(access)
        if not 0 <= index <= largest_index(access):
            return None
        offset = access.offset + index * access.dynamic.step
        return Access(access.tensor, offset, access.shape, access.strides, access.dtype)

    def load(self, source: Access | float) -> Value:
        if not isinstance(source, Access):
            return self.const(source, dt.float32)
        if self.observer is not None:
            self.observer.reads(source)
        window = self.memory.window(source)
        return Value(window.reshape(source.shape[0], -1).copy(), source.dtype)

    def const(self, value: Any, dtype: DType) -> Value:
        if dtype.is_integer or dtype.is_packed:
            whole = np.array([[int(value)]], np.int64).astype(dtype.plain)  # a 32-bit pattern may come unsigned
            return Value(whole, dtype)
        with np.errstate(over="ignore"):
            return Value(from_float32(np.array([[value]], np.float64).astype(np.float32), dtype), dtype)

    def flat(self, source: Access) -> Value:
        if self.observer is not None:
            self.observer.reads(source)
        row = self.memory.window(source).reshape(1, -1)
        # An exchange copies what it has to: most of its time goes by with large tensors.
        exchanged = self.running is not None and self.running.effects.collective is not None
        return Value(row if exchanged else row.copy(), source.dtype)

    def store(self, target: Access, value: Value) -> None:
        assert value.dtype is target.dtype, "semantics cast before they store"
        place, lay_out = laid_out(target, value.shape)
        if self.observer is not None:
            self.observer.writes(place)
        window = self.memory.window(place)
        if isinstance(value, Runs) and place is target and window.flags.c_contiguous:
            value.copy_to(window.reshape(-1))
        else:
            window[...] = lay_out(value.array)

    def store_bits(self, target: Access, value: Value) -> None:
        self.store(reinterpreted(target, value.dtype), value)

    def numbers(self, value: Value) -> Array:
        """The numbers with which engines compute: ``value`` in float32."""
        return to_float32(value.array, value.dtype)

    def computed(self, result: Array) -> Value:
        """The value of numbers that an engine has computed."""
        return Value(canonical_nan(result.astype(np.float32, copy=False)), dt.float32)

    def cast(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        if isinstance(value, Runs):
            return value.cast(dtype)
        return Value(from_float32(self.numbers(value), dtype), dtype)

    def narrow(self, value: Value, dtype: DType) -> Value:
        if not dtype.is_integer:
            return self.cast(value, dtype)
        info = np.iinfo(dtype.dtype)
        return Value(np.clip(value.array.astype(np.int64), info.min, info.max).astype(dtype.dtype), dtype)

    def alu(self, op: str, left: Value, right: Value | None = None) -> Value:
        if op in BITS:
            return Value(alu_operations.on_bits(op, left.array, None if right is None else right.array), left.dtype)
        x = self.numbers(left)
        y = None if right is None else self.numbers(right)
        with np.errstate(all="ignore"):
            return self.computed(alu_operations.UNARY[op](x) if y is None else alu_operations.BINARY[op](x, y))

    def integer(self, op: str, left: Value, right: Value, dtype: DType) -> Value:
        x, y = left.array.astype(np.int64), right.array.astype(np.int64)
        with np.errstate(over="ignore"):
            result = alu_operations.BINARY[op](x, y)  # of a product beyond 64 bits the low ones are right too
        whole = result.astype(np.int64)
        return Value(whole if dtype is dt.int64 else whole.astype(np.uint32).view(dtype.dtype), dtype)

    def act(self, function: str, value: Value, parameter: Value | None = None) -> Value:
        x = to_float32(value.array, value.dtype)
        second = None if parameter is None else to_float32(parameter.array, parameter.dtype)
        return Value(numpy_entry.activate(function, x, second), dt.float32)

    def reduce(self, op: str, value: Value, groups: int = 1, start: Value | None = None) -> Value:
        rows, columns = value.array.shape
        if start is not None:
            runs = runs_of(self.numbers(value), groups, self.numbers(start))
            value = Value(runs.reshape(rows, -1), dt.float32)
            columns += groups
        folded = self._fold(op, value, (rows, groups, columns // groups), 2)
        return Value(folded.array.reshape(rows, groups), folded.dtype)

    def scan(self, steps: tuple[Step, ...], values: tuple[Value, ...], start: Value) -> Value:
        elements: tuple[Array, ...] = np.broadcast_arrays(*[self.numbers(v) for v in values])
        rows, columns = elements[0].shape
        state: Array = np.broadcast_to(self.numbers(start)[:, 0], (rows,))
        each = ([array[:, column] for array in elements] for column in range(columns))
        with np.errstate(all="ignore"):
            found = states(steps, each, state, lambda op, x, y: alu_operations.BINARY[op](x, y))
        return self.computed(np.stack(found, axis=1))

    def reduce_partitions(self, op: str, value: Value) -> Value:
        folded = self._fold(op, value, value.array.shape, 0)
        return Value(folded.array.reshape(1, -1), folded.dtype)

    def _fold(self, op: str, value: Value, shape: tuple[int, ...], axis: int) -> Value:
        """Fold ``axis`` of the value, seen as ``shape``, one element after the other."""
        bits = op in BITS
        array = value.array if bits else self.numbers(value)
        array = np.moveaxis(array.reshape(shape), axis, 0)
        with np.errstate(all="ignore"):
            if op in alu_operations.ACCUMULATE:
                result = alu_operations.ACCUMULATE[op](array, axis=0)[-1]
            else:
                result = array[0] if bits or array.shape[0] > 1 else alu_operations.first(op, array[0])
                for element in array[1:]:
                    result = (
                        alu_operations.on_bits(op, result, element)
                        if bits
                        else alu_operations.BINARY[op](result, element)
                    )
        return Value(result, value.dtype) if bits else self.computed(np.asarray(result))

    def matmul(self, stationary: Value, moving: Value) -> Value:
        left, right = (np.ascontiguousarray(to_float32(v.array, v.dtype)) for v in (stationary, moving))
        out = np.empty((left.shape[1], right.shape[1]), np.float32)
        matmul(left, right, out, False, adds_by_groups(stationary.dtype, moving.dtype))
        return Value(out, dt.float32)

    def transpose(self, value: Value) -> Value:
        return Value(value.array.T.copy(), value.dtype)

    def iota(
        self, pattern: tuple[tuple[int, int], ...], offset: Any, channel_multiplier: Any, partitions: int
    ) -> Value:
        total = np.arange(partitions, dtype=np.int64).reshape(-1, *[1] * len(pattern)) * int(channel_multiplier)
        for place, (step, count) in enumerate(pattern):
            shape = [1] * (len(pattern) + 1)
            shape[place + 1] = count
            total = total + np.arange(count, dtype=np.int64).reshape(shape) * step
        wrapped = (total + int(offset)).astype(np.int32)  # wraps as the engine's 32-bit adders do
        return Value(wrapped.reshape(partitions, -1), dt.int32)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return Value(np.where(condition.array != 0, yes.array, no.array), yes.dtype)

    def top8(self, value: Value) -> Value:
        return Value(top8.top8(to_float32(value.array, value.dtype)), dt.float32)

    def find(self, value: Value, wanted: Value, last_first: bool) -> Value:
        inside, looked_for = (to_float32(v.array, v.dtype) for v in (value, wanted))
        return Value(top8.find(inside, looked_for, last_first), dt.uint32)

    def put(self, target: Access, places: Value, value: Value) -> None:  # over what the instruction has just stored
        window = self.memory.window(target)
        rows, numbers = np.nonzero(places.array < target.free_elements)
        inner = np.unravel_index(places.array[rows, numbers], target.shape[1:])
        window[(rows, *inner)] = value.array[0, 0]

    def strided(self, value: Value, start: int, step: int, count: int | None = None) -> Value:
        stop = None if count is None else start + count * step
        return Value(value.array[:, start:stop:step], value.dtype)

    def reshape(self, value: Value, partitions: int) -> Value:
        return Value(value.array.reshape(partitions, -1), value.dtype)

    def gather(self, value: Value, index: Value) -> Value:
        numbers = index.array.astype(np.int64)
        count = value.array.shape[1]
        outside = (numbers < 0) | (numbers >= count)
        if self.observer is not None and outside.any():
            self.observer.gathers_out_of_range(numbers, outside)
        rows = np.arange(max(len(value.array), len(numbers)))[:, None]
        elements = value.array[rows % len(value.array), np.where(outside, 0, numbers)]
        elements[np.broadcast_to(outside, elements.shape)] = np.frombuffer(value.dtype.poison, value.dtype.plain)[0]
        return Value(elements, value.dtype)

    def nonzero(self, value: Value) -> Value:
        result = np.full((len(value.array), value.array.shape[1] + 1), -1, np.int32)
        for row, selected in zip(result, value.array != 0, strict=True):
            columns = np.flatnonzero(selected)
            row[: len(columns)] = columns
            row[-1] = len(columns)
        return Value(result, dt.int32)

    def ranked(self, value: Value, count: int) -> Value:
        numbers = to_float32(value.array, value.dtype)[:, ::-1]  # a stable sort then puts the earlier of equals last
        words = np.ascontiguousarray(numbers).view(np.int32)
        keys = np.where(np.isnan(numbers), 0x7FFFFFFF, words ^ ((words >> 31) & 0x7FFFFFFF))
        order = np.argsort(keys, axis=1, kind="stable")[:, -count:]
        return Value((numbers.shape[1] - 1 - order).astype(np.int32), dt.int32)

    def xorwow(self, state: Value, count: int) -> tuple[Value, Value]:
        rows, words = state.array.shape
        x, y, z, w, v, d = (state.array[:, i::6].copy() for i in range(6))
        drawn: list[Array] = []
        for _ in range(-(-count * 6 // words)):
            t = x ^ (x >> 2)
            x, y, z, w = y, z, w, v
            v = (v ^ (v << 4)) ^ (t ^ (t << 1))
            d = d + np.uint32(362437)
            drawn.append(d + v)
        bits = np.concatenate(drawn, axis=1)[:, :count]
        after = np.stack((x, y, z, w, v, d), axis=2).reshape(rows, words)
        return Value(bits, dt.uint32), Value(after, dt.uint32)

    def bits(self, value: Value, dtype: DType) -> Value:
        return Value(np.ascontiguousarray(value.array).view(dtype.plain), dtype)

    def unpack(self, value: Value, index: int) -> Value:
        element, width = value.dtype.element, 2 * value.dtype.itemsize
        assert element is not None
        codes = value.array >> np.array(width * index, value.array.dtype) & np.array(
            (1 << width) - 1, value.array.dtype
        )
        return Value(canonical_nan(codes.astype(np.uint8).view(element).astype(np.float32)), dt.float32)

    def pack(self, values: Sequence[Value], dtype: DType) -> Value:
        assert dtype.element is not None
        codes = from_float32(np.stack(np.broadcast_arrays(*(v.array for v in values)), axis=-1), dt.of(dtype.element))
        return Value(codes.view(dtype.plain)[..., 0], dtype)

    def stack(self, values: Sequence[Value], partitions: int) -> Value:
        whole = np.concatenate([v.array.reshape(-1) for v in values])
        return Value(whole.reshape(partitions, -1), values[0].dtype)

    def exchange(self, value: Value, to: int, source: int, pipe: int) -> Value:
        if self.participant is None or self.running is None or to == self.participant.rank:
            return value
        return self.participant.exchange(self.running, value, to, source, pipe)

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        if self.participant is not None and self.running is not None:
            self.participant.barrier(self.running, cores, tag)

    def _ranks(self) -> RankExchange[Value]:
        assert self.running is not None
        return RankExchange(self.running, lambda array, like: Value(array, like.dtype))

    def rank(self) -> Value:
        return Value(np.array([[self._ranks().rank]], np.int32), dt.int32)

    def gather_ranks(self, value: Value, count: int) -> list[Value]:  # noqa: ARG002  # as the algebra has it
        return self._ranks().gather(value)

    def fold_ranks(self, value: Value, count: int, combine: Callable[[Value, Value], Value]) -> Value:  # noqa: ARG002
        runs = self._ranks().fold(value, combine)
        return runs[0] if len(runs) == 1 else Runs([run.array for run in runs], runs[0].dtype)

    def exchange_parts(self, value: Value, count: int) -> list[Value]:
        return self._ranks().parts(value, count)

    def permute_ranks(self, value: Value, otherwise: Value, pairs: Sequence[tuple[int, int]]) -> Value:
        return self._ranks().permute(value, otherwise, pairs)

    def show(self, prefix: str, value: Value, shape: tuple[int, ...]) -> None:
        if self.prints:
            device_print(prefix, value.array.reshape(shape), value.dtype)

    def column(self, target: Access, index: int) -> Access:
        return column_of(target, index)


Watch = Callable[[CoreProgram, Reference], ExecutionObserver]
"""Makes the observer of the program of one core and of its executor."""


Make = Callable[[Participant | None], Reference]
"""Makes the executor of one core."""


def run(kernel: Program, inputs: list[Array], watch: Watch | None = None) -> list[Array]:
    """Run ``kernel`` on dense arrays in the order of its inputs; new arrays for its outputs."""
    memory = Memory()
    memory.begin(kernel, inputs)
    run_cores(kernel, partial(Reference, memory), watch)
    return memory.results(kernel)


def run_cores(kernel: Program, make: Make, watch: Watch | None = None) -> None:
    """Run all cores of ``kernel``; ``make`` gives each its executor, on the memory that they share."""

    def run_core(core: CoreProgram, participant: Participant | None = None) -> None:
        executor = make(participant)
        if watch is not None:
            executor.observer = watch(core, executor)
        executor.run(core.body)

    if len(kernel.cores) > 1:
        RoundRobin[None](len(kernel.cores)).run([partial(run_core, core) for core in kernel.cores])
    else:
        run_core(kernel.core)
