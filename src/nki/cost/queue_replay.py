"""Replay of a scheduled core: when each instruction begins and ends, if every queue runs its own in order.

Times are nanoseconds. Each instruction begins as soon as its queue is free, the results that it needs are visible, and
the resources that it shares are free:

* the DMA engines of the core: queues with data share each in turns (:mod:`nki.cost.sharing`), and it serves each
  queue in order; engines that all transfers keep alike are one resource (:class:`nki.ir.estimate.Estimate`);
* a generator of DMA descriptors, which serves the transfers of all its rings in the order of the program, as the engine
  that commands it comes to them: one that waits holds up those behind it. The instructions of the engine that generates
  or commands take their turns among those transfers (:mod:`nki.cost.arbitration`);
* each memory port that two engines cannot use at once: the engine that asks first has it as long as it needs it, and
  another one, where only an order of instructions keeps them apart, from the time on at which it knows of the result.

Windows of a fixed length throttle the clock of the Tensor engine: after a window that was busy enough the next one is
at full rate, after one that was idle enough the next one is throttled again. A matmul that uses a part of the array's
rows, or of its columns, may count as busy by that part (``tensor_throttle_idle_rows``, a guess). An activation
function loads its table first if it is not loaded, while its operands are still awaited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace

from nki.base.terms import Cause
from nki.cost.arbitration import OWN_DMA, before, by_queue, contention, on_generator
from nki.cost.dma_costs import SOFTWARE
from nki.cost.last_results import MANY, LastResults
from nki.cost.shared_resources import IDLE, DescriptorGenerators, Ports, SharedResources
from nki.cost.sharing import NEVER, DataQueue, EnginesInOrder, SharedBandwidth, SharedEngines, distinct, engine_loads
from nki.cost.tensor_array import TensorArray
from nki.ir.estimate import Compute, Dma, Estimate, Matmul
from nki.target.model import Target

Dependences = Sequence[Sequence[int]]
"""Of each instruction of a block: the numbers of the instructions that it depends on, all below its own."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A core comes to a meeting at ``time`` (ns); ``record`` is its instruction's."""

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


_NO_DATA = (0.0, 0.0)
_BLOCK, _QUEUE, _DEPENDENCE = int(Cause.block), int(Cause.queue), int(Cause.dependence)
_CHAIN, _MEETING = int(Cause.chain), int(Cause.meeting)
_GENERATOR, _PORT, _ARRAY = int(DescriptorGenerators.cause), int(Ports.cause), int(TensorArray.cause)
Arrivals = Generator[tuple[int, float], Arrival, None]
"""Yields instructions that meet another core, with the time of arrival; is sent the last arrival of all."""


