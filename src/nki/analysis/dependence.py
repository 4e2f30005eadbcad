"""Last writer and readers of every alias class; gives the RAW, WAR and WAW dependences of an instruction.

An instruction that reads a class depends on the last writer of the class (RAW). An instruction that writes a class
depends on the last writer (WAW) and on every reader since (WAR). Of the readers on one queue only the last is kept, and
a reader depends on the reader before it on the same queue: readers of one place keep their order on a queue. A caller
that gives each instruction a queue of its own keeps every reader. Who comes to a class that nobody has written yet
depends on the users of its bytes before (:attr:`AccessClasses.before`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_classes import AccessClasses, ClassIndex
from nki.ir.instruction import Inst
from nki.ir.loop import all_blocks
from nki.ir.program import CoreProgram
from nki.ir.types import Access

Ids = NDArray[np.int64]


class _LargeMemory:
    """Last writer and readers of a memory whose accesses have many classes: arrays over its classes."""

    def __init__(self, size: int) -> None:
        self.writer: Ids = np.full(size, -1)
        self.rows: dict[int, int] = {}
        """Row of each queue in ``readers``."""
        self.readers: Ids = np.full((1, size), -1)

    def read(self, number: int, queue: int, classes: ClassIndex) -> tuple[Ids, Ids]:
        """The last writer of each class, and its last reader on the queue; the arrays may have -1."""
        writers = self.writer[classes].copy()
        row = self.rows.setdefault(queue, len(self.rows))
        if row == len(self.readers):
            self.readers = np.concatenate((self.readers, np.full_like(self.readers, -1)))
        last_reader = self.readers[row]
        readers = last_reader[classes].copy()
        last_reader[classes] = number
        return writers, readers

    def write(self, number: int, classes: ClassIndex) -> tuple[Ids, Ids]:
        """The last writer of each class, and all readers since."""
        writers, readers = self.writer[classes].copy(), self.writer[:0]
        if self.rows:
            readers = self.readers[: len(self.rows), classes]  # of all queues at once: most have read nothing of it
            readers = readers[readers >= 0]
            self.readers[: len(self.rows), classes] = -1
        self.writer[classes] = number
        return writers, readers


class ReachingAccesses:
    """Last writer and readers of every alias class, while instructions are visited in program order.

    Instructions have increasing numbers. Dependences on numbers below ``floor`` are not reported.
    """

    def __init__(self, classes: AccessClasses) -> None:
        self.floor = 0
        self.classes = classes
        self._writer = [-1] * classes.count
        self._readers: list[dict[int, int] | None] = [None] * classes.count
        self._large = [_LargeMemory(size) for size in classes.large_sizes]

    def visit(self, number: int, queue: int, inst: Inst) -> tuple[set[int], set[int]]:
        """Producers of instruction ``number`` on ``queue``, which becomes the last access to its classes: those whose
        results it reads, and others. A producer may be in both sets.
        """
        return next(self.visit_each(number, (queue,), (inst,)))

    def visit_each(
        self, first: int, queues: Iterable[int], instructions: Iterable[Inst]
    ) -> Iterator[tuple[set[int], set[int]]]:
        """:meth:`visit` instructions one after the other, whose numbers begin with ``first``."""
        classes, floor, writers, readers = self.classes, self.floor, self._writer, self._readers
        small, before, has_runtime_index = classes.small, classes.before, classes.has_runtime_index
        for number, (queue, inst) in enumerate(zip(queues, instructions, strict=True), first):
            results: set[int] = set()
            others: set[int] = set()
            earlier: list[int] = []
            reads, changes = classes.reads(inst) if has_runtime_index else inst.read_operands(), inst.changes()
            for access in reads:
                for alias_class in small[access]:
                    producer = writers[alias_class]
                    if producer >= floor:
                        results.add(producer)
                    elif producer < 0 and alias_class in before:
                        results.update([p for each in before[alias_class] if (p := writers[each]) >= floor])
                    by_queue = readers[alias_class]
                    if by_queue is None:
                        readers[alias_class] = {queue: number}
                    else:
                        producer = by_queue.get(queue, -1)
                        if producer >= floor:
                            others.add(producer)
                        by_queue[queue] = number
            if inst.effects.external:
                self._write(0, number, others)
            for access in changes:
                for alias_class in small[access]:
                    producer = writers[alias_class]
                    if producer >= floor:
                        others.add(producer)
                    elif producer < 0 and alias_class in before:
                        earlier += before[alias_class]
                    by_queue = readers[alias_class]
                    if by_queue is not None:
                        for producer in by_queue.values():
                            if producer >= floor:
                                others.add(producer)
                        readers[alias_class] = None
                    writers[alias_class] = number
            for alias_class in set(earlier) if earlier else ():
                producer = writers[alias_class]
                if producer >= floor:
                    others.add(producer)
                by_queue = readers[alias_class]
                if by_queue is not None:
                    for producer in by_queue.values():
                        if producer >= floor:
                            others.add(producer)
            if self._large:
                self._visit_large(number, queue, reads, changes, results, others)
            others.discard(number)
            results.discard(number)
            yield results, others

    def _write(self, alias_class: int, number: int, producers: set[int]) -> None:
        self._add_users(alias_class, producers)
        self._writer[alias_class], self._readers[alias_class] = number, None

    def _add_users(self, alias_class: int, producers: set[int]) -> None:
        """Add the last writer of a class, and its readers since."""
        users = (self._writer[alias_class], *(self._readers[alias_class] or {}).values())
        producers.update(user for user in users if user >= self.floor)

    def _visit_large(
        self,
        number: int,
        queue: int,
        reads: Sequence[Access],
        changes: Sequence[Access],
        results: set[int],
        others: set[int],
    ) -> None:
        floor, large = self.floor, self.classes.large
        for access in reads:
            if access in large:
                memory, classes = large[access]
                for ids, producers in zip(
                    self._large[memory].read(number, queue, classes), (results, others), strict=True
                ):
                    producers.update(ids[ids >= floor].tolist())
        for access in changes:
            if access in large:
                memory, classes = large[access]
                for ids in self._large[memory].write(number, classes):
                    others.update(ids[ids >= floor].tolist())


class DependenceGraph:
    """Dependences among the instructions of one basic block, by their number in it.

    ``predecessors[i]`` are all instructions that ``i`` has to follow: producers and users of its data, and those of the
    edges that the program requests. ``chained[i]`` are the predecessors on the queue of ``i`` whose result it reads.
    """

    __slots__ = ("chained", "predecessors")

    def __init__(self) -> None:
        self.predecessors: list[tuple[int, ...]] = []
        self.chained: list[tuple[int, ...]] = []

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
        graph.predecessors = [tuple([position[p] for p in self.predecessors[old]]) for old in order]
        chained = self.chained
        graph.chained = [tuple([position[p] for p in chained[old]]) if chained[old] else () for old in order]
        return graph


class GraphBuilder:
    """Builds the dependence graphs of a program's basic blocks, one after the other in program order."""

    def __init__(self, classes: AccessClasses) -> None:
        self._reaching = ReachingAccesses(classes)
        self._labels: dict[str, int] = {}
        self._first = 0

    def graph(self, instructions: Sequence[Inst], queues: Sequence[int]) -> DependenceGraph:
        """The graph of the next block, whose instructions run on ``queues``."""
        graph = DependenceGraph()
        labels = self._labels
        predecessors, chained = graph.predecessors, graph.chained
        first = self._reaching.floor = self._first
        found = self._reaching.visit_each(first, queues, instructions)
        for number, (inst, queue, (results, producers)) in enumerate(zip(instructions, queues, found, strict=True)):
            if results:
                on_queue = [p - first for p in results if queues[p - first] == queue]
                chained.append(tuple(on_queue) if on_queue else ())
                producers |= results
            else:
                chained.append(())
            if inst.ordered_after:
                producers.update(p for label in inst.ordered_after if (p := labels.get(label, -1)) >= first)
            if inst.label:
                labels[inst.label] = first + number
            predecessors.append(tuple([p - first for p in producers] if first else producers) if producers else ())
        self._first += len(instructions)
        return graph


def dependence_graphs(core: CoreProgram) -> list[DependenceGraph]:
    """The graphs of the basic blocks of a core whose instructions have queues, in program order; kept with ``core``."""
    if core.dependences is None:
        numbers: dict[str, int] = {}
        queues = [numbers.setdefault(inst.queue, len(numbers)) for inst in core.numbered]
        builder = GraphBuilder(AccessClasses(core))
        first = 0
        graphs: list[DependenceGraph] = []
        for block in all_blocks(core.body):
            graphs.append(builder.graph(block, queues[first : first + len(block)]))
            first += len(block)
        core.dependences = graphs
    return core.dependences
