"""Which queues can run an instruction, and how long it keeps them.

An instruction that names its engine runs there. Of one that leaves the choice to the compiler, the engines are asked in
the order of its declaration: those on which it breaks no rule and means the same. DMA instructions go to one of the
rings, and none of an engine's time is counted for making their descriptors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from nki.base.errors import QueueError
from nki.ir.instruction import Inst
from nki.ir.ordering import named
from nki.isa.tables.enums import engine
from nki.target.model import Target


@dataclass(frozen=True, slots=True)
class Option:
    """A queue that can run an instruction, or ``dma`` for any ring.

    It is busy for ``busy`` ns; what waits for the instruction on another queue can begin ``after`` ns later.
    """

    queue: str
    busy: float
    after: float


def options(inst: Inst, target: Target) -> tuple[Option, ...]:
    """All queues for ``inst``, the usual one first."""
    if engine.dma in inst.engines:
        busy = inst.cost(target).cycles / target.vector_clock_ghz
        return (Option("dma", busy, target.dma_trigger_ns + target.dma_start_ns + target.dma_completion_ns),)
    chosen = inst.engine_choice
    if chosen is not engine.unknown:
        only = inst.engines[0] if chosen is None else chosen
        return (Option(only.name, _time(inst, only, target), target.semaphore_ns),)
    found: list[Option] = []
    for one in inst.choices():
        fixed = inst.replace(engine=one)
        if _obeys(fixed, target):
            time = _time(fixed, one, target) + (_issue(one, target) if len(inst.choices()) > 1 else 0.0)
            found.append(Option(one.name, time, target.semaphore_ns))
    return tuple(found)


def _obeys(inst: Inst, target: Target) -> bool:
    return all(r.ok(inst, target) for r in inst.rules if r.since <= target.generation <= r.until)


def _time(inst: Inst, on: engine, target: Target) -> float:
    """Nanoseconds on the engine."""
    return inst.cost(target).cycles / _clock(on, target)


def _clock(on: engine, target: Target) -> float:
    clocks = {
        engine.tensor: target.tensor_clock_ghz,
        engine.scalar: target.scalar_clock_ghz,
        engine.gpsimd: target.gpsimd_clock_ghz,
    }
    return clocks.get(on, target.vector_clock_ghz)


def _issue(on: engine, target: Target) -> float:
    """What the engine takes beyond the cycles that the reference's formulas count, which are those of Vector."""
    if on is engine.gpsimd:
        return target.gpsimd_issue_cycles / target.gpsimd_clock_ghz
    if on is engine.scalar:
        return target.scalar_issue_cycles / target.scalar_clock_ghz
    return 0.0


class Assignment:
    """Chooses the queue of one instruction after the other, by the time that those before it take."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rings = [f"dma.{n}" for n in range(target.dma_queues_per_engine)]
        self.known: dict[tuple[Any, ...], tuple[Option, ...]] = {}

    def options(self, inst: Inst) -> tuple[Option, ...]:
        key = inst.key()
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = options(inst, self.target)
        return found

    def choose(self, instructions: list[Inst]) -> tuple[list[str], list[Option]]:
        """The queue of each instruction of a region, and what it costs there.

        What can run in one place only is counted first; then each of the others goes where it is done soonest, if two
        semaphores less than on its usual engine.
        """
        offered = [self.options(inst) for inst in instructions]
        load: dict[str, float] = {}
        rings = [0.0] * len(self.rings)
        for its in offered:
            if len(its) == 1 and its[0].queue != "dma":
                load[its[0].queue] = load.get(its[0].queue, 0.0) + its[0].busy
        queues: list[str] = []
        taken: list[Option] = []
        ring = 0
        for its in offered:
            option = its[0]
            queue = option.queue
            if queue == "dma":
                # From the one after the last on, so that equal loads go round.
                least = min(rings)
                ring = rings.index(least, ring) if least in rings[ring:] else rings.index(least)
                queue = self.rings[ring]
                rings[ring] += option.busy
                ring = (ring + 1) % len(rings)
            elif len(its) > 1:
                usual = its[0].queue  # another one has to wait for data, and be waited for
                option = min(its, key=lambda o: load.get(o.queue, 0.0) + o.busy + 2 * o.after * (o.queue != usual))
                queue = option.queue
                load[queue] = load.get(queue, 0.0) + option.busy
            queues.append(queue)
            taken.append(option)
        return queues, taken

    def check(self, inst: Inst) -> None:
        """Raise :class:`QueueError` unless the queue that ``inst`` has can run it."""
        able = [o.queue for o in self.options(inst)]
        fits = inst.queue in self.rings if able == ["dma"] else inst.queue in able
        if not fits:
            words = f"dma.0 to {self.rings[-1]}" if able == ["dma"] else " or ".join(able)
            error = QueueError(
                f"{named(inst)} is on queue '{inst.queue}', which cannot run it",
                fix=f"put it on {words}, or take all instructions off their queues",
            )
            raise cast(QueueError, error.at(inst.where.span, inst.where.stack))
