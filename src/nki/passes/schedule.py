"""Stage ``schedule``: every instruction gets a queue, and each queue an order.

Engines that may be chosen are chosen by load, and so are DMA rings (``nki.passes.queues``). Then the region's
instructions begin in the order in which the target's costs let them: whenever a queue is free, it takes the first
instruction of the program, among the next ``WINDOW`` that are left, whose producers are complete. An instruction so
overtakes only what its queue would stand still for. Where that does not end sooner than program order, by the same
costs, program order stays. Results are the same in any case: nothing begins before what it depends on.

Run-time loops are barriers; regions between them are scheduled one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from nki.base.errors import QueueError
from nki.ir.edges import named
from nki.ir.footprint import footprint, footprints
from nki.ir.frontier import Frontier
from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.loop import Statement, regions
from nki.passes.queues import Assignment, Option
from nki.target.model import Target

WINDOW = 64
"""How far ahead of the first instruction that is left a queue looks."""


def run(kernel: Kernel, target: Target, *, reorder: bool = True) -> Kernel:
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

    def __init__(self, kernel: Kernel, assignment: Assignment, reorder: bool) -> None:
        self.assignment = assignment
        self.reorder = reorder
        self.frontier = Frontier(footprints(kernel, kernel.places)) if reorder else None
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
        if self.frontier is None:
            return made
        queues = [self.queues.setdefault(name, len(self.queues)) for name in names]
        order = _Order(made, queues, costs, self.frontier, self.labels, self.number).found()
        self.number += len(made)
        return made if order is None else [made[i] for i in order]


class _Order:
    """List scheduling of one region, in nanoseconds from its beginning. Numbers are those within the region."""

    def __init__(
        self,
        instructions: list[Inst],
        queues: list[int],
        costs: list[Option],
        frontier: Frontier,
        labels: dict[str, int],
        first: int,
    ) -> None:
        self.instructions = instructions
        self.queues = queues
        self.costs = costs
        self.frontier = frontier
        self.labels = labels
        self.first = first
        count, lines = len(instructions), max(queues) + 1
        self.missing = [0] * count
        self.users: list[list[int] | None] = [None] * count
        self.ready = [0.0] * count
        """When all that was begun and that it depends on is complete."""
        self.end = [-1.0] * count
        """When it is complete, -1 while it has not begun."""
        self.free = [0.0] * lines
        self.waiting: list[list[tuple[float, int]]] = [[] for _ in range(lines)]
        self.at_hand: list[list[int]] = [[] for _ in range(lines)]
        self.events: list[tuple[float, int]] = []
        self.plain_end = [0.0] * count
        """When it would be complete in program order."""
        self.plain_free = [0.0] * lines

    def found(self) -> list[int] | None:
        """The order in which instructions begin; None where that is no better than program order."""
        order: list[int] = []
        entered = oldest = 0
        count = len(self.instructions)
        while len(order) < count:
            if entered < count and entered < oldest + WINDOW:
                self.frontier.floor = self.first + max(0, oldest - WINDOW)
                while entered < count and entered < oldest + WINDOW:
                    self.enter(entered)
                    entered += 1
            time, queue = heappop(self.events)
            if self.free[queue] > time:
                continue
            waiting, at_hand = self.waiting[queue], self.at_hand[queue]
            while waiting and waiting[0][0] <= time:
                heappush(at_hand, heappop(waiting)[1])
            if at_hand:
                chosen = heappop(at_hand)
                order.append(chosen)
                self.begin(chosen, time, queue)
                while oldest < count and self.end[oldest] >= 0.0:
                    oldest += 1
            elif waiting:
                heappush(self.events, (waiting[0][0], queue))
        return order if max(self.end) < max(self.plain_end) else None

    def enter(self, number: int) -> None:
        """Instruction ``number`` can be chosen from now on, when what it depends on is complete."""
        inst, queue, cost = self.instructions[number], self.queues[number], self.costs[number]
        first, queues, end = self.first, self.queues, self.end
        producers = self.frontier.all_of(first + number, queue, footprint(inst))
        if inst.after:
            producers.update(p for label in inst.after if (p := self.labels.get(label, -1)) >= first)
        if inst.label:
            self.labels[inst.label] = first + number
        missing, ready, plain = 0, 0.0, self.plain_free[queue]
        for producer in producers:
            producer -= first
            delay = self.costs[producer].after if queues[producer] != queue else 0.0
            if end[producer] < 0.0:
                missing += 1
                users = self.users[producer]
                if users is None:
                    self.users[producer] = [number]
                else:
                    users.append(number)
            elif end[producer] + delay > ready:
                ready = end[producer] + delay
            if self.plain_end[producer] + delay > plain:
                plain = self.plain_end[producer] + delay
        self.plain_free[queue] = self.plain_end[number] = plain + cost.busy
        self.ready[number] = ready
        self.missing[number] = missing
        if not missing:
            heappush(self.waiting[queue], (ready, number))
            heappush(self.events, (max(ready, self.free[queue]), queue))

    def begin(self, number: int, time: float, queue: int) -> None:
        """Instruction ``number`` begins at ``time``."""
        cost = self.costs[number]
        end = self.end[number] = self.free[queue] = time + cost.busy
        heappush(self.events, (end, queue))
        for user in self.users[number] or ():
            its = self.queues[user]
            ready = end if its == queue else end + cost.after
            if ready > self.ready[user]:
                self.ready[user] = ready
            self.missing[user] -= 1
            if not self.missing[user]:
                heappush(self.waiting[its], (self.ready[user], user))
                heappush(self.events, (max(self.ready[user], self.free[its]), its))


def legal(kernel: Kernel) -> None:
    """Every instruction has a queue."""
    without = [inst for inst in kernel.instructions() if not inst.queue]
    assert not without, f"schedule left {len(without)} instructions without a queue"
