"""List scheduling of one basic block, by the estimates of its instructions.

Times are nanoseconds from the beginning of the block; instructions are their dense numbers in it. Every queue issues in
order, and asks for what it shares with the others as in the replay (:mod:`nki.cost.shared_resources`). Three things are
simpler here, for speed: the DMA engines serve transfers in the order in which they are issued, as in the replay of one
data queue; the engine that makes descriptors works beside them; the clock of the Tensor engine and tables of
activations do not count.
An instruction is ready when the results that it needs are visible to its queue. The order that results is accepted if
:mod:`nki.cost.queue_replay`, which the timing model uses too, ends sooner with it than with program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from nki.analysis.dependence import DependenceGraph
from nki.cost.dma_costs import SOFTWARE
from nki.cost.queue_replay import in_order_ns
from nki.cost.shared_resources import SharedResources
from nki.cost.sharing import distinct, engine_loads
from nki.ir.estimate import Dma, Estimate
from nki.target.model import Target

WINDOW = 256
"""Number of instructions, from the first unissued one on, among which queues choose."""
_CLOSE = 1.005
"""Program order stays if it ends within this factor of a lower bound of all orders; estimates are no better."""
_NEVER = float("inf")
_Successors = list[tuple[int, float]]
"""The instructions that depend on one, with the delay from its start to theirs."""
_NO_EVENT: tuple[float, int, int] = (_NEVER, 0, 0)


def list_schedule(
    queues: Sequence[int], estimates: Sequence[Estimate], graph: DependenceGraph, target: Target
) -> list[int] | None:
    """The order in which the instructions begin; None where program order ends as soon.

    Whenever a queue is free, it takes the ready instruction with the longest path to the end of the block, of the
    :data:`WINDOW` instructions from the first unissued one on. Two lengths are tried: the chain of dependences
    counts no engine twice, which suits chains that a program begins late; where engines and generators also run the
    rest in program order, transfers come in that order and arrive before their use.
    """
    in_order = in_order_ns(queues, estimates, graph.predecessors, graph.chained, target)
    bound = max(resource_bounds(queues, estimates).values())
    if in_order <= bound * _CLOSE:
        return None
    successors, path = _chains(queues, estimates, graph)
    bound = max(bound, *path) * _CLOSE
    if in_order <= bound:
        return None
    best, least = None, in_order
    for keeps_order in (True, False):
        length = _chains_in_order(queues, estimates, successors) if keeps_order else path
        order = _ListScheduler(queues, estimates, graph, successors, length, target).run()
        end = in_order_ns(queues, estimates, graph.predecessors, graph.chained, target, order)
        if end < least:
            best, least = order, end
        if least <= bound:
            break
    return best


def longest_path(queues: Sequence[int], estimates: Sequence[Estimate], graph: DependenceGraph) -> float:
    """Time before which no order of the block ends: the longest chain of dependences."""
    return max(_chains(queues, estimates, graph)[1])


def resource_bounds(queues: Sequence[int], estimates: Sequence[Estimate]) -> dict[int | str, float]:
    """Time before which no order of the block ends, by resource: its load, the least time before, and that to the end.

    Resources are queues by number, generators of descriptors by name, and ``dma``, the DMA engine with the most work.
    """
    engines = engine_loads(estimates)
    loads: dict[int | str, float] = {}
    heads: dict[int | str, float] = {}
    tails: dict[int | str, float] = {}

    def add(resource: int | str, busy: float, tail: float, head: float = 0.0) -> None:
        loads[resource] = loads.get(resource, 0.0) + busy
        if tail < tails.get(resource, _NEVER):
            tails[resource] = tail
        if head < heads.get(resource, _NEVER):
            heads[resource] = head

    for queue, estimate in zip(queues, estimates, strict=True):
        if isinstance(estimate, Dma):
            head = estimate.issue + estimate.start
            if busy := estimate.occupancy:
                most = engines.most.get(id(estimate), busy)
                add("dma", busy, estimate.latency - most - head, head)
            add(estimate.dge or queue, estimate.issue, estimate.latency - estimate.issue)
        else:
            add(queue, estimate.occupancy, estimate.latency - estimate.occupancy)
            if estimate.resource == SOFTWARE:  # the engine makes descriptors, too
                add(SOFTWARE, estimate.occupancy, estimate.latency - estimate.occupancy)
    if engines.by_estimate:
        loads["dma"] = max(engines.totals(estimates))
    return {resource: heads[resource] + busy + tails[resource] for resource, busy in loads.items()}


def _chains(
    queues: Sequence[int], estimates: Sequence[Estimate], graph: DependenceGraph
) -> tuple[list[_Successors], list[float]]:
    """The successors of each instruction, and the longest path from its start to the end of the block."""
    successors: list[_Successors] = [[] for _ in queues]
    path = [estimate.latency for estimate in estimates]
    predecessors, chained = graph.predecessors, graph.chained
    for number in range(len(queues) - 1, -1, -1):
        queue, length = queues[number], path[number]
        for producer in predecessors[number]:
            estimate = estimates[producer]
            if queues[producer] != queue:
                delay = estimate.latency
            else:
                delay = estimate.chained_ns if producer in chained[number] else estimate.queue_ns
            successors[producer].append((number, delay))
            if length + delay > path[producer]:
                path[producer] = length + delay
    return successors, path


def _chains_in_order(
    queues: Sequence[int], estimates: Sequence[Estimate], successors: Sequence[_Successors]
) -> list[float]:
    """The longest path from the start of each instruction to the end of the block, where engines and generators run the
    rest of the block in program order.
    """
    path = [0.0] * len(queues)
    tails: dict[int | str, float] = {}
    for number in range(len(queues) - 1, -1, -1):
        estimate = estimates[number]
        length = estimate.latency
        for successor, delay in successors[number]:
            behind = path[successor] + delay
            if behind > length:
                length = behind
        resource = (estimate.dge if isinstance(estimate, Dma) else "") or queues[number]
        behind = estimate.queue_ns + tails.get(resource, 0.0)
        if behind > length:
            length = behind
        tails[resource] = path[number] = length
    return path


class _ListScheduler:
    """List scheduling with the longest ``path`` to the end of the block as priority."""

    def __init__(
        self,
        queues: Sequence[int],
        estimates: Sequence[Estimate],
        graph: DependenceGraph,
        successors: Sequence[_Successors],
        path: Sequence[float],
        target: Target,
    ) -> None:
        self.queues = queues
        self.estimates = estimates
        self.successors = successors
        count, queue_count = len(queues), max(queues) + 1
        self.by_rank = sorted(range(count), key=path.__getitem__, reverse=True)
        self.ranks = [0] * count
        for rank, number in enumerate(self.by_rank):
            self.ranks[number] = rank
        self.unissued = list(map(len, graph.predecessors))
        """Number of predecessors that have not been issued."""
        self.ready = [0.0] * count
        """Earliest start, by the predecessors that have been issued."""
        self.issued = [False] * count
        self.free = [0.0] * queue_count
        self.resources = SharedResources(target)
        self.resources.begin_block(engine_loads(estimates))
        self.prepared = self.resources.prepared(distinct(estimates), scheduling=True)
        self.pending: list[list[tuple[float, int]]] = [[] for _ in range(queue_count)]
        """Of each queue: instructions with all predecessors issued, by the time at which they become ready."""
        self.ready_list: list[list[int]] = [[] for _ in range(queue_count)]
        """Of each queue: instructions that are ready, by rank."""
        self.next_event = [_NO_EVENT] * queue_count
        self.events: list[tuple[float, int, int]] = []
        """By time, rank of the instruction that is the reason, and queue."""

    def run(self) -> list[int]:
        """The instructions in the order of their start."""
        count = len(self.queues)
        ranks, by_rank, unissued, issued = self.ranks, self.by_rank, self.unissued, self.issued
        events, next_event, free, enter = self.events, self.next_event, self.free, self._await
        resources = self.resources
        order: list[int] = []
        entered = oldest = 0
        while len(order) < count:
            while entered < count and entered < oldest + WINDOW:
                if not unissued[entered]:
                    enter(entered)
                entered += 1
            event = heappop(events)
            time, _, queue = event
            if next_event[queue] is not event:
                continue  # replaced by an earlier event
            next_event[queue] = _NO_EVENT
            pending, ready_list = self.pending[queue], self.ready_list[queue]
            if len(pending) == 1 and not ready_list:
                number = pending.pop()[1]  # the event is about it
            else:
                while pending and pending[0][0] <= time:
                    heappush(ready_list, ranks[heappop(pending)[1]])
                number = by_rank[heappop(ready_list)]
            if resources.are_kept:
                number = self._past_kept(number, queue, time)
                if number < 0:
                    continue
            order.append(number)
            self._issue(number, time, queue, entered)
            if ready_list:
                self._schedule_event(free[queue], ready_list[0], queue)
            elif pending:
                ready, number = pending[0]
                self._schedule_event(max(free[queue], ready), ranks[number], queue)
            while oldest < count and issued[oldest]:
                oldest += 1
        return order

    def _issue(self, number: int, time: float, queue: int, entered: int) -> None:
        """Start an instruction; those with numbers below ``entered`` are in the window."""
        estimate = self.estimates[number]
        if self.prepared:
            for preparation in self.prepared.get(id(estimate), ()):
                time = max(time, preparation.prepare(estimate, queue, self.free[queue], time)[1])
        if isinstance(estimate, Dma):
            time = self._transfer(number, estimate, time, queue)
        else:
            self.free[queue] = time + estimate.occupancy
            self.resources.keep(estimate, queue, time)
        self.issued[number] = True
        ready, unissued = self.ready, self.unissued
        for successor, delay in self.successors[number]:
            end = time + delay
            if end > ready[successor]:
                ready[successor] = end
            left = unissued[successor] = unissued[successor] - 1
            if not left and successor < entered:
                self._await(successor)

    def _past_kept(self, number: int, queue: int, time: float) -> int:
        """``number``, or the next best instruction that is ready and has what it shares: its part of
        the array, and its ports; -1: there is none.
        """
        pending, ready_list = self.pending[queue], self.ready_list[queue]
        while True:
            kept = self.resources.free(self.estimates[number], queue, time)
            if kept <= time:
                return number
            heappush(pending, (kept, number))
            if not ready_list:
                self._schedule_event(pending[0][0], self.ranks[pending[0][1]], queue)
                return -1
            number = self.by_rank[heappop(ready_list)]

    def _transfer(self, number: int, estimate: Dma, time: float, queue: int) -> float:
        """Start a transfer as soon as its generator is free; the start of one that meets no other transfers."""
        dges = self.resources.dges
        if estimate.dge and (idle := dges.free(estimate.dge)[0]) > time:
            time = idle
        issued = self.free[queue] = time + estimate.issue
        if estimate.dge:
            dges.keep(estimate.dge, issued, number)
        if not estimate.occupancy:
            return time
        end = self.resources.transfers.move(estimate, queue, issued)[1]
        late = end - (issued + estimate.start + estimate.transfer)
        return time + late if late > 0.0 else time

    def _await(self, number: int) -> None:
        """Let a queue choose an instruction from the time on at which it becomes ready."""
        queue, time = self.queues[number], self.ready[number]
        heappush(self.pending[queue], (time, number))
        free = self.free[queue]
        event = (free if free > time else time, self.ranks[number], queue)
        if event < self.next_event[queue]:  # _schedule_event, without the call
            self.next_event[queue] = event
            heappush(self.events, event)

    def _schedule_event(self, time: float, rank: int, queue: int) -> None:
        """Let ``queue`` choose at ``time``, unless it does so before; of queues at one time, the best rank is first."""
        event = (time, rank, queue)
        if event < self.next_event[queue]:
            self.next_event[queue] = event
            heappush(self.events, event)
