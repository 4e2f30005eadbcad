"""Lower bound of a program's time: what no schedule of its instructions can beat, and which resource says so."""

from __future__ import annotations

from dataclasses import dataclass

from nki.ir.estimate import Estimate
from nki.passes.scheduling.list_scheduler import longest_path, resource_bounds
from nki.sim.timing import Block, CoreTimeline, Part, TimedCore, TimedProgram, Timeline
from nki.target.model import Target

PATH = "dependences"
"""The reason of a bound that the longest chain of dependences sets."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """``ns`` that any order of the instructions takes; ``reason``: an engine, ``dma``, a generator of descriptors such
    as ``descriptors (sync)``, or :data:`PATH`.
    """

    ns: float
    reason: str


def lower_bound(program: TimedProgram, timeline: Timeline) -> LowerBound:
    """The greatest of the bounds of all cores: for each, the sum over its basic blocks.

    Loops have the iterations that ``timeline`` has seen. The reason is the one that holds for most of the time.
    """
    bounds = [_Core(core, times).bound() for core, times in zip(program.cores, timeline.cores, strict=True)]
    return max(bounds, key=lambda bound: bound.ns)


class _Core:
    def __init__(self, core: TimedCore, timeline: CoreTimeline) -> None:
        self.core = core
        self.timeline = timeline
        self.by_reason: dict[str, float] = {}
        self.runs = [0] * len(timeline.estimates)
        """Number of times that each instruction ran."""
        for number, weight in zip(timeline.numbers, timeline.weights, strict=True):
            self.runs[number] += weight

    def bound(self) -> LowerBound:
        self.add(self.core.parts)
        if not self.by_reason:
            return LowerBound(0.0, PATH)
        return LowerBound(sum(self.by_reason.values()), max(self.by_reason, key=self.by_reason.__getitem__))

    def add(self, parts: list[Part]) -> None:
        for part in parts:
            if isinstance(part, Block):
                self.add_block(part)
            else:
                self.add(part.parts)

    def add_block(self, block: Block) -> None:
        if not block.queues:
            return
        estimates: list[Estimate] = self.timeline.estimates[block.first : block.first + len(block.queues)]
        bounds: dict[int | str, float] = resource_bounds(block.queues, estimates)
        resource = max(bounds, key=bounds.__getitem__)
        ns, reason = bounds[resource], self.name(resource)
        path = longest_path(block.queues, estimates, block.graph)
        if path > ns:
            ns, reason = path, PATH
        self.by_reason[reason] = self.by_reason.get(reason, 0.0) + ns * self.runs[block.first]

    def name(self, resource: int | str) -> str:
        if isinstance(resource, int):
            return self.timeline.queues[resource]
        return resource if resource == "dma" else f"descriptors ({resource})"


def bound_of(program: TimedProgram, target: Target) -> LowerBound:
    """The lower bound of ``program`` with the numbers of ``target``."""
    return lower_bound(program, program.run(target))