class Replay:
    """State of one core, and a record of every instruction that has run.

    The records are lists over the instructions in the order of the program: ``starts``; ``releases``, the time from
    which its queue is free again; ``results``, the time at which others see its result; ``causes`` with the record of
    the instruction that ``blockers`` names, or -1; ``data``, the first and the last time of a DMA's data, else 0.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.now = 0.0
        """Time at which all instructions are complete."""
        self.resources = SharedResources(target)
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
        order: Sequence[int] | None = None,
    ) -> Arrivals:
        """Replay a basic block, which begins when all before it is complete; ``meetings`` are the numbers of those
        instructions that wait for another core, ``order`` the numbers in the order of the program if that is another.
        """
        first = len(self.starts)
        block = _Block(self, queues, estimates, predecessors, chained, meetings, order)
        yield from block.run()
        self.now = max([self.now, *block.results])
        self.starts += block.starts
        self.releases += block.releases
        self.results += block.results
        self.causes += block.causes
        self.blockers += [blocker if blocker < 0 else first + blocker for blocker in block.blockers]
        self.data += block.data

    def skip(self, ns: float) -> None:
        """Let ``ns`` pass in which the state of the core stays as it is: iterations of a loop that repeat the last."""
        self.now += ns
        clock = self.resources.array.clock
        if clock is not None:
            clock.window_end += ns


class _Block:
    """Replay of one basic block.

    Each queue of instructions runs on until one needs a time that is not known yet. When none can go on, the next event
    tells one: a transfer comes to the DMA engines or leaves them, or an engine asks for a memory port. Events come in
    the order of time, since whatever is not known yet follows from an event that is still to come. Where all data is in
    one queue and no port is shared, times follow from the times of earlier instructions, and there are no events.
    """

    def __init__(
        self,
        replay: Replay,
        queues: Sequence[int],
        estimates: Sequence[Estimate],
        predecessors: Dependences,
        chained: Dependences,
        meetings: Collection[int],
        order: Sequence[int] | None,
    ) -> None:
        self.replay = replay
        self.queues, self.estimates = queues, estimates
        self.predecessors, self.chained, self.meetings = predecessors, chained, meetings
        count, begin = len(queues), replay.now
        self.starts = [begin] * count
        self.releases, self.results = [NEVER] * count, [NEVER] * count
        self.causes, self.blockers = [0] * count, [-1] * count
        self.data = [_NO_DATA] * count
        queue_count = max(queues, default=0) + 1
        self.free, self.last = [begin] * queue_count, [-1] * queue_count
        self.moving: dict[int, tuple[DataQueue, Dma]] = {}
        """The data queue and the estimate of each transfer that has its descriptors, where there are several queues."""
        self.queue_ends: dict[DataQueue, float] = {}
        """The end of the last transfer of each data queue."""
        self.ring_ends = [begin] * queue_count
        """The end of the last transfer of each ring that is complete."""
        self.in_line: list[deque[int]] = [deque() for _ in range(queue_count)]
        """Of each ring the transfers with an end that is not known yet."""
        self.held_back: dict[int, tuple[float, float]] = {}
        """The data of transfers that were through before one in front of them on their ring."""
        self.asked: dict[int, tuple[float, int, int]] = {}
        """Start, cause and blocker, but for the ports, of the instructions that have asked for them."""
        self.granted: dict[int, tuple[float, int, int, float]] = {}
        """The same of those that have their ports, with the time at which."""
        in_order = range(count) if order is None else order
        by_id = distinct(estimates)
        self.loads, self.resources = engine_loads(by_id.values()), replay.resources
        self.resources.begin_block(self.loads)
        self.prepared = self.resources.prepared(by_id)
        shares_bandwidth, self.shares_ports = contention(queues, estimates, by_id)
        self.by_events = shares_bandwidth or self.shares_ports
        self.threads = [in_order] if not self.by_events else by_queue(in_order, queues, queue_count)
        """Instructions that run one after the other."""
        self.behind = self.loads.behind(by_id.values()) if self.by_events else {}
        self.positions, self.serial = [0] * len(self.threads), 0
        self.runnable = list(range(len(self.threads) - 1, -1, -1))
        self.waiting: dict[int, list[int]] = {}
        """The threads that wait for the result of an instruction, or, by ``~number``, for its issue."""
        self.on_generator = on_generator(estimates, by_id)
        """The generator that an instruction takes turns with, by the number of the instruction."""
        self.before = before(in_order, estimates, self.on_generator, meetings) if self.by_events else {}
        self.events: list[tuple[float, int, int]] = []
        """The next arrival of each data queue, and requests of ports: time, serial number, instruction; a heap."""
        self.coming: dict[DataQueue, deque[tuple[float, int, int]]] = {}
        """The arrivals that are still to come in each data queue, in order."""
        self.bandwidth = SharedBandwidth()
        self.engines = SharedEngines() if self.loads.count > 1 else None
        self.data_engines = self.engines or self.bandwidth
        self.own_dma = EnginesInOrder(1)

    def _advance(self) -> bool:
        """Let events happen until a thread is runnable; False if there are no more."""
        events, runnable, bandwidth, behind = self.events, self.runnable, self.data_engines, self.behind
        while not runnable:
            time = events[0][0] if events else NEVER
            if time < bandwidth.next_end:
                number = events[0][2]
                if number in self.asked:
                    heappop(events)
                    estimate = self.estimates[number]
                    assert isinstance(estimate, Compute)
                    self.granted[number] = *self.asked.pop(number), self._grant(number, estimate, time)
                    runnable.append(self.queues[number])
                else:
                    self._arrive(time, number)
            elif bandwidth.next_end < NEVER:
                for number, begun, end in bandwidth.complete(time):
                    self._moved(number, begun, end + behind.get(id(self.estimates[number]), 0.0) if behind else end)
            else:
                return False
        return True

    def run(self) -> Arrivals:
        """Replay to the end: each thread to its own end or to an instruction that has to wait for an event."""
        queues, estimates, releases, results = self.queues, self.estimates, self.releases, self.results
        free, last, runnable, waiting, granted = self.free, self.last, self.runnable, self.waiting, self.granted
        predecessors, chained, meetings, turns = self.predecessors, self.chained, self.meetings, self.on_generator
        array, dges, prepared = self.resources.array, self.resources.dges, self.prepared
        last_results, shared = LastResults(queues, estimates, releases, results), LastResults.shared(predecessors)
        while runnable or self._advance():
            thread = runnable.pop()
            instructions, position = self.threads[thread], self.positions[thread]
            while position < len(instructions):
                number = instructions[position]
                queue, estimate = queues[number], estimates[number]
                if granted and number in granted:
                    start, cause, blocker, grant = granted.pop(number)
                else:
                    start, blocker, grant = free[queue], last[queue], 0.0
                    cause = _QUEUE if blocker >= 0 else _BLOCK
                    waits, chain = predecessors[number], chained[number]
                    if shared and id(waits) in shared:
                        waits, chain = last_results.of(waits, chain, queue)
                    for producer in waits:
                        if queues[producer] != queue and results[producer] > start:
                            start, cause, blocker = results[producer], _DEPENDENCE, producer
                    for producer in chain:
                        other = estimates[producer]
                        visible = results[producer] if isinstance(other, Dma) else releases[producer] + other.dependent
                        if visible > start:
                            start, cause, blocker = visible, _CHAIN, producer
                    if self.by_events and (grant := self._ready(number, start, cause, blocker)) < 0.0:
                        break
                if number in meetings:
                    start, cause, blocker = yield from self._meet(number, start, cause, blocker)
                transfers = isinstance(estimate, Dma)
                generator = estimate.dge if transfers else turns.get(number) if turns else None
                if generator and (idle := dges.served.get(generator, IDLE))[0] > start:
                    (start, blocker), cause = idle, _GENERATOR
                if grant > start:
                    if 2 * start - free[queue] <= grant:  # most of the stall is due to the port
                        cause, blocker = _PORT, -1
                    start = grant
                if prepared and id(estimate) in prepared:
                    start, cause, blocker = self._prepare(number, start, cause, blocker)
                if transfers:
                    release = self._issue(number, estimate, start)
                else:
                    release = start + estimate.occupancy
                    if isinstance(estimate, Matmul):
                        begin, release = array.run(estimate, start)
                        if begin > start:
                            start, cause, blocker = begin, _ARRAY, last[queue]
                    results[number] = release + estimate.latency - estimate.occupancy
                    if generator:  # Scalar commands the next transfer while it computes
                        dges.keep(generator, release if generator == SOFTWARE else start, number)
                free[queue], last[queue], releases[number] = release, number, release
                self.starts[number], self.causes[number], self.blockers[number] = start, cause, blocker
                position += 1
                if waiting and (number in waiting or ~number in waiting):
                    self._wake(number)
            self.positions[thread] = position

    def _ready(self, number: int, start: float, cause: int, blocker: int) -> float:
        """The time at which an instruction has its ports, 0 if it needs none; -1 if it has to wait for an event before
        the replay can say when it begins.
        """
        if start == NEVER:
            if len(waits := self.predecessors[number]) >= MANY and cause == _DEPENDENCE:
                results, queues, queue = self.results, self.queues, self.queues[number]
                # Behind the last one of the program, those before it on its queue are known, too.
                blocker = max([p for p in waits if results[p] == NEVER and queues[p] != queue])
            self.waiting.setdefault(blocker, []).append(self.queues[number])
            return -1.0
        before = self.before.get(number, -1)
        if before >= 0 and self.releases[before] == NEVER:
            self.waiting.setdefault(~before, []).append(self.queues[number])
            return -1.0
        if not self.shares_ports or not isinstance(estimate := self.estimates[number], Compute) or not estimate.ports:
            return 0.0
        generator = self.on_generator.get(number)
        idle = self.resources.dges.free(generator)[0] if generator else 0.0
        time, events = start if start > idle else idle, self.events
        if not self.runnable and (not events or time < events[0][0]) and time < self.data_engines.next_end:
            return self._grant(number, estimate, time)  # the request is the next event
        self.asked[number] = start, cause, blocker
        self.serial += 1
        heappush(events, (time, self.serial, number))
        return -1.0

    def _grant(self, number: int, estimate: Compute, time: float) -> float:
        """Give an instruction that asks at ``time`` its ports; the time at which it has them."""
        queue, ports = self.queues[number], self.resources.ports
        time = ports.free(estimate, queue, time)
        ports.keep(estimate, queue, time)
        return time

    def _prepare(self, number: int, start: float, cause: int, blocker: int) -> tuple[float, int, int]:
        """Start, cause and blocker of an instruction that has all else at ``start``, once its queue has prepared it."""
        queue, estimate = self.queues[number], self.estimates[number]
        free = self.free[queue]
        for preparation in self.prepared[id(estimate)]:
            begin, end = preparation.prepare(estimate, queue, free, start)
            if end >= start and end > free:
                if 2 * begin - free <= end:  # most of the stall is due to it
                    cause, blocker = int(preparation.cause), self.last[queue]
                start = end
        return start, cause, blocker

    def _wake(self, number: int) -> None:
        """Let those go on that wait for what is known of an instruction."""
        for known in (~number, number):
            if known in self.waiting and (known < 0 or self.results[number] < NEVER):
                self.runnable += self.waiting.pop(known)

    def _meet(
        self, number: int, time: float, cause: int, blocker: int
    ) -> Generator[tuple[int, float], Arrival, tuple[float, int, int]]:
        """Note a meeting to which an instruction comes at ``time``; start, cause and blocker of the instruction."""
        last = yield number, time
        first = len(self.replay.starts)
        self.replay.meetings[first + number] = Meeting(time, cause, blocker if blocker < 0 else first + blocker, last)
        return (last.time, _MEETING, -1) if last.time > time else (time, cause, blocker)

    def _issue(self, number: int, estimate: Dma, start: float) -> float:
        """Begin to generate the descriptors of a transfer; the time at which it has them. Its data begins when its
        queue comes to it.
        """
        ring, generator, time = self.queues[number], estimate.dge, start + estimate.issue
        resources = self.resources
        if generator:
            resources.dges.keep(generator, time, number)
        if self.by_events:
            queue = (generator or ring) if estimate.occupancy else OWN_DMA  # as data_queue, without the call
            self.moving[number] = queue, estimate
            self.in_line[ring].append(number)
            self.serial += 1
            event = resources.transfers.begin(estimate, queue, time), self.serial, number
            line = self.coming.get(queue)
            if line is None:
                line = self.coming[queue] = deque()
            line.append(event)
            if len(line) == 1:
                heappush(self.events, event)
            return time
        self.data[number] = _, end = resources.transfers.move(estimate, ring, time)
        self.results[number] = end + estimate.completion
        return time

    def _moved(self, number: int, begin: float, end: float) -> None:
        """The data of a transfer is through, but not before those in front of it in its data queue. It is complete when
        those in front of it on its ring are: semaphores count them.
        """
        ring, queue_ends, moving = self.queues[number], self.queue_ends, self.moving
        queue = moving[number][0]
        if (last := queue_ends.get(queue, 0.0)) > end:
            end = last
        queue_ends[queue] = end
        line, held_back = self.in_line[ring], self.held_back
        if line[0] != number:
            held_back[number] = begin, end
            return
        while True:
            line.popleft()
            if self.ring_ends[ring] > end:
                end = self.ring_ends[ring]
            self.ring_ends[ring] = end
            self.data[number] = begin, end
            self.results[number] = end + moving[number][1].completion
            if number in self.waiting:
                self.runnable += self.waiting.pop(number)
            if not held_back or not line or line[0] not in held_back:
                return
            number = line[0]
            begin, end = held_back.pop(number)

    def _arrive(self, time: float, number: int) -> None:
        """Data comes to its queue."""
        queue, estimate = self.moving[number]
        line = self.coming[queue]
        line.popleft()
        if line:
            heapreplace(self.events, line[0])
        else:
            heappop(self.events)
        if not estimate.occupancy:  # GpSimd's own DMA moves the data
            self._moved(number, *self.own_dma.move(time, self.loads.of(estimate)))
        elif self.engines:
            self.engines.arrive(time, queue, number, self.loads.by_estimate[id(estimate)])
        else:
            self.bandwidth.arrive(time, queue, number, self.loads.busiest(estimate))


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
    """End of a basic block that runs alone, from its beginning: ``now`` of a :class:`Replay`.

    ``order``: the numbers of the instructions in the order of the program; None: as they are numbered.
    """
    replay = Replay(target)
    run(replay.block(queues, estimates, predecessors, chained, order=order))
    return replay.now
