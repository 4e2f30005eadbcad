"""Changes that give work of one engine to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Buffer
from nki.isa.tables.enums import engine
from nki.passes.scheduling.engine_assignment import candidates
from nki.profiling.changes.change import Change
from nki.profiling.changes.computing import moves_data
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
            self.find(core, number, estimate)
            due += self.share
            if due >= 1.0:
                due -= 1.0
                result[number], self.moved[number] = other, queue
        return result

    def queues(self, core: TimedCore) -> Mapping[int, int]:  # noqa: ARG002
        return self.moved


class Eviction(_Moved):
    """Copies from PSUM on both engines that can do them."""

    title = "Sums leave PSUM through the busiest engine"
    remedy = (
        "give a part of the copies from PSUM to the other engine: nisa.tensor_copy for Vector, nisa.activation with "
        "op=nl.copy for Scalar"
    )

    def could(self, inst: Inst, estimate: Estimate) -> bool:  # noqa: ARG002
        copy = moves_data(inst)
        return copy is not None and copy[1].buffer is Buffer.psum

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
                self.find(core, number, estimate)
                if id(estimate) not in shorter:
                    shorter[id(estimate)] = replace(estimate, occupancy=estimate.occupancy * (1.0 - self.share))
                result[number] = shorter[id(estimate)]
        return result

    def evidence(self) -> str:
        return (
            f"{self.count('copy', 'copies')} from PSUM run on {self.source}, which works "
            f"{self.surplus / 1e3:.1f} us longer than {self.goal}"
        )


class OnGpSimd(_Moved):
    """Work of GpSimd on Vector."""

    title = "GpSimd computes what Vector could"
    remedy = (
        "leave out engine=nisa.engine.gpsimd, or give GpSimd a smaller part: Vector needs fewer cycles, and GpSimd is "
        "for what no other engine can"
    )

    def could(self, inst: Inst, estimate: Estimate) -> bool:  # noqa: ARG002
        return inst.engine_choice is not None and engine.vector is inst.choices()[0]

    def evidence(self) -> str:
        return (
            f"{self.count('instruction')} that Vector has too run on GpSimd, which works "
            f"{self.surplus / 1e3:.1f} us longer"
        )
