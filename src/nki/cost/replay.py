"""Replay of a scheduled core: when each instruction begins and ends, if every queue runs its own in order.

Times are nanoseconds. Instructions are visited in program order, in which the queues can always run. Each begins as
soon as its queue is free, the results that it needs are visible, and the resources that it shares are free. Shared
resources are reserved in program order; later instructions fill the gaps that earlier ones leave:

* the DMA engines of the core, one resource (:class:`nki.ir.estimate.Estimate`);
* each memory port that two engines cannot use at once.

A generator of DMA descriptors serves the transfers of all its queues in program order, as the engine that commands it
comes to them: one that waits holds up those behind it.

Windows of a fixed length throttle the clock of the Tensor engine: after a window that was busy enough the next one is
at full rate, after one that was idle enough the next one is throttled again. A matmul that uses a part of the array's
rows counts as busy by that part (``tensor_throttle_idle_rows``, a guess from one published case). An activation
function whose table is not loaded loads it first, while its operands are still awaited.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from nki.ir.estimate import Estimate
from nki.target.model import Target

Dependences = Sequence[Sequence[int]]
"""Of each instruction of a block: the numbers of the instructions that it depends on, all below its own."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A core comes to a meeting at ``time`` (ns); ``record`` is that of its instruction."""

    time: float
    core: int
    record: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """A meeting as one core sees it: the time at which it came, with the cause and the blocker of that time, and who
    came last.
    """

    time: float
    cause: int
    blocker: int
    last: Arrival


Arrivals = Generator[tuple[int, float], Arrival, None]
"""Yields instructions that meet another core, with the time of arrival; is sent the last arrival of all."""


class Cause(IntEnum):
    """Reason why an instruction did not begin earlier."""

    block = 0
    """It begins with its basic block."""
    queue = 1
    """The instruction before it on its queue."""
    dependence = 2
    """A result of another queue, with its semaphore."""
    chain = 3
    """A result of its own engine, whose pipeline it has to leave first."""
    generator = 4
    """The generator of DMA descriptors serves another transfer."""
    port = 5
    """Another engine keeps the memory."""
    table = 6
    """The table of its activation function is loaded."""
    meeting = 7
    """Another core has not come to the meeting."""


