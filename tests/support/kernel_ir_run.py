"""The kernel IR over random fields: what native code does, statement by statement, on numbers that are not known.

Elements lie where the layout of a tile puts them. In pairs of rows that is the place which both sides of a copy name.
A shared loop runs element by element. Here its statements run one after the other on all elements, which is the same
only if no element reads what another one writes: that is looked at, byte by byte, without the compiler's own means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nki import target as targets
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import (
    PANEL_BASE,
    REGISTER,
    SCRATCH,
    Assign,
    Call,
    Expr,
    Fused,
    LoopStatement,
    Matmul,
    MemRef,
    PairedSums,
    Param,
    Print,
    Reduce,
    Scan,
    loads,
)
from nki.backend.numpy.values import Value
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE
from nki.ir.types import Access, Buffer, Tensor
from nki.proofs.memory import PlacedSymbols
from nki.proofs.symbols import UndecidedError
from nki.target.fact_rows import Fact
from tests.support.symbolic_ranks import RankProver

Values = dict[MemRef, Value]


def is_lowered(inst: Inst) -> bool:
    """False for what native code does by other means than the kernel IR of the whole instruction."""
    effects = inst.effects
    return not (inst.indexed_by() or effects.collective or effects.barrier or effects.exchange)


class LoopProver(RankProver):
    """Executes instructions as native code does: by their kernel IR."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stored: dict[Tensor, Tensor] = {}
        """What a tile with a layout is in memory: a row with its elements, and with what lies between them."""

    def in_memory(self, tensor: Tensor) -> Tensor:
        """The row of memory in which the elements of ``tensor`` lie."""
        if tensor not in self.stored:
            size = tensor.layout.elements(tensor.shape[0], tensor.free_size)
            self.stored[tensor] = Tensor(tensor.name, (1, size), tensor.dtype, Buffer.hbm)
        return self.stored[tensor]

    def _execute_resolved(self, inst: Inst) -> None:
        if (meeting := inst.as_barrier()) is not None:
            self.barrier(meeting.cores, inst.user_name or meeting.data.name)  # the tag that native code has
        elif not is_lowered(inst):
            super()._execute_resolved(inst)
        else:
            builder = lower(inst, aliases(inst))
            _Routine(self, inst, builder.scratch_bytes).run(builder.statements)


