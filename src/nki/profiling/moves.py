"""Changes that give work of one engine to another, and all changes that advice asks about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Buffer
from nki.isa.tables.enums import engine
from nki.passes.scheduling.engine_assignment import candidates
from nki.profiling.changes import KINDS, Change
from nki.sim.timing import Revision, TimedCore
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.profiling.profile import Profile


class _Moved(Change):
    """A part of the instructions of the engine ``source`` runs on ``goal``, so that both work equally long."""

    def __init__(self, target: Target, source: str, goal: str) -> None:
        super().__init__(target)
        self.source, self.goal = source, goal
        self.surplus = self.share = 0.0
        """The ns for which ``source`` works longer, and the part of the instructions that moves."""
        self.moved: dict[int, int] = {}
        self._elsewhere: dict[tuple[object, int], Estimate | None] = {}

    def could(self, inst: Inst, estimate: Estimate) -> bool:
        """Test if the change is about ``inst``, which is on ``source``."""
        raise NotImplementedError

    def elsewhere(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        """The estimate of ``inst`` on ``goal``; None if it cannot run there."""
        key = inst.form(), id(estimate)
        if key not in self._elsewhere:
            self._elsewhere[key] = self._on_goal(inst, estimate)
        return self._elsewhere[key]

    def _on_goal(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        if inst.engine_choice is None:  # it has one engine, and there is another instruction for the other one
            return replace(estimate, resource=self.goal)
        offers = candidates(inst.replace(engine=engine.unknown), self.target)
        return next((offer.estimate for offer in offers if offer.queue == self.goal), None)

    def revised(self, profile: Profile) -> Revision:
        return super().revised(profile) if self._balances(profile) else Revision()

    def _balances(self, profile: Profile) -> bool:
        """Find which part moves; False if there is none."""
        busy = {name: sum(u.busy for u in profile.engines if u.engine == name) for name in (self.source, self.goal)}
        here = there = 0.0
        for core in profile.cores:
            for inst, estimate, runs in zip(core.instructions, core.estimates, core.runs.tolist(), strict=True):
                if estimate.resource != self.source or not self.could(inst, estimate):
                    continue
                if (other := self.elsewhere(inst, estimate)) is not None:
                    here += estimate.occupancy * runs
                    there += other.occupancy * runs
        self.surplus = busy[self.source] - busy[self.goal]
        if self.surplus <= 0.0 or not here:
            return False
        self.share = min(1.0, self.surplus / (here + there))
        return True

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result = list(estimates)
        self.moved = {}
        queue = core.queues.index(self.goal) if self.goal in core.queues else len(core.queues)
        due = 0.0
        for number, inst in enumerate(core.core.numbered):
            estimate = estimates[number]
            if estimate.resource != self.source or not self.could(inst, estimate):
                continue
            other = self.elsewhere(inst, estimate)
            if other is None:
                continue
            self.found.append(inst)
            due += self.share
            if due >= 1.0:
                due -= 1.0
                result[number], self.moved[number] = other, queue
        return result

    def queues(self, core: TimedCore) -> Mapping[int, int]:  # noqa: ARG002
        return self.moved


class _Eviction(_Moved):
    title = "Sums leave PSUM through the busiest engine"
    remedy = (
        "give a part of the copies from PSUM to the other engine: nisa.tensor_copy for Vector, nisa.activation with "
        "op=nl.copy for Scalar"
    )

    def could(self, inst: Inst, estimate: Estimate) -> bool:  # noqa: ARG002
        return inst.as_copy() is not None and any(access.buffer is Buffer.psum for access in inst.reads())

    def _on_goal(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        return super()._on_goal(inst, estimate) or replace(estimate, resource=self.goal)  # as another instruction

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        """Each copy keeps its engine for a part of its time, and its result is there as late as before: where the other
        engine has time for which of them, the scheduler will know.
        """
        result = list(estimates)
        shorter: dict[int, Estimate] = {}
        for number, inst in enumerate(core.core.numbered):
            estimate = estimates[number]
            if estimate.resource == self.source and self.could(inst, estimate):
                self.found.append(inst)
                if id(estimate) not in shorter:
                    shorter[id(estimate)] = replace(estimate, occupancy=estimate.occupancy * (1.0 - self.share))
                result[number] = shorter[id(estimate)]
        return result

    def evidence(self) -> str:
        return (
            f"{len(self.found)} copies from PSUM run on {self.source}, which works {self.surplus / 1e3:.1f} us longer "
            f"than {self.goal}"
        )


class _OnGpSimd(_Moved):
    title = "GpSimd computes what Vector could"
    remedy = (
        "leave out engine=nisa.engine.gpsimd, or give GpSimd a smaller part: Vector needs fewer cycles, and GpSimd is "
        "for what no other engine can"
    )

    def could(self, inst: Inst, estimate: Estimate) -> bool:  # noqa: ARG002
        return inst.engine_choice is not None and engine.vector in inst.choices()

    def evidence(self) -> str:
        return (
            f"{len(self.found)} instructions that Vector has too run on GpSimd, which works "
            f"{self.surplus / 1e3:.1f} us longer"
        )


def changes(profile: Profile) -> Iterator[tuple[Change, Revision]]:
    """The changes that ``profile`` has instructions for, each with what it makes of them."""
    target = profile.target
    moves = _Eviction(target, "vector", "scalar"), _Eviction(target, "scalar", "vector")
    for change in (*(kind(target) for kind in KINDS), *moves, _OnGpSimd(target, "gpsimd", "vector")):
        revised = change.revised(profile)
        if change.found:
            yield change, revised
