"""Last writer and readers of every alias class; gives the RAW, WAR and WAW dependences of an instruction.

An instruction that reads a class depends on the last writer of the class (RAW). An instruction that writes a class
depends on the last writer (WAW) and on every reader since (WAR). Of the readers on one queue only the last is kept, and
a reader depends on the reader before it on the same queue: readers of one place keep their order on a queue. A caller
that gives each instruction a queue of its own keeps every reader.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nki.analysis.memory_effects import AliasClasses, ClassIndex, MemoryEffects
from nki.ir.instruction import Inst

Ids = NDArray[np.int64]


class _LargeMemory:
    """Last writer and readers of a memory whose accesses have many classes: arrays over its classes."""

    def __init__(self, size: int) -> None:
        self.writer: Ids = np.full(size, -1)
        self.rows: dict[int, int] = {}
        """Row of each queue in ``readers``."""
        self.readers: Ids = np.full((1, size), -1)

    def read(self, number: int, queue: int, classes: ClassIndex, producers: list[Ids]) -> None:
        producers.append(self.writer[classes].copy())
        row = self.rows.setdefault(queue, len(self.rows))
        if row == len(self.readers):
            self.readers = np.concatenate((self.readers, np.full_like(self.readers, -1)))
        last_reader = self.readers[row]
        producers.append(last_reader[classes].copy())
        last_reader[classes] = number

    def write(self, number: int, classes: ClassIndex, producers: list[Ids]) -> None:
        producers.append(self.writer[classes].copy())
        if self.rows:
            readers = self.readers[: len(self.rows), classes]  # of all queues at once: most have read nothing of it
            producers.append(readers[readers >= 0])
            self.readers[: len(self.rows), classes] = -1
        self.writer[classes] = number


class ReachingAccesses:
    """Last writer and readers of every alias class, while instructions are visited in program order.

    Instructions have increasing numbers. Dependences on numbers below ``floor`` are not reported.
    """

    def __init__(self, classes: AliasClasses) -> None:
        self.floor = 0
        self._writer = [-1] * classes.count
        self._readers: list[dict[int, int] | None] = [None] * classes.count
        self._large = [_LargeMemory(size) for size in classes.large]

    @property
    def has_large_memories(self) -> bool:
        """True if some memory's accesses have many classes (:attr:`MemoryEffects.large_reads`)."""
        return bool(self._large)

    def visit(self, number: int, queue: int, effects: MemoryEffects) -> set[int]:
        """Producers of instruction ``number`` on ``queue``, which becomes the last access to its classes.

        Large memories are left out; :meth:`visit_large` gives their producers.
        """
        producers: set[int] = set()
        add, floor = producers.add, self.floor
        writers, readers = self._writer, self._readers
        for alias_class in effects.reads:
            producer = writers[alias_class]
            if producer >= floor:
                add(producer)
            by_queue = readers[alias_class]
            if by_queue is None:
                readers[alias_class] = {queue: number}
            else:
                producer = by_queue.get(queue, -1)
                if producer >= floor:
                    add(producer)
                by_queue[queue] = number
        for alias_class in effects.writes:
            producer = writers[alias_class]
            if producer >= floor:
                add(producer)
            by_queue = readers[alias_class]
            if by_queue is not None:
                for producer in by_queue.values():
                    if producer >= floor:
                        add(producer)
                readers[alias_class] = None
            writers[alias_class] = number
        producers.discard(number)
        return producers

    def visit_large(self, number: int, queue: int, effects: MemoryEffects) -> list[Ids]:
        """Producers through large memories, as arrays that may repeat numbers and hold numbers below ``floor``."""
        producers: list[Ids] = []
        for memory, classes in effects.large_reads:
            self._large[memory].read(number, queue, classes, producers)
        for memory, classes in effects.large_writes:
            self._large[memory].write(number, classes, producers)
        return producers

    def visit_all(self, number: int, queue: int, effects: MemoryEffects) -> set[int]:
        """Producers through all memories, down to ``floor``: :meth:`visit` and :meth:`visit_large`."""
        producers = self.visit(number, queue, effects)
        if effects.large_reads or effects.large_writes:
            for ids in self.visit_large(number, queue, effects):
                producers.update(ids[ids >= self.floor].tolist())
            producers.discard(number)
        return producers


class DependenceGraph:
    """Dependences among the instructions of one basic block, by their number in it.

    ``predecessors[i]`` are all instructions that ``i`` has to follow: producers and users of its data, and those of the
    edges that the program requests. ``chained[i]`` are the predecessors on the queue of ``i`` whose result it reads.
    """

    def __init__(self) -> None:
        self.predecessors: list[tuple[int, ...]] = []
        self.chained: list[tuple[int, ...]] = []


class GraphBuilder:
    """Builds the dependence graphs of a program's basic blocks, one after the other in program order.

    ``horizon`` is the distance beyond which dependences are left out, because the consumer cannot overtake that far.
    """

    def __init__(self, classes: AliasClasses, horizon: int) -> None:
        self._reaching = ReachingAccesses(classes)
        self._horizon = horizon
        self._labels: dict[str, int] = {}
        self._first = 0

    def graph(self, instructions: Sequence[Inst], queues: Sequence[int]) -> DependenceGraph:
        """The graph of the next block, whose instructions run on ``queues``."""
        graph = DependenceGraph()
        reaching, labels, first = self._reaching, self._labels, self._first
        predecessors, chained = graph.predecessors, graph.chained
        effects: list[MemoryEffects] = [inst.memory_effects for inst in instructions]
        horizon, has_large = self._horizon, reaching.has_large_memories
        visit = reaching.visit_all if has_large else reaching.visit
        for number, inst in enumerate(instructions):
            if number > horizon:
                reaching.floor = first + number - horizon
            elif not number:
                reaching.floor = first
            queue, effect = queues[number], effects[number]
            producers = visit(first + number, queue, effect)
            if inst.ordered_after:
                producers.update(p for label in inst.ordered_after if (p := labels.get(label, -1)) >= first)
            if inst.label:
                labels[inst.label] = first + number
            if not producers:
                predecessors.append(())
                chained.append(())
                continue
            numbers = tuple([producer - first for producer in producers] if first else producers)
            predecessors.append(numbers)
            on_queue = [p for p in numbers if queues[p] == queue]
            chained.append(tuple([p for p in on_queue if _reads_from(effect, effects[p])]) if on_queue else ())
        self._first += len(instructions)
        return graph


def _reads_from(consumer: MemoryEffects, producer: MemoryEffects) -> bool:
    """Test if ``consumer`` reads a class that ``producer`` writes; any class of a large memory."""
    reads = consumer.reads
    for alias_class in producer.writes:
        if alias_class in reads:
            return True
    if producer.large_writes and consumer.large_reads:
        return not {memory for memory, _ in producer.large_writes}.isdisjoint(m for m, _ in consumer.large_reads)
    return False
