"""List scheduling of one basic block, by the estimates of its instructions.

Times are nanoseconds from the beginning of the block; instructions are their dense numbers in it. Every queue issues
in order, each generator of DMA descriptors one transfer after the other, and the DMA engines are one resource that all
rings share. An instruction is ready when the results that it needs are visible to its queue. The order that results is
accepted if :mod:`nki.cost.replay`, which the timing model uses too, ends sooner with it than with program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from nki.analysis.dependence import DependenceGraph
from nki.cost.replay import in_order_ns
from nki.ir.estimate import Estimate
from nki.target.model import Target

WINDOW = 256
"""Number of instructions, from the first unissued one on, among which queues choose."""
_CLOSE = 1.005
"""Program order stays if it ends within this factor of a lower bound of all orders; estimates are no better."""
_NEVER = float("inf")
_NO_EVENT: tuple[float, int, int] = (_NEVER, 0, 0)


def list_schedule(
    queues: Sequence[int], estimates: Sequence[Estimate], graph: DependenceGraph, target: Target
) -> list[int] | None:
    """The order in which the instructions begin; None where program order ends as soon.

    Whenever a queue is free, it takes the ready instruction with the longest path to the end of the block, of the
    :data:`WINDOW` instructions from the first unissued one on. Two lengths are tried: that of the chain of dependences
    counts no engine twice, which suits chains that a program begins late; where engines and generators also run the
    rest in program order, transfers come in that order and arrive before their use.
    """
    in_order = in_order_ns(queues, estimates, graph.predecessors, graph.chained, target)
    bound = max(resource_bounds(queues, estimates).values())
    if in_order <= bound * _CLOSE:
        return None
    by_chain = _ListScheduler(queues, estimates, graph)
    bound = max(bound, *by_chain.path) * _CLOSE
    if in_order <= bound:
        return None
    best, least = None, in_order
    for keeps_order in (True, False):
        scheduler = _ListScheduler(queues, estimates, graph, in_order=True) if keeps_order else by_chain
        order = scheduler.run()
        end = in_order_ns(queues, estimates, graph.predecessors, graph.chained, target, order)
        if end < least:
            best, least = order, end
        if least <= bound:
            break
    return best


def longest_path(queues: Sequence[int], estimates: Sequence[Estimate], graph: DependenceGraph) -> float:
    """Time before which no order of the block ends: that of the longest chain of dependences."""
    return max(_ListScheduler(queues, estimates, graph).path)


def resource_bounds(queues: Sequence[int], estimates: Sequence[Estimate]) -> dict[int | str, float]:
    """Time before which no order of the block ends, by resource: its load, and the least time from there to the end.

    Resources are queues by number, generators of descriptors by name, and ``dma``, the DMA engines.
    """
    loads: dict[int | str, float] = {}
    tails: dict[int | str, float] = {}

    def add(resource: int | str, busy: float, tail: float) -> None:
        loads[resource] = loads.get(resource, 0.0) + busy
        if tail < tails.get(resource, _NEVER):
            tails[resource] = tail

    for queue, estimate in zip(queues, estimates, strict=True):
        if estimate.transfer:
            add("dma", estimate.occupancy, estimate.latency - estimate.occupancy)
            add(estimate.generator or queue, estimate.issue, estimate.latency - estimate.issue)
        else:
            add(queue, estimate.occupancy, estimate.latency - estimate.occupancy)
    return {resource: busy + tails[resource] for resource, busy in loads.items()}


class _ListScheduler:
    def __init__(
        self, queues: Sequence[int], estimates: Sequence[Estimate], graph: DependenceGraph, *, in_order: bool = False
    ) -> None:
        self.queues = queues
        self.estimates = estimates
        count, queue_count = len(queues), max(queues) + 1
        self.successors: list[list[tuple[int, float]]] = [[] for _ in queues]
        """Of each instruction: those that depend on it, with the delay from its start to theirs."""
        self.path = [estimate.latency for estimate in estimates]
        """Longest path from the start of each instruction to the end of the block; ``in_order``: where engines and
        generators run the rest of the block in program order."""
        self._connect(graph, in_order)
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
        self.generator_free: dict[str, float] = {}
        self.pending: list[list[tuple[float, int]]] = [[] for _ in range(queue_count)]
        """Of each queue: instructions whose predecessors have been issued, by the time at which they become ready."""
        self.ready_list: list[list[int]] = [[] for _ in range(queue_count)]
        """Of each queue: instructions that are ready, by rank."""
        self.next_event = [_NO_EVENT] * queue_count
        self.events: list[tuple[float, int, int]] = []
        """By time, rank of the instruction that is the reason, and queue."""

    def _connect(self, graph: DependenceGraph, in_order: bool) -> None:
        queues, estimates, path, successors = self.queues, self.estimates, self.path, self.successors
        tails: dict[int | str, float] = {}
        for number in range(len(queues) - 1, -1, -1):
            queue, length = queues[number], path[number]
            chained = graph.chained[number]
            if in_order:
                estimate = estimates[number]
                resource = estimate.generator or queue if estimate.transfer else queue
                behind = (estimate.issue if estimate.transfer else estimate.occupancy) + tails.get(resource, 0.0)
                if behind > length:
                    length = path[number] = behind
                tails[resource] = length
            for producer in graph.predecessors[number]:
                estimate = estimates[producer]
                if queues[producer] != queue:
                    delay = estimate.latency
                elif estimate.transfer:
                    delay = estimate.latency if producer in chained else estimate.issue
                else:
                    delay = estimate.occupancy + (estimate.dependent if producer in chained else 0.0)
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
        estimate = self.estimates[number]
        if estimate.transfer:
            time = max(time, self.generator_free.get(estimate.generator, 0.0) if estimate.generator else 0.0)
            self.free[queue] = self.generator_free[estimate.generator] = time + estimate.issue
            if estimate.occupancy:
                data = time + estimate.issue + estimate.start
                self.bandwidth_free = max(self.bandwidth_free, data) + estimate.occupancy
                time = max(time, self.bandwidth_free - (data - time) - estimate.transfer)
        else:
            self.free[queue] = time + estimate.occupancy
        self.visible[number] = time + estimate.latency
        ready, unissued = self.ready, self.unissued
        for successor, delay in self.successors[number]:
            if time + delay > ready[successor]:
                ready[successor] = time + delay
            left = unissued[successor] = unissued[successor] - 1
            if not left and successor < entered:
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
