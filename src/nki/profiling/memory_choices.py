"""Choices of the vendor's compiler about the memory of a kernel: the program that a profile replays, and others.

Results may take the place of operands where few tiles fit, and loads of rows that SBUF still holds may be left out. No
document says when the vendor's compiler does either (:mod:`nki.passes.operand_reuse`, :mod:`nki.passes.load_reuse`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from nki.base.errors import MemoryFullError
from nki.base.warning import NkiSpillWarning, collecting
from nki.compilation import pipeline
from nki.ir.loop import Loop, loops
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.numerics.floating_point import default_environment
from nki.passes.load_reuse import ReuseLoads
from nki.passes.operand_reuse import ReuseOperands
from nki.passes.order import Order
from nki.sim.timing import TimedProgram, Trips, once
from nki.target.model import Target

_BEFORE: Final = Order.name
"""The last stage that sees all loads."""
_BEHIND: Final = pipeline.STAGES.behind(_BEFORE)


@dataclass(frozen=True)
class SpareLoads:
    """The ``loads`` that could be left out, their ``bytes``, and ``timed``, the program without them."""

    loads: int
    bytes: int
    timed: TimedProgram

    def with_trips(self, program: Program, trips: Trips) -> SpareLoads:
        """The same with the iterations ``trips`` of the loops of ``program``, the one with all loads."""
        return replace(self, timed=self.timed.with_trips(same_trips(self.timed.program, program, trips)))


def same_trips(program: Program, other: Program, trips: Trips) -> Trips:
    """The iterations ``trips`` of the loops of ``other`` for the loops of ``program``, which are the same."""
    pairs = zip(_loops(other), _loops(program), strict=True)
    return {id(own): trips[id(loop)] for loop, own in pairs if id(loop) in trips}


@dataclass(frozen=True)
class Compiled:
    """A kernel as a profile replays it: the program as ``timed``; the ``wider`` one, in which each result has memory of
    its own, if that is another; a function that finds the loads that could be left out; and one that compiles the
    kernel with a stage in front of those that choose places, an order and queues, which returns None if it cannot.
    """

    timed: TimedProgram
    wider: TimedProgram | None = None
    find_spare_loads: Callable[[], SpareLoads | None] = lambda: None
    recompiled: Callable[[Stage], TimedProgram | None] = lambda _: None


def _loops(program: Program) -> list[Loop]:
    """All loops, which no stage moves past each other."""
    return [loop for core in program.cores for loop in loops(core.body)]


def compiled(compile_all: Callable[[pipeline.Observe], Program], target: Target) -> Compiled:
    """The program that ``compile_all`` compiles, or the one with results in the bytes of operands if that is faster
    (:mod:`nki.passes.operand_reuse`).
    """
    seen: dict[str, Program] = {}
    program = compile_all(seen.__setitem__)
    ordered = seen[_BEFORE]
    narrower = _compiled_with((ReuseOperands(),), ordered, target)

    def find() -> SpareLoads | None:
        shorter = _compiled_with((ReuseLoads(),), ordered, target)
        if shorter is None:
            return None
        loads, size = _difference(ordered, shorter)
        return SpareLoads(loads, size, TimedProgram(shorter))

    timed = TimedProgram(program)
    in_place: tuple[Stage, ...] = ()
    wider = None
    if narrower is not None:
        other = TimedProgram(narrower)
        times = [each.with_trips(once(each.program)).run(target).ns for each in (other, timed)]
        if times[0] < times[1]:
            timed, wider, in_place = other, timed, (ReuseOperands(),)

    def recompiled(stage: Stage) -> TimedProgram | None:
        changed = _compiled_with((stage, *in_place), ordered, target)
        return None if changed is None else TimedProgram(changed)

    return Compiled(timed, wider, find, recompiled)


def _compiled_with(stages: tuple[Stage, ...], ordered: Program, target: Target) -> Program | None:
    """``ordered`` after ``stages`` and all stages behind them; None if the first of them changes nothing, tiles spill,
    or find no arrangement, which their greatest sum does not exclude.
    """
    with default_environment(), collecting(aside=True) as warnings:
        changed = pipeline.compile(None, {}, target, start=ordered, stages=stages[:1])
        if changed is ordered:
            return None
        changed = pipeline.compile(None, {}, target, start=changed, stages=stages[1:])
        try:
            program = pipeline.compile(None, {}, target, start=changed, stages=_BEHIND)
        except MemoryFullError:
            return None
    return None if any(warned.category is NkiSpillWarning for warned in warnings) else program


def _difference(before: Program, after: Program) -> tuple[int, int]:
    """The loads of ``before`` that ``after`` leaves out, and their bytes."""
    loads = size = 0
    for old, new in zip(before.cores, after.cores, strict=True):
        gone = set(old.tensors).difference(new.tensors)
        for inst in old.numbered:
            copy = inst.as_copy()
            if copy is not None and copy.dst.tensor in gone:
                loads, size = loads + 1, size + copy.dst.nbytes
    return loads, size
