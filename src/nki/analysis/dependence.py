"""Who has touched each atom of memory last, and thereby what an instruction depends on.

An instruction that reads an atom depends on its last writer; one that writes it on the last writer and on all that
have read it since. Of the readers on one queue only the last is kept, and a reader depends on the one before it on its
queue: readers of one place keep their order there. On a queue of its own every reader is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nki.analysis.memory_effects import Atoms, Footprint, Which, footprint
from nki.ir.instruction import Inst

Ids = NDArray[np.int64]


@dataclass(eq=False, slots=True)
class _Memory:
    """The same for a memory whose windows have many atoms: an array instead of a number for each."""

    size: int
    writer: Ids
    readers: dict[int, Ids] = field(default_factory=dict[int, Ids])

    def read(self, number: int, queue: int, atoms: Which, found: list[Ids]) -> None:
        found.append(self.writer[atoms].copy())
        mine = self.readers.get(queue)
        if mine is None:
            mine = self.readers[queue] = np.full(self.size, -1)
        found.append(mine[atoms].copy())
        mine[atoms] = number

    def write(self, number: int, atoms: Which, found: list[Ids]) -> None:
        found.append(self.writer[atoms].copy())
        for its in self.readers.values():
            found.append(its[atoms].copy())
            its[atoms] = -1
        self.writer[atoms] = number


class Frontier:
    """The last writer and readers of every atom. Instructions have numbers that grow; those below ``floor`` are left
    out of what is found.
    """

    def __init__(self, atoms: Atoms) -> None:
        self.floor = 0
        self._writer = [-1] * atoms.single
        self._readers: list[dict[int, int] | None] = [None] * atoms.single
        self._many = [_Memory(size, np.full(size, -1)) for size in atoms.many]

    @property
    def has_many(self) -> bool:
        """Whether there are windows of very many atoms."""
        return bool(self._many)

    def step(self, number: int, queue: int, footprint: Footprint) -> set[int]:
        """What instruction ``number``, on ``queue``, depends on; it is the last one to touch its atoms now."""
        found: set[int] = set()
        writers, readers = self._writer, self._readers
        for atom in footprint.reads:
            found.add(writers[atom])
            its = readers[atom]
            if its is None:
                readers[atom] = {queue: number}
            else:
                if queue in its:
                    found.add(its[queue])
                its[queue] = number
        for atom in footprint.writes:
            found.add(writers[atom])
            its = readers[atom]
            if its:
                found.update(its.values())
                readers[atom] = None
            writers[atom] = number
        found.discard(number)
        floor = self.floor
        if found and min(found) < floor:
            return {other for other in found if other >= floor}
        return found

    def step_many(self, number: int, queue: int, footprint: Footprint) -> list[Ids]:
        """The same for the windows of very many atoms, as it is found: numbers below ``floor`` too, and repeated."""
        found: list[Ids] = []
        for memory, atoms in footprint.many_reads:
            self._many[memory].read(number, queue, atoms, found)
        for memory, atoms in footprint.many_writes:
            self._many[memory].write(number, atoms, found)
        return found

    def all_of(self, number: int, queue: int, footprint: Footprint) -> set[int]:
        """What :meth:`step` and :meth:`step_many` find, down to ``floor``."""
        found = self.step(number, queue, footprint)
        if footprint.many_reads or footprint.many_writes:
            for ids in self.step_many(number, queue, footprint):
                found.update(ids[ids >= self.floor].tolist())
            found.discard(number)
        return found


class DependenceGraph:
    """Dependences among the instructions of one region, by their number in it.

    ``predecessors[i]`` are all instructions that ``i`` has to follow: producers and users of its data, and those of the
    edges that the program requests. ``chained[i]`` are the predecessors on the queue of ``i`` whose result it reads.
    """

    def __init__(self) -> None:
        self.predecessors: list[tuple[int, ...]] = []
        self.chained: list[tuple[int, ...]] = []


class GraphBuilder:
    """Builds the dependence graphs of a program's regions, one after the other in program order.

    ``horizon`` is the distance beyond which dependences are left out, because the consumer cannot overtake that far.
    """

    def __init__(self, atoms: Atoms, horizon: int) -> None:
        self._frontier = Frontier(atoms)
        self._horizon = horizon
        self._labels: dict[str, int] = {}
        self._first = 0

    def graph(self, instructions: Sequence[Inst], queues: Sequence[int]) -> DependenceGraph:
        """The graph of the next region, whose instructions run on ``queues``."""
        graph = DependenceGraph()
        frontier, labels, first = self._frontier, self._labels, self._first
        predecessors, chained = graph.predecessors, graph.chained
        effects = [footprint(inst) for inst in instructions]
        for number, inst in enumerate(instructions):
            frontier.floor = first + max(0, number - self._horizon)
            queue, effect = queues[number], effects[number]
            producers = frontier.all_of(first + number, queue, effect)
            if inst.after:
                producers.update(p for label in inst.after if (p := labels.get(label, -1)) >= first)
            if inst.label:
                labels[inst.label] = first + number
            numbers = tuple([producer - first for producer in producers] if first else producers)
            predecessors.append(numbers)
            chained.append(tuple([p for p in numbers if queues[p] == queue and _reads_from(effect, effects[p])]))
        self._first += len(instructions)
        return graph


def _reads_from(consumer: Footprint, producer: Footprint) -> bool:
    """Test if ``consumer`` reads an atom that ``producer`` writes; of memories with very many atoms, any."""
    reads = consumer.reads
    for atom in producer.writes:
        if atom in reads:
            return True
    if producer.many_writes and consumer.many_reads:
        return not {memory for memory, _ in producer.many_writes}.isdisjoint(m for m, _ in consumer.many_reads)
    return False
