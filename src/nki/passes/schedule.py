"""Stage ``schedule``: every instruction gets a queue, and each queue an order.

Engines that may be chosen are chosen by load, so are DMA rings (``scheduling.engine_assignment``). Then the region's
instructions begin in the order in which the target's costs let them (list scheduling): whenever a queue is free, it
takes, of the ``WINDOW`` instructions that are next in the program and whose producers are complete, the one from which
the longest path of costs leads to the end. Where that does not end sooner than program order, by the same costs,
program order stays. Results are the same in any case: nothing begins before what it depends on.

Run-time loops are barriers; regions between them are scheduled one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from nki.analysis.dependence import ReachingAccesses
from nki.analysis.memory_effects import annotate_effects, effects_of
from nki.base.errors import QueueError
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, regions
from nki.ir.ordering import named
from nki.ir.program import Program
from nki.passes.scheduling.engine_assignment import Assignment, Option
from nki.target.model import Target

WINDOW = 256
"""How far ahead of the first instruction that is left a queue looks."""
_ENOUGH = 1.0 + 1e-6
"""Program order stays where it ends within this of the earliest end that any order could have."""
_NEVER = float("inf")


def run(kernel: Program, target: Target, *, reorder: bool = True) -> Program:
    """``kernel`` with a queue for every instruction, in the order in which they begin; ``reorder``: that may be another
    than the program's. A kernel whose instructions have queues stays as it is.

    Raises :class:`QueueError` for a queue that cannot run its instruction, or where only some have one.
    """
    assignment = Assignment(target)
    without = [inst for inst in kernel.instructions() if not inst.queue]
    if not any(inst.queue for inst in kernel.instructions()):
        return kernel.with_body(_Scheduler(kernel, assignment, reorder).body(kernel.body))
    if without:
        error = QueueError(
            f"{named(without[0])} has no queue, and other instructions have one",
            fix="put every instruction on a queue, or none",
        )
        raise error.at(without[0].where.span, without[0].where.stack)
    for inst in kernel.instructions():
        assignment.check(inst)
    return kernel


class _Scheduler:
    """Goes through a kernel region by region; instructions are numbered in program order."""

    def __init__(self, kernel: Program, assignment: Assignment, reorder: bool) -> None:
        self.assignment = assignment
        self.reorder = reorder
        self.reaching = ReachingAccesses(annotate_effects(kernel, kernel.places)) if reorder else None
        self.queues: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self.number = 0

    def body(self, body: Iterable[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for region in regions(body):
            if isinstance(region, list):
                result.extend(self.region(region))
            else:
                result.append(replace(region, body=tuple(self.body(region.body))))
        return result

    def region(self, instructions: list[Inst]) -> list[Inst]:
        names, costs = self.assignment.choose(instructions)
        made = [inst.placed(queue=name) for inst, name in zip(instructions, names, strict=True)]
        if self.reaching is None:
            return made
        queues = [self.queues.setdefault(name, len(self.queues)) for name in names]
        order = _Order(queues, costs)
        order.connect(made, self.reaching, self.labels, self.number)
        self.number += len(made)
        order = order.found()
        return made if order is None else [made[i] for i in order]


class _Order:
    """List scheduling of one region, in nanoseconds from its beginning. Numbers are those within the region."""

    def __init__(self, queues: list[int], costs: list[Option]) -> None:
        self.queues = queues
        self.costs = costs
        count, lines = len(queues), max(queues) + 1
        self.needs: list[tuple[int, ...]] = []
        """What each instruction depends on."""
        self.users: list[list[int]] = []
        self.missing: list[int] = []
        """How many of its producers have not begun."""
        self.path = [cost.busy for cost in costs]
        """How long it is at least from its beginning to the end of all that depends on it."""
        self.ready = [0.0] * count
        """When all that was begun and that it depends on is complete."""
        self.end = [-1.0] * count
        """When it is complete, -1 while it has not begun."""
        self.free = [0.0] * lines
        self.waiting: list[list[tuple[float, int]]] = [[] for _ in range(lines)]
        """By queue: what has all that it depends on in sight, by the time from which it has it."""
        self.at_hand: list[list[int]] = [[] for _ in range(lines)]
        """By queue: what can begin, by rank."""
        self.next = [_NEVER] * lines
        """When each queue is looked at again."""
        self.events: list[tuple[float, int]] = []
        self.plain = 0.0
        """When program order would end."""

    def connect(self, instructions: list[Inst], reaching: ReachingAccesses, labels: dict[str, int], first: int) -> None:
        """Find what depends on what, and when program order would end."""
        queues, costs, needs = self.queues, self.costs, self.needs
        free = [0.0] * len(self.free)
        ends: list[float] = []
        for number, inst in enumerate(instructions):
            # What is further back than the window has begun when this instruction can be chosen.
            reaching.floor = first + max(0, number - 2 * WINDOW)
            queue = queues[number]
            producers = reaching.visit_all(first + number, queue, effects_of(inst))
            if inst.after:
                producers.update(p for label in inst.after if (p := labels.get(label, -1)) >= first)
            if inst.label:
                labels[inst.label] = first + number
            time = free[queue]
            for producer in producers:
                producer -= first
                end = ends[producer] if queues[producer] == queue else ends[producer] + costs[producer].after
                if end > time:
                    time = end
            free[queue] = end = time + costs[number].busy
            ends.append(end)
            needs.append(tuple([producer - first for producer in producers] if first else producers))
        self.plain = max(free)

    def weigh(self) -> float:
        """Find the longest path from each instruction on; how soon any order could end."""
        queues, costs, path = self.queues, self.costs, self.path
        load = [0.0] * len(self.free)
        self.users = users = [list[int]() for _ in queues]
        for number in range(len(queues) - 1, -1, -1):
            queue, mine = queues[number], path[number]
            load[queue] += costs[number].busy
            for producer in self.needs[number]:
                users[producer].append(number)
                cost = costs[producer]
                length = mine + cost.busy if queues[producer] == queue else mine + cost.busy + cost.after
                if length > path[producer]:
                    path[producer] = length
        return max(max(load), max(path))

    def found(self) -> list[int] | None:
        """The order in which instructions begin; None where that is no better than program order."""
        if self.plain <= self.weigh() * _ENOUGH:
            return None
        count = len(self.queues)
        self.missing = [len(its) for its in self.needs]
        by_rank = sorted(range(count), key=self.path.__getitem__, reverse=True)
        ranks = [0] * count
        for rank, number in enumerate(by_rank):
            ranks[number] = rank
        order: list[int] = []
        entered = oldest = 0
        while len(order) < count:
            while entered < count and entered < oldest + WINDOW:
                if not self.missing[entered]:
                    self.wait(entered)
                entered += 1
            time, queue = heappop(self.events)
            if self.next[queue] != time:
                continue  # it was looked at since, or is to be looked at sooner
            self.next[queue] = _NEVER
            waiting, at_hand = self.waiting[queue], self.at_hand[queue]
            while waiting and waiting[0][0] <= time:
                heappush(at_hand, ranks[heappop(waiting)[1]])
            chosen = by_rank[heappop(at_hand)]
            order.append(chosen)
            self.begin(chosen, time, queue, entered)
            if at_hand:
                self.look(self.free[queue], queue)
            elif waiting:
                self.look(max(self.free[queue], waiting[0][0]), queue)
            while oldest < count and self.end[oldest] >= 0.0:
                oldest += 1
        return order if max(self.end) < self.plain else None

    def begin(self, number: int, time: float, queue: int, entered: int) -> None:
        """Instruction ``number`` begins at ``time``; those up to ``entered`` can be chosen."""
        cost = self.costs[number]
        end = self.end[number] = self.free[queue] = time + cost.busy
        seen = end + cost.after
        queues, ready, missing = self.queues, self.ready, self.missing
        for user in self.users[number]:
            there = end if queues[user] == queue else seen
            if there > ready[user]:
                ready[user] = there
            missing[user] -= 1
            if not missing[user] and user < entered:
                self.wait(user)

    def wait(self, number: int) -> None:
        """Instruction ``number`` can be chosen once it is ready."""
        queue, ready = self.queues[number], self.ready[number]
        heappush(self.waiting[queue], (ready, number))
        self.look(max(ready, self.free[queue]), queue)

    def look(self, time: float, queue: int) -> None:
        """Look at ``queue`` at ``time``, unless that is to be done before."""
        if time < self.next[queue]:
            self.next[queue] = time
            heappush(self.events, (time, queue))


def legal(kernel: Program) -> None:
    """Every instruction has a queue."""
    without = [inst for inst in kernel.instructions() if not inst.queue]
    assert not without, f"schedule left {len(without)} instructions without a queue"
