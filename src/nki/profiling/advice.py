"""Advice: changes of a kernel, each with its evidence and its worth.

The worth of a change is the difference of two runs of the model: the kernel as it is, and with the estimates that the
change would give its instructions (:mod:`nki.profiling.suggestions`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import permutations

from nki.base.source import Span
from nki.cost.tensor_array import TensorClock
from nki.ir.estimate import Matmul
from nki.language.releases import returns_results
from nki.profiling.assumptions import BY_TENSOR
from nki.profiling.metrics import LEAST_WORTH, MOVING, engine_of, uneven_work, waits_for_others
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.again import ComputedAgain
from nki.profiling.suggestions.computing import Chains, Float32Products, Tables, Transposes
from nki.profiling.suggestions.instruction_combining import Combined, FewElements, RepeatedOperand
from nki.profiling.suggestions.intermediates import ThroughHbm
from nki.profiling.suggestions.iterations import serial_loops
from nki.profiling.suggestions.moves import Eviction, OnOtherEngine
from nki.profiling.suggestions.products import FewRows, ShortStationary, SumsOutsidePsum
from nki.profiling.suggestions.reloads import Reloads
from nki.profiling.suggestions.repeats import RepeatedRows
from nki.profiling.suggestions.rounds import TilesOfRounds
from nki.profiling.suggestions.shares import Shares
from nki.profiling.suggestions.suggestion import Suggestion, lines
from nki.profiling.suggestions.transfers import Descriptors, FewPartitions, NoDoubleBuffers, ShortRows
from nki.target.model import Target

LEAST_OVERLAP = 0.1
"""The same of advice about engines that do not overlap: its worth is an estimate and no run of the model."""
LEAST_SLOTS = 0.1
"""The same of a tensor for each slot, which gains something under a condition alone."""
SLOTS = "A tensor for each slot"
SERIAL_LOOP = "Iterations of a loop on the device do not overlap"
MOST_BUSY = 0.6
"""Part of the time in which the busiest engine works, in a kernel with engines that overlap well."""
SERIAL_PIECES = 8
"""Pieces into which a tile is cut, so that engines overlap."""
_OF_WAITING = (TilesOfRounds.title, NoDoubleBuffers.title, SERIAL_LOOP)
KINDS: tuple[Callable[[Target], Suggestion], ...] = (
    ShortRows,
    FewPartitions,
    Reloads,
    ThroughHbm,
    RepeatedRows,
    ComputedAgain,
    TilesOfRounds,
    NoDoubleBuffers,
    Descriptors,
    Chains,
    Transposes,
    Float32Products,
    Tables,
    Combined,
    RepeatedOperand,
    FewElements,
    SumsOutsidePsum,
    FewRows,
    ShortStationary,
    Shares,
    lambda target: Eviction(target, "vector", "scalar"),
    lambda target: Eviction(target, "scalar", "vector"),
    *(partial(OnOtherEngine, source=one, goal=two) for one, two in permutations(("vector", "gpsimd", "scalar"), 2)),
)
"""The changes that advice asks about."""


@dataclass(frozen=True)
class Advice:
    """One change: what the profile shows (``evidence``), the documented ``remedy``, the ``seconds`` that the model
    expects to gain, and the ``lines`` that it is about. ``at_most``: what is gained may be less. ``condition``: the
    assumption under which it gains anything, if the model does not hold it.
    """

    title: str
    evidence: str
    remedy: str
    seconds: float
    lines: tuple[Span, ...]
    at_most: bool = False
    condition: str = ""

    @property
    def rank(self) -> tuple[bool, float]:
        """Advice in order: under no condition first, then the greatest worth."""
        return bool(self.condition), -self.seconds


def advise(profile: PredictedRun) -> list[Advice]:
    """The changes that are worth at least :data:`LEAST_WORTH` of the latency, the greatest worth first."""
    advice: list[Advice] = []
    for kind in KINDS:
        change = kind(profile.target)
        timeline = change.timed(profile)
        if timeline is None:
            continue
        seconds = (profile.timeline.ns - timeline.ns) * 1e-9
        remedy = change.advised(returns_results(profile.program.release))
        advice.append(Advice(change.title, change.evidence(), remedy, seconds, change.lines(), change.is_bound))
    advice += _about_iterations(profile)
    waiting = sum(each.seconds for each in advice if each.title in _OF_WAITING)
    advice += [*_about_the_clock(profile, advice), *_about_balance(profile)]
    advice += _about_overlap(profile, waiting)
    worthy = [each for each in advice if each.seconds >= LEAST_WORTH * profile.latency]
    return sorted([*worthy, *_about_slots(profile)], key=lambda each: each.rank)


def _about_slots(profile: PredictedRun) -> Iterator[Advice]:
    """Advice about slices of one tensor that the model runs side by side, and a device may not."""
    for assumption, seconds, part in profile.asides:
        if assumption.name == BY_TENSOR and part >= LEAST_SLOTS:
            yield Advice(
                SLOTS,
                f"{assumption.about}. The latency has no such waits, and the range holds none",
                "make a tensor for each slot, in a list, in place of slices of one tensor",
                seconds,
                (),
                at_most=True,
                condition=BY_TENSOR,
            )


def _about_iterations(profile: PredictedRun) -> Iterator[Advice]:
    """Advice about the loop on the device that gains most if several of its iterations become one."""
    best = max(serial_loops(profile), key=lambda loop: loop.seconds, default=None)
    if best is None:
        return
    yield Advice(
        SERIAL_LOOP,
        f"each of {best.count:,} iterations begins when the one before is complete, and takes "
        f"{_microseconds(best.now)}; {best.together} that overlap take {_microseconds(best.then)} each",
        "unroll the loop: iterations of a Python range overlap; several iterations in one, each with tiles of its own, "
        "gain a part of it",
        best.seconds,
        (*(() if best.line is None else (Span(best.line.file, best.line.line),)), *lines(best.affected)[:4]),
    )


def _about_the_clock(profile: PredictedRun, others: Iterable[Advice]) -> Iterator[Advice]:
    """Advice about the throttled clock of the Tensor engine, beyond the time for which it warms up in any case.

    Where idle rows keep it slow, the change is the one for products of few rows, which ``others`` may have priced.
    """
    throttled = [use for use in profile.engines if use.engine == "tensor" and use.throttled > 0]
    if not throttled:
        return
    gain = profile.timeline.ns - profile.what_if(tensor_throttle_fraction=1.0).timeline.ns
    work = max(use.busy - use.throttled for use in throttled)
    cold = TensorClock(profile.target).run(0.0, work, 1.0) - work
    if (seconds := (gain - cold) * 1e-9) < LEAST_WORTH * profile.latency:
        return
    share = sum(use.throttled for use in throttled) / sum(use.busy for use in throttled)
    window = profile.target.tensor_throttle_window_cycles / profile.target.tensor_clock_ghz
    evidence = (
        f"{share:.0%} of its busy time is due to the clock, which rises after a window of {window / 1e3:.1f} us with "
    )
    if (activity := _activity(profile)) < profile.target.tensor_throttle_raise:
        evidence += f"most of the array at work; products use {activity:.0%} of it"
        remedy = (
            "give products 128 rows to contract, or let several run side by side: tile_position= and tile_size= of "
            "nisa.nc_matmul"
        )
        seconds = max([seconds, *(each.seconds for each in others if each.title == FewRows.title)])
    else:
        evidence += "few gaps"
        remedy = "close the gaps between products: load ahead, so that the engine always has work"
    yield Advice("The Tensor engine runs at a throttled clock", evidence, remedy, seconds, ())


def _activity(profile: PredictedRun) -> float:
    """The part of the array that is at work while the Tensor engine is, in the mean."""
    busy = active = 0.0
    for core in profile.cores:
        for estimate, runs in zip(core.estimates, core.runs.tolist(), strict=True):
            if isinstance(estimate, Matmul):
                busy += estimate.occupancy * runs
                active += estimate.occupancy * runs * estimate.activity
    return active / busy if busy else 1.0


def _about_balance(profile: PredictedRun) -> Iterator[Advice]:
    """Advice about cores if one has less to do: before a meeting, or until the end.

    With even parts both come at the mean of their times, so half of the time is gained in which one waits; or up to all
    of it, where the engine that makes the kernel long has more to do on the other one.
    """
    if len(profile.cores) < 2:
        return
    engine = _critical_engine(profile)
    waits = {core.rank: waits_for_others(core, engine) for core in profile.cores}
    ends = {core.rank: core.timeline.end for core in profile.cores}
    rests = {rank: max(ends.values()) - end for rank, end in ends.items()}
    idle = sum(waits.values()) + sum(rests.values())
    uneven = 0.0 if engine in MOVING else uneven_work(profile.cores, engine)
    rank = max(waits, key=lambda rank: waits[rank] + rests[rank])
    waiting = f"waits {_microseconds(waits[rank])} until the other one meets it" if waits[rank] else ""
    rest = f"is complete {_microseconds(rests[rank])} before the last one" if rests[rank] else ""
    yield Advice(
        "One core waits for the other",
        f"core {rank} {' and '.join(filter(None, (waiting, rest)))}",
        "divide the work evenly: let nl.program_id(0) choose half of the rows, columns or heads, and give each core a "
        "part of what one does for both",
        max(idle / len(ends), min(idle, uneven)) * 1e-9,
        (),
    )


def _critical_engine(profile: PredictedRun) -> str:
    """The engine that has most of the critical path."""
    parts: defaultdict[str, float] = defaultdict(float)
    for step in profile.critical_path:
        core = profile.cores[step.core]
        parts[engine_of(core.queues[int(core.queue[step.row])])] += step.ns
    return max(parts, key=lambda engine: parts[engine], default="")


def _microseconds(ns: float) -> str:
    return f"{ns / 1e3:.1f} us"


def _about_overlap(profile: PredictedRun, waiting: float) -> Iterator[Advice]:
    """Advice about engines that work one after the other on the critical path.

    Work on the path that can be cut overlaps with the busiest engine of the path, but for the first piece.
    ``waiting``: seconds that advice about loads explains.
    """
    parts: defaultdict[str, float] = defaultdict(float)
    for step in profile.critical_path:
        core = profile.cores[step.core]
        engine = core.queues[int(core.queue[step.row])].partition(".")[0]
        work = min(step.end - step.begin, float(core.busy[step.row]))
        parts[engine] += max(0.0, work - _smallest(engine, profile.target))
    busiest = max(profile.engines, key=lambda use: use.busy, default=None)
    if busiest is None or len(parts) < 2 or busiest.busy > MOST_BUSY * profile.timeline.ns:
        return
    hidden = (sum(parts.values()) - max(parts.values())) * (1 - 1 / SERIAL_PIECES)
    seconds = min(hidden, profile.timeline.ns - busiest.busy) * 1e-9
    if waiting < seconds / 2 and seconds >= LEAST_OVERLAP * profile.latency:
        yield Advice(
            "Engines work one after the other",
            f"the busiest engine, {busiest.engine}, works {busiest.busy / profile.timeline.ns:.0%} of the time",
            "split the work into more tiles, so that loads, products and other instructions of different tiles overlap",
            seconds,
            (),
        )


class AdvisedRun(PredictedRun):
    """A predicted run, with advice."""

    @cached_property
    def advice(self) -> list[Advice]:
        """Changes of the kernel that the model expects to be worth it, the greatest worth first."""
        return advise(self)


def _smallest(engine: str, target: Target) -> float:
    """Time in ns of the smallest piece of work of ``engine``, which cannot be cut."""
    if engine == "dma":
        return target.dma_spread_ns
    if engine == "tensor":
        return target.matmul_min_interval_cycles / target.tensor_clock_ghz
    return target.min_interval_cycles / target.vector_clock_ghz
