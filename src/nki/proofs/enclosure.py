"""A program over the real numbers at one input: the NumPy executor with a ball beside each element.

The executor runs as ever, to the same bits as every other one; beside each element stands a ball
(:mod:`nki.proofs.ball`) that encloses the number which the same program would have without any rounding. A conversion
between floats changes no ball. A conversion to integers widens it by a half, for the reader may take it for a rounding
or for a function. Patterns, packed numbers and selected places are known where their operands are exact, and unknown
elsewhere. A run-time index, or a loop on the device, that is not exact loses everything: :attr:`Enclosed.lost`.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki import target as targets
from nki.backend.numpy.executor import Reference, run_cores
from nki.backend.numpy.values import Value, laid_out, states
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.compilation import pipeline
from nki.ir.algebra import Step
from nki.ir.indirection.gather_offsets import Offsets
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, While
from nki.ir.program import Program
from nki.ir.types import Access
from nki.isa.tables.alu_operators import BITS
from nki.numerics.floating_point import default_environment
from nki.proofs import ball
from nki.proofs.ball import Ball
from nki.proofs.ball_memory import Balls, numbers_of, parts_of
from nki.rendezvous.protocol import Participant
from nki.shadows.executor import Move, Real, ShadowExecutor

Array = NDArray[Any]


_FILLING: Final = 2.0**60
"""Constants beyond it only stand for infinity, as in masks: nothing depends on their last digits."""


class Enclosed(Value):
    """A value of the executor and its ball, of the same shape."""

    __slots__ = ("ball",)

    def __init__(self, value: Value, enclosing: Ball) -> None:
        self.array, self.dtype, self.ball = value.array, value.dtype, enclosing


def _ball(value: Value) -> Ball:
    assert isinstance(value, Enclosed), "a primitive has lost its ball"
    return value.ball


@dataclass(slots=True, eq=False)
class Event:
    """One instruction that ran, at its resolved places: the accesses that it read and those that it wrote."""

    inst: Inst
    reads: list[Access] = field(default_factory=list[Access])
    writes: list[tuple[Access, Ball | None]] = field(default_factory=list[tuple[Access, Ball | None]])
    """With the balls that were written, if the run keeps them."""


class OutOfTime(Exception):
    """A run had not ended at its deadline."""


@dataclass(slots=True, eq=False)
class _Run:
    """The state that the cores of one run share."""

    lost: bool = False
    events: list[Event] | None = None
    keeps: Callable[[int], bool] | None = None
    """True for the numbers of events with balls to keep."""
    deadline: float = math.inf

    def check(self) -> None:
        """Raise :class:`OutOfTime` behind the deadline."""
        if time.monotonic() > self.deadline:
            raise OutOfTime


class Enclosure(ShadowExecutor):
    """The NumPy executor with balls."""

    memory: Balls

    def __init__(self, memory: Balls, participant: Participant | None, run: _Run) -> None:
        super().__init__(memory, participant)
        self._run_state = run
        self._event: Event | None = None
        self._kept = False

    # Control: indices and loops.

    def rounds(self, loop: Loop) -> Iterator[None]:
        bounds = (loop.register,) if isinstance(loop, While) else (loop.start, loop.stop)
        for bound in bounds:
            self._need(bound)
        for _ in super().rounds(loop):
            self._run_state.check()
            if isinstance(loop, While):
                self._need(loop.register)
            else:
                self.memory.know(loop.register)
            yield

    def _need(self, source: int | Access) -> None:
        """Lose everything unless ``source``, which decides where the run goes, is exact."""
        if isinstance(source, Access) and not self.memory.is_exact(source):
            self._run_state.lost = True

    def index(self, access: Access) -> int:
        if access.dynamic is not None:
            self._need(access.dynamic.source)
        return super().index(access)

    def offsets(self, inst: Inst, access: Access) -> Offsets:
        if access.dynamic is not None:
            self._need(access.dynamic.source)
        return super().offsets(inst, access)

    def _execute_resolved(self, inst: Inst) -> None:
        run = self._run_state
        run.check()
        if run.events is not None:
            self._event = Event(inst)
            self._kept = run.keeps is not None and run.keeps(len(run.events))
            run.events.append(self._event)
        super()._execute_resolved(inst)
        if inst.indexed_by():  # elements were gathered and scattered behind the back of the balls
            for access in inst.writes():
                self.memory.lose(access.tensor)

    # Memory.

    def loaded(self, source: Access, rows: int, real: Real) -> Value:
        if self._event is not None:
            self._event.reads.append(source)
        return Enclosed(real(), self.memory.read(source).map(lambda a: a.reshape(rows, -1)))

    def store(self, target: Access, value: Value) -> None:
        super().store(target, value)
        target, lay_out = laid_out(target, value.shape)
        new = _ball(value).map(lay_out)
        self.memory.write(target, new)
        self._wrote(target, new)

    def put(self, target: Access, places: Value, value: Value) -> None:
        super().put(target, places, value)
        before = self.memory.read(target)
        if _is_exact(places):
            rows, numbers = np.nonzero(places.array < target.free_elements)
            at = (rows, *np.unravel_index(places.array[rows, numbers], target.shape[1:]))
            for array, number in zip(parts_of(before), parts_of(_ball(value)), strict=True):
                array[at] = number[0, 0]
        else:
            before = ball.unknown(target.shape)
        self.memory.write(target, before)
        self._wrote(target, before)

    def _wrote(self, target: Access, new: Ball) -> None:
        if self._event is not None:
            self._event.writes.append((target, new if self._kept else None))

    # Numbers.

    def const(self, value: Any, dtype: DType) -> Value:
        made = super().const(value, dtype)
        held = numbers_of(made.array, dtype)
        is_filling = dtype is dt.float32 and abs(value) > _FILLING
        if dtype.is_float and np.isfinite(value) and dtype.computes and not is_filling:
            # Another spelling, as a division in place of a factor, may have rounded it elsewhere.
            held = Ball(held.centre, held.radius + np.abs(held.centre - float(value)))
        return Enclosed(made, held)

    def cast(self, value: Value, dtype: DType) -> Value:
        return Enclosed(super().cast(value, dtype), _converted(_ball(value), dtype, value.dtype is dtype))

    def narrow(self, value: Value, dtype: DType) -> Value:
        return Enclosed(super().narrow(value, dtype), _converted(_ball(value), dtype, value.dtype is dtype))

    def alu(self, op: str, left: Value, right: Value | None = None) -> Value:
        if op in BITS:
            return self._patterns(super().alu(op, left, right), *([left] if right is None else [left, right]))
        done = super().alu(op, left, right)
        one = _ball(left)
        return Enclosed(done, _full(ball.unary(op, one) if right is None else ball.binary(op, one, _ball(right)), done))

    def integer(self, op: str, left: Value, right: Value, dtype: DType) -> Value:
        done = super().integer(op, left, right, dtype)
        found = _full(ball.binary(op, _ball(left), _ball(right)), done)
        limits = np.iinfo(dtype.dtype)
        inside = (found.centre - found.radius >= limits.min) & (found.centre + found.radius <= limits.max)
        # A result that wraps around is no sum or product over the reals.
        return Enclosed(done, Ball(found.centre, np.where(inside, found.radius, np.inf)))

    def act(self, function: str, value: Value, parameter: Value | None = None) -> Value:
        done = super().act(function, value, parameter)
        second = None if parameter is None else _ball(parameter)
        return Enclosed(done, _full(ball.function(function, _ball(value), second), done))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        done = Reference.select(self, condition, yes, no)  # and not as its bits say
        return Enclosed(done, _full(ball.select(_ball(condition), _ball(yes), _ball(no)), done))

    def matmul(self, stationary: Value, moving: Value) -> Value:
        return Enclosed(super().matmul(stationary, moving), ball.product(_ball(stationary), _ball(moving)))

    def scan(self, steps: tuple[Step, ...], values: tuple[Value, ...], start: Value) -> Value:
        done = super().scan(steps, values, start)
        rows, columns = done.array.shape
        sides = [_ball(v).map(lambda a: np.broadcast_to(a, (rows, columns))) for v in values]
        state = _ball(start).map(lambda a: np.broadcast_to(a[:, 0], (rows,)))
        each = ([side.map(lambda a, n=n: a[:, n]) for side in sides] for n in range(columns))
        return Enclosed(done, _joined(lambda *a: np.stack(a, axis=1), states(steps, each, state, ball.binary)))

    def folded(self, op: str, real: Real, move: Move, *values: Value) -> Value:
        if op in BITS:
            return self._patterns(real(), *values)
        return Enclosed(real(), _folded(op, _joined(move, [_ball(value) for value in values])))

    # Patterns and places: what exact operands give.

    def _patterns(self, done: Value, *sources: Value) -> Enclosed:
        """``done``, exact where all ``sources`` are, element by element or, in another shape, all together."""
        shape = done.array.shape
        known: Any = True
        for source in sources:
            exact = _holds(source)
            fits = exact.ndim == 2 and all(a in (1, b) for a, b in zip(exact.shape, shape, strict=True))
            known = known & (exact if fits else exact.all())
        numbers = numbers_of(done.array, done.dtype)
        return Enclosed(done, Ball(numbers.centre, np.where(known, numbers.radius, np.inf)))

    def iota(
        self, pattern: tuple[tuple[int, int], ...], offset: Any, channel_multiplier: Any, partitions: int
    ) -> Value:
        return self._patterns(super().iota(pattern, offset, channel_multiplier, partitions))

    def find(self, value: Value, wanted: Value, last_first: bool) -> Value:
        return self._placed(super().find(value, wanted, last_first), value, wanted)

    def nonzero(self, value: Value) -> Value:
        return self._placed(super().nonzero(value), value)

    def ranked(self, value: Value, count: int) -> Value:
        return self._placed(super().ranked(value, count), value)

    def _placed(self, done: Value, *sources: Value) -> Enclosed:
        if all(_is_exact(source) for source in sources):
            return self._patterns(done)
        return Enclosed(done, ball.unknown(done.array.shape))

    def top8(self, value: Value) -> Value:
        done, one = super().top8(value), _ball(value)
        largest = np.sort(one.centre, axis=1)[:, ::-1][:, :8]
        # Sorting moves no number further than the one that moves furthest.
        radius = np.broadcast_to(one.radius.max(axis=1, keepdims=True), largest.shape)
        return Enclosed(done, Ball(largest.copy(), radius.copy()))

    def gather(self, value: Value, index: Value) -> Value:
        done = super().gather(value, index)
        return done if _is_exact(index) else Enclosed(done, ball.unknown(done.shape))

    def beyond(self, gathered: Value, outside: NDArray[np.bool_]) -> Value:
        one = _ball(gathered)
        return Enclosed(gathered, Ball(one.centre, np.where(outside, np.inf, one.radius)))

    def bits(self, value: Value, dtype: DType) -> Value:
        return self._patterns(super().bits(value, dtype), value)

    def unpack(self, value: Value, index: int) -> Value:
        return self._patterns(super().unpack(value, index), value)

    def xorwow(self, state: Value, count: int) -> tuple[Value, Value]:
        drawn, after = super().xorwow(state, count)
        return self._patterns(drawn, state), self._patterns(after, state)

    def rank(self) -> Value:
        return self._patterns(super().rank())

    def pack(self, values: Sequence[Value], dtype: DType) -> Value:
        done = super().pack(values, dtype)
        return Enclosed(done, ball.unknown(done.array.shape))

    def moved(self, real: Real, move: Move, *values: Value) -> Value:
        return Enclosed(real(), _joined(move, [_ball(value) for value in values]))


def _joined(move: Move, balls: Sequence[Ball]) -> Ball:
    return Ball(*(move(*parts) for parts in zip(*map(parts_of, balls), strict=True)))


def _full(found: Ball, done: Value) -> Ball:
    """``found`` in the shape of ``done``: constants are one element."""
    shape = done.array.shape
    return found if found.centre.shape == shape else found.map(lambda a: np.broadcast_to(a, shape))


def _holds(value: Value) -> NDArray[np.bool_]:
    """The elements with an exact ball of the number that the executor holds."""
    one, held = _ball(value), numbers_of(value.array, value.dtype)
    return (one.radius == 0) & (held.radius == 0) & (held.centre == one.centre)


def _is_exact(value: Value) -> bool:
    return bool(_holds(value).all())


def _folded(op: str, one: Ball) -> Ball:
    """The fold along the last axis."""
    if op == "add":
        return ball.total(one, -1)
    if op in ("maximum", "minimum"):
        return ball.extreme(one, -1, op == "maximum")
    first, *others = (one.map(lambda a, n=n: a[..., n]) for n in range(one.centre.shape[-1]))
    if not others and op.startswith("logical"):
        return ball.unary("logical_not", ball.unary("logical_not", first))
    return functools.reduce(partial(ball.binary, op), others, first)


def _converted(one: Ball, dtype: DType, same: bool) -> Ball:
    """The ball after a conversion: the same number for a float, any of its neighbours for an integer."""
    if same or dtype.is_float or dtype.is_packed:
        return one
    x, r = one.centre, one.radius
    if dtype is dt.bool_:
        return Ball(x, np.where((r == 0) & ((x == 0) | (x == 1)), 0.0, r + np.maximum(np.abs(x), np.abs(1 - x))))
    least, most = np.iinfo(dtype.dtype).min, np.iinfo(dtype.dtype).max
    beyond = np.maximum(0.0, np.maximum(x - most, least - x))
    kept = (r == 0) & (np.rint(x) == x) & (beyond == 0)
    return Ball(x, np.where(kept, 0.0, r + 0.5 + beyond))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The outputs of a run as the executor has them, and their balls; the events if they were asked for."""

    outputs: list[Array]
    balls: list[Ball]
    events: list[Event]


