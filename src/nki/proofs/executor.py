"""An executor of the algebra for proofs: known numbers as the NumPy executor computes them, all others as symbols.

Indices, masks made of ``iota``, constants and what is computed from these alone stay known, to the bit. A primitive
with one operand that depends on the inputs works on :class:`Symbols`: over the real numbers, without rounding.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.executor import run_cores
from nki.backend.numpy.values import Value, laid_out, states
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.algebra import Step
from nki.ir.indirection.runtime_index import largest_index, out_of_bounds, split_rows
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, While
from nki.ir.program import Program
from nki.ir.types import Access, Tensor, is_element_indexed
from nki.isa.tables.alu_operators import BITS
from nki.proofs.memory import SymbolMemory, numbers_of
from nki.proofs.reals import Reals
from nki.proofs.symbols import Array, Symbols, UndecidedError
from nki.rendezvous.protocol import Participant
from nki.shadows.executor import Move, Real, ShadowExecutor


class Symbolic(Value):
    """A tile value of two dimensions that depends on the inputs."""

    __slots__ = ("symbols",)

    def __init__(self, symbols: Symbols, dtype: DType) -> None:
        if dtype.is_integer and not symbols.is_whole:  # else a copy of bits or places would be rounded
            symbols = replace(symbols, is_whole=True)
        self.symbols, self.dtype = symbols, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.symbols.shape

    def __getattr__(self, name: str) -> Any:
        if name == "array":
            raise UndecidedError("an operation looks at numbers that depend on the inputs")
        raise AttributeError(name)


class Prover(ShadowExecutor):
    """The algebra over :class:`Symbols`; ``reals`` has their arithmetic."""

    memory: SymbolMemory

    def __init__(self, memory: SymbolMemory, reals: Reals, participant: Participant | None = None) -> None:
        super().__init__(memory, participant)
        self.reals = reals

    def execute(self, inst: Inst) -> None:
        try:
            if time.monotonic() > self.reals.deadline:
                raise UndecidedError("the proof had not ended when its time was over")
            super().execute(inst)
        except UndecidedError as error:
            error.where = error.where or inst.where  # of the innermost one
            raise

    def rounds(self, loop: Loop) -> Iterator[None]:
        for count, _ in enumerate(super().rounds(loop)):
            if isinstance(loop, While) and count == _MOST_ITERATIONS:
                raise UndecidedError(f"the loop at {loop.where.span} has not ended after {count:,} rounds")
            yield

    def _execute_alone(self, inst: Inst) -> None:
        if not self._reads_at_symbol(inst):
            super()._execute_alone(inst)
            return
        for row in split_rows(inst):
            self._execute_for_each(row)

    def _reads_at_symbol(self, inst: Inst) -> bool:
        """True if an index depends on the inputs."""
        return any(
            access.dynamic is not None
            and not is_element_indexed(access)
            and self.memory.is_symbolic(access.dynamic.source)
            for _, access in inst.operands()
        )

    def _execute_for_each(self, inst: Inst) -> None:
        """Execute ``inst`` at every value of its index, and store the sum of the results times the truths of these."""
        indexed = {i: (f, a) for i, (f, a) in enumerate(inst.operands()) if a.dynamic is not None}
        written = inst.writes()
        sources = {access.dynamic.source for _, access in indexed.values() if access.dynamic is not None}
        if len(sources) != 1 or any(access is each for _, access in indexed.values() for each in written):
            raise UndecidedError("places that depend on the inputs are written, or several indices choose what is read")
        [source] = sources
        index = self.memory.load(source, self.reals)
        found = self.reals.indicators.find(self.reals.words(index))
        if found is None:
            raise UndecidedError(f"the index in {source.tensor.name!r} depends on the inputs, and is none of them")
        before = [self.load(access) for access in written]
        totals = [self.reals.number(0) for _ in written]
        for number in range(found.least, found.least + found.count):
            places: dict[int, Access] = {}
            for i, (f, access) in indexed.items():
                assert access.dynamic is not None
                if not 0 <= number <= largest_index(access):
                    raise out_of_bounds(inst, f.name, access, number)
                offset = access.offset + number * access.dynamic.step
                places[i] = Access(access.tensor, offset, access.shape, access.strides, access.dtype)
            for access, value in zip(written, before, strict=True):
                self.store(access, value)
            inst.with_operands(places).semantics(self)
            truth = Symbols(*found.equal(np.array(number)), None, True, index.size)
            truth = truth.moved(lambda part: part.reshape(1, 1))
            results = [self.symbols(self.load(access)) for access in written]
            totals = [
                self.reals.add(total, self.reals.multiply(truth, each))
                for total, each in zip(totals, results, strict=True)
            ]
        for access, total in zip(written, totals, strict=True):
            self.store(access, Symbolic(total, access.dtype))

    # -- between known numbers and symbols

    def symbols(self, value: Value) -> Symbols:
        """``value`` as symbols."""
        if isinstance(value, Symbolic):
            return value.symbols
        if value.dtype.is_packed:
            raise UndecidedError(f"packed numbers of {value.dtype} are computed with")
        return self.reals.constant(numbers_of(value.array, value.dtype))

    def real(self, symbols: Symbols, dtype: DType = dt.float32) -> Value:
        return Symbolic(symbols, dtype)

    # -- memory

    def loaded(self, source: Access, rows: int, real: Real) -> Value:
        if not self.memory.is_symbolic(source):
            return real()
        loaded = self.memory.load(source, self.reals)
        return Symbolic(loaded.moved(lambda part: part.reshape(rows, -1)), source.dtype)

    def store(self, target: Access, value: Value) -> None:
        if isinstance(value, Symbolic):
            place, lay_out = laid_out(target, value.shape)
            self.memory.store(place, value.symbols.moved(lay_out))
        else:
            self.memory.note_known(target)
            super().store(target, value)

    def store_bits(self, target: Access, value: Value) -> None:
        if isinstance(value, Symbolic):
            self.store(target, Symbolic(value.symbols, target.dtype))
        else:
            super().store_bits(target, value)

    # -- elements

    def cast(self, value: Value, dtype: DType) -> Value:
        if not isinstance(value, Symbolic):
            return super().cast(value, dtype)
        symbols = value.symbols
        if dtype.is_integer and not symbols.is_whole:
            rounded = self.reals.unknown_function("rounding to an integer", symbols)
            return Symbolic(Symbols(rounded.residues, rounded.exponents, None, True), dtype)
        return Symbolic(symbols, dtype)

    def narrow(self, value: Value, dtype: DType) -> Value:
        return self.cast(value, dtype) if isinstance(value, Symbolic) else super().narrow(value, dtype)

    def alu(self, op: str, left: Value, right: Value | None = None) -> Value:
        operands = [left] if right is None else [left, right]
        if not any(isinstance(each, Symbolic) for each in operands):
            return super().alu(op, left, right)
        symbols = [self.symbols(each) for each in operands]
        if op in BITS:
            return Symbolic(self.reals.unknown_function(f"bits: {op}", *symbols), left.dtype)
        if right is None:
            return self.real(UNARY[op](self.reals, symbols[0]))
        if op in ("multiply", "divide"):
            return self.real(self._product(op, left, right, symbols))
        if op == "power":
            return self.real(self._power(symbols[0], right))
        if op in BINARY:
            if op in _COMPARING:
                self._note_thresholds(left, right)
            return self.real(BINARY[op](self.reals, *symbols))
        return self.real(self.reals.unknown_function(op, *symbols))

    def _note_thresholds(self, *operands: Value) -> None:
        for each in operands:
            if not isinstance(each, Symbolic) and len(self.reals.thresholds) < _MOST_THRESHOLDS:
                distinct = np.unique(numbers_of(each.array, each.dtype))[:_MOST_THRESHOLDS]
                self.reals.thresholds |= {float(number) for number in distinct if np.isfinite(number)}

    def _product(self, op: str, left: Value, right: Value, symbols: list[Symbols]) -> Symbols:
        """A product or quotient; one factor may be known."""
        if op == "divide":
            is_plain = symbols[0].is_finite and symbols[0].levels is None
            if is_plain or isinstance(right, Symbolic):
                return self.reals.divide(*symbols)
            return self.reals.scale(symbols[0], 1 / numbers_of(right.array, right.dtype).astype(np.float32))
        for this, other in ((0, right), (1, left)):
            if not isinstance(other, Symbolic):
                return self.reals.scaled(symbols[this], numbers_of(other.array, other.dtype))
        return self.reals.multiply(*symbols)

    def _power(self, base: Symbols, exponent: Value) -> Symbols:
        if isinstance(exponent, Symbolic):
            return self.reals.exp(self.reals.multiply(exponent.symbols, self.reals.log(base)))
        numbers = np.unique(numbers_of(exponent.array, exponent.dtype))
        if len(numbers) != 1:
            raise UndecidedError("numbers are raised to powers that differ")
        return self.reals.power(base, float(numbers[0]))

    def integer(self, op: str, left: Value, right: Value, dtype: DType) -> Value:
        if not isinstance(left, Symbolic) and not isinstance(right, Symbolic):
            return super().integer(op, left, right, dtype)
        symbols = [self.symbols(each) for each in (left, right)]
        self.reals.assumptions.add("sums and products of integer inputs stay within their dtypes")
        found = BINARY[op](self.reals, *symbols) if op in BINARY else self.reals.unknown_function(op, *symbols)
        return Symbolic(found, dtype)

    def act(self, function: str, value: Value, parameter: Value | None = None) -> Value:
        if not isinstance(value, Symbolic) and not isinstance(parameter, Symbolic):
            return super().act(function, value, parameter)
        x = self.symbols(value)
        if parameter is None:
            return self.real(self.reals.activation(function, x))
        slope = self.symbols(parameter)  # prelu, the only row with one
        negative = self.reals.greater(self.reals.number(0), x)
        return self.real(self.reals.select(negative, self.reals.multiply(slope, x), x))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        if isinstance(condition, Symbolic):
            return Symbolic(self.reals.select(*(self.symbols(each) for each in (condition, yes, no))), yes.dtype)
        return super().select(condition, yes, no)

    # -- sums

    def folded(self, op: str, real: Real, move: Move, *values: Value) -> Value:
        if not any(isinstance(each, Symbolic) for each in values):
            return real()
        if op in BITS:
            raise UndecidedError(f"{op} folds patterns of numbers that depend on the inputs")
        runs = self._moved(move, values)
        if op == "add":
            return self.real(self.reals.total(runs, -1))
        if op == "maximum":
            return self.real(self.reals.greatest(runs))
        if op == "minimum":
            return self.real(self.reals.least(runs))
        first, *others = (runs.moved(lambda part, n=n: part[..., n]) for n in range(runs.shape[-1]))
        return self.real(functools.reduce(partial(BINARY[op], self.reals), others, first))

    def scan(self, steps: tuple[Step, ...], values: tuple[Value, ...], start: Value) -> Value:
        if not any(isinstance(each, Symbolic) for each in (*values, start)):
            return super().scan(steps, values, start)
        shape = np.broadcast_shapes(*(each.shape for each in values))
        elements = [self.symbols(each).moved(lambda part: np.broadcast_to(part, shape)) for each in values]
        state = self.symbols(start).moved(lambda part: np.broadcast_to(part[:, 0], (shape[0],)))
        columns = ([e.moved(lambda part, n=n: part[:, n]) for e in elements] for n in range(shape[1]))
        found = states(steps, columns, state, lambda op, x, y: BINARY[op](self.reals, x, y))
        return self.real(self.reals.joined(found, lambda parts: np.stack(parts, axis=1)))

    def matmul(self, stationary: Value, moving: Value) -> Value:
        if not isinstance(stationary, Symbolic) and not isinstance(moving, Symbolic):
            return super().matmul(stationary, moving)
        left = self.symbols(stationary).moved(lambda part: np.ascontiguousarray(part.T))
        return self.real(self.reals.matmul(left, self.symbols(moving)))

    # -- places

    def moved(self, real: Real, move: Move, *values: Value) -> Value:
        if not any(isinstance(each, Symbolic) for each in values):
            return real()
        return Symbolic(self._moved(move, values), values[0].dtype)

    def _moved(self, move: Move, values: Sequence[Value]) -> Symbols:
        if len(values) == 1:
            return self.symbols(values[0]).moved(move)
        return self.reals.joined([self.symbols(each) for each in values], lambda parts: move(*parts))

    def gather(self, value: Value, index: Value) -> Value:
        if not isinstance(index, Symbolic):
            return super().gather(value, index)
        return Symbolic(self.reals.gathered(self.symbols(value), index.symbols), value.dtype)

    def beyond(self, gathered: Value, outside: NDArray[np.bool_]) -> Value:  # noqa: ARG002  # as the executor has it
        if isinstance(gathered, Symbolic):
            raise UndecidedError("an element beyond its partition is gathered")
        return gathered

    def bits(self, value: Value, dtype: DType) -> Value:
        if not isinstance(value, Symbolic):
            return super().bits(value, dtype)
        if value.dtype is dtype or (value.dtype.is_integer and dtype.is_integer):
            return Symbolic(value.symbols, dtype)
        found = self.reals.unknown_function(f"the pattern of {value.dtype} as {dtype}", value.symbols)
        return Symbolic(found, dtype)

    # -- order: nothing is known of it but that it depends on the whole row

    def _numbered(self, rows: int, count: int) -> Symbols:
        return self.reals.constant(np.broadcast_to(np.arange(count, dtype=np.int32), (rows, count)))

    def top8(self, value: Value) -> Value:
        if not isinstance(value, Symbolic):
            return super().top8(value)
        return self.real(self.reals.ranked(value.symbols, 8))

    def find(self, value: Value, wanted: Value, last_first: bool) -> Value:
        if not isinstance(value, Symbolic) and not isinstance(wanted, Symbolic):
            return super().find(value, wanted, last_first)
        looked_for = self.reals.function_of_rows("the wanted", self.symbols(wanted), self._numbered(wanted.shape[0], 8))
        found = self.reals.function_of_rows(f"find, last first: {last_first}", self.symbols(value), looked_for)
        return Symbolic(found, dt.uint32)

    def ranked(self, value: Value, count: int) -> Value:
        if not isinstance(value, Symbolic):
            return super().ranked(value, count)
        places = self._numbered(value.symbols.shape[0], count)
        return Symbolic(self.reals.function_of_rows("the largest", value.symbols, places), dt.int32)

    def nonzero(self, value: Value) -> Value:
        if not isinstance(value, Symbolic):
            return super().nonzero(value)
        places = self._numbered(value.symbols.shape[0], value.symbols.shape[1] + 1)
        return Symbolic(self.reals.function_of_rows("nonzero", value.symbols, places), dt.int32)

    def put(self, target: Access, places: Value, value: Value) -> None:
        if isinstance(places, Symbolic) or isinstance(value, Symbolic) or self.memory.is_symbolic(target):
            raise UndecidedError("elements are replaced at places that depend on the inputs")
        super().put(target, places, value)

    def unpack(self, value: Value, index: int) -> Value:
        if not isinstance(value, Symbolic):
            return super().unpack(value, index)
        return self.real(self.reals.unknown_function(f"packed number {index}", value.symbols))

    def pack(self, values: Sequence[Value], dtype: DType) -> Value:
        if not any(isinstance(each, Symbolic) for each in values):
            return super().pack(values, dtype)
        return Symbolic(self.reals.unknown_function("packing", *(self.symbols(each) for each in values)), dtype)

    def xorwow(self, state: Value, count: int) -> tuple[Value, Value]:
        if isinstance(state, Symbolic):
            raise UndecidedError("random numbers are drawn from a state that depends on the inputs")
        return super().xorwow(state, count)


Unary = Callable[[Reals, Symbols], Symbols]
Binary = Callable[[Reals, Symbols, Symbols], Symbols]


def _abs_extreme(pick_larger: bool) -> Binary:
    def found(m: Reals, x: Symbols, y: Symbols) -> Symbols:
        sizes = [m.activation("abs", each) for each in ((x, y) if pick_larger else (y, x))]
        return m.select(m.greater(*sizes), x, y)

    return found


def _not_equal(m: Reals, x: Symbols, y: Symbols) -> Symbols:
    return m.opposite_truth(m.equal(x, y))


def _either(m: Reals, x: Symbols, y: Symbols) -> Symbols:
    return m.opposite_truth(m.both(m.opposite_truth(m.truth(x)), m.opposite_truth(m.truth(y))))


def _one_of(m: Reals, x: Symbols, y: Symbols) -> Symbols:
    left, right = m.truth(x), m.truth(y)
    both = m.multiply(left, right)
    return m.subtract(m.add(left, right), m.add(both, both))


UNARY: Final[dict[str, Unary]] = {
    "bypass": lambda _, x: x,
    "logical_not": lambda m, x: m.opposite_truth(m.truth(x)),
    "abs": lambda m, x: m.activation("abs", x),
    "square": lambda m, x: m.multiply(x, x),
    "relu": lambda m, x: m.activation("relu", x),
    "rsqrt": lambda m, x: m.activation("rsqrt", x),
    "reciprocal": Reals.reciprocal,
}
BINARY: Final[dict[str, Binary]] = {
    "add": Reals.add,
    "subtract": Reals.subtract,
    "multiply": Reals.multiply,
    "divide": Reals.divide,
    "maximum": Reals.maximum,
    "minimum": Reals.minimum,
    "abs_max": _abs_extreme(True),
    "abs_min": _abs_extreme(False),
    "equal": Reals.equal,
    "not_equal": _not_equal,
    "greater": Reals.greater,
    "less": lambda m, x, y: m.greater(y, x),
    "greater_equal": lambda m, x, y: m.opposite_truth(m.greater(y, x)),
    "less_equal": lambda m, x, y: m.opposite_truth(m.greater(x, y)),
    "logical_and": Reals.both,
    "logical_or": _either,
    "logical_xor": _one_of,
}
"""Operators of the ALU with a formula; others are unknown functions."""
_COMPARING: Final = {"maximum", "minimum", "equal", "not_equal", "greater", "less", "greater_equal", "less_equal"}
_MOST_THRESHOLDS: Final = 8
_MOST_ITERATIONS: Final = 10_000
"""Iterations of a `while` loop, after which a proof gives up."""


def evaluate(program: Program, inputs: Sequence[Symbols | Array], reals: Reals) -> list[Symbols]:
    """The outputs of ``program``: of each input the symbols in its shape, or an array if it is known."""
    reals.reads_undefined = program.propagates_undefined
    memory = SymbolMemory()
    memory.begin(program, inputs)
    run_cores(program, partial(Prover, memory, reals))
    return [_output(memory, tensor, reals) for tensor in program.outputs]


def _output(memory: SymbolMemory, tensor: Tensor, reals: Reals) -> Symbols:
    whole = Access.whole(tensor)
    if memory.is_symbolic(whole):
        return memory.load(whole, reals)
    return reals.constant(numbers_of(memory.window(whole), tensor.dtype))


__all__ = ["Prover", "evaluate"]
