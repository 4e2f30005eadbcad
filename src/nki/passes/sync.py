"""Stage ``sync``: every instruction waits for what it depends on, and for nothing else.

Each queue, an engine or a DMA ring, has one semaphore, which counts the instructions that it has completed. A queue
runs its instructions in order, one after the other; before one begins, the semaphores that ``waits`` names have reached
their counts. A wait is left out where another one implies it: the clock of a queue is what it knows to be complete in
all the others, and grows by the clock of what it has waited for (vector clocks).

A run-time loop is a barrier. It begins when everything before it is complete, its rounds follow one another, and what
follows it begins when the last round is complete; at each of these points all semaphores start again at 0. So the
a body counts one round, and a kernel without loops one launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import ClassVar

from nki.analysis.access_classes import AccessClasses
from nki.analysis.dependence import DEPENDENCES, dependence_graphs
from nki.analysis.reaching_accesses import ReachingAccesses
from nki.base import knobs
from nki.base.errors import MissingWaitError, QueueDeadlockError
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, basic_blocks
from nki.ir.ordering import display_name
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.target.model import Target

Clock = list[int]
"""By queue, the number of its instructions that are known to be complete."""


@dataclass(frozen=True)
class Sync(CoreStage):
    """Stage ``sync``."""

    name: ClassVar[str] = "sync"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with the waits that it needs. A program that has waits keeps them.

        Raises :class:`MissingWaitError` or :class:`QueueDeadlockError` if those do not keep the order that instructions
        need.
        """
        if any(map(attrgetter("waits"), core.numbered)):
            _WaitChecker(core).body(core.body)
            return core
        synchronised = core.with_body(_WaitInserter(core).body(core.body))
        if (graphs := core.result(DEPENDENCES)) is not None:
            synchronised.keep(DEPENDENCES, graphs)
        return synchronised

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Every instruction is on a queue, waits keep every dependence, and all queues can run to their end.

        The dependences and queues take as long as the stage itself: ``OPEN_NKI_CHECK_STAGES=1`` checks them.
        """
        if not all(map(attrgetter("queue"), after.instructions())):
            lost = [inst for inst in after.instructions() if not inst.queue]
            raise AssertionError(f"sync left {lost[:3]} without a queue")
        if knobs.check_stages():
            check_waits(after)


def check_waits(program: Program) -> None:
    """Raise unless the waits of each core keep all dependences, and let all queues run to their end.

    Dependences follow from the instructions in program order, and from the edges that labels draw.
    """
    for core in program.cores:
        _WaitChecker(core).body(core.body)


@dataclass(slots=True, eq=False, repr=False)
class _History:
    """Queue and position of every instruction before the current one, by number."""

    queue: list[int] = field(default_factory=list[int])
    position: list[int] = field(default_factory=list[int])
    """Number of instructions of the queue, in the basic block, that are complete with the instruction."""


class _PackedClocks:
    """Vector clocks of so many queues, each as one integer: a join takes Python eight steps, whatever the number.

    ``most`` is the largest count.
    """

    def __init__(self, queues: int, most: int) -> None:
        self.bits = bits = most.bit_length() + 1
        """Bits of a count; the highest one is 0."""
        self._high = sum(1 << bits * queue + bits - 1 for queue in range(queues))
        """The highest bit of each count."""

    def join(self, one: int, two: int) -> int:
        """The join of two clocks: the later time of each component."""
        not_less = ((one | self._high) - two) & self._high  # the bit is borrowed where the count of ``one`` is less
        from_one = not_less - (not_less >> self.bits - 1)
        return two ^ ((one ^ two) & from_one)


def _join(one: Clock, two: Clock) -> Clock:
    """The join of two vector clocks: the later time of each component."""
    return [a if a > b else b for a, b in zip(one, two, strict=True)]  # several times as quick as map(max, …)


class _BlockVisitor:
    """Visits a program block by block, in program order, and replaces the instructions of each block."""

    def __init__(self, core: CoreProgram) -> None:
        self.names = list(dict.fromkeys(map(attrgetter("queue"), core.numbered)))
        self.queues = {name: number for number, name in enumerate(self.names)}

    def body(self, body: Iterable[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for block in basic_blocks(body):
            if isinstance(block, list):
                result.extend(self.block(block))
            else:
                result.append(replace(block, body=tuple(self.body(block.body))))
        return result

    def block(self, instructions: list[Inst]) -> list[Inst]:
        """The instructions of a block; all blocks before it are complete."""
        raise NotImplementedError


class _WaitInserter(_BlockVisitor):
    """Adds to each instruction the waits that no other wait implies."""

    def __init__(self, core: CoreProgram) -> None:
        super().__init__(core)
        self.graphs = iter(dependence_graphs(core))
        self.packed = _PackedClocks(len(self.names), len(core.numbered))

    def block(self, instructions: list[Inst]) -> list[Inst]:
        queues, names, join = self.queues, self.names, self.packed.join
        queue_of: list[int] = []
        position_of: list[int] = []
        clock_of: list[int] = []
        """The clock of each instruction's queue when it begins."""
        counts = [0] * len(queues)
        clocks = [0] * len(queues)
        shifts = [self.packed.bits * queue for queue in range(len(queues))]
        mask, new = (1 << self.packed.bits - 1) - 1, object.__new__
        result: list[Inst] = []
        for inst, producers in zip(instructions, next(self.graphs).predecessors, strict=True):
            queue = queues[inst.queue]
            clock = clocks[queue]
            needed: list[int] = []
            for p in producers:
                other = queue_of[p]
                if other != queue and position_of[p] > clock >> shifts[other] & mask:
                    needed.append(p)
            if needed:
                if len(needed) > 1:
                    needed.sort(reverse=True)  # a later one may imply an earlier one, never the other way round
                waits: list[tuple[str, int]] = []
                for p in needed:
                    other, position = queue_of[p], position_of[p]
                    known = clock >> shifts[other] & mask
                    if position > known:
                        waits.append((names[other], position))
                        clock = join(clock + (position - known << shifts[other]), clock_of[p])
                clocks[queue] = clock
                inst.identity()
                scheduled = new(inst.__class__)  # Inst.with_schedule, without the call
                scheduled.__dict__ = inst.__dict__ | {"waits": tuple(waits)}
                inst = scheduled
            counts[queue] += 1
            queue_of.append(queue)
            position_of.append(counts[queue])
            clock_of.append(clock)
            result.append(inst)
        return result


