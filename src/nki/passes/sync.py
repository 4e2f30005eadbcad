"""Stage ``sync``: every instruction waits for what it depends on, and for nothing else.

Each queue, an engine or a DMA ring, has one semaphore, which counts the instructions that it has completed. A queue
runs its instructions in order, one after the other; before one begins, the semaphores that ``waits`` names have reached
their counts. A wait is left out where another one implies it: the clock of a queue is what it knows to be complete in
all the others, and grows by the clock of what it has waited for (vector clocks).

A run-time loop is a barrier. It begins when everything before it is complete, its rounds follow one another, and what
stands behind it begins when the last round is complete; at each of these points all semaphores start again at 0. So the
counts of a body are those of one round, and of a kernel without loops those of a launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from nki.analysis.dependence import Ids, ReachingAccesses
from nki.analysis.memory_effects import annotate_effects, effects_of
from nki.base.errors import MissingWaitError, QueueDeadlockError
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, regions
from nki.ir.ordering import named
from nki.ir.program import CoreProgram, Program
from nki.passes.stage import CoreStage
from nki.target.model import Target

Clock = list[int]


@dataclass(frozen=True)
class Sync(CoreStage):
    """Stage ``sync``."""

    name: ClassVar[str] = "sync"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with the waits that it needs. Waits that it already has stay as they are.

        Raises :class:`MissingWaitError` or :class:`QueueDeadlockError` if those do not keep the order that instructions
        need.
        """
        if any(inst.waits for inst in core.instructions()):
            _check_core(core)
            return core
        return core.with_body(_Waiting(core).body(core.body))

    def check(self, program: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Every instruction is on a queue."""
        lost = [inst for inst in program.instructions() if not inst.queue]
        assert not lost, f"sync left {lost} without a queue"


@dataclass(slots=True)
class _Progress:
    """What is known of the instructions before this one, by their numbers, and of the queues in this region."""

    queue: list[int] = field(default_factory=list[int])
    position: list[int] = field(default_factory=list[int])
    """How many instructions of its queue, in its region, are complete with it."""
    clock: list[Clock] = field(default_factory=list[Clock])
    """By queue, how many are known to be complete when it begins."""


def _later(one: Clock, two: Clock) -> Clock:
    """What is known where both are."""
    return [a if a > b else b for a, b in zip(one, two, strict=True)]  # several times as quick as map(max, …)


class _Waiting:
    """Finds the waits of a kernel, region by region."""

    def __init__(self, kernel: CoreProgram) -> None:
        self.reaching = ReachingAccesses(annotate_effects(kernel, kernel.placement))
        self.queues: dict[str, int] = {}
        for inst in kernel.instructions():
            self.queues.setdefault(inst.queue, len(self.queues))
        self.names = list(self.queues)
        self.before = _Progress()
        self.arrays = (
            np.zeros((2, sum(1 for _ in kernel.instructions())), np.int64) if self.reaching.has_large_memories else None
        )
        """Queues and positions once more, for windows of very many atoms."""
        self.labels: dict[str, int] = {}

    def body(self, body: Iterable[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for region in regions(body):
            if isinstance(region, list):
                result.extend(self.region(region))
            else:
                result.append(replace(region, body=tuple(self.body(region.body))))
        return result

    def region(self, instructions: list[Inst]) -> list[Inst]:
        """The instructions with their waits; what other regions do is complete, or has not begun."""
        reaching, before, queues, names = self.reaching, self.before, self.queues, self.names
        queue_of, position_of, clock_of = before.queue, before.position, before.clock
        floor = reaching.floor = number = len(queue_of)
        counts = [0] * len(queues)
        clocks: list[Clock] = [[0] * len(queues)] * len(queues)
        result: list[Inst] = []
        for inst in instructions:
            mine = queues[inst.queue]
            touched = effects_of(inst)
            producers = reaching.visit(number, mine, touched)
            if touched.large_reads or touched.large_writes:
                producers |= self.unknown(reaching.visit_large(number, mine, touched), clocks[mine], floor)
            if inst.ordered_after:
                producers.update(p for label in inst.ordered_after if (p := self.labels.get(label, -1)) >= floor)
            if inst.label:
                self.labels[inst.label] = number
            clock = clocks[mine]
            needed = [p for p in producers if position_of[p] > clock[queue_of[p]] and queue_of[p] != mine]
            if needed:
                needed.sort(reverse=True)  # a later one may imply an earlier one, never the other way round
                waits: list[tuple[str, int]] = []
                for p in needed:
                    its, count = queue_of[p], position_of[p]
                    if count > clock[its]:
                        waits.append((names[its], count))
                        clock = _later(clock, clock_of[p])
                        clock[its] = count
                clocks[mine] = clock
                inst = inst.with_schedule(waits=tuple(waits))
            counts[mine] += 1
            queue_of.append(mine)
            position_of.append(counts[mine])
            clock_of.append(clock)
            if self.arrays is not None:
                self.arrays[:, number] = mine, counts[mine]
            result.append(inst)
            number += 1
        return result

    def unknown(self, found: list[Ids], clock: Clock, floor: int) -> set[int]:
        """Those of the numbers that ``clock`` does not know to be complete."""
        assert self.arrays is not None
        queues, positions = self.arrays
        known = np.array(clock)
        result: set[int] = set()
        for ids in found:
            ids = ids[ids >= floor]
            if len(ids):
                result.update(ids[positions[ids] > known[queues[ids]]].tolist())
        return result


def check(program: Program) -> None:
    """Raise unless the waits of each core keep every order that its dependences ask for, and let all queues go on.

    Dependences are those of the instructions in the order of the text, and the edges that labels draw.
    """
    for core in program.cores:
        _check_core(core)


def _check_core(core: CoreProgram) -> None:
    _Checking(core).body(core.body)


class _Checking(_Waiting):
    """Compares what an instruction needs with what it knows to be complete."""

    def region(self, instructions: list[Inst]) -> list[Inst]:
        reaching, before, queues = self.reaching, self.before, self.queues
        floor = reaching.floor = len(before.queue)
        order = _executable(instructions, queues)
        clocks: list[Clock] = [[0] * len(queues)] * len(queues)
        counts = [0] * len(queues)
        for inst in instructions:
            mine = queues[inst.queue]
            counts[mine] += 1
            before.queue.append(mine)
            before.position.append(counts[mine])
        by_position = {(before.queue[floor + i], before.position[floor + i]): i for i in range(len(instructions))}
        known: list[Clock] = [[]] * len(instructions)
        for i in order:
            mine = queues[instructions[i].queue]
            clock = list(clocks[mine])
            for name, count in instructions[i].waits:
                if not count:
                    continue
                its = queues[name]
                clock = _later(clock, known[by_position[its, count]])
                clock[its] = max(clock[its], count)
            known[i] = clocks[mine] = clock
        before.clock.extend(known)
        for number, inst in enumerate(instructions, floor):
            mine = queues[inst.queue]
            producers = reaching.visit_all(number, mine, effects_of(inst))
            producers.update(p for label in inst.ordered_after if (p := self.labels.get(label, -1)) >= floor)
            if inst.label:
                self.labels[inst.label] = number
            for p in sorted(producers):
                if before.queue[p] != mine and before.position[p] > before.clock[number][before.queue[p]]:
                    raise _missing(inst, instructions[p - floor], before.position[p])
        return instructions


def _missing(inst: Inst, producer: Inst, count: int) -> MissingWaitError:
    error = MissingWaitError(
        f"{named(inst)} on {inst.queue} depends on {named(producer)}, number {count} of {producer.queue}, and may "
        "begin before that is complete",
        fix=f"add `wait {producer.queue}>={count}`, or leave out all waits: stage sync then finds them",
    )
    error.at(inst.where.span, inst.where.stack)
    return error


def _executable(instructions: list[Inst], queues: dict[str, int]) -> list[int]:
    """Numbers of the instructions in an order in which the queues can run them.

    Raises :class:`QueueDeadlockError` if there is none.
    """
    lines: list[list[int]] = [[] for _ in queues]
    for i, inst in enumerate(instructions):
        lines[queues[inst.queue]].append(i)
    done = [0] * len(queues)
    order: list[int] = []
    going = True
    while going:
        going = False
        for mine, line in enumerate(lines):
            while done[mine] < len(line) and _may_begin(instructions[line[done[mine]]], queues, done):
                order.append(line[done[mine]])
                done[mine] += 1
                going = True
    for mine, line in enumerate(lines):
        if done[mine] < len(line):
            stuck = instructions[line[done[mine]]]
            queue, count = next((q, n) for q, n in stuck.waits if q not in queues or done[queues[q]] < n)
            reached = done[queues[queue]] if queue in queues else 0
            error = QueueDeadlockError(
                f"{named(stuck)} on {stuck.queue} waits for {queue}>={count}, which comes to {reached} and no further",
                fix="leave out all waits: stage sync then finds them",
            )
            raise error.at(stuck.where.span, stuck.where.stack)
    return order


def _may_begin(inst: Inst, queues: dict[str, int], done: list[int]) -> bool:
    return all(queue in queues and done[queues[queue]] >= count for queue, count in inst.waits)
