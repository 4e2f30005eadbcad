"""Named assumptions about another compiler: each is a reading of the kernel, with the program that it makes.

The latency is the replay of one program, in the order of this compiler's scheduler. No document says what the vendor's
compiler does, so each :class:`Assumption` is another reading of the kernel, at one end of the interval. The
assumptions of an end build on each other in the order of the list: each holds those before it. So an end moves by what
each of them adds, its worth, and one more assumption never narrows the interval. Those ``aside`` are in no interval:
each is a reading of its own, with its prediction.

* ``order``: queues in the order of the program, as a compiler would have them that moves nothing (``affine_range``:
  "loop-level optimizations … subject to changes").
* ``results in tiles of their own``: results do not take the place of operands (:mod:`nki.passes.operand_reuse`).
* ``loads left out``: of rows that SBUF still holds (:mod:`nki.passes.load_reuse`).
* ``static descriptors``: of transfers that the kernel leaves open on trn1, which software makes by default; aside,
  ``software descriptors``, the default, and ``hardware descriptors``, which no document gives trn1.
* ``invariants once``, ``broadcasts in place``, ``work on Scalar``, ``neighbours merged``: in kernels of Beta 1 alone,
  for the traces and documents that show them are of its compiler (:mod:`nki.profiling.compiler_changes`).
* ``dependences by tensor``, aside: of slices of one tensor, as one author has measured
  (:mod:`nki.analysis.tensor_dependences`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from nki.analysis.tensor_dependences import by_tensor
from nki.base import knobs
from nki.base.errors import MemoryFullError
from nki.base.warning import NkiSpillWarning, collecting
from nki.compilation import pipeline
from nki.ir.loop import Loop, loops
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.language.releases import returns_results
from nki.numerics.floating_point import default_environment
from nki.passes.allocate import Allocate
from nki.passes.load_reuse import ReuseLoads
from nki.passes.operand_reuse import ReuseOperands
from nki.passes.order import Order
from nki.passes.schedule import Schedule, in_program_order
from nki.profiling.amounts import count, size
from nki.profiling.compiler_changes import EstimateChange, broadcasts, invariants, neighbours, on_scalar
from nki.sim.timing import EstimateOverride, TimedCore, TimedProgram, Timeline, Trips, once
from nki.target.model import Target

Facts = Literal["fast", "slow"]
"""An end of the interval, and of the ranges of guesses."""
Place = Literal["fast", "slow", "aside"]
"""The end of the interval that an assumption is at; or none."""
Queues = Literal["list", "program"]
"""The order of each queue: the list scheduler's, or the program's."""
ORDERS: Final = ("list", "program")
ORDER: Final = "order"
OWN_TILES: Final = "results in tiles of their own"
SPARE_LOADS: Final = "loads left out"
BY_TENSOR: Final = "dependences by tensor"
INVARIANTS: Final = "invariants once"
BROADCASTS: Final = "broadcasts in place"
ON_SCALAR: Final = "work on Scalar"
NEIGHBOURS: Final = "neighbours merged"
SAME_ORDER: Final = "the list scheduler keeps the order of the program"
_BEFORE: Final = Order.name
"""The last stage that sees all loads."""
_PLACED: Final = Allocate.name
"""The last stage before the queues get an order."""
_OPEN: Final = "dma_open_descriptors"
MOST_REORDERED: Final = 4096
"""Instructions up to which a program with other dependences gets an order of its own, which takes longest."""


@dataclass(frozen=True)
class Assumption:
    """A freedom of the compiler, by its ``name``: at the ``end`` of the interval the kernel is ``timed``, with
    ``changes`` of its estimates and other ``facts`` of the target. It is ``about`` so many ``instructions``; ``bytes``:
    of the loads among them. ``reorders``: blocks get an order of their own.
    """

    name: str
    end: Place
    about: str
    timed: TimedProgram
    instructions: int
    bytes: int = 0
    changes: tuple[EstimateChange, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reorders: bool = False

    def run(self, target: Target) -> Timeline:
        """The replay of the kernel with the assumption, and with those before it, on ``target``."""
        if self.facts:
            target = target.with_values(self.facts)
        overrides: dict[TimedCore, EstimateOverride] = {}
        for core in self.timed.cores if self.changes else ():
            override = overrides[core] = EstimateOverride(core.estimates(target))
            for change in self.changes:
                change.apply(core, override, target)
        return self.timed.run(target, overrides, reorder=self.reorders)

    def with_trips(self, program: Program, trips: Trips) -> Assumption:
        """The same with the iterations ``trips`` of the loops of ``program``, the one without assumptions."""
        return replace(self, timed=self.timed.with_trips(same_trips(self.timed.program, program, trips)))


def same_trips(program: Program, other: Program, trips: Trips) -> Trips:
    """The iterations ``trips`` of the loops of ``other`` for the loops of ``program``, which are the same."""
    pairs = zip(_loops(other), _loops(program), strict=True)
    return {id(own): trips[id(loop)] for loop, own in pairs if id(loop) in trips}


def _loops(program: Program) -> list[Loop]:
    """All loops, which no stage moves past each other."""
    return [loop for core in program.cores for loop in loops(core.body)]


class _Placed(NamedTuple):
    """A kernel with addresses, and after the last stage."""

    placed: Program
    program: Program


@dataclass(frozen=True)
class Compiled:
    """A kernel as a profile replays it: the program as ``timed``, with ``queues`` in that order; a function that finds
    the assumptions about it; and one that compiles the kernel with a stage in front of those that choose places, an
    order and queues, which returns None if it cannot.
    """

    timed: TimedProgram
    queues: Queues = "list"
    find_assumptions: Callable[[], tuple[Assumption, ...]] = tuple
    recompiled: Callable[[Stage], TimedProgram | None] = lambda _: None


class _Kernel:
    """A kernel on its way to a profile, before its tiles have places."""

    def __init__(self, ordered: Program, first: _Placed, target: Target, queues: Queues) -> None:
        self.ordered, self.target = ordered, target
        self.queues: Queues = queues
        self.chosen, self.timed = first, TimedProgram(first.program)
        self.wider: _Placed | None = None
        """The program in which each result has a tile of its own, if the chosen one is another."""
        self.in_place: tuple[Stage, ...] = ()
        narrower = self.with_stages((ReuseOperands(),))
        if narrower is not None:
            other = TimedProgram(narrower.program)
            times = [each.with_trips(once(each.program)).run(target).ns for each in (other, self.timed)]
            if times[0] < times[1]:
                self.wider, self.chosen, self.timed, self.in_place = first, narrower, other, (ReuseOperands(),)

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """All that are known of the kernel; at each end they build on each other in this order."""
        found: list[Assumption] = []
        slow, timed = self.chosen, self.timed
        if self.wider is not None:
            slow, timed = self.wider, TimedProgram(self.wider.program)
            found.append(self._own_tiles(timed))
        found.append(self._program_order(slow, timed) if self.queues == "list" else self._list_order())
        found += self._spare_loads()
        fast = next((each.timed for each in reversed(found) if each.end == "fast"), self.timed)
        other = self._descriptors(fast)
        found += other[:1]
        if returns_results(self.ordered.release):
            found += _of_beta1(fast, other[0].facts if other else {}, self.target)
        return (*found, *other[1:], *self._by_tensor())

    def _descriptors(self, fast: TimedProgram) -> list[Assumption]:
        """The origins of descriptors that the kernel leaves open, on a target without hardware for them: static ones of
        the program ``fast``, and two aside.
        """
        if self.target.dma_hardware_descriptors:
            return []
        number = _different(self.timed, self.target, self.target.with_values({_OPEN: "static"}))
        if not number:
            return []
        transfers = count(number, "transfer")
        static = Assumption(
            "static descriptors",
            "fast",
            f"{transfers} with descriptors in HBM from the beginning, where GpSimd makes them by default",
            fast,
            number,
            facts={_OPEN: "static"},
        )
        software = Assumption(
            "software descriptors",
            "aside",
            f"the default: GpSimd makes them, as public profiles of inf2 have it for {transfers} like these",
            self.timed,
            number,
            facts={_OPEN: "software"},
        )
        hardware = Assumption(
            "hardware descriptors",
            "aside",
            f"{transfers} in the time of trn2's generator; the documents give {self.target} none",
            self.timed,
            number,
            facts={_OPEN: "hardware"},
        )
        return [static, software, hardware]

    def _by_tensor(self) -> Iterator[Assumption]:
        """The kernel where slices of one tensor depend on each other, with the order that this leaves."""
        placed, program = self.chosen
        if program.size > MOST_REORDERED or any(inst.effects.external for inst in program.instructions()):
            return
        changed, waiting = by_tensor(in_program_order(program, placed) or program)
        if waiting:
            names = sorted({f"'{tensor.name}'" for tensor in waiting})
            number = sum(waiting.values())
            verb = "waits" if number == 1 else "wait"
            about = (
                f"{count(number, 'instruction')} {verb} for other slices of {', '.join(names[:3])}"
                f"{', …' if len(names) > 3 else ''}; one author has measured that"
            )
            timed = TimedProgram(changed)
            yield Assumption(BY_TENSOR, "aside", about, timed, number, reorders=self.queues == "list")

    def _own_tiles(self, wider: TimedProgram) -> Assumption:
        number = _lost(wider.program, self.chosen.program)
        about = f"{count(number, 'result')} in the place of no operand"
        return Assumption(OWN_TILES, "slow", about, wider, number)

    def _program_order(self, slow: _Placed, timed: TimedProgram) -> Assumption:
        moved = in_program_order(slow.program, slow.placed)
        if moved is None:
            return Assumption(ORDER, "slow", SAME_ORDER, timed, 0)
        number = _moved(slow.program, moved)
        about = f"{count(number, 'instruction')} at another place in the order of the program"
        return Assumption(ORDER, "slow", about, TimedProgram(moved), number)

    def _list_order(self) -> Assumption:
        fast = pipeline.compile(None, {}, self.target, start=self.chosen.placed, stages=_behind(_PLACED, "list"))
        number = _moved(fast, self.chosen.program)
        if not number:
            return Assumption(ORDER, "fast", SAME_ORDER, self.timed, 0)
        about = f"{count(number, 'instruction')} at another place in the order of the list scheduler"
        return Assumption(ORDER, "fast", about, TimedProgram(fast), number)

    def _spare_loads(self) -> list[Assumption]:
        shorter = self.with_stages((ReuseLoads(),), "list")
        if shorter is None:
            return []
        number, moved = _difference(self.ordered, shorter.program)
        loads = f"{count(number, 'load')}, {size(moved)}, of rows that SBUF still holds"
        about = f"{loads}; the compiler of Neuron leaves such loads out at times"
        return [Assumption(SPARE_LOADS, "fast", about, TimedProgram(shorter.program), number, moved)]

    def recompiled(self, stage: Stage) -> TimedProgram | None:
        """The kernel with ``stage`` in front of those that choose places; None if it changes nothing, or cannot be."""
        changed = self.with_stages((stage, *self.in_place))
        return None if changed is None else TimedProgram(changed.program)

    def with_stages(self, stages: tuple[Stage, ...], queues: Queues | None = None) -> _Placed | None:
        """The kernel after ``stages`` and all stages behind them; None if the first of them changes nothing, tiles
        spill, or find no arrangement, which their greatest sum does not exclude.
        """
        ordered, target = self.ordered, self.target
        seen: dict[str, Program] = {}
        with default_environment(), collecting(aside=True) as warnings:
            changed = pipeline.compile(None, {}, target, start=ordered, stages=stages[:1])
            if changed is ordered:
                return None
            changed = pipeline.compile(None, {}, target, start=changed, stages=stages[1:])
            behind = _behind(_BEFORE, queues or self.queues)
            try:
                program = pipeline.compile(None, {}, target, start=changed, stages=behind, observe=seen.__setitem__)
            except MemoryFullError:
                return None
        spilled = any(warned.category is NkiSpillWarning for warned in warnings)
        return None if spilled else _Placed(seen[_PLACED], program)


def compiled(
    compile_all: Callable[[pipeline.Observe], Program], target: Target, queues: Queues | None = None
) -> Compiled:
    """The program that ``compile_all`` compiles, or the one with results in the bytes of operands if that is faster
    (:mod:`nki.passes.operand_reuse`). ``queues``: their order (None: as ``OPEN_NKI_REORDER`` says).
    """
    own: Queues = "list" if knobs.reorder() else "program"
    chosen: Queues = own if queues is None else queues
    seen: dict[str, Program] = {}
    program = compile_all(seen.__setitem__)
    if chosen != own:
        program = pipeline.compile(None, {}, target, start=seen[_PLACED], stages=_behind(_PLACED, chosen))
    kernel = _Kernel(seen[_BEFORE], _Placed(seen[_PLACED], program), target, chosen)
    return Compiled(kernel.timed, chosen, lambda: kernel.assumptions, kernel.recompiled)


def _of_beta1(timed: TimedProgram, facts: Mapping[str, Any], target: Target) -> Iterator[Assumption]:
    """The assumptions about the compiler of Beta 1, on the program ``timed`` with ``facts``, which hold all others."""
    changes: tuple[EstimateChange, ...] = ()
    for name, change, words in (
        (INVARIANTS, invariants(timed), "less, an earlier one has computed the same"),
        (BROADCASTS, broadcasts(timed, target), "less, copies of what is repeated"),
        (ON_SCALAR, on_scalar(timed, target), "on Scalar in place of Vector, which has more to do"),
        (NEIGHBOURS, neighbours(timed, target), "less, a part of the same one before"),
    ):
        if number := change.instructions:
            changes = (*changes, change)
            about = f"{count(number, 'instruction')} {words}; the compiler of Beta 1 does so at times"
            yield Assumption(name, "fast", about, timed, number, 0, changes, facts)


def _different(timed: TimedProgram, one: Target, other: Target) -> int:
    """The instructions of ``timed`` with another time on ``other`` than on ``one``."""
    return sum(a != b for core in timed.cores for a, b in zip(core.estimates(one), core.estimates(other), strict=True))


def _behind(stage: str, queues: Queues) -> tuple[Stage, ...]:
    """The stages behind ``stage``, with ``queues`` in that order."""
    schedule = Schedule(reorder=queues == "list")
    return tuple(schedule if isinstance(each, Schedule) else each for each in pipeline.STAGES.behind(stage))


def _moved(one: Program, other: Program) -> int:
    """The instructions of ``one`` that have another place in ``other``, which has the same ones."""
    pairs = zip(one.instructions(), other.instructions(), strict=True)
    return sum(own.identity() != instead.identity() for own, instead in pairs)


def _lost(before: Program, after: Program) -> int:
    """The tensors of ``before`` that ``after`` does without."""
    return sum(
        len(set(old.tensors).difference(new.tensors)) for old, new in zip(before.cores, after.cores, strict=True)
    )


def _difference(before: Program, after: Program) -> tuple[int, int]:
    """The loads of ``before`` that ``after`` leaves out, and their bytes."""
    loads = moved = 0
    for old, new in zip(before.cores, after.cores, strict=True):
        gone = set(old.tensors).difference(new.tensors)
        for inst in old.numbered:
            copy = inst.as_copy()
            if copy is not None and copy.dst.tensor in gone:
                loads, moved = loads + 1, moved + copy.dst.nbytes
    return loads, moved
