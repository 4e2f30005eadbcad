"""List scheduling of one basic block, by the estimates of its instructions.

Times are nanoseconds from the beginning of the block; instructions are their dense numbers in it. Every queue issues
in order. The DMA engines are one resource that serves the transfers of all rings one after the other: a ring is free
again when its transfer is through. An instruction is ready when the results that it needs are visible to its queue.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush

from nki.analysis.dependence import DependenceGraph
from nki.passes.scheduling.engine_assignment import Candidate

WINDOW = 256
"""Number of instructions, from the first unissued one on, among which queues choose."""
_CLOSE = 1.005
"""Program order stays if it ends within this factor of a lower bound of all orders; estimates are no better."""
_NEVER = float("inf")
_NO_EVENT: tuple[float, int, int] = (_NEVER, 0, 0)


class Bandwidth:
    """Busy intervals of the shared DMA engines; transfers that are reserved earlier have priority."""

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
        first = bisect_right(ends, time)  # the first interval that ends later
        if first == len(ends):
            ends[-1] += amount
            return ends[-1]
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


def in_order_ns(queues: Sequence[int], candidates: Sequence[Candidate], graph: DependenceGraph) -> float:
    """End of the block if every queue keeps the order of the instructions."""
    free = [0.0] * (max(queues) + 1)
    started: list[float] = []
    visible: list[float] = []
    reserve = Bandwidth().reserve
    for number, producers in enumerate(graph.predecessors):
        queue, candidate = queues[number], candidates[number]
        time = free[queue]
        for producer in producers:
            if visible[producer] > time and queues[producer] != queue:
                time = visible[producer]
        for producer in graph.chained[number]:
            result = started[producer] + candidates[producer].chained
            if result > time:
                time = result
        end = time + candidate.occupancy
        if candidate.transfer:
            through = reserve(time, candidate.transfer)
            time = through - candidate.transfer
            if through > end:
                end = through
        free[queue] = end
        started.append(time)
        visible.append(time + candidate.latency)
    return max(visible)


def list_schedule(queues: Sequence[int], candidates: Sequence[Candidate], graph: DependenceGraph) -> list[int] | None:
    """The order in which the instructions begin; None where program order ends as soon.

    Whenever a queue is free, it takes the ready instruction with the longest path to the end of the block, of the
    :data:`WINDOW` instructions from the first unissued one on.
    """
    in_order = in_order_ns(queues, candidates, graph)
    if in_order <= _resource_bound(queues, candidates) * _CLOSE:
        return None
    scheduler = _ListScheduler(queues, candidates, graph)
    if in_order <= max(scheduler.path) * _CLOSE:
        return None
    order = scheduler.run()
    return order if max(scheduler.visible) < in_order else None


def lower_bound_ns(queues: Sequence[int], candidates: Sequence[Candidate], graph: DependenceGraph) -> float:
    """Time before which no order of the block ends: the longest path, or the load of one resource."""
    return max(_resource_bound(queues, candidates), *_ListScheduler(queues, candidates, graph).path)


def _resource_bound(queues: Sequence[int], candidates: Sequence[Candidate]) -> float:
    """Load of the busiest queue, or of the DMA engines, with the least time from the last start to the end."""
    load = [0.0] * (max(queues) + 1)
    tail = [_NEVER] * len(load)
    bandwidth, bandwidth_tail = 0.0, _NEVER
    for queue, candidate in zip(queues, candidates, strict=True):
        occupancy, transfer, latency = candidate.occupancy, candidate.transfer, candidate.latency
        load[queue] += occupancy
        if latency - occupancy < tail[queue]:
            tail[queue] = latency - occupancy
        if transfer:
            bandwidth += transfer
            if latency - transfer < bandwidth_tail:
                bandwidth_tail = latency - transfer
    bounds = [busy + rest for busy, rest in zip(load, tail, strict=True) if busy]
    return max([*bounds, bandwidth + bandwidth_tail if bandwidth else 0.0])


class _ListScheduler:
    def __init__(self, queues: Sequence[int], candidates: Sequence[Candidate], graph: DependenceGraph) -> None:
        self.queues = queues
        self.candidates = candidates
        count, queue_count = len(queues), max(queues) + 1
        self.successors: list[list[tuple[int, float]]] = [[] for _ in queues]
        """Of each instruction: those that depend on it, with the delay from its start to theirs."""
        self.path = [candidate.latency for candidate in candidates]
        """Longest path from the start of each instruction to the end of the block."""
        self._connect(graph)
        self.by_rank = sorted(range(count), key=self.path.__getitem__, reverse=True)
        self.ranks = [0] * count
        for rank, number in enumerate(self.by_rank):
            self.ranks[number] = rank
        self.unissued = [len(producers) for producers in graph.predecessors]
        """Number of predecessors that have not been issued."""
        self.ready = [0.0] * count
        """Earliest start, by the predecessors that have been issued."""
        self.visible = [-1.0] * count
        """Time at which the result is visible to other queues; -1 before the issue."""
        self.free = [0.0] * queue_count
        self.bandwidth_free = 0.0
        self.pending: list[list[tuple[float, int]]] = [[] for _ in range(queue_count)]
        """Of each queue: instructions whose predecessors have been issued, by the time at which they become ready."""
        self.ready_list: list[list[int]] = [[] for _ in range(queue_count)]
        """Of each queue: instructions that are ready, by rank."""
        self.next_event = [_NO_EVENT] * queue_count
        self.events: list[tuple[float, int, int]] = []
        """By time, rank of the instruction that is the reason, and queue."""

    def _connect(self, graph: DependenceGraph) -> None:
        queues, candidates, path, successors = self.queues, self.candidates, self.path, self.successors
        for number in range(len(queues) - 1, -1, -1):
            queue, length = queues[number], path[number]
            chained = graph.chained[number]
            for producer in graph.predecessors[number]:
                candidate = candidates[producer]
                if queues[producer] != queue:
                    delay = candidate.latency
                else:
                    delay = candidate.chained if producer in chained else candidate.occupancy
                successors[producer].append((number, delay))
                if length + delay > path[producer]:
                    path[producer] = length + delay

    def run(self) -> list[int]:
        """The instructions in the order of their start."""
        count = len(self.queues)
        ranks, by_rank = self.ranks, self.by_rank
        order: list[int] = []
        entered = oldest = 0
        while len(order) < count:
            while entered < count and entered < oldest + WINDOW:
                if not self.unissued[entered]:
                    self._await(entered)
                entered += 1
            event = heappop(self.events)
            time, _, queue = event
            if self.next_event[queue] != event:
                continue  # replaced by an earlier event
            self.next_event[queue] = _NO_EVENT
            pending, ready_list = self.pending[queue], self.ready_list[queue]
            while pending and pending[0][0] <= time:
                heappush(ready_list, ranks[heappop(pending)[1]])
            number = by_rank[heappop(ready_list)]
            order.append(number)
            self._issue(number, time, queue, entered)
            if ready_list:
                self._schedule_event(self.free[queue], ready_list[0], queue)
            elif pending:
                ready, number = pending[0]
                self._schedule_event(max(self.free[queue], ready), ranks[number], queue)
            while oldest < count and self.visible[oldest] >= 0.0:
                oldest += 1
        return order

    def _issue(self, number: int, time: float, queue: int, entered: int) -> None:
        """Start an instruction; those with numbers below ``entered`` are in the window."""
        candidate = self.candidates[number]
        self.free[queue] = time + candidate.occupancy
        if candidate.transfer:
            time = max(time, self.bandwidth_free)
            self.bandwidth_free = end = time + candidate.transfer
            self.free[queue] = max(self.free[queue], end)
        self.visible[number] = time + candidate.latency
        ready, unissued = self.ready, self.unissued
        for successor, delay in self.successors[number]:
            if time + delay > ready[successor]:
                ready[successor] = time + delay
            unissued[successor] -= 1
            if not unissued[successor] and successor < entered:
                self._await(successor)

    def _await(self, number: int) -> None:
        """Let a queue choose an instruction from the time on at which it becomes ready."""
        queue, ready = self.queues[number], self.ready[number]
        heappush(self.pending[queue], (ready, number))
        self._schedule_event(max(ready, self.free[queue]), self.ranks[number], queue)

    def _schedule_event(self, time: float, rank: int, queue: int) -> None:
        """Let ``queue`` choose at ``time``, unless it does so before; of queues at one time, the best rank is first."""
        event = (time, rank, queue)
        if event < self.next_event[queue]:
            self.next_event[queue] = event
            heappush(self.events, event)
