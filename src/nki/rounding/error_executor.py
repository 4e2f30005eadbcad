"""The simulator with shadows: beside each value what it would be without rounding, and whence its error.

Instructions run as in :class:`nki.backend.numpy.executor.Reference`, to the bit; each primitive then runs again in
float64, on what its operands would be. What chooses follows the real run: integers, comparisons, indices, masks, loop
bounds, and packed formats. Casts between floats are the identity of the shadow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.values import Value, laid_out
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.algebra import Step
from nki.ir.instruction import Inst
from nki.ir.types import Access, is_element_indexed
from nki.isa.tables.alu_operators import BITS, TRUTHS
from nki.rendezvous.protocol import Participant
from nki.rounding import float64_primitives as exact
from nki.rounding.error_memory import ErrorMemory
from nki.rounding.line_notes import EPSILON, Notes
from nki.rounding.tracked import (
    Doubles,
    Errors,
    Form,
    Kind,
    Source,
    Tracked,
    added,
    difference,
    doubles,
    lifted,
    local_of,
    moved,
    pooled,
    tracked,
)
from nki.shadows.executor import Move, Real, ShadowExecutor

MOST_SOURCES: Final = 8
"""Sources of error that a tile tells apart; the least ones are joined."""
_CANCELS: Final = 2.0**-5
"""A difference cancels if it is smaller than this part of its operands: five leading bits agree."""
_TO_INTEGER: Final = (2.0**23, 1.5 * 2.0**23)
"""float32 has no digits behind the point from 2^23 on, so x + c - c rounds x to an integer, and is meant to."""
_QUANTISED: Final = frozenset({dt.int8, dt.uint8})
"""Integers that hold rounded numbers; wider ones are counts, indices and integer parts, which choose."""
_NARROW: Final = frozenset(
    {dt.bfloat16, dt.float16, dt.tfloat32, dt.float8_e4m3, dt.float8_e4m3fn, dt.float8_e5m2, dt.float8_e8m0fnu}
)
_FORMS: Final = {"add": Form.linear, "subtract": Form.linear, "multiply": Form.bilinear}
Stored = Callable[[Inst, Access, Value, Doubles], None]
"""Is told of each result: the instruction, where it goes, its elements, and what they would be without rounding."""


class ErrorExecutor(ShadowExecutor):
    """The algebra over arrays with shadows, of one core; all cores share ``memory`` and ``notes``."""

    memory: ErrorMemory

    def __init__(
        self, memory: ErrorMemory, participant: Participant | None, notes: Notes, stored: Stored | None = None
    ) -> None:
        super().__init__(memory, participant)
        self.notes = notes
        self.told = stored
        self.line = 0

    def execute(self, inst: Inst) -> None:
        self.line = self.notes.number(inst)
        super().execute(inst)

    def _execute_resolved(self, inst: Inst) -> None:
        super()._execute_resolved(inst)
        for access in inst.writes():
            if is_element_indexed(access):  # scattered from a tile of their own; its shadow does not follow
                self.memory.drop(access.tensor)

    # Values come and go.

    def loaded(self, source: Access, rows: int, real: Real) -> Value:
        value, shadow = real(), self.memory.load(source, rows)
        return value if shadow is None else Tracked(value.array, value.dtype, None, *shadow)

    def const(self, value: Any, dtype: DType) -> Value:
        real = super().const(value, dtype)
        if dtype.is_integer or dtype.is_packed or dtype is dt.bool_:
            return real
        number = np.array([[value]], np.float64)
        error = difference(doubles(real), number)
        if not error.any():
            return real
        if dtype not in _NARROW:
            return Tracked(real.array, dtype, number)
        self.notes.lines[self.line].rounded(dtype, number, error)
        return Tracked(real.array, dtype, None, number, {Source(self.line, Kind.cast): error}, frozenset())

    def cast(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        real = super().cast(value, dtype)
        is_whole = dtype.is_integer and dtype not in _QUANTISED
        if is_whole or dtype is dt.bool_ or dtype.is_packed or value.dtype.is_packed:
            return real
        before = tracked(value)
        error = difference(doubles(real), doubles(before))
        if not error.any():
            return Tracked(real.array, dtype, before.local, before.exact, before.errors, before.last)
        source = Source(self.line, Kind.cast)
        errors = dict(before.errors)
        added(errors, source, error)
        with np.errstate(all="ignore"):
            local = None if before.local is None else before.local + error
        ideal = local_of(before) if before.exact is None else before.exact
        self.notes.lines[self.line].rounded(dtype, doubles(before), error)
        return Tracked(real.array, dtype, local, ideal, errors, frozenset([source]))

    def store(self, target: Access, value: Value) -> None:
        kept = tracked(value)
        note = self.notes.lines[self.line]
        errors = kept.errors
        if kept.local is not None:
            real = doubles(kept)
            finite = bool(np.isfinite(real).all()) or not self._operands_are_finite()
            error = difference(real, kept.local)
            note.stored(real, kept.local, error, target.dtype)
            if not finite:
                # float64 overflows as well: count it here, where numbers end, and not where the results are read.
                note.overflows += int((~np.isfinite(real) & ~np.isfinite(kept.local)).sum())
            if error.any():
                errors = dict(errors)
                added(errors, Source(self.line, Kind.arithmetic), error)
        ideal = kept.exact
        if ideal is None and errors:
            ideal = local_of(kept)
        if Source(self.line, Kind.cast) in errors:
            note.tiles[target.tensor] = None
        super().store(target, value)
        if self.told is not None and self.running is not None:
            self.told(self.running, target, value, doubles(kept) if ideal is None else ideal)
        place, lay_out = laid_out(target, value.shape)
        errors = {source: lay_out(error) for source, error in pooled(errors, MOST_SOURCES).items()}
        self.memory.store(place, None if ideal is None else lay_out(ideal), errors, kept.last)

    def _operands_are_finite(self) -> bool:
        inst = self.running
        if inst is None or inst.indexed_by():
            return False
        with np.errstate(all="ignore"):
            return all(
                bool(np.isfinite(self.memory.window(access).astype(np.float64)).all())
                for access in inst.read_operands()
                if not access.dtype.is_packed
            )

    def put(self, target: Access, places: Value, value: Value) -> None:
        super().put(target, places, value)
        self.memory.refresh(target)

    # Arithmetic.

    def alu(self, op: str, left: Value, right: Value | None = None) -> Value:
        real = super().alu(op, left, right)
        if op in BITS or op in TRUTHS or (op in ("add", "subtract") and _is_to_integer(left, right)):
            return real
        if right is None:
            return lifted(real, exact.UNARY[op], left)
        result = lifted(real, exact.BINARY[op], left, right, form=_FORMS.get(op, Form.any))
        if op in ("add", "subtract"):
            self._absorbed(real, left, right)
            if result.errors and result.exact is not None:
                one, other = (_ideal(each) for each in (left, right))
                self._cancel(result, np.maximum(np.abs(one), np.abs(other)))
        return result

    def _absorbed(self, real: Value, left: Value, right: Value) -> None:
        """Note the elements that a sum left as they were, though the other operand is not 0."""
        x, y = self.numbers(left), self.numbers(right)
        for one, other in ((x, y), (y, x)):
            if other.size == 1 or not np.shares_memory(one, other):
                same = (real.array == one) & (other != 0) & (one != 0)
                self.notes.lines[self.line].absorbed += int(np.count_nonzero(same))

    def _cancel(self, result: Tracked, magnitude: Doubles) -> None:
        """Charge to this line what the cancellation of float32 numbers adds to the relative errors of its operands.

        Their producers could do no better in float32. An error that a cast has made stays with the cast: another dtype
        avoids it.
        """
        ideal = result.exact
        assert ideal is not None
        with np.errstate(all="ignore"):
            left_over = np.abs(ideal) / magnitude
            cancels = left_over < _CANCELS
            if not cancels.any():
                return
            keep = np.where(cancels, left_over, 1.0)
            own = Source(self.line, Kind.cancellation)
            taken: Doubles | None = None
            worst = 0.0
            note = self.notes.lines[self.line]
            for source, error in list(result.errors.items()):
                if source.kind is not Kind.arithmetic:
                    continue
                part = error * (1.0 - keep)
                if part.any():
                    result.errors[source] = error * keep
                    taken = part if taken is None else taken + part
                    if source.line >= 0 and (size := float(np.abs(part).max())) > worst:
                        worst, note.origin = size, self.notes.lines[source.line].span
            if taken is None:
                return
            added(result.errors, own, taken)
            # Where the exact result is 0 and an error is not, no digit is left.
            hit = taken != 0
            note.cancelled += int(np.count_nonzero(hit))
            least = float(left_over[hit].min())
            note.bits = max(note.bits, 24 if least <= EPSILON else round(-float(np.log2(least))))

    def act(self, function: str, value: Value, parameter: Value | None = None) -> Value:
        real = super().act(function, value, parameter)
        row = exact.activation(function)
        if parameter is not None:
            return lifted(real, row, value, parameter)
        if function in exact.SLOW:
            return _by_slope(real, row, tracked(value))
        return lifted(real, row, value)

    def folded(self, op: str, real: Real, move: Move, *values: Value) -> Value:
        done = real()
        if op not in exact.FOLDS:
            return done

        def fold(*parts: Doubles) -> Doubles:
            return exact.fold(op, move(*parts), 2)

        result = lifted(done, fold, *values)
        if op in ("add", "subtract"):
            terms = values[0].array.size // done.array.size + len(values) - 1
            self._summed(result, terms, lambda: np.abs(move(*map(_ideal, values))).sum(axis=2))
        return result

    def _summed(self, result: Tracked, terms: int, magnitude: Callable[[], Doubles]) -> None:
        assert result.local is not None
        with np.errstate(all="ignore"):
            error = float(np.abs(difference(doubles(result), result.local)).max(initial=0.0))
            greatest = float(np.abs(result.local).max(initial=0.0))
        if error and greatest:
            self.notes.lines[self.line].summed(terms, error / greatest / EPSILON)
        if result.errors and result.exact is not None:
            self._cancel(result, magnitude())

    def scan(self, steps: tuple[Step, ...], values: tuple[Value, ...], start: Value) -> Value:
        real = super().scan(steps, values, start)

        def states(first: Doubles, *each: Doubles) -> Doubles:
            return exact.scan(steps, each, first)

        return lifted(real, states, start, *values)

    def matmul(self, stationary: Value, moving: Value) -> Value:
        result = lifted(super().matmul(stationary, moving), exact.product, stationary, moving, form=Form.bilinear)

        def magnitude() -> Doubles:
            return exact.product(np.abs(_ideal(stationary)), np.abs(_ideal(moving)))

        self._summed(result, len(stationary.array), magnitude)
        return result

    def top8(self, value: Value) -> Value:
        return lifted(super().top8(value), lambda x: -np.sort(-x, axis=1)[:, :8], value)

    def moved(self, real: Real, move: Move, *values: Value) -> Value:
        return moved(real(), move, *values)

    def beyond(self, gathered: Value, outside: NDArray[np.bool_]) -> Value:
        def without(x: Doubles) -> Doubles:
            return np.where(outside, np.nan, x)

        return moved(gathered, without, gathered)


def _is_to_integer(*operands: Value | None) -> bool:
    """Test if a sum is half of a rounding to integers, which decides, and so follows the real run."""
    return any(each is not None and each.array.size == 1 and abs(each.array.item()) in _TO_INTEGER for each in operands)


def _ideal(value: Value) -> Doubles:
    part = tracked(value)
    return local_of(part) if part.exact is None else part.exact


def _by_slope(real: Value, row: Callable[[Doubles], Doubles], value: Tracked) -> Tracked:
    """``real``, the result of an activation with a slow formula: errors go through the slope of one more point."""
    x = local_of(value)
    with np.errstate(all="ignore"):
        result = Tracked(real.array, real.dtype, row(x))
        if value.exact is None and not value.errors:
            return result
        ideal = x if value.exact is None else value.exact
        result.exact = row(ideal)
        step = np.sum([np.abs(error) for error in value.errors.values()], axis=0) if value.errors else np.zeros(x.shape)
        slope = np.where(step > 0, (row(ideal + step) - result.exact) / step, 0.0)
        errors: Errors = {source: slope * error for source, error in value.errors.items()}
        result.errors.update(errors)
    return result
