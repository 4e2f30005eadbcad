"""Events by the engine that profiles show them on: events of its queue, and the DMA triggers that it issues.

A profile of the device has a row for the instruction that starts a DMA, on the engine that has it in its queue, and
other rows for the data that moves. So a DMA instruction belongs here to the engine that generates its descriptors, for
the time that the descriptors take; one with static descriptors belongs to ``dma``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nki.base.terms import Cause
from nki.ir.estimate import Dma
from nki.isa.tables.opcodes import opcode
from nki.profiling.events import Column, CoreEvents
from nki.profiling.metrics import engine_of

TITLES = {
    "tensor": "Tensor",
    "vector": "Vector",
    "scalar": "Scalar",
    "gpsimd": "GpSimd",
    "sync": "Sync",
    "dma": "DMA",
    "collectives": "Collectives",
}
"""Names of engines in the columns of tables and in traces."""
_WAITING = (int(Cause.dependence), int(Cause.meeting))


@dataclass
class EngineRows:
    """The events of one core by engine."""

    events: CoreEvents

    @cached_property
    def engines(self) -> list[str]:
        """The engine of each instruction, by dense number."""
        queues = [engine_of(self.events.queues[queue]) for queue in self.events.timeline.queue_of]
        return [
            (estimate.dge or queue) if isinstance(estimate, Dma) else queue
            for estimate, queue in zip(self.events.estimates, queues, strict=True)
        ]

    @cached_property
    def opcodes(self) -> list[str]:
        """The opcode of each instruction, by dense number."""
        pairs = zip(self.events.instructions, self.engines, strict=True)
        return [opcode(inst.mnemonic, engine) for inst, engine in pairs]

    @cached_property
    def gaps(self) -> Column:
        """Time from the end of the instruction before on the queue, or from 0, to the start of each row."""
        events = self.events
        gaps = np.zeros(len(events))
        for queue in range(len(events.queues)):
            rows = np.flatnonzero(events.queue == queue)
            before = np.concatenate(([0.0], events.release[rows][:-1]))
            gaps[rows] = np.maximum(events.start[rows] - before[: len(rows)], 0.0)
        return gaps

    @property
    def semaphore_waits(self) -> Column:
        """Time that each row waited for a semaphore: for a result of another queue, or for another core."""
        return np.where(np.isin(self.events.cause, _WAITING), self.gaps, 0.0)

    def rows(self, engine: str) -> Column:
        """The rows of one engine."""
        chosen = np.array([name == engine for name in self.engines], bool)
        return np.flatnonzero(chosen[self.events.number])

    def instruction_ns(self, engine: str) -> float:
        """The times of an engine's instructions, added up."""
        chosen, events = self.rows(engine), self.events
        return float((events.weight[chosen] * (events.release[chosen] - events.start[chosen])).sum())

    def active(self, engine: str) -> tuple[Column, Column]:
        """The times in which an engine works, as begins and ends that do not touch; ``dma``: data is on the way."""
        events = self.events
        if engine == "dma":
            rows = np.flatnonzero(events.is_dma)
            return merged(events.data_start[rows], events.data_end[rows])
        rows = self.rows(engine)
        return merged(events.start[rows], events.release[rows])

    def active_ns(self, engine: str) -> float:
        """The time in which an engine works; iterations that a loop repeats count with those that were replayed."""
        events = self.events
        begins, ends = self.active(engine)
        rows = np.flatnonzero(events.is_dma) if engine == "dma" else self.rows(engine)
        lengths = events.busy[rows] if engine == "dma" else events.release[rows] - events.start[rows]
        repeated = float(((events.weight[rows] - 1) * lengths).sum())
        return min(float((ends - begins).sum()) + repeated, events.timeline.end)

    def transfer_ns(self, generators: tuple[str, ...]) -> float:
        """The time in which data is on the way, by descriptors from one of these engines (empty: static)."""
        events = self.events
        chosen = np.array([isinstance(e, Dma) and e.dge in generators for e in events.estimates], bool)
        rows = np.flatnonzero(chosen[events.number])
        begins, ends = merged(events.data_start[rows], events.data_end[rows])
        repeated = float(((events.weight[rows] - 1) * events.busy[rows]).sum())
        return min(float((ends - begins).sum()) + repeated, events.timeline.end)

    def idle_ns(self) -> float:
        """The time in which no engine works and no data moves, before the core is complete."""
        events = self.events
        begins, ends = merged(
            np.concatenate((events.start, events.data_start)), np.concatenate((events.release, events.data_end))
        )
        repeated = float(((events.weight - 1) * np.maximum(events.busy, 0.0)).sum())
        return max(events.timeline.end - float((ends - begins).sum()) - repeated, 0.0)


def merged(begins: Any, ends: Any) -> tuple[Column, Column]:
    """The union of intervals, as begins and ends in order; those that touch are one."""
    if not len(begins):
        return np.zeros(0), np.zeros(0)
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.concatenate(([True], begins[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return begins[first], reach[last]