def executable(program: Program) -> Program:
    """``program``, specialised, after the stages without which no executor runs it."""
    return pipeline.run_stages(program, targets.find(program.target), pipeline.STAGES, "accumulate")


def enclose(
    program: Program,
    inputs: Sequence[Array],
    *,
    traced: bool = False,
    keeps: Callable[[int], bool] | None = None,
    deadline: float = math.inf,
) -> Outcome:
    """Run ``program`` (:func:`executable`) on dense arrays in the order of its inputs, which stay as they are.

    ``traced``: with the events; ``keeps``: the numbers of the events with the balls that they wrote. Raises
    :class:`OutOfTime` where the run goes on at ``deadline``, in seconds of :func:`time.monotonic`. The program meets no
    other ranks.
    """
    memory = Balls()
    memory.begin(program, [np.ascontiguousarray(array) for array in inputs])
    run = _Run(events=[] if traced else None, keeps=keeps, deadline=deadline)
    with default_environment(), np.errstate(all="ignore"):
        run_cores(program, lambda participant: Enclosure(memory, participant, run))
    outputs = [array.copy() for array in memory.results(program)]
    balls: list[Ball] = []
    for tensor, array in zip(program.outputs, outputs, strict=True):
        one = memory.read(Access.whole(tensor)).map(lambda a: a.reshape(-1))
        fits = one.centre.size == array.size and not run.lost
        balls.append((one if fits else ball.unknown((array.size,))).map(lambda a, s=array.shape: a.reshape(s)))
    return Outcome(outputs, balls, run.events or [])
