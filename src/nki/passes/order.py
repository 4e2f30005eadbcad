"""Stage ``order``: a program order that keeps both the dependences of the data and the edges that the user requests.

Instructions depend on each other where one writes bytes that the other reads or writes, and where ``after`` says so. An
edge may request that an instruction is complete before an earlier one begins; this stage then delays the earlier one,
where the data allow it. After this stage every instruction follows all instructions that it depends on.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from nki.analysis.access_classes import AccessClasses
from nki.analysis.reaching_accesses import ReachingAccesses
from nki.base import knobs
from nki.base.errors import ScheduleCycleError
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions, with_numbers
from nki.ir.ordering import Edge, display_name, edges
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Tensor
from nki.passes import reordering
from nki.target.model import Target

Drawn = Sequence[tuple[int, int, Edge]]
"""Edges that the program requests, behind the numbers of consumer and producer."""


@dataclass(frozen=True)
class Order(CoreStage):
    """Stage ``order``."""

    name: ClassVar[str] = "order"

    def concerns(self, program: Program) -> bool:
        """False if the program requests no edges: then its order is kept."""
        return any(core.has_edges for core in program.cores)

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with its statements in an order that obeys all edges; program order if that does.

        Raises :class:`ScheduleCycleError` if no order obeys them; StructureError or ScheduleScopeError for illegal
        edges, which only the text form can contain.
        """
        return core.with_body(_ordered(core, core.body, 0, edges(core.body)))

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Each core keeps its instructions, and each instruction follows those that its edges name.

        ``OPEN_NKI_CHECK_STAGES=1`` also checks that the dependences of ``before`` are kept.
        """
        for old, new in zip(before.cores, after.cores, strict=True):
            reordering.check_same_instructions(old, new)
            reordering.check_edges(new)
            if knobs.check_stages():
                reordering.check_dependences(old, new)


def _ordered(core: CoreProgram, body: Sequence[Statement], first: int, drawn: Drawn) -> tuple[Statement, ...]:
    """``body`` in an order that obeys the edges ``drawn``, and the bodies of its loops likewise.

    ``first`` is the dense number of the first instruction. An edge connects two statements of the body, by their
    position in it, or two instructions of one loop.
    """
    if not drawn:
        return tuple(body)
    starts = [number for number, _ in with_numbers(body, first)]
    extra: list[tuple[int, int, Edge]] = []
    inside: dict[int, list[tuple[int, int, Edge]]] = {}
    for consumer, producer, edge in drawn:
        one, two = bisect_right(starts, consumer) - 1, bisect_right(starts, producer) - 1
        if one == two:
            inside.setdefault(one, []).append((consumer, producer, edge))
        else:
            extra.append((one, two, edge))
    order: Iterable[int] = range(len(body))
    if any(consumer < producer for consumer, producer, _ in extra):
        order = _sorted(body, dependences(core, body), extra)
    statements = list(body)
    for position, edges_inside in inside.items():
        loop = statements[position]
        assert not isinstance(loop, Inst)
        statements[position] = replace(loop, body=_ordered(core, loop.body, starts[position], edges_inside))
    return tuple(statements[position] for position in order)


def dependences(core: CoreProgram, body: Sequence[Statement]) -> list[set[int]]:
    """Numbers of the earlier statements that each statement depends on by data, without those that others imply.

    A loop is one statement: it accesses all that its body accesses, its counter, its bounds and its condition.
    """
    reaching = ReachingAccesses(AccessClasses(core))
    result: list[set[int]] = []
    if not any(tensor.buffer is Buffer.register for tensor in core.tensors):  # as of most kernels: they have no loops
        straight = [statement for statement in body if isinstance(statement, Inst)]
        found = reaching.visit_each(0, range(len(straight)), straight)
        return [{*results, *others} for results, others, _ in found]
    registers = _Registers()
    for number, statement in enumerate(body):
        if isinstance(statement, Inst):
            result.append(registers.step(number, statement).union(*reaching.visit(number, number, statement)))
            continue
        producers: set[int] = set()
        for inst in instructions(statement.body):
            producers.update(*reaching.visit(number, number, inst))
        result.append((producers | registers.step(number, statement)) - {number})
    return result


class _Registers:
    """Dependences through the registers that loops use themselves, which no instruction's memory effects show."""

    def __init__(self) -> None:
        self.writer: dict[Tensor, int] = {}
        self.readers: dict[Tensor, set[int]] = {}

    def step(self, number: int, statement: Statement) -> set[int]:
        producers: set[int] = set()
        reads, writes = _registers(statement)
        for tensor in reads:
            if tensor in self.writer:
                producers.add(self.writer[tensor])
            self.readers.setdefault(tensor, set()).add(number)
        for tensor in writes:
            producers |= self.readers.pop(tensor, set())
            if tensor in self.writer:
                producers.add(self.writer[tensor])
            self.writer[tensor] = number
        return producers - {number}


def _registers(statement: Statement) -> tuple[set[Tensor], set[Tensor]]:
    """The registers that a statement reads and writes."""
    if isinstance(statement, Inst):
        reads = {a.tensor for a in statement.reads() if _is_scalar(a)}
        return reads, {a.tensor for a in statement.writes() if _is_scalar(a)}
    reads = {a.tensor for a in statement.reads()}
    writes = {statement.register.tensor}
    for inner in statement.body:
        more_reads, more_writes = _registers(inner)
        reads |= more_reads
        writes |= more_writes
    return reads, writes


def _is_scalar(access: Access) -> bool:
    return access.buffer.word == "register"


def _sorted(body: Sequence[Statement], producers: list[set[int]], extra: list[tuple[int, int, Edge]]) -> list[int]:
    """The numbers of the statements in topological order, by program order where that leaves a choice."""
    consumers: list[list[int]] = [[] for _ in body]
    missing = [0] * len(body)
    predecessors = [set(numbers) for numbers in producers]
    for consumer, producer, _ in extra:
        predecessors[consumer].add(producer)
    for consumer, numbers in enumerate(predecessors):
        missing[consumer] = len(numbers)
        for producer in numbers:
            consumers[producer].append(consumer)
    ready = [i for i, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for consumer in consumers[i]:
            missing[consumer] -= 1
            if not missing[consumer]:
                heapq.heappush(ready, consumer)
    if len(order) < len(body):
        raise _cycle(body, predecessors, extra, {i for i, count in enumerate(missing) if count})
    return order


def _cycle(
    body: Sequence[Statement], predecessors: list[set[int]], extra: list[tuple[int, int, Edge]], stuck: set[int]
) -> ScheduleCycleError:
    """The error for a cycle among the statements ``stuck``: each has a predecessor in it."""
    at = min(stuck)
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = min(producer for producer in predecessors[at] if producer in stuck)
    circle = [*path[path.index(at) :], at]
    drawn = {(consumer, producer): edge for consumer, producer, edge in extra}
    steps = [
        f"{_words(body[a])} {'is to come after' if (a, b) in drawn else 'uses the data of'} {_words(body[b])}"
        for a, b in pairwise(circle)
    ]
    edge = next(drawn[pair] for pair in pairwise(circle) if pair in drawn)
    error = ScheduleCycleError(
        f"no order of the instructions obeys the schedule: {', and '.join(steps)}",
        fix="leave out an edge of the circle",
    )
    error.at(edge.consumer.where.span, edge.consumer.where.stack)
    return error


def _words(statement: Statement) -> str:
    if isinstance(statement, Inst):
        return display_name(statement)
    span = statement.where.span
    return "the run-time loop" + (f" of line {span.line}" if span else "")


__all__ = ["Order", "dependences"]
