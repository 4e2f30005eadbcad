"""Events of a predicted run as columns, one row for each instruction that was replayed.

Times are ns from the beginning of the kernel on the device. These columns are what reports, traces and tables are made
of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.source import Span
from nki.base.terms import Cause
from nki.cost.queue_replay import Meeting
from nki.ir.estimate import Collective, Dma, Estimate, Matmul
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.timing import CoreTimeline

Column = NDArray[Any]
MEMORIES = ("hbm", "sbuf", "psum")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one execution of an instruction reads and writes, by memory (:data:`MEMORIES`)."""

    reads: tuple[int, int, int]
    writes: tuple[int, int, int]


@dataclass
class CoreEvents:
    """The events of one core; all columns have one row for each replayed instruction, in program order.

    ``number`` is the dense number of the instruction in the core's program, ``weight`` the number of executions that
    the row stands for (iterations of a loop repeat it). ``start`` to ``release`` is the time on its queue; ``end`` the
    time at which its result is visible to other queues. ``data_start`` and ``data_end`` frame the data of a DMA, or a
    collective with all of its steps, else they are 0. ``cause`` (:class:`nki.base.terms.Cause`) says why it did not
    begin earlier, and ``blocker`` which row it waited for, or -1.
    """

    rank: int
    timeline: CoreTimeline
    number: Column
    weight: Column
    start: Column
    release: Column
    end: Column
    data_start: Column
    data_end: Column
    cause: Column
    blocker: Column

    @classmethod
    def of(cls, timeline: CoreTimeline) -> CoreEvents:
        replay = timeline.replay
        data = np.array(replay.data, np.float64).reshape(-1, 2)
        number, starts = np.array(timeline.numbers, np.int64), np.array(replay.starts)
        works = np.array([isinstance(estimate, Collective) for estimate in timeline.estimates], bool)[number]
        return cls(
            timeline.core.rank,
            timeline,
            number,
            np.array(timeline.weights, np.int64),
            starts,
            np.array(replay.releases),
            np.array(replay.results),
            np.where(works, starts, data[:, 0]),
            data[:, 1],
            np.array(replay.causes, np.int64),
            np.maximum(np.array(replay.blockers, np.int64), -1),
        )

    def __len__(self) -> int:
        return len(self.number)

    @property
    def instructions(self) -> tuple[Inst, ...]:
        """The instructions by dense number."""
        return self.timeline.core.numbered

    @property
    def estimates(self) -> list[Estimate]:
        """The estimates of the instructions by dense number."""
        return self.timeline.estimates

    @property
    def queues(self) -> list[str]:
        """The names of the queues."""
        return self.timeline.queues

    def until_done(self) -> CoreEvents:
        """The same with instructions that last until their results are there, as profilers of the device count; a
        DMA instruction lasts until its descriptors are made.
        """
        done = self.end - self.timeline.replay.target.semaphore_ns
        return replace(self, release=np.where(self.is_dma, self.release, np.maximum(done, self.release)))

    @cached_property
    def queue(self) -> Column:
        """The queue of each row, an index of :attr:`queues`."""
        return np.array(self.timeline.queue_of, np.int64)[self.number]

    @cached_property
    def runs(self) -> Column:
        """The number of executions of each instruction, by dense number."""
        return np.bincount(self.number, self.weight, len(self.estimates)).astype(np.int64)

    @cached_property
    def busy(self) -> Column:
        """Time of each row on its resource: the data of a DMA, else the time on its queue."""
        return np.where(self.is_dma, self.data_end - self.data_start, self.release - self.start)

    @cached_property
    def is_dma(self) -> Column:
        """True for the rows that are DMA transfers."""
        return np.array([isinstance(estimate, Dma) for estimate in self.estimates], bool)[self.number]

    @cached_property
    def traffic(self) -> list[Traffic]:
        """The traffic of each instruction, by dense number; instructions with one signature share it."""
        by_form: dict[object, Traffic] = {}
        result: list[Traffic] = []
        for inst in self.instructions:
            form = inst.form
            known = by_form.get(form)
            if known is None:
                known = by_form[form] = Traffic(_bytes(inst.reads()), _bytes(inst.writes()))
            result.append(known)
        return result

    @cached_property
    def throttled(self) -> Column:
        """Time of each row that the Tensor engine's clock added."""
        full = [e.occupancy if isinstance(e, Matmul) and e.flops else np.inf for e in self.estimates]
        return np.maximum(self.release - self.start - np.array(full)[self.number], 0.0)

    @cached_property
    def clock(self) -> Column:
        """Mean clock of the Tensor engine while it works on each row, as a part of the full one.

        In a time with a slow clock, a row gets on by the slow clock over its ``clocked`` part in each ns.
        """
        slow = self.timeline.replay.target.tensor_throttle_fraction
        parts = [e.clocked if isinstance(e, Matmul) else 1.0 for e in self.estimates]
        clocked = np.maximum(parts, slow)[self.number]
        lost, length = 1.0 - slow / clocked, self.release - self.start
        throttled = np.divide(self.throttled, lost * length, out=np.zeros(len(self)), where=lost * length > 0)
        return 1.0 - (1.0 - slow) * np.minimum(throttled, 1.0)

    @property
    def meetings(self) -> dict[int, Meeting]:
        """The meetings with other cores, by row."""
        return self.timeline.replay.meetings

    def waiting_meetings(self) -> Iterator[tuple[int, Meeting]]:
        """The rows that waited for another core, each with its meeting."""
        for row, meeting in self.meetings.items():
            if meeting.last.time > meeting.time:
                yield row, meeting

    def cause_of(self, row: int) -> Cause:
        """The cause of a row."""
        return Cause(int(self.cause[row]))

    def span(self, number: int) -> Span | None:
        """The line of the kernel at which instruction ``number`` stands."""
        return self.instructions[number].where.span

    def tiles(self) -> Iterator[tuple[Tensor, float, float]]:
        """The tensors on chip with the times from their first write to their last use."""
        first: dict[Tensor, float] = {}
        last: dict[Tensor, float] = {}
        on_chip = [{a.tensor for a in inst.accesses() if a.buffer.on_chip} for inst in self.instructions]
        ends: list[float] = np.maximum(self.end, self.data_end).tolist()
        # A DMA on the ring of an earlier one may begin before that is through; its data does not.
        starts: list[float] = np.where(self.data_end > 0.0, self.data_start, self.start).tolist()
        numbers: list[int] = self.number.tolist()
        for number, start, end in zip(numbers, starts, ends, strict=True):
            for tensor in on_chip[number]:
                first.setdefault(tensor, start)
                last[tensor] = max(end, last.get(tensor, 0.0))
        for tensor, time in first.items():
            yield tensor, time, last[tensor]


def _bytes(accesses: list[Access]) -> tuple[int, int, int]:
    sums = {"hbm": 0, "sbuf": 0, "psum": 0}
    for access in accesses:
        memory = "hbm" if access.buffer.is_hbm else access.buffer.value
        if memory in sums and access.buffer is not Buffer.register:
            sums[memory] += access.nbytes
    return sums["hbm"], sums["sbuf"], sums["psum"]
