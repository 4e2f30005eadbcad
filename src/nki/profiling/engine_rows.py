"""Events by the engine that profiles show them on: events of its queue, and the DMA triggers that it issues.

A profile of the device has a row for the instruction that starts a DMA, on the engine that has it in its queue, and
other rows for the data that moves. So a DMA instruction belongs here to the engine that generates its descriptors, for
the time that the descriptors take; one with static descriptors belongs to ``dma``. An instruction lasts until its
result is there, when the next one of its engine may already run: active times count such times once, and times of
instructions add them up (Profile Parquet Schema Reference, tables Summary and OpcodeSummary).
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
    def done(self) -> Column:
        """The end of each row on its engine: its result is there, or the descriptors of a DMA are."""
        return self.events.until_done().release

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

    def active(self, engine: str) -> tuple[Column, Column]:
        """The times in which an engine works, as begins and ends that do not touch; ``dma``: data is on the way."""
        events = self.events
        if engine == "dma":
            rows = np.flatnonzero(events.is_dma)
            return merged(events.data_start[rows], events.data_end[rows])
        rows = self.rows(engine)
        return merged(events.start[rows], self.done[rows])

    def active_ns(self, engine: str) -> float:
        """The time in which an engine works; iterations that a loop repeats count with those that were replayed."""
        events = self.events
        if engine == "dma":
            return self._joined_ns(np.flatnonzero(events.is_dma), events.data_start, events.data_end)
        return self.joined_ns(self.rows(engine))

    def instruction_ns(self, rows: Column) -> float:
        """The times of ``rows`` and of what they stand for, added up."""
        events = self.events
        return float((events.weight[rows] * (self.done[rows] - events.start[rows])).sum())

    def joined_ns(self, rows: Column) -> float:
        """The time in which one of ``rows`` runs, at least."""
        return self._joined_ns(rows, self.events.start, self.done)

    def transfer_ns(self, generators: tuple[str, ...]) -> float:
        """The time in which data is on the way, by descriptors from one of these engines (empty: static)."""
        events = self.events
        chosen = np.array([isinstance(e, Dma) and e.dge in generators for e in events.estimates], bool)
        return self._joined_ns(np.flatnonzero(chosen[events.number]), events.data_start, events.data_end)

    def idle_ns(self) -> float:
        """The time in which no engine works and no data moves, before the core is complete."""
        events = self.events
        rows = np.arange(2 * len(events)) % max(len(events), 1)
        begins, ends = np.concatenate((events.start, events.data_start)), np.concatenate((self.done, events.data_end))
        return max(events.timeline.end - self._joined(begins, ends, events.weight[rows]), 0.0)

    def _joined_ns(self, rows: Column, begins: Column, ends: Column) -> float:
        return self._joined(begins[rows], ends[rows], self.events.weight[rows])

    def _joined(self, begins: Column, ends: Column, weights: Column) -> float:
        """The length of the union of intervals; an iteration that a loop repeats counts as often."""
        return min(joined(begins, ends, weights), self.events.timeline.end)


def joined(begins: Column, ends: Column, weights: Column) -> float:
    """The length of the union of intervals; those that stand for several iterations of a loop count as often."""
    whole = _length(begins, ends)
    for weight in np.unique(weights[weights > 1]).tolist():
        repeated = weights == weight
        whole += (weight - 1) * _length(begins[repeated], ends[repeated])
    return whole


def _length(begins: Column, ends: Column) -> float:
    first, last = merged(begins, ends)
    return float((last - first).sum())


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
