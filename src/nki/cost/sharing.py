"""Processor sharing of the DMA engines: the data queues that have data take turns, a packet of each.

A transfer goes to one queue on all DMA engines, which serve a queue in order and the queues round robin; its queue
follows from the engine that triggers it and the method that generates its descriptors (NKI documentation,
"Introduction to Direct Memory Access with NKI", DMA Queues). With packets that are small beside a transfer, each of
``n`` queues with data has the ``n``-th part of the bandwidth, and queues together never have more than all of it.

Virtual time makes that cost a few steps for each transfer: it runs ``n`` times as slowly as time, so a transfer that
begins at the virtual time ``v`` ends at ``v`` and its share, whoever comes and goes meanwhile.

A transfer of few partitions has descriptors on the engines of its partitions alone. So each engine has queues of its
own, and a transfer is through when all its engines are. Engines that transfers keep alike count once, and those that
never have more to do than another not at all (:func:`engine_loads`): mostly one is left, and queues for it alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace

from nki.ir.estimate import Collective, Dma, Estimate

DataQueue = str | int
"""The name of a generator of descriptors, or the number of a ring with descriptors in HBM."""
NEVER = float("inf")


class SharedBandwidth:
    """Transfers under processor sharing, in the order of events: :meth:`arrive` and :meth:`complete` at times that do
    not go back, and the next completion comes at ``next_end`` if nothing arrives before. Times are ns.
    """

    __slots__ = ("heads", "lines", "next_end", "time", "virtual")

    def __init__(self) -> None:
        self.next_end: float = NEVER
        self.time: float = 0.0
        self.virtual: float = 0.0
        self.heads: list[tuple[float, int, deque[tuple[int, float]], float]] = []
        """Of each queue with data the transfer that moves: virtual end, number, line of its queue, begin; a heap."""
        self.lines: dict[DataQueue, deque[tuple[int, float]]] = {}
        """Of each queue the transfers that are not through: number and share. The first one moves."""

    def arrive(self, time: float, queue: DataQueue, number: int, share: float) -> None:
        """Transfer ``number``, which takes ``share`` ns of the whole bandwidth, comes to ``queue`` at ``time``."""
        line = self.lines.get(queue)
        if line is None:
            line = self.lines[queue] = deque()
        line.append((number, share))
        if len(line) > 1:
            return
        served = self.heads
        virtual = self.virtual + (time - self.time) / len(served) if served else 0.0
        self.time, self.virtual = time, virtual
        heappush(served, (virtual + share, number, line, time))
        self.next_end = time + (served[0][0] - virtual) * len(served)

    def complete(self, latest: float = 0.0) -> Sequence[tuple[int, float, float]]:  # noqa: ARG002  # as SharedEngines
        """The transfer that completes at ``next_end``: its number, and the time in which its data moved."""
        return (self.served(),)

    def served(self) -> tuple[int, float, float]:
        """Let the transfer at ``next_end`` complete: its number, and the time in which its data moved."""
        end, served = self.next_end, self.heads
        virtual, number, line, begin = served[0]
        self.time, self.virtual = end, virtual
        line.popleft()
        if line:
            following, share = line[0]
            heapreplace(served, (virtual + share, following, line, end))
        else:
            heappop(served)
        self.next_end = end + (served[0][0] - virtual) * len(served) if served else NEVER
        return number, begin, end


Loads = tuple[tuple[int, float], ...]
"""The DMA engines that a transfer keeps, by number, and the ns for which it keeps each."""


@dataclass(frozen=True, slots=True)
class EngineLoads:
    """The ``count`` DMA engines that matter in a block, and for how long each transfer keeps them."""

    count: int
    by_estimate: dict[int, Loads]
    """By the ``id`` of an estimate; empty if all transfers keep all engines alike, for their occupancy."""
    most: dict[int, float]
    """Likewise, the longest of its times."""

    def of(self, estimate: Dma) -> Loads:
        """The engines of one transfer; of one without occupancy, GpSimd's own DMA, which is one engine."""
        if self.by_estimate and estimate.occupancy:
            return self.by_estimate[id(estimate)]
        return ((0, estimate.occupancy or estimate.transfer),)

    def busiest(self, estimate: Dma) -> float:
        """The time for which a transfer keeps the engine that moves most of it, in ns."""
        return self.most.get(id(estimate)) or estimate.occupancy or estimate.transfer

    def behind(self, estimates: Iterable[Estimate]) -> dict[int, float]:
        """The time for which each transfer goes on behind its data on the busiest engine, by the ``id`` of its
        estimate; without those that do not.
        """
        transfers = {id(each): each for each in estimates if isinstance(each, Dma)}
        behind = {number: each.transfer - self.busiest(each) for number, each in transfers.items()}
        return {number: ns for number, ns in behind.items() if ns > 0.0}

    def totals(self, estimates: Iterable[Estimate]) -> list[float]:
        """The time for which all transfers together keep each engine, in ns."""
        totals = [0.0] * self.count
        for estimate in estimates:
            if isinstance(estimate, Dma) and estimate.occupancy:
                for engine, load in self.of(estimate):
                    totals[engine] += load
        return totals


