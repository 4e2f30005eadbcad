"""Dependences of instructions as a graph, for each basic block of a core.

What an instruction depends on by its data is what :mod:`nki.analysis.reaching_accesses` finds; the edges that a program
requests come on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from nki.analysis.access_classes import AccessClasses
from nki.analysis.reaching_accesses import MOST_SETS, ReachingAccesses
from nki.ir.instruction import Inst
from nki.ir.loop import all_blocks
from nki.ir.program import AnalysisResult, CoreProgram

_FEW = 4
"""Dependences of an instruction up to which it is no use to look for others with the same ones."""


class DependenceGraph:
    """Dependences among the instructions of one basic block, by their number in it.

    ``predecessors[i]`` are the instructions that ``i`` has to follow, directly or as predecessors of others: producers
    and users of its data, and producers of the edges that the program requests. ``chained[i]`` are the predecessors on
    the queue of ``i`` with a result that it reads.
    """

    __slots__ = ("chained", "predecessors")

    def __init__(self) -> None:
        self.predecessors: list[tuple[int, ...]] = []
        self.chained: list[tuple[int, ...]] = []

    @classmethod
    def of(cls, predecessors: Sequence[Sequence[int]], chained: Sequence[tuple[int, ...]]) -> DependenceGraph:
        """The graph with these dependences."""
        graph = cls()
        graph.predecessors, graph.chained = list(map(tuple, predecessors)), list(chained)
        return graph

    def within(self, distance: int) -> DependenceGraph:
        """The graph without dependences over more than ``distance`` instructions."""
        near = DependenceGraph()
        near.predecessors, near.chained = list(self.predecessors), list(self.chained)
        for number in range(distance + 1, len(near.predecessors)):
            numbers = near.predecessors[number]
            least = number - distance
            if numbers and min(numbers) < least:
                near.predecessors[number] = tuple([p for p in numbers if p >= least])
                near.chained[number] = tuple([p for p in near.chained[number] if p >= least])
        return near

    def permuted(self, order: Sequence[int]) -> DependenceGraph:
        """The graph of the same instructions in ``order``, which keeps all dependences."""
        position = [0] * len(order)
        for new, old in enumerate(order):
            position[old] = new
        graph = DependenceGraph()
        moved: dict[int, tuple[int, ...]] = {}
        for old in order:
            numbers = self.predecessors[old]
            if len(numbers) <= _FEW:
                graph.predecessors.append(tuple([position[p] for p in numbers]))
                continue
            at = id(numbers)  # instructions with the same ones share a tuple
            if at not in moved:
                moved[at] = tuple([position[p] for p in numbers])
            graph.predecessors.append(moved[at])
        chained = self.chained
        graph.chained = [tuple([position[p] for p in chained[old]]) if chained[old] else () for old in order]
        return graph


DEPENDENCES: Final = AnalysisResult[list[DependenceGraph]]("dependences")
"""The graph of each basic block; stages that keep the instructions and their order pass them on."""


class GraphBuilder:
    """Builds the dependence graphs of a program's basic blocks, one after the other in program order."""

    def __init__(self, core: CoreProgram) -> None:
        self._reaching = ReachingAccesses(AccessClasses(core))
        self._has_edges = core.has_edges
        self._labels: dict[str, int] = {}
        self._first = 0

    def graph(self, instructions: Sequence[Inst], queues: Sequence[int]) -> DependenceGraph:
        """The graph of the next block, with instructions that run on ``queues``."""
        graph = DependenceGraph()
        predecessors, chained = graph.predecessors, graph.chained
        first = self._reaching.floor = self._first
        found = self._reaching.visit_each(first, queues, instructions)
        known: dict[object, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for queue, (results, producers, is_shared) in zip(queues, found, strict=True):
            on_queue: tuple[int, ...] = ()
            if is_shared:
                # Accesses in turns to the views of a tile have the same dependences, and get the same tuples.
                key = queue, frozenset(results), frozenset(producers)
                both = known.get(key)
                if both is None:
                    if len(known) >= MOST_SETS:
                        known.clear()
                    both = known[key] = self._numbers(results, producers, queue, queues)
                chained.append(both[0])
                predecessors.append(both[1])
                continue
            for producer in results:
                if queues[producer - first] == queue:
                    on_queue = (*on_queue, producer - first)
            producers |= results
            chained.append(on_queue)
            predecessors.append(tuple([p - first for p in producers] if first else producers))
        if self._has_edges:
            self._add_edges(graph, instructions)
        self._first += len(instructions)
        return graph

    def _numbers(
        self, results: AbstractSet[int], others: AbstractSet[int], queue: int, queues: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers in the block of those ``results`` that are on ``queue``, and of all producers."""
        first, producers = self._first, set(others)
        producers |= results
        on_queue = tuple([p - first for p in results if queues[p - first] == queue])
        return on_queue, tuple([p - first for p in producers] if first else producers)

    def _add_edges(self, graph: DependenceGraph, instructions: Sequence[Inst]) -> None:
        """Add the edges that the program requests in the next block."""
        first, labels = self._first, self._labels
        for number, inst in enumerate(instructions):
            wanted = [p - first for label in inst.ordered_after if (p := labels.get(label, -1)) >= first]
            graph.predecessors[number] = tuple({*graph.predecessors[number], *wanted})
            if inst.label:
                labels[inst.label] = first + number


def dependence_graphs(core: CoreProgram) -> list[DependenceGraph]:
    """The graphs of the basic blocks of a core with queues at its instructions, in program order, kept with it."""
    known = core.result(DEPENDENCES)
    if known is not None:
        return known
    _, queues = queue_numbers(core)
    builder = GraphBuilder(core)
    first = 0
    graphs: list[DependenceGraph] = []
    for block in all_blocks(core.body):
        graphs.append(builder.graph(block, queues[first : first + len(block)]))
        first += len(block)
    return core.keep(DEPENDENCES, graphs)


def queue_numbers(core: CoreProgram) -> tuple[list[str], list[int]]:
    """The queues of a core in the order of their first instructions, and the number in that list of every
    instruction's queue, by its dense number.
    """
    of_each = [inst.queue for inst in core.numbered]
    numbers = {queue: number for number, queue in enumerate(dict.fromkeys(of_each))}
    return list(numbers), [numbers[queue] for queue in of_each]