class Reservations:
    """Busy intervals of one shared resource; what is reserved earlier has priority."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.ends: list[float] = []

    def reserve(self, time: float, amount: float) -> float:
        """Reserve ``amount`` ns of full rate from ``time`` on, in pieces where it has to be; the end of the last."""
        starts, ends = self.starts, self.ends
        if not ends or time > ends[-1]:
            starts.append(time)
            ends.append(time + amount)
            return time + amount
        if time >= starts[-1]:  # in the last interval, or at its end, as most are where bandwidth is short
            ends[-1] += amount
            return ends[-1]
        first = bisect_right(ends, time)  # the first interval that ends later
        cursor, last = time, first
        if starts[first] <= time:
            begin, cursor, last = starts[first], ends[first], first + 1
        else:
            begin = time
        while last < len(ends) and starts[last] - cursor < amount:
            amount -= starts[last] - cursor
            cursor = ends[last]
            last += 1
        end = cursor + amount
        starts[first:last] = [begin]
        ends[first:last] = [end]
        return end


class TensorClock:
    """The throttled clock of the Tensor engine; ``windows`` holds the rate of each window so far, 1 at full rate."""

    def __init__(self, target: Target) -> None:
        self.length = target.tensor_throttle_window_cycles / target.tensor_clock_ghz
        self.fraction = target.tensor_throttle_fraction
        self.rise, self.fall = target.tensor_throttle_raise, target.tensor_throttle_lower
        self.idle_rows = target.tensor_throttle_idle_rows
        self.rate = self.fraction
        self.windows = [self.rate]
        self.window_end = self.length
        self.busy = 0.0

    def run(self, time: float, work: float, activity: float) -> float:
        """The end of ``work`` ns at full rate that begins at ``time``; calls are in the order of their times.

        ``activity`` is the part of the array's rows that work: windows count as busy by it.
        """
        activity = 1.0 - self.idle_rows * (1.0 - activity)
        while time >= self.window_end:
            self._next_window()
        end = time + work / self.rate
        if end <= self.window_end:
            self.busy += (end - time) * activity
            return end
        while True:
            room = (self.window_end - time) * self.rate
            if work <= room:
                break
            self.busy += (self.window_end - time) * activity
            work -= room
            time = self.window_end
            self._next_window()
        self.busy += work / self.rate * activity
        return time + work / self.rate

    def _next_window(self) -> None:
        share = self.busy / self.length
        if share >= self.rise:
            self.rate = 1.0
        elif share <= self.fall:
            self.rate = self.fraction
        self.busy = 0.0
        self.windows.append(self.rate)
        self.window_end += self.length


class Replay:
    """State of one core, and a record of every instruction that has run.

    The records are lists over the instructions in the order of their replay: ``starts``; ``releases``, the time from
    which its queue is free again; ``results``, the time at which others see its result; ``causes`` with the record of
    the instruction that ``blockers`` names, or -1; ``data``, the first and the last time of a DMA's data, else 0.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.now = 0.0
        """Time at which all instructions are complete."""
        self.clock = TensorClock(target) if target.tensor_throttle_fraction != 1.0 else None
        self.bandwidth = Reservations()
        self.data_complete = 0.0
        """The time at which the transfers are complete that let smaller ones pass."""
        self.own_dma_free = 0.0
        """The time from which GpSimd's own DMA is free again."""
        self.generators: dict[str, tuple[float, int]] = {}
        """The time from which each generator is free again, and the record that it served last."""
        self.ports: dict[str, Reservations] = {}
        self.table = ""
        self.table_loads: list[tuple[float, float]] = []
        """Begin and end of each load of an activation table."""
        self.meetings: dict[int, Meeting] = {}
        """The meetings with other cores, by record."""
        self.starts: list[float] = []
        self.releases: list[float] = []
        self.results: list[float] = []
        self.causes: list[int] = []
        self.blockers: list[int] = []
        self.data: list[tuple[float, float]] = []

    def block(
        self,
        queues: Sequence[int],
        estimates: Sequence[Estimate],
        predecessors: Dependences,
        chained: Dependences,
        meetings: Collection[int] = (),
    ) -> Arrivals:
        """Replay a basic block, which begins when all before it is complete; ``meetings`` are the numbers of those
        instructions that wait for another core.
        """
        first, begin = len(self.starts), self.now
        count = max(queues, default=0) + 1
        free, data_free = [begin] * count, [begin] * count
        last = [-1] * count
        starts, releases, results = self.starts, self.releases, self.results
        for number, estimate in enumerate(estimates):
            queue = queues[number]
            start, blocker = free[queue], last[queue]
            cause = 1 if blocker >= 0 else 0
            if estimate.table and estimate.table != self.table:
                start, cause = self.load_table(estimate.table, start), 6
            for producer in predecessors[number]:
                if queues[producer] != queue:
                    visible = results[first + producer]
                    if visible > start:
                        start, cause, blocker = visible, 2, producer
            for producer in chained[number]:
                other = estimates[producer]
                visible = results[first + producer] if other.transfer else releases[first + producer] + other.dependent
                if visible > start:
                    start, cause, blocker = visible, 3, producer
            if number in meetings:
                last_arrival = yield number, start
                known = blocker if blocker < 0 else first + blocker
                self.meetings[len(starts)] = Meeting(start, cause, known, last_arrival)
                if last_arrival.time > start:
                    start, cause, blocker = last_arrival.time, 7, -1
            data = _NO_DATA
            if estimate.transfer:
                idle, other = self.generators.get(estimate.generator, _IDLE)
                if idle > start:
                    start, cause, blocker = idle, 4, other - first
                release = start + estimate.issue
                if estimate.generator:
                    self.generators[estimate.generator] = (release, first + number)
                data = self.move(estimate, release, queue, data_free)
                result = data[1] + estimate.latency - estimate.issue - estimate.start - estimate.transfer
            else:
                if estimate.ports and (waited := self.wait_for_ports(estimate, start)) > start:
                    start, cause, blocker = waited, 5, -1
                release = start + estimate.occupancy
                if self.clock is not None and estimate.resource == "tensor":
                    release = self.clock.run(start, estimate.occupancy, estimate.activity)
                result = release + estimate.latency - estimate.occupancy
            free[queue], last[queue] = release, number
            starts.append(start)
            releases.append(release)
            results.append(result)
            self.causes.append(cause)
            self.blockers.append(blocker if blocker < 0 else first + blocker)
            self.data.append(data)
        self.now = max([begin, self.data_complete, *results[first:]])

    def skip(self, ns: float) -> None:
        """Let ``ns`` pass in which the state of the core stays as it is: iterations of a loop that repeat the last."""
        self.now += ns
        if self.clock is not None:
            self.clock.window_end += ns

    def load_table(self, table: str, time: float) -> float:
        """Load an activation table from ``time`` on; the end."""
        target = self.target
        end = time + (target.activation_table_swap_ns if self.table else target.activation_table_load_ns)
        self.table = table
        self.table_loads.append((time, end))
        return end

    def wait_for_ports(self, estimate: Estimate, time: float) -> float:
        """The time, from ``time`` on, at which the instruction begins to have the ports for itself."""
        for port in estimate.ports:
            end = self.ports.setdefault(port, Reservations()).reserve(time, estimate.occupancy)
            time = max(time, end - estimate.occupancy)
        return time

    def move(self, estimate: Estimate, issued: float, queue: int, data_free: list[float]) -> tuple[float, float]:
        """First and last time of the data of a transfer on ``queue`` whose descriptors are there at ``issued``.

        ``data_free``: the time at which each ring's data is through. The DMA engines serve their rings in turn, a
        packet of each (NKI documentation, "Introduction to Direct Memory Access with NKI"): while a transfer moves,
        every other ring moves no more than it does. A small transfer passes a large one, whose ring goes on later.
        """
        begun = issued + estimate.start
        share = estimate.occupancy
        if not share:  # GpSimd's own DMA moves the data
            begun = max(begun, self.own_dma_free)
            self.own_dma_free = begun + estimate.transfer
            return begun, self.own_dma_free
        if data_free[queue] > begun:
            begun = data_free[queue]
        end = begun + (share if share > estimate.transfer else estimate.transfer)
        through = self.bandwidth.reserve(begun, share)
        if through > end:
            in_turn = end + sum([min(free - begun, share) for free in data_free if free > begun])
            if in_turn < through - _ROUNDING:
                end = in_turn
                receipt = estimate.latency - estimate.issue - estimate.start - estimate.transfer
                self.data_complete = self.bandwidth.ends[-1] + receipt
                for ring, free in enumerate(data_free):
                    if free > end:
                        data_free[ring] = free + share
            else:
                end = through
        data_free[queue] = end
        return begun, end


