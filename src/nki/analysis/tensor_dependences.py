"""Dependences as they are if a device, or its compiler, keeps them by tensor and not by the bytes that are used.

A write of one slice of a tensor on chip then waits until all slices are written and read, and a read waits for the last
write of any slice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nki.analysis.dependence import DEPENDENCES, DependenceGraph, dependence_graphs
from nki.ir.instruction import Inst
from nki.ir.loop import all_blocks
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from nki.ir.windows import may_overlap


def by_tensor(program: Program) -> tuple[Program, dict[Tensor, int]]:
    """``program``, with queues, where dependences are by tensor; and of each tensor on chip the number of instructions
    that wait for an instruction of another queue for this alone. It can be replayed and not run: its waits are others.
    """
    waiting: dict[Tensor, int] = {}
    cores: list[CoreProgram] = []
    for core in program.cores:
        graphs = [
            _added(block, graph, waiting)
            for block, graph in zip(all_blocks(core.body), dependence_graphs(core), strict=True)
        ]
        changed = core.with_body(core.body)
        changed.keep(DEPENDENCES, graphs)
        cores.append(changed)
    return program.with_cores(cores), waiting


def _added(instructions: Sequence[Inst], graph: DependenceGraph, waiting: dict[Tensor, int]) -> DependenceGraph:
    """The ``graph`` of a block with dependences by tensor on top of its own; ``waiting`` counts them."""
    predecessors = list(graph.predecessors)
    writer: dict[Tensor, tuple[int, list[Access]]] = {}
    readers: defaultdict[Tensor, list[tuple[int, list[Access]]]] = defaultdict(list)
    for number, inst in enumerate(instructions):
        written, read = _by_tensor(inst.writes()), _by_tensor((*inst.reads(), *inst.indexed_by()))
        more: set[int] = set()
        for tensor in written | read:
            before = [writer[tensor]] if tensor in writer else []
            if tensor in written:
                before += readers[tensor]
            own = [*written.get(tensor, ()), *read.get(tensor, ())]
            apart = {other for other, theirs in before if not any(may_overlap(a, b) for a in own for b in theirs)}
            more |= apart
            if any(instructions[other].queue != inst.queue for other in apart):
                waiting[tensor] = waiting.get(tensor, 0) + 1
        if more:
            predecessors[number] = (*predecessors[number], *sorted(more.difference(predecessors[number])))
        for tensor, accesses in read.items():
            readers[tensor].append((number, accesses))
        for tensor, accesses in written.items():
            writer[tensor], readers[tensor] = (number, accesses), []
    return DependenceGraph.of(predecessors, graph.chained)


def _by_tensor(accesses: Iterable[Access]) -> dict[Tensor, list[Access]]:
    """The ``accesses`` of each tensor on chip."""
    result: dict[Tensor, list[Access]] = {}
    for access in accesses:
        if access.buffer.on_chip:
            result.setdefault(access.tensor, []).append(access)
    return result
