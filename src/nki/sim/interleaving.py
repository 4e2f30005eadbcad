"""A machine that runs a kernel after stage ``sync`` with its queues at the mercy of chance.

Each queue of each core runs its instructions in order; which queue goes on next is drawn among those whose head has
what it waits for. So every order of the instructions that the waits allow can happen, and if all of them give the same
bits, no wait is missing. An instruction happens at one moment. A DMA moves its data at some moment while it occupies
its ring, and the other queues go on before and after that: a ring that is not drawn is a DMA under way.

Where cores meet, an instruction has two moments: it comes to the meeting, and sends what it sends; some time after the
others have come, too, it is complete, and what it receives is there. Its queue stands still between the two, the other
queues of its core do not. All cores have one shared HBM, and nothing else orders what they do.

What an instruction does is the executor's business, and so is where its tensors lie.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from nki.base.errors import QueueDeadlockError
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, regions
from nki.ir.ordering import named

T = TypeVar("T")
Ready = Callable[[], bool]


class Executor(Protocol):
    """Carries out single instructions, and counts the rounds of loops."""

    def execute(self, inst: Inst) -> None:
        """Carry out one instruction."""
        ...

    def rounds(self, loop: Loop) -> Iterator[None]:
        """As many items as the loop has rounds."""
        ...


class _Unmet(Exception):  # no error: the instruction is under way
    """An instruction has come to a meeting, and is complete when it is carried out once more."""


class Meetings:
    """Where the cores of one launch have come, and what they have sent to each other."""

    def __init__(self) -> None:
        self._sent: defaultdict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self._arrived: defaultdict[tuple[int, str], int] = defaultdict(int)
        self.under_way: dict[int, Ready] = {}
        """By id of an instruction that has come to a meeting: whether it can be complete."""

    def exchange(self, number: int, inst: Inst, value: T, to: int, source: int, pipe: int) -> T:
        box = self._sent[source, number, pipe]
        if id(inst) not in self.under_way:
            self._sent[number, to, pipe].append(value)
            self._wait(inst, lambda: bool(box))
        return box.popleft()

    def meet(self, number: int, inst: Inst, cores: tuple[int, ...], about: str) -> None:
        if id(inst) not in self.under_way:
            self._arrived[number, about] += 1
            count = self._arrived[number, about]
            self._wait(inst, lambda: all(self._arrived[other, about] >= count for other in cores))

    def _wait(self, inst: Inst, ready: Ready) -> None:
        self.under_way[id(inst)] = ready
        raise _Unmet


class Link:
    """How the executor of core ``number`` meets the others. It never keeps the executor waiting: the machine does."""

    def __init__(self, meetings: Meetings, number: int) -> None:
        self._meetings = meetings
        self.number = number

    def exchange(self, inst: Inst, value: T, to: int, source: int, pipe: int) -> T:
        """Send ``value`` to core ``to``; what core ``source`` sends through ``pipe``."""
        return self._meetings.exchange(self.number, inst, value, to, source, pipe)

    def meet(self, inst: Inst, cores: tuple[int, ...], about: str) -> None:
        """Come to the meeting of ``cores`` about the tensor of that name."""
        self._meetings.meet(self.number, inst, cores, about)


class _Core:
    """One core: the region that it is in, and how far its queues are."""

    def __init__(self, number: int, executor: Executor, body: Iterable[Statement], chance: random.Random) -> None:
        self.number = number
        self.executor = executor
        self.chance = chance
        self.queues: dict[str, deque[Inst]] = {}
        self.done: dict[str, int] = {}
        self.ranks: dict[str, float] = {}
        """By queue: the lower, the sooner it goes on where the machine is strict."""
        self.paces: dict[str, float] = {}
        self.late: Inst | None = None
        """What is put off for as long as anything else can go on."""
        self._left = self._regions(body)

    def _regions(self, body: Iterable[Statement]) -> Iterator[list[Inst]]:
        for region in regions(body):
            if isinstance(region, list):
                yield region
                continue
            for _ in self.executor.rounds(region):
                yield from self._regions(region.body)

    def enter(self) -> bool:
        """Go on to the next region, where all semaphores start at 0; False where there is none."""
        instructions = next(self._left, None)
        if instructions is None:
            return False
        self.queues = {}
        for inst in instructions:
            self.queues.setdefault(inst.queue, deque()).append(inst)
        self.done = dict.fromkeys(self.queues, 0)
        behind, pace = self.chance.random() * 2, self.chance.random() ** 3
        self.ranks = {queue: behind + self.chance.random() for queue in self.queues}
        self.paces = {queue: pace * self.chance.random() ** 3 + 1e-6 for queue in self.queues}
        self.late = self.chance.choice(instructions) if self.chance.random() < 0.5 else None
        return True


class Machine:
    """Runs the queues of a launch in an order that ``seed`` chooses; ``last`` waits until nothing else can go on."""

    def __init__(self, seed: int, last: Inst | None = None) -> None:
        self.chance = random.Random(seed)
        self.last = last
        self.meetings = Meetings()
        self.history: list[tuple[Inst, bool]] = []
        """What happened, in order: an instruction has begun (False), it is complete (True)."""

    def link(self, number: int) -> Link:
        """How the executor of core ``number`` meets the others."""
        return Link(self.meetings, number)

    def run(self, programs: Sequence[tuple[Executor, Iterable[Statement]]]) -> None:
        """Run the bodies, a core each. Raises :class:`QueueDeadlockError` when no queue of any core can go on."""
        every = [_Core(number, executor, body, self.chance) for number, (executor, body) in enumerate(programs)]
        cores = [core for core in every if core.enter()]
        strict = True  # the first queue that can go on does: others stay behind as far as they may
        while cores:
            able = [(core, queue) for core in cores for queue in core.queues if self._able(core, queue)]
            if not able:
                raise self._deadlock(cores, several=len(every) > 1)
            able = [(core, queue) for core, queue in able if not self._is_late(core, queue)] or able
            if strict:
                core, queue = min(able, key=_rank)
            else:
                core, queue = self.chance.choices(able, [core.paces[queue] for core, queue in able])[0]
            self._step(core, queue)
            if not core.queues:
                strict = self.chance.random() < 0.5
                if not core.enter():
                    cores.remove(core)

    def _able(self, core: _Core, queue: str) -> bool:
        head = core.queues[queue][0]
        meets = self.meetings.under_way.get(id(head))
        return meets() if meets is not None else all(core.done.get(q, 0) >= count for q, count in head.waits)

    def _is_late(self, core: _Core, queue: str) -> bool:
        head = core.queues[queue][0]
        return head is (core.late if self.last is None else self.last)

    def _step(self, core: _Core, queue: str) -> None:
        """Let the head of ``queue`` happen, or come to its meeting."""
        inst = core.queues[queue][0]
        if id(inst) not in self.meetings.under_way:
            self.history.append((inst, False))
        try:
            core.executor.execute(inst)
        except _Unmet:
            return
        self.meetings.under_way.pop(id(inst), None)
        self.history.append((inst, True))
        core.done[queue] += 1
        core.queues[queue].popleft()
        if not core.queues[queue]:
            del core.queues[queue]

    def _deadlock(self, cores: list[_Core], several: bool) -> QueueDeadlockError:
        waiting: list[str] = []
        for core in cores:
            for queue, line in core.queues.items():
                said = f"{named(line[0])} on {queue}" + (f" of core {core.number}" if several else "")
                if id(line[0]) in self.meetings.under_way:
                    waiting.append(f"{said} waits for another core")
                for its, count in line[0].waits:
                    if core.done.get(its, 0) < count:
                        waiting.append(f"{said} waits for {its}>={count}, which is at {core.done.get(its, 0)}")
        error = QueueDeadlockError(f"no queue can go on: {'; '.join(waiting)}", fix="schedule the kernel again")
        where = next(iter(cores[0].queues.values()))[0].where
        error.at(where.span, where.stack)
        return error


def _rank(place: tuple[_Core, str]) -> float:
    core, queue = place
    return core.ranks[queue]


__all__ = ["Executor", "Link", "Machine", "Meetings"]