_NO_DATA = (0.0, 0.0)
_ROUNDING = 1e-6
"""Nanoseconds by which sums of the same times in another order may differ."""
_IDLE = (0.0, -1)


def run(arrivals: Arrivals) -> None:
    """Replay a block without meetings."""
    for _ in arrivals:
        raise AssertionError("a block without meetings does not stop")


def in_order_ns(
    queues: Sequence[int],
    estimates: Sequence[Estimate],
    predecessors: Dependences,
    chained: Dependences,
    target: Target,
    order: Sequence[int] | None = None,
) -> float:
    """End of a basic block that runs alone, from its beginning: ``now`` of a :class:`Replay`, without its records.

    ``order``: the numbers of the instructions in the order of their replay; None: as they are numbered.
    """
    count = max(queues, default=0) + 1
    free, data_free = [0.0] * count, [0.0] * count
    releases, results = [0.0] * len(queues), [0.0] * len(queues)
    generators: dict[str, float] = {}
    # Of all state of a replay, this loop keeps what decides about time; the rest it leaves to the methods.
    replay = Replay(target)
    clock = replay.clock
    for number in range(len(queues)) if order is None else order:
        queue, estimate = queues[number], estimates[number]
        start, transfer = free[queue], estimate.transfer
        if estimate.table and estimate.table != replay.table:
            start = replay.load_table(estimate.table, start)
        for producer in predecessors[number]:
            if results[producer] > start and queues[producer] != queue:
                start = results[producer]
        for producer in chained[number]:
            other = estimates[producer]
            visible = results[producer] if other.transfer else releases[producer] + other.dependent
            if visible > start:
                start = visible
        if transfer:
            generator = estimate.generator
            idle = generators.get(generator, 0.0)
            release = (idle if idle > start else start) + estimate.issue
            if generator:
                generators[generator] = release
            _, end = replay.move(estimate, release, queue, data_free)
            results[number] = end + estimate.latency - estimate.issue - estimate.start - transfer
        else:
            if estimate.ports:
                start = replay.wait_for_ports(estimate, start)
            release = start + estimate.occupancy
            if clock is not None and estimate.resource == "tensor":
                release = clock.run(start, estimate.occupancy, estimate.activity)
            results[number] = release + estimate.latency - estimate.occupancy
        free[queue] = releases[number] = release
    return max([replay.data_complete, *results])
