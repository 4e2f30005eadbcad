"""A machine that runs a kernel after stage ``sync`` with its queues at the mercy of chance.

Each queue runs its instructions in order; which queue goes on next is drawn among those whose head has what it waits
for. So every order of the instructions that the waits allow can happen, and if all of them give the same bits, no wait
is missing. An instruction happens at one moment. A DMA moves its data at some moment while it occupies its ring, and
the other queues go on before and after that: a ring that is not drawn is a DMA under way.

What an instruction does is the executor's business, and so is where its tensors lie.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from nki.base.errors import QueueDeadlockError
from nki.ir.edges import named
from nki.ir.inst import Inst
from nki.ir.loop import Loop, Statement, regions


class Executor(Protocol):
    """Carries out single instructions, and counts the rounds of loops."""

    def execute(self, inst: Inst) -> None:
        """Carry out one instruction."""
        ...

    def rounds(self, loop: Loop) -> Iterator[None]:
        """As many items as the loop has rounds."""
        ...


class Machine:
    """Runs the queues in an order that ``seed`` chooses."""

    def __init__(self, executor: Executor, seed: int) -> None:
        self.executor = executor
        self.chance = random.Random(seed)
        self.order: list[Inst] = []
        """The instructions that were run, in the order in which they happened."""

    def run(self, body: Iterable[Statement]) -> None:
        """Run the statements of one body. Raises :class:`QueueDeadlockError` when no queue can go on."""
        for region in regions(body):
            if isinstance(region, list):
                self._region(region)
                continue
            for _ in self.executor.rounds(region):
                self.run(region.body)

    def _region(self, instructions: list[Inst]) -> None:
        """All semaphores start at 0, and the region ends when all queues are through."""
        queues: dict[str, deque[Inst]] = {}
        for inst in instructions:
            queues.setdefault(inst.queue, deque()).append(inst)
        done = dict.fromkeys(queues, 0)
        order = self.chance.sample(list(queues), len(queues))
        paces = {queue: self.chance.random() ** 3 for queue in queues}
        strict = (
            self.chance.random() < 0.5
        )  # the first queue that can go on does: others stay behind as far as they may
        while queues:
            able = [q for q in order if q in queues and _may_begin(queues[q][0], done)]
            if not able:
                raise _deadlock([line[0] for line in queues.values()], done)
            queue = able[0] if strict else self.chance.choices(able, [paces[q] + 1e-6 for q in able])[0]
            inst = queues[queue].popleft()
            self.executor.execute(inst)
            self.order.append(inst)
            done[queue] += 1
            if not queues[queue]:
                del queues[queue]


def _may_begin(inst: Inst, done: dict[str, int]) -> bool:
    return all(done.get(queue, 0) >= count for queue, count in inst.waits)


def _deadlock(heads: list[Inst], done: dict[str, int]) -> QueueDeadlockError:
    waiting = [
        f"{named(inst)} on {inst.queue} waits for {queue}>={count}, which is at {done.get(queue, 0)}"
        for inst in heads
        for queue, count in inst.waits
        if done.get(queue, 0) < count
    ]
    error = QueueDeadlockError(f"no queue can go on: {'; '.join(waiting)}", fix="schedule the kernel again")
    error.at(heads[0].where.span, heads[0].where.stack)
    return error
