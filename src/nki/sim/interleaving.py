"""Random interleavings of a synchronised program: a simulator that runs the queues of all cores in a random order.

Each queue of each core runs its instructions in order; the next queue is drawn among the queues with satisfied waits.
So every order of the instructions that the waits allow can happen, and if all of them give the same bits, no wait is
missing. An instruction executes at one point of time. A DMA moves its data at some point while it occupies its ring,
and the other queues run before and after that: a ring that is not drawn is a DMA in flight.

An instruction at a rendezvous executes in two steps: it arrives, and sends its data; some time after the others have
arrived, too, it completes, and receives its data. Its queue is blocked between the two, the other queues of its core
are not. All cores have one shared HBM, and nothing else orders them.

The executor carries out an instruction, and decides where its tensors lie.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from nki.base.errors import QueueDeadlockError
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, basic_blocks
from nki.ir.ordering import display_name
from nki.rendezvous.protocol import Ready, Rendezvous


class Executor(Protocol):
    """Executes single instructions, and counts the iterations of loops."""

    def execute(self, inst: Inst) -> None:
        """Execute one instruction."""
        ...

    def rounds(self, loop: Loop) -> Iterator[None]:
        """As many items as the loop has iterations."""
        ...


class _Blocked(Exception):  # no error: the instruction is in flight
    """An instruction has come to a rendezvous; once ``ready``, it is executed once more, and then complete."""

    def __init__(self, ready: Ready) -> None:
        super().__init__()
        self.ready = ready


class Interleaving(Rendezvous):
    """The rendezvous of cores with queues that the simulator runs: it never keeps an executor waiting."""

    def wait(self, rank: int, inst: Inst, ready: Ready) -> None:  # noqa: ARG002
        if not self.resumes:
            raise _Blocked(ready)


class _Core:
    """One core: the basic block that it executes, and the progress of its queues."""

    def __init__(self, rank: int, executor: Executor, body: Iterable[Statement], random_: random.Random) -> None:
        self.rank = rank
        self.executor = executor
        self.random = random_
        self.queues: dict[str, deque[Inst]] = {}
        self.done: dict[str, int] = {}
        self.in_flight: dict[str, Ready] = {}
        """By queue with its head at a rendezvous: the condition on which the head completes."""
        self.priorities: dict[str, float] = {}
        """By queue: in strict order the lowest runs first."""
        self.weights: dict[str, float] = {}
        self.delayed: Inst | None = None
        """The instruction that runs when nothing else can."""
        self._blocks = self._unroll(body)

    def _unroll(self, body: Iterable[Statement]) -> Iterator[list[Inst]]:
        for block in basic_blocks(body):
            if isinstance(block, list):
                yield block
                continue
            for _ in self.executor.rounds(block):
                yield from self._unroll(block.body)

    def enter(self) -> bool:
        """Begin the next basic block, where all semaphores start at 0; False if there is none."""
        block = next(self._blocks, None)
        if block is None:
            return False
        self.queues = {}
        for inst in block:
            self.queues.setdefault(inst.queue, deque()).append(inst)
        self.done = dict.fromkeys(self.queues, 0)
        lag, pace = self.random.random() * 2, self.random.random() ** 3
        self.priorities = {queue: lag + self.random.random() for queue in self.queues}
        self.weights = {queue: pace * self.random.random() ** 3 + 1e-6 for queue in self.queues}
        self.delayed = self.random.choice(block) if self.random.random() < 0.5 else None
        return True


class QueueSimulator:
    """Runs the queues of ``cores`` cores in an order that ``seed`` determines; ``last`` runs when no other can."""

    def __init__(self, seed: int, cores: int = 1, last: Inst | None = None) -> None:
        self.random = random.Random(seed)
        self.last = last
        self.rendezvous = Interleaving(cores)
        self.history: list[tuple[Inst, bool]] = []
        """The events in order: an instruction has begun (False), or is complete (True)."""

    def run(self, programs: Sequence[tuple[Executor, Iterable[Statement]]]) -> None:
        """Run the bodies, a core each. Raises :class:`QueueDeadlockError` when no queue of any core can run."""
        cores = [_Core(rank, executor, body, self.random) for rank, (executor, body) in enumerate(programs)]
        several = len(cores) > 1
        cores = [core for core in cores if core.enter()]
        strict = True  # the first queue that can run does: others fall behind as much as they may
        while cores:
            ready = [(core, queue) for core in cores for queue in core.queues if self._is_ready(core, queue)]
            if not ready:
                raise self._deadlock(cores, several)
            ready = [(core, queue) for core, queue in ready if not self._is_delayed(core, queue)] or ready
            if strict:
                core, queue = min(ready, key=_priority)
            else:
                core, queue = self.random.choices(ready, [core.weights[queue] for core, queue in ready])[0]
            self._step(core, queue)
            if not core.queues:
                strict = self.random.random() < 0.5
                if not core.enter():
                    cores.remove(core)

    def _is_ready(self, core: _Core, queue: str) -> bool:
        head = core.queues[queue][0]
        complete = core.in_flight.get(queue)
        return complete() if complete is not None else all(core.done.get(q, 0) >= n for q, n in head.waits)

    def _is_delayed(self, core: _Core, queue: str) -> bool:
        head = core.queues[queue][0]
        return head is (core.delayed if self.last is None else self.last)

    def _step(self, core: _Core, queue: str) -> None:
        """Execute the head of ``queue``, or let it arrive at its rendezvous."""
        inst = core.queues[queue][0]
        self.rendezvous.resumes = core.in_flight.pop(queue, None) is not None
        if not self.rendezvous.resumes:
            self.history.append((inst, False))
        try:
            core.executor.execute(inst)
        except _Blocked as blocked:
            core.in_flight[queue] = blocked.ready
            return
        self.history.append((inst, True))
        core.done[queue] += 1
        core.queues[queue].popleft()
        if not core.queues[queue]:
            del core.queues[queue]

    def _deadlock(self, cores: list[_Core], several: bool) -> QueueDeadlockError:
        waiting: list[str] = []
        for core in cores:
            for queue, line in core.queues.items():
                head = f"{display_name(line[0])} on {queue}" + (f" of core {core.rank}" if several else "")
                if queue in core.in_flight:
                    waiting.append(f"{head} waits for another core")
                for other, count in line[0].waits:
                    if core.done.get(other, 0) < count:
                        waiting.append(f"{head} waits for {other}>={count}, which is at {core.done.get(other, 0)}")
        error = QueueDeadlockError(f"no queue can go on: {'; '.join(waiting)}", fix="schedule the kernel again")
        where = next(iter(cores[0].queues.values()))[0].where
        error.at(where.span, where.stack)
        return error


def _priority(choice: tuple[_Core, str]) -> float:
    core, queue = choice
    return core.priorities[queue]
