"""Loads that the vendor's compiler may leave out: the program with all loads, and the one without them beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Final

from nki.base.warning import NkiSpillWarning, collecting
from nki.compiler import pipeline
from nki.ir.loop import Loop, loops
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment
from nki.passes.load_reuse import ReuseLoads
from nki.passes.order import Order
from nki.sim.timing import TimedProgram, Trips
from nki.target.model import Target

_BEFORE: Final = Order.name
"""The last stage that sees all loads."""
_BEHIND: Final = list(dropwhile(lambda stage: stage.name != _BEFORE, pipeline.STAGES))[1:]


@dataclass(frozen=True)
class SpareLoads:
    """The ``loads`` that could be left out, their ``bytes``, and ``timed``, the program without them."""

    loads: int
    bytes: int
    timed: TimedProgram

    def with_trips(self, program: Program, trips: Trips) -> SpareLoads:
        """The same with the iterations ``trips`` of the loops of ``program``, the one with all loads."""
        pairs = zip(_loops(program), _loops(self.timed.program), strict=True)
        known = {id(own): trips[id(loop)] for loop, own in pairs if id(loop) in trips}
        return replace(self, timed=self.timed.with_trips(known))


FindSpareLoads = Callable[[], SpareLoads | None]


def _loops(program: Program) -> list[Loop]:
    """All loops, which no stage moves past each other."""
    return [loop for core in program.cores for loop in loops(core.body)]


def with_spare_loads(
    compile_all: Callable[[pipeline.Observe], Program], target: Target
) -> tuple[Program, FindSpareLoads]:
    """The program that ``compile_all`` compiles, and a function that finds the loads that could be left out of it.

    The function compiles the program once more, from the stage on that leaves loads out; it finds none in a kernel
    whose tiles spill.
    """
    seen: dict[str, Program] = {}
    everything = compile_all(seen.__setitem__)
    ordered = seen[_BEFORE]

    def find() -> SpareLoads | None:
        with default_environment(), collecting(aside=True) as warnings:
            shorter = pipeline.compile(None, {}, target, start=ordered, stages=[ReuseLoads()])
            if shorter is ordered:
                return None
            program = pipeline.compile(None, {}, target, start=shorter, stages=_BEHIND)
        if any(warned.category is NkiSpillWarning for warned in warnings):
            return None
        loads, size = _difference(ordered, shorter)
        return SpareLoads(loads, size, TimedProgram(program))

    return everything, find


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
