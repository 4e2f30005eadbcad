"""Changes that give work of one engine to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from nki.analysis.moved_data import moves_data
from nki.base.source import Span
from nki.ir.estimate import Compute, Estimate
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer
from nki.isa.tables.enums import engine
from nki.passes.scheduling.engine_assignment import candidates
from nki.profiling.metrics import LEAST_WORTH
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.program_rewrites import ProgramRewrite, with_instructions
from nki.profiling.suggestions.suggestion import MOST_LINES, MOST_REORDERED, Affected, Suggestion
from nki.sim.timing import EstimateOverride, TimedCore, Timeline
from nki.target.model import Target

NAMES = {"vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd"}
LEAST_PART = Fraction(1, 4)
"""The instructions of a line if only a part moves: at least one of four."""


def _busy(profile: PredictedRun, name: str) -> float:
    """The ns for which the engine ``name`` works, on all cores."""
    return sum(use.busy for use in profile.engines if use.engine == name)


@dataclass
class _Line:
    """The instructions of one line that could move: their identities, and what they take on either engine, in ns."""

    mnemonic: str
    identities: list[int] = field(default_factory=list[int])
    here: float = 0.0
    there: float = 0.0
    ports: float = 0.0
    """The time for which a port that both engines use is kept on the other one, less that on this one."""
    part: Fraction = Fraction(0)
    """The part that moves."""


class _Loads(NamedTuple):
    """The work of two engines, and the time for which they keep ports that they share; in ns."""

    source: float
    goal: float
    port: float

    def moved(self, line: _Line, part: Fraction) -> _Loads:
        """The loads after ``part`` of a line has moved."""
        each = float(part)
        return _Loads(self.source - line.here * each, self.goal + line.there * each, self.port + line.ports * each)


class OnOtherEngine(ProgramRewrite):
    """Instructions of the engine ``source`` on ``goal``: whole lines as long as it has less to do, and then a part of
    the next one.

    Only instructions that mean the same on both engines, by the rules of the target.
    """

    def __init__(self, target: Target, source: str, goal: str) -> None:
        super().__init__(target)
        self.source, self.goal = source, goal
        self.title = f"{NAMES[source]} computes what {NAMES[goal]} could"
        self.moving: dict[Span | None, _Line] = {}
        self.surplus = 0.0
        self._chosen: set[int] = set()

    def evidence(self) -> str:
        return (
            f"{self.count('instruction')} that {NAMES[self.goal]} has too run on {NAMES[self.source]}, which works "
            f"{self.surplus / 1e3:.1f} us longer"
        )

    def advised(self, returns_results: bool) -> str:  # noqa: ARG002  # the same words in all
        where = [
            f"{'' if line.part == 1 else f'{line.part.numerator} of {line.part.denominator} '}nisa.{line.mnemonic} at "
            f"line {span.line if span else '?'}"
            for span, line in [*self.moving.items()][:MOST_LINES]
        ]
        why = "GpSimd is for what no other engine can" if self.source == "gpsimd" else "both then work at one time"
        return f"write engine=nisa.engine.{self.goal}: {', '.join(where)}; {why}"

    def timed(self, profile: PredictedRun) -> Timeline | None:
        best: tuple[float, Timeline, dict[Span | None, _Line], list[Affected]] | None = None
        for moving in self._choices(profile):
            self.moving, self.affected = moving, []
            self._chosen = {identity for line in moving.values() for identity in _spread(line)}
            timeline = super().timed(profile)
            if timeline is not None and (best is None or timeline.ns < best[0]):
                best = timeline.ns, timeline, moving, self.affected
        if best is None:
            return None
        _, timeline, self.moving, self.affected = best
        return timeline

    def rewritten(self, core: CoreProgram) -> CoreProgram:
        moved = [inst for inst in core.numbered if inst.identity() in self._chosen]
        self.note(core.rank, moved)
        other = engine[self.goal]
        return with_instructions(core, {id(inst): (inst.replace(engine=other),) for inst in moved}) if moved else core

    def _choices(self, profile: PredictedRun) -> Iterator[dict[Span | None, _Line]]:
        """All that may move, by line. In short programs whole rounds are another choice: the same part of each."""
        loads = _Loads(_busy(profile, self.source), _busy(profile, self.goal), 0.0)
        self.surplus = loads.source - loads.goal
        if self.surplus < LEAST_WORTH * profile.latency * 1e9 or not self._is_critical(profile):
            return
        lines, port = self._lines(profile)
        loads = loads._replace(port=port)
        lines = {span: line for span, line in lines.items() if line.here >= LEAST_WORTH * self.surplus}
        if by_line := _by_line(lines, loads):
            yield by_line
        if len(lines) > 1 and profile.program.size <= MOST_REORDERED:
            each = sum(line.here for line in lines.values()), sum(line.there for line in lines.values())
            part = Fraction(min(1.0, self.surplus / sum(each))).limit_denominator(4)
            for line in lines.values():
                loads = loads.moved(line, part)
            if part >= LEAST_PART and max(loads) < max(_busy(profile, self.source), port):
                yield {span: replace(line, part=part) for span, line in lines.items()}

    def _is_critical(self, profile: PredictedRun) -> bool:
        """Test if what could move is on the critical path at all: nothing else gains."""
        critical = 0.0
        for step in profile.critical_path:
            core = profile.cores[step.core]
            number = int(core.number[step.row])
            inst, estimate = core.instructions[number], core.estimates[number]
            if not isinstance(estimate, Compute) or estimate.resource != self.source:
                continue
            if self._there(inst, estimate):
                critical += step.ns
        return critical > LEAST_WORTH * profile.latency * 1e9

    def _lines(self, profile: PredictedRun) -> tuple[dict[Span | None, _Line], float]:
        """All that could move, by line, and the ns for which the engines keep ports that both use."""
        result: dict[Span | None, _Line] = {}
        kept = {self.source: defaultdict[str, float](float), self.goal: defaultdict[str, float](float)}
        for core in profile.cores:
            for number, (inst, estimate, runs) in enumerate(
                zip(core.instructions, core.estimates, core.runs.tolist(), strict=True)
            ):
                if not isinstance(estimate, Compute) or estimate.resource not in kept:
                    continue
                for port in estimate.ports:
                    kept[estimate.resource][port] += estimate.ports_ns * runs
                if estimate.resource != self.source or (there := self._there(inst, estimate)) is None:
                    continue
                span = core.span(number)
                line = result.setdefault(span and Span(span.file, span.line), _Line(inst.mnemonic))
                line.identities.append(inst.identity())
                line.here += estimate.occupancy * runs
                line.there += there.occupancy * runs
                line.ports += (there.ports_ns - estimate.ports_ns) * runs
        here, there = kept.values()
        return result, max((ns + there[port] for port, ns in here.items()), default=0.0)

    def _there(self, inst: Inst, estimate: Compute) -> Compute | None:
        """The estimate of ``inst`` on the other engine; None if it cannot run there, or would mean something else."""
        return self.once(estimate, inst.form, lambda: self._on_goal(inst))

    def _on_goal(self, inst: Inst) -> Compute | None:
        if inst.effects.implicit is not None or inst.effects.external:
            return None
        offers = _offers(inst, self.target)
        there = offers.get(self.goal) if self.source in offers else None
        return there if isinstance(there, Compute) else None


def _offers(inst: Inst, target: Target) -> dict[str, Estimate]:
    """The estimates of ``inst`` on each engine that has it; none if it has no choice of engines."""
    if inst.engine_choice is None:
        return {}
    return {offer.queue: offer.estimate for offer in candidates(inst.replace(engine=engine.unknown), target)}


def _by_line(lines: dict[Span | None, _Line], loads: _Loads) -> dict[Span | None, _Line]:
    """The lines that move, those first that lose least on the other engine."""
    chosen: dict[Span | None, _Line] = {}
    for span, line in sorted(lines.items(), key=lambda item: (item[1].there / item[1].here, -item[1].here)):
        part = Fraction(min(1.0, (loads.source - loads.goal) / (line.here + line.there))).limit_denominator(4)
        after = loads.moved(line, part)
        if part >= LEAST_PART and max(after) < max(loads):
            chosen[span] = replace(line, part=part)
            loads = after
    return chosen


def _spread(line: _Line) -> Iterator[int]:
    """The instructions of a line that move, evenly among all of them."""
    due = Fraction(0)
    for identity in line.identities:
        due += line.part
        if due >= 1:
            due -= 1
            yield identity


class Eviction(Suggestion):
    """Copies from PSUM on both of the engines that can do them, which have different instructions for that."""

    title = "Sums leave PSUM through the busiest engine"
    remedy = (
        "give a part of the copies from PSUM to the other engine: nisa.tensor_copy for Vector, nisa.activation with "
        "op=nl.copy for Scalar"
    )

    def __init__(self, target: Target, source: str, goal: str) -> None:
        super().__init__(target)
        self.source, self.goal = source, goal
        self.surplus = self.share = 0.0
        """The ns for which ``source`` works longer, and the part of the copies that moves."""

    def evidence(self) -> str:
        return (
            f"{self.count('copy', 'copies')} from PSUM run on {self.source}, which works "
            f"{self.surplus / 1e3:.1f} us longer than {self.goal}"
        )

    def overrides(self, profile: PredictedRun) -> dict[TimedCore, EstimateOverride]:
        self.surplus = _busy(profile, self.source) - _busy(profile, self.goal)
        here = there = 0.0
        for core in profile.cores:
            for inst, estimate, runs in zip(core.instructions, core.estimates, core.runs.tolist(), strict=True):
                if self._evicts(inst, estimate):
                    here += estimate.occupancy * runs
                    there += self._there(inst, estimate).occupancy * runs
        if self.surplus <= 0.0 or not here:
            return {}
        self.share = min(1.0, self.surplus / (here + there))
        return super().overrides(profile)

    def _evicts(self, inst: Inst, estimate: Estimate) -> bool:
        if estimate.resource != self.source:
            return False
        copy = moves_data(inst)
        return copy is not None and copy[1].buffer is Buffer.psum

    def _there(self, inst: Inst, estimate: Estimate) -> Estimate:
        """The estimate of a copy on the other engine, or its own where that has another instruction for it."""
        return self.once(estimate, inst.form, lambda: _offers(inst, self.target).get(self.goal, estimate))

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        """Each copy keeps its engine for a part of its time, and its result is there as late as before: where the other
        engine has time for which of them, the scheduler will know.
        """
        for number, inst in enumerate(core.core.numbered):
            estimate = override.before[number]
            if isinstance(estimate, Compute) and self._evicts(inst, estimate):
                self.add(core, number, estimate)
                override.estimates[number] = self.once(estimate, "", partial(self._shorter, estimate))

    def _shorter(self, estimate: Compute) -> Compute:
        return estimate.releasing_after(estimate.occupancy * (1.0 - self.share))
