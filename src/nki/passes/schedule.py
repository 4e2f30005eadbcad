"""Stage ``schedule``: assigns every instruction to a queue, and orders the queues.

Engines and DMA rings are assigned by load (``scheduling.engine_assignment``); then list scheduling orders the
instructions of every basic block by the same estimates (``scheduling.list_scheduler``). Program order stays where the
new order would not end sooner. Results are the same in any case: no instruction begins before the ones that it depends
on.

Run-time loops are barriers; the basic blocks between them are scheduled one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar

from nki.analysis.dependence import DEPENDENCES, DependenceGraph, GraphBuilder, dependence_graphs
from nki.base import knobs
from nki.base.errors import QueueError
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, all_blocks, basic_blocks
from nki.ir.ordering import display_name
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.passes import reordering
from nki.passes.scheduling.engine_assignment import Assignment
from nki.passes.scheduling.list_scheduler import WINDOW, list_schedule
from nki.target.model import Target


@dataclass(frozen=True)
class Schedule(CoreStage):
    """Stage ``schedule``. ``reorder``: instructions may begin in another order than the program's (None: unless the
    environment says OPEN_NKI_REORDER=0).
    """

    name: ClassVar[str] = "schedule"
    reorder: bool | None = None

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with a queue for every instruction, in the order in which they begin.

        A program with queues at its instructions stays as it is. Raises :class:`QueueError` for a queue that cannot run
        its instruction, or where only some have one.
        """
        assignment = Assignment(target)
        if not any(map(attrgetter("queue"), core.numbered)):
            reorder = knobs.reorder() if self.reorder is None else self.reorder
            scheduler = _Scheduler(core, assignment, reorder)
            scheduled = core.with_body(scheduler.body(core.body))
            if reorder:
                scheduled.keep(DEPENDENCES, scheduler.graphs)
            return scheduled
        without = [inst for inst in core.instructions() if not inst.queue]
        if without:
            error = QueueError(
                f"{display_name(without[0])} has no queue, and other instructions have one",
                fix="put every instruction on a queue, or none",
            )
            raise error.at(without[0].where.span, without[0].where.stack)
        for inst in core.instructions():
            assignment.check(inst)
        return core

    def check(self, before: Program, after: Program, target: Target) -> None:
        """Each core keeps its instructions, and each instruction has a queue of an engine that it declares.

        ``OPEN_NKI_CHECK_STAGES=1`` also checks that the queue is a candidate under the rules of the instruction, and
        that the dependences of ``before`` and the edges are kept.
        """
        assignment = Assignment(target)
        for old, new in zip(before.cores, after.cores, strict=True):
            reordering.check_same_instructions(old, new)
            illegal = assignment.undeclared(new)
            if knobs.check_stages():
                illegal += [inst for inst in new.instructions() if not assignment.is_candidate(inst)]
                reordering.check_edges(new)
                reordering.check_dependences(old, new)
            queues = [(inst, inst.queue) for inst in illegal[:3]]
            assert not illegal, f"core {new.rank}: schedule left instructions on queues that cannot run them: {queues}"


@dataclass(slots=True, eq=False, repr=False)
class _Block:
    """A basic block: its instructions on their queues, the numbers of these, and the estimates there."""

    instructions: list[Inst]
    queues: list[int]
    estimates: list[Estimate]
    graph: DependenceGraph | None


class _Scheduler:
    """Schedules a program block by block."""

    def __init__(self, core: CoreProgram, assignment: Assignment, reorder: bool) -> None:
        self.target = assignment.target
        self.graphs: list[DependenceGraph] = []
        """Of each basic block, in its new order."""
        self.blocks = _blocks(core, assignment, reorder)

    def body(self, body: Iterable[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for block in basic_blocks(body):
            if isinstance(block, list):
                result.extend(self.block(self.blocks.popleft()))
            else:
                result.append(replace(block, body=tuple(self.body(block.body))))
        return result

    def block(self, block: _Block) -> list[Inst]:
        instructions, graph = block.instructions, block.graph
        if graph is None:
            return instructions
        # A consumer cannot overtake further than the window is long.
        order = list_schedule(block.queues, block.estimates, graph.within(2 * WINDOW), self.target)
        self.graphs.append(graph if order is None else graph.permuted(order))
        return instructions if order is None else [instructions[number] for number in order]


def _blocks(core: CoreProgram, assignment: Assignment, reorder: bool) -> deque[_Block]:
    """All basic blocks of ``core``, with their graphs if they are to be reordered.

    They are found before the first one is scheduled, which needs much memory, as the alias classes do.
    """
    builder = GraphBuilder(core) if reorder else None
    numbers: dict[str, int] = {}
    blocks = deque[_Block]()
    for block in all_blocks(core.body):
        names, candidates = assignment.assign(block)
        assigned = _with_queues(block, names)
        queues = [numbers.setdefault(name, len(numbers)) for name in names]
        estimates = [candidate.estimate for candidate in candidates]
        blocks.append(_Block(assigned, queues, estimates, builder.graph(assigned, queues) if builder else None))
    return blocks


def in_program_order(scheduled: Program, before: Program) -> Program | None:
    """``scheduled`` with every queue in the order of ``before``, the program that the stage was given; None if it is in
    that order. It can be replayed and not run: its waits are the schedule's. So are its dependences, which are the same
    in both orders.
    """
    cores = [_core_in_order(*pair) for pair in zip(scheduled.cores, before.cores, strict=True)]
    same = all(new is old for new, old in zip(cores, scheduled.cores, strict=True))
    return None if same else scheduled.with_cores(cores)


def _core_in_order(core: CoreProgram, before: CoreProgram) -> CoreProgram:
    places = {inst.identity(): place for place, inst in enumerate(before.numbered)}
    orders: deque[list[int]] = deque()
    """Of each basic block, the numbers in the schedule of its instructions in program order."""
    for block in all_blocks(core.body):
        numbers = [places[inst.identity()] for inst in block]
        orders.append(sorted(range(len(block)), key=numbers.__getitem__))
    if all(order == list(range(len(order))) for order in orders):
        return core
    permuted = [graph.permuted(order) for graph, order in zip(dependence_graphs(core), orders, strict=True)]

    def body(statements: Iterable[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for block in basic_blocks(statements):
            if isinstance(block, list):
                result.extend(block[number] for number in orders.popleft())
            else:
                result.append(replace(block, body=tuple(body(block.body))))
        return result

    ordered = core.with_body(body(core.body))
    ordered.keep(DEPENDENCES, permuted)
    return ordered


def _with_queues(instructions: Sequence[Inst], queues: Sequence[str]) -> list[Inst]:
    """Each instruction on its queue: :meth:`Inst.with_schedule`, at two thirds of the price of the calls."""
    changes: dict[str, dict[str, str]] = {}
    result: list[Inst] = []
    new = object.__new__
    for inst, queue in zip(instructions, queues, strict=True):
        inst.identity()  # which the copy shares
        change = changes.get(queue)
        if change is None:
            change = changes[queue] = {"queue": queue}
        fresh = new(inst.__class__)
        fresh.__dict__ = inst.__dict__ | change
        result.append(fresh)
    return result
