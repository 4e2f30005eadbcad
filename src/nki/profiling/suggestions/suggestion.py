"""A change of a kernel: which instructions it is about, and the estimates that it gives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from nki.base.source import Span
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Form, is_row_indexed
from nki.isa.tables.enums import engine
from nki.profiling.amounts import size
from nki.profiling.metrics import LEAST_WORTH
from nki.profiling.predicted_run import PredictedRun
from nki.sim.timing import EstimateOverride, TimedCore, Timeline
from nki.target.model import Target

_Made = TypeVar("_Made")
MOST_REORDERED = 4096
"""Instructions of a program up to which the changed kernel gets an order of its own, which takes longest."""
MOST_LINES = 5
"""Lines that a piece of advice names."""


class Affected(NamedTuple):
    """An instruction that a change is about, how often it runs, and the ns of its resource that it takes in all."""

    inst: Inst
    runs: float
    busy: float


class Suggestion:
    """A change of some instructions, chosen and re-estimated one by one."""

    title: str
    remedy: str
    older_remedy = ""
    """The remedy for NKI Beta 1, if its names are others."""
    is_bound = False
    """The change gains no more than the model says, and may gain less."""
    one_by_one = False
    """Instructions of one signature differ, so that each one is asked about."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.affected: list[Affected] = []
        self._runs: dict[TimedCore, list[int]] = {}
        self._made: dict[tuple[int, Hashable], tuple[Estimate, Any]] = {}

    def evidence(self) -> str:
        """The finding in numbers."""
        raise NotImplementedError

    def lines(self) -> tuple[Span, ...]:
        """The lines that the change is about, the first ones first."""
        return lines(self.affected)

    def advised(self, returns_results: bool) -> str:
        """The remedy; for programs with instructions that return their results (NKI Beta 1), in their words."""
        return self.older_remedy if returns_results and self.older_remedy else self.remedy

    def runs(self, core: TimedCore, number: int) -> int:
        """The number of executions of an instruction."""
        return self._runs[core][number] if core in self._runs else 1

    def add(self, core: TimedCore, number: int, estimate: Estimate, part: float = 1.0) -> None:
        """Note that the change is about ``part`` of the executions of an instruction."""
        self.add_runs(core.core.numbered[number], self.runs(core, number) * part, estimate)

    def add_runs(self, inst: Inst, runs: float, estimate: Estimate) -> None:
        """Note that the change is about ``runs`` executions of an instruction."""
        self.affected.append(Affected(inst, runs, estimate.busy * runs))

    def count(self, noun: str, plural: str = "", includes: Callable[[Inst], bool] = lambda _: True) -> str:
        """The number of executions that the change is about, of the instructions that it ``includes``."""
        number = round(sum(each.runs for each in self.affected if includes(each.inst)))
        return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

    def tensors(self) -> str:
        """The names of the tensors in HBM that the instructions move."""
        names = sorted({pair[0].name for each in self.affected if (pair := hbm_side(each.inst))})
        return ", ".join(f"'{name}'" for name in names[:3]) + (", …" if len(names) > 3 else "")

    def timed(self, profile: PredictedRun) -> Timeline | None:
        """The timing of the changed kernel; None if the change is about nothing."""
        overrides = self.overrides(profile)
        if not self.affected:
            return None
        timeline = profile.timed.run(profile.target, overrides)
        gained = profile.timeline.ns - timeline.ns
        if profile.program.size > MOST_REORDERED or gained < LEAST_WORTH / 2 * profile.latency * 1e9:
            return timeline
        reordered = profile.timed.run(profile.target, overrides, reorder=True)
        return min(timeline, reordered, key=lambda each: each.ns)

    def overrides(self, profile: PredictedRun) -> dict[TimedCore, EstimateOverride]:
        """The change of the instructions of ``profile``, which are asked about once: here, and in no replay."""
        for timed, events in zip(profile.timed.cores, profile.cores, strict=True):
            self._runs[timed] = events.runs.tolist()
        result: dict[TimedCore, EstimateOverride] = {}
        for core, times in zip(profile.timed.cores, profile.timeline.cores, strict=True):
            result[core] = EstimateOverride(times.estimates)
            self.change(core, result[core])
        return result

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        """Note what the change does to the instructions of ``core``."""
        estimates, result = override.before, override.estimates
        numbered = core.core.numbered
        decided: dict[tuple[int, int], Estimate | None] = {}  # by kind, and by estimate: held weights have another
        for number, kind in enumerate(core.kinds):
            estimate = estimates[number]
            key = kind, id(estimate)
            if self.one_by_one or key not in decided:
                decided[key] = self.estimate(numbered[number], estimate)
            changed = decided[key]
            if changed is not None:
                self.add(core, number, estimate)
                result[number] = changed

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        """The estimate of ``inst`` after the change; None if the change does not touch it. Instructions with one
        signature are asked about once, unless the change asks :attr:`one_by_one`.
        """
        raise NotImplementedError

    def once(self, estimate: Estimate, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """The result of ``make``, made once for ``estimate`` and ``key``: the same change of one estimate is one
        object, and a replay is as fast as its estimates are few.
        """
        made = self._made.get((id(estimate), key))
        if made is None:
            made = self._made[id(estimate), key] = estimate, make()  # an estimate that is kept keeps its id
        return made[1]


def lines(affected: Iterable[Affected]) -> tuple[Span, ...]:
    """The lines of instructions, those that take most time first; at most five."""
    times: defaultdict[tuple[str, int], float] = defaultdict(float)
    for inst, _, busy in affected:
        if (span := inst.where.span) is not None:
            times[span.file, span.line] += busy
    order = sorted(times, key=lambda place: -times[place])
    return tuple(Span(file, line) for file, line in order[:MOST_LINES])


_NO_SIDES = (-1, -1)
_MOST_FORMS = 1 << 12
_sides: dict[Form, tuple[int, int]] = {}
"""By the form of an instruction: the numbers of its operands in HBM and in SBUF."""


def writes(inst: Inst, access: Access) -> bool:
    """True if ``inst`` writes ``access``, one of its operands. Registers among them refuse to be compared by ``in``."""
    return any(each is access for each in inst.writes())


def hbm_side(inst: Inst) -> tuple[Access, Access] | None:
    """The HBM and the SBUF operand of a transfer between the two, of whole rows that lie at known places."""
    form = inst.form
    sides = _sides.get(form)
    if sides is None:
        if len(_sides) >= _MOST_FORMS:
            _sides.clear()
        sides = _sides[form] = _find_sides(inst)
    if sides is _NO_SIDES:
        return None
    accesses = inst.accesses()
    return accesses[sides[0]], accesses[sides[1]]


def _find_sides(inst: Inst) -> tuple[int, int]:
    accesses = inst.accesses()
    outside = [number for number, access in enumerate(accesses) if access.buffer.is_hbm]
    inside = [number for number, access in enumerate(accesses) if access.buffer is Buffer.sbuf]
    if len(outside) != 1 or len(inside) != 1 or any(map(is_row_indexed, accesses)):
        return _NO_SIDES
    return outside[0], inside[0]


class Kept(Suggestion):
    """A change that keeps tiles in SBUF, which may have too little room for them."""

    bytes: int = 0
    """Bytes that are not moved."""
    free: int = 0
    kept: int = 0
    """Bytes of a partition that no tile needs at the time of most use, and that the change needs."""

    @property
    def is_bound(self) -> bool:
        return self.kept > self.free

    def room(self) -> str:
        """The words about the room that there is."""
        return f"all need {size(self.kept)} of each partition of SBUF, and {size(self.free)} are free"

    def overrides(self, profile: PredictedRun) -> dict[TimedCore, EstimateOverride]:
        self.free = max(0, self.target.sbuf_usable_partition_bytes - profile.peak_memory["sbuf"])
        return super().overrides(profile)

    def keep(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Note the tiles to keep on a core: the first and the last instruction that each is kept for, and its bytes per
        partition.
        """
        changes = [change for first, last, count in ranges for change in ((first, count), (last + 1, -count))]
        self.kept = max(self.kept, *accumulate(count for _, count in sorted(changes)), 0)


def span(numbers: Collection[int]) -> str:
    """``64``, or ``64 to 512``."""
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


def on_engine(inst: Inst, name: str) -> Inst:
    """``inst`` with the engine ``name``, if it has a choice."""
    return inst if inst.engine_choice is None else inst.replace(engine=engine[name])