_ALIKE = EngineLoads(1, {}, {})


def distinct(estimates: Sequence[Estimate]) -> dict[int, Estimate]:
    """The estimates of a block by ``id``: they are few, since instructions of one signature share theirs."""
    return dict(zip(map(id, estimates), estimates, strict=True))


def engine_loads(estimates: Iterable[Estimate]) -> EngineLoads:
    """The engines that matter for the transfers of a block.

    Left out is an engine for which no transfer has more to do than for another: with the same queues and arrivals it is
    done before that one. HBM is one more resource, where it is slower than all engines together. The links to other
    chips are another one, which collectives keep for all of their data.
    """
    transfers = {id(each): each for each in estimates if isinstance(each, Dma) and each.occupancy}
    if not any(each.engine_times or isinstance(each, Collective) for each in transfers.values()):
        return _ALIKE
    keys = {number: (each.occupancy, each.engine_times, _links_ns(each)) for number, each in transfers.items()}
    width = max(1, *(len(engines) for _, engines, _ in keys.values()))
    rows = {key: key[1] or (key[0],) * width for key in keys.values()}
    if any(sum(engines) < occupancy * width * (1 - 1e-9) for (occupancy, _, _), engines in rows.items()):
        rows = {key: (*engines, key[0]) for key, engines in rows.items()}
    if any(links for _, _, links in rows):
        rows = {key: (*engines, key[2]) for key, engines in rows.items()}
    columns = set(zip(*rows.values(), strict=True))
    matter = sorted(column for column in columns if not any(_covers(other, column) for other in columns))
    loads: dict[object, Loads] = {}
    most: dict[object, float] = {}
    for key, row in zip(rows, zip(*matter, strict=True), strict=True):
        loads[key] = tuple([(engine, load) for engine, load in enumerate(row) if load])
        most[key] = max(row)
    by_estimate = {number: loads[key] for number, key in keys.items()}
    return EngineLoads(len(matter), by_estimate, {number: most[key] for number, key in keys.items()})


def _links_ns(estimate: Dma) -> float:
    return estimate.transfer if isinstance(estimate, Collective) else 0.0


def _covers(other: tuple[float, ...], column: tuple[float, ...]) -> bool:
    """Test if an engine has at least the work of another one in each transfer, and more in one of them."""
    return other != column and all(more >= less for more, less in zip(other, column, strict=True))


class EnginesInOrder:
    """DMA engines with one queue each: no two transfers share an engine."""

    def __init__(self, count: int) -> None:
        self._free = [0.0] * count

    def move(self, time: float, loads: Loads) -> tuple[float, float]:
        """Begin and end of a transfer that comes behind all others, at ``time``."""
        free = self._free
        if len(loads) == 1:
            ((engine, load),) = loads
            if free[engine] > time:
                time = free[engine]
            free[engine] = end = time + load
            return time, end
        begin, end = NEVER, time
        for engine, load in loads:
            start = free[engine]
            if start < time:
                start = time
            if start < begin:
                begin = start
            free[engine] = start = start + load
            if start > end:
                end = start
        return begin, end


class _Group(SharedBandwidth):
    """Engines that have had the same data since all of them were idle, so that one of them tells of all."""

    __slots__ = ("engines",)

    def __init__(self, engines: int) -> None:
        super().__init__()
        self.engines = engines
        """A bit for each."""

    def without(self, engines: int) -> _Group:
        """Some other ones of the engines, with the same data; these stay in this group."""
        other = _Group(self.engines - engines)
        other.next_end, other.time, other.virtual = self.next_end, self.time, self.virtual
        other.lines = {queue: line.copy() for queue, line in self.lines.items() if line}
        copies = {id(line): other.lines[queue] for queue, line in self.lines.items() if line}
        other.heads = [(end, number, copies[id(line)], begin) for end, number, line, begin in self.heads]
        self.engines = engines
        return other


@dataclass(slots=True, eq=False)
class _Moving:
    """A transfer that has data: the engines that move it yet, since when, and the transfers of its queue in their
    order.
    """

    engines: int
    begin: float
    line: deque[int]