class _Routine:
    """The native code of one instruction."""

    def __init__(self, prover: LoopProver, inst: Inst, scratch_bytes: int) -> None:
        self.prover, self.inst = prover, inst
        self.operands, self.numbers = inst.accesses(), inst.immediates()
        self.bytes = scratch_bytes + 64
        fact = Fact(self.bytes, "bytes", "scratch memory")
        self.scratch = PlacedSymbols(targets.find("trn2").with_facts({"sbuf_partition_bytes": fact}), {})
        self.panel: Value | None = None

    def run(self, statements: Iterable[LoopStatement]) -> None:
        for statement in statements:
            if isinstance(statement, Fused):
                self.loop(statement)
            elif isinstance(statement, PairedSums):
                results = [self.value_of(part) for part in statement.parts]
                for part, result in zip(statement.parts, results, strict=True):
                    self.store(part.target, result)
            elif isinstance(statement, Call):
                self.call(statement)
            elif not isinstance(statement, Print):
                self.store(statement.target, self.value_of(statement))

    # -- statements

    def value_of(self, statement: Assign | Reduce | Matmul | Scan, registers: Values | None = None) -> Value:
        """What a statement stores."""
        prover, registers = self.prover, registers or {}
        match statement:
            case Assign(target, value):
                result = self.expression(value, registers)
                is_row = value.rows == 1 and target.rows > 1 and value.columns == target.rows * target.columns
                return prover.reshape(result, target.rows) if is_row else result
            case Reduce(_, value, op, groups, cross_partition, init):
                whole = self.spread(self.expression(value, registers), value.rows, value.columns)
                if cross_partition:
                    return prover.reduce_partitions(op, whole)
                start = None if init is None else self.expression(init, registers)
                return prover.reduce(op, whole, groups, start)
            case Matmul(target, left, right, accumulate, _, epilogue):
                result = prover.matmul(self.load(left), self.load(right))
                if accumulate:
                    result = prover.alu("add", self.load(target), result)
                if epilogue is not None:
                    self.panel = result
                    result = self.expression(epilogue, registers)
                return result
            case Scan(target, sources, init, steps):
                size = target.rows, target.columns
                elements = tuple(self.spread(self.load(source), *size) for source in sources)
                return prover.scan(steps, elements, self.spread(self.load(init), target.rows, 1))

    def call(self, call: Call) -> None:
        prover, numbers = self.prover, call.numbers
        sources = [self.load(source) for source in call.sources]
        match call.function:
            case "top8":
                results = [prover.top8(*sources)]
            case "find":
                results = [prover.find(*sources, bool(numbers[1]))]
            case "nonzero":
                results = [prover.nonzero(*sources)]
            case "ranked":
                results = [prover.ranked(*sources, numbers[1])]
            case "xorwow":
                results = list(prover.xorwow(*sources, numbers[0]))
            case "put":
                memory, access = self.place(call.target)
                own, prover.memory = prover.memory, memory
                try:
                    prover.put(access, *sources)
                finally:
                    prover.memory = own
                return
        for target, result in zip(call.targets, results, strict=True):
            self.store(target, result)

    def loop(self, loop: Fused) -> None:
        """A shared loop: its statements at one element, then at the next one."""
        self.check_apart(loop)
        registers: Values = {}
        for part in loop.parts:
            result = self.value_of(part, registers)
            registers[part.target] = self.spread(result, part.target.rows, part.target.columns)
        for target, result in registers.items():
            if target.base != REGISTER:
                self.store(target, result)

    def check_apart(self, loop: Fused) -> None:
        """Raise if an element of a loop reads or writes what another one of its elements writes."""
        targets = [part.target for part in loop.parts if part.target.base != REGISTER]
        written = {target: self.bytes_of(target) for target in targets}
        for part in loop.parts:
            values = [part.value, *([part.init] if isinstance(part, Reduce) and part.init is not None else [])]
            read = [each.memref for value in values for each in loads(value) if each.memref is not None]
            for memref in dict.fromkeys([*read, part.target]):
                for target in targets:
                    if memref.base != REGISTER and self.meet(memref, target, written):
                        raise UndecidedError(f"{self.inst!r}: an element of a loop uses what another one writes")

    def meet(self, one: MemRef, target: MemRef, written: dict[MemRef, tuple[object, Any]]) -> bool:
        """True if both share a byte at different elements of the loop."""
        memory, first = self.bytes_of(one)
        other_memory, second = written[target]
        if one == target or memory != other_memory:
            return False
        _, places, others = np.intersect1d(first, second, return_indices=True)
        return not np.array_equal(places // one.dtype.itemsize, others // target.dtype.itemsize)

    def bytes_of(self, memref: MemRef) -> tuple[object, Any]:
        """The memory, and the bytes in it, element by element."""
        memory, access = self.place(memref)
        elements = np.array([access.offset])
        for step, count in access.pattern():
            elements = (elements[:, None] + np.arange(count) * step).reshape(-1)
        size = access.dtype.itemsize
        name = "scratch" if memory is self.scratch else access.tensor
        return name, (elements[:, None] * size + np.arange(size)).reshape(-1)

    # -- expressions

    def expression(self, expr: Expr, registers: Values) -> Value:
        prover = self.prover
        args = [self.expression(arg, registers) for arg in expr.args]
        match expr.kind:
            case "load":
                assert expr.memref is not None
                if expr.memref.base == PANEL_BASE:
                    assert self.panel is not None
                    return self.panel
                return registers[expr.memref] if expr.memref in registers else self.load(expr.memref)
            case "value":
                return prover.const(self.number(expr.value), expr.dtype)
            case "iota":
                dims, offset, multiplier = expr.value
                return prover.iota(dims, self.number(offset), self.number(multiplier), expr.rows)
            case "gather":
                assert expr.memref is not None
                return prover.gather(self.load(replace(expr.memref, dims=(expr.value,))), *args)
            case "cast":
                return prover.cast(*args, expr.dtype)
            case "narrow":
                return prover.narrow(*args, expr.dtype)
            case "alu":
                return prover.alu(expr.op, *args)
            case "integer":
                return prover.integer(expr.op, *args, expr.dtype)
            case "act":
                return prover.act(expr.op, *args)
            case "select":
                return prover.select(*args)
            case "bits":
                return prover.bits(*args, expr.dtype)
            case "unpack":
                return prover.unpack(*args, expr.value)
            case "pack":
                return prover.pack(args, expr.dtype)
            case _:
                raise AssertionError(f"{expr.kind} is no expression of a statement")

    def number(self, value: Any) -> Any:
        return self.numbers[value.index] if isinstance(value, Param) else value

    def spread(self, value: Value, rows: int, columns: int) -> Value:
        """``value`` with all its elements: a size of 1 repeats."""
        access = Access.whole(Tensor("spread", (rows, columns), value.dtype, Buffer.hbm))
        self.prover.store(access, value)
        result = self.prover.load(access)
        self.prover.memory.forget(access.tensor)
        return result

    # -- memory

    def place(self, memref: MemRef) -> tuple[Any, Access]:
        """The memory and the elements of ``memref``."""
        size = memref.dtype.itemsize
        shape, strides = zip(
            (memref.rows, memref.row_step), *((count, step) for step, count in memref.dims), strict=True
        )
        if memref.base == SCRATCH:
            tensor = Tensor("scratch", (1, self.bytes // size), memref.dtype, Buffer.sbuf, (0, 0))
            return self.scratch, Access(tensor, memref.offset // size, shape, strides, memref.dtype)
        operand = self.operands[memref.base]
        tensor, offset, layout = operand.tensor, operand.offset, operand.tensor.layout
        if layout is not DENSE:
            offset = layout.place(tensor.shape[0], tensor.free_size, offset)
            tensor = self.prover.in_memory(tensor)
        first = offset * operand.dtype.itemsize + memref.offset
        return self.prover.memory, Access(tensor, first // size, shape, strides, memref.dtype)

    def load(self, memref: MemRef) -> Value:
        memory, access = self.place(memref)
        own, self.prover.memory = self.prover.memory, memory
        try:
            return self.prover.load(access)
        finally:
            self.prover.memory = own

    def store(self, memref: MemRef, value: Value) -> None:
        memory, access = self.place(memref)
        own, self.prover.memory = self.prover.memory, memory
        try:
            self.prover.store(access, value)
        finally:
            self.prover.memory = own