class _WaitChecker(_BlockVisitor):
    """Compares the producers of each instruction with the clock of its queue."""

    def __init__(self, core: CoreProgram) -> None:
        super().__init__(core)
        self.reaching = ReachingAccesses(AccessClasses(core))
        self.history = _History()
        self.labels: dict[str, int] = {}
        self.clock: list[Clock] = []
        """By number of an instruction: the clock of its queue when it begins."""

    def block(self, instructions: list[Inst]) -> list[Inst]:
        history, queues = self.history, self.queues
        first = self.reaching.floor = len(history.queue)
        counts = [0] * len(queues)
        for inst in instructions:
            queue = queues[inst.queue]
            counts[queue] += 1
            history.queue.append(queue)
            history.position.append(counts[queue])
        self.clock.extend(self.clocks(instructions, first))
        for number, inst in enumerate(instructions, first):
            queue, clock = history.queue[number], self.clock[number]
            producers = set[int]().union(*self.reaching.visit(number, queue, inst))
            producers.update(p for label in inst.ordered_after if (p := self.labels.get(label, -1)) >= first)
            if inst.label:
                self.labels[inst.label] = number
            missing = [p for p in producers if history.position[p] > clock[history.queue[p]]]
            missing = [p for p in missing if history.queue[p] != queue]
            if missing:
                producer = min(missing)
                raise _missing_wait(inst, instructions[producer - first], history.position[producer])
        return instructions

    def clocks(self, instructions: list[Inst], first: int) -> list[Clock]:
        """The clock of each instruction, found in an order in which the queues can run the block."""
        history, queues = self.history, self.queues
        order = _executable_order(instructions, queues)
        by_position = {(history.queue[first + i], history.position[first + i]): i for i in range(len(instructions))}
        of_queue: list[Clock] = [[0] * len(queues)] * len(queues)
        result: list[Clock] = [[]] * len(instructions)
        for i in order:
            queue = history.queue[first + i]
            clock = list(of_queue[queue])
            for name, count in instructions[i].waits:
                if not count:
                    continue
                other = queues[name]
                clock = _join(clock, result[by_position[other, count]])
                clock[other] = max(clock[other], count)
            result[i] = of_queue[queue] = clock
        return result


def _missing_wait(inst: Inst, producer: Inst, count: int) -> MissingWaitError:
    error = MissingWaitError(
        f"{display_name(inst)} on {inst.queue} depends on {display_name(producer)}, number {count} of "
        f"{producer.queue}, and may begin before that is complete",
        fix=f"add `wait {producer.queue}>={count}`, or leave out all waits: stage sync then finds them",
    )
    error.at(inst.where.span, inst.where.stack)
    return error


def _executable_order(instructions: list[Inst], queues: dict[str, int]) -> list[int]:
    """Numbers of the instructions in an order in which the queues can run them.

    Raises :class:`QueueDeadlockError` if there is none.
    """
    by_queue: list[list[int]] = [[] for _ in queues]
    for i, inst in enumerate(instructions):
        by_queue[queues[inst.queue]].append(i)
    done = [0] * len(queues)
    order: list[int] = []
    progress = True
    while progress:
        progress = False
        for queue, line in enumerate(by_queue):
            while done[queue] < len(line) and _may_begin(instructions[line[done[queue]]], queues, done):
                order.append(line[done[queue]])
                done[queue] += 1
                progress = True
    for queue, line in enumerate(by_queue):
        if done[queue] < len(line):
            raise _deadlock(instructions[line[done[queue]]], queues, done)
    return order


def _may_begin(inst: Inst, queues: dict[str, int], done: list[int]) -> bool:
    return all(queue in queues and done[queues[queue]] >= count for queue, count in inst.waits)


def _deadlock(blocked: Inst, queues: dict[str, int], done: list[int]) -> QueueDeadlockError:
    """The error for an instruction with waits that are never satisfied."""
    queue, count = next((q, n) for q, n in blocked.waits if q not in queues or done[queues[q]] < n)
    reached = done[queues[queue]] if queue in queues else 0
    error = QueueDeadlockError(
        f"{display_name(blocked)} on {blocked.queue} waits for {queue}>={count}, which comes to {reached} and no "
        "further",
        fix="leave out all waits: stage sync then finds them",
    )
    error.at(blocked.where.span, blocked.where.stack)
    return error