class SharedEngines:
    """DMA engines that each share their time as :class:`SharedBandwidth` does, with the same methods.

    All engines write the semaphore of a transfer, in the order of its queue. So transfers of a queue complete in order.
    """

    def __init__(self) -> None:
        self.next_end = NEVER
        self._groups: list[_Group] = []
        """The engines that have data."""
        self._ends: list[tuple[float, int, _Group]] = []
        """The next end of each group, with a serial number, and ends that are no more; a heap."""
        self._serial = 0
        self._moving: dict[int, _Moving] = {}
        """The transfers that have data."""
        self._lines: dict[DataQueue, deque[int]] = {}
        """Of each queue the transfers that are not complete."""
        self._through: dict[int, tuple[float, float]] = {}
        """The time in which the data of a transfer moved, while one in front of it is not complete."""
        self._by_load: dict[int, tuple[list[tuple[float, int]], int, Loads]] = {}
        """The engines that a transfer keeps for the same time, and all of them, by the ``id`` of its loads, which are
        kept alive.
        """

    def arrive(self, time: float, queue: DataQueue, number: int, loads: Loads) -> None:
        """Transfer ``number``, which keeps engines as ``loads`` says, comes to ``queue`` at ``time``."""
        by_load, everyone, _ = self._by_load.get(id(loads)) or self._alike(loads)
        groups = self._groups
        for load, engines in by_load:
            idle = engines
            for group in tuple(groups):
                both = group.engines & idle
                if not both:
                    continue
                if both != group.engines:
                    self._add(group.without(both))
                line = group.lines.get(queue)
                if line:  # as SharedBandwidth.arrive, without the call
                    line.append((number, load))
                else:
                    before = group.next_end
                    group.arrive(time, queue, number, load)
                    if group.next_end != before:
                        self._note(group)
                idle -= both
                if not idle:
                    break
            if idle:
                group = _Group(idle)
                group.arrive(time, queue, number, load)
                self._add(group)
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = deque()
        line.append(number)
        self._moving[number] = _Moving(everyone, NEVER, line)
        self._plan()

    def complete(self, latest: float = 0.0) -> Sequence[tuple[int, float, float]]:
        """The transfers that complete at ``next_end``, if any, in the order of their queue: their numbers, and the time
        in which their data moved. If there are none: those that complete first, up to the time ``latest``.
        """
        ends, transfers, serial = self._ends, self._moving, self._serial
        complete: Sequence[tuple[int, float, float]] = ()
        while True:
            group = ends[0][2]
            end, served = group.next_end, group.heads  # as SharedBandwidth.served, without the call
            virtual, number, line, begin = served[0]
            group.time, group.virtual = end, virtual
            line.popleft()
            if line:
                following, share = line[0]
                heapreplace(served, (virtual + share, following, line, end))
            else:
                heappop(served)
            if served:
                group.next_end = next_end = end + (served[0][0] - virtual) * len(served)
                serial += 1
                heapreplace(ends, (next_end, serial, group))
            else:
                group.next_end = NEVER
                heappop(ends)
                self._groups.remove(group)
            while ends and ends[0][0] != ends[0][2].next_end:
                heappop(ends)  # as _plan, without the call
            moving = transfers[number]
            moving.engines -= group.engines
            if begin < moving.begin:
                moving.begin = begin
            if not moving.engines:
                complete = self._in_order(number, end)
            if complete or not ends or ends[0][0] > latest:
                break
        self._serial = serial
        self.next_end = ends[0][0] if ends else NEVER
        return complete

    def _in_order(self, number: int, end: float) -> Sequence[tuple[int, float, float]]:
        """The transfers that are complete with ``number``, as its data is through, in the order of their queue."""
        moving = self._moving.pop(number)
        line, begin = moving.line, moving.begin
        if line[0] == number and (len(line) == 1 or line[1] not in self._through):
            line.popleft()
            return ((number, begin, end),)
        self._through[number] = begin, end
        complete: list[tuple[int, float, float]] = []
        while line and line[0] in self._through:
            number = line.popleft()
            complete.append((number, *self._through.pop(number)))
        return complete

    def _alike(self, loads: Loads) -> tuple[list[tuple[float, int]], int, Loads]:
        engines: dict[float, int] = {}
        for engine, load in loads:
            engines[load] = engines.get(load, 0) | 1 << engine
        known = self._by_load[id(loads)] = list(engines.items()), sum(engines.values()), loads
        return known

    def _add(self, group: _Group) -> None:
        """Note a group that is new."""
        self._groups.append(group)
        self._note(group)

    def _note(self, group: _Group) -> None:
        """Note the next end of a group, which has changed."""
        self._serial += 1
        heappush(self._ends, (group.next_end, self._serial, group))

    def _plan(self) -> None:
        ends = self._ends
        while ends and ends[0][0] != ends[0][2].next_end:
            heappop(ends)
        self.next_end = ends[0][0] if ends else NEVER
