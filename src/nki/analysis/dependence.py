"""Last writer and readers of every alias class; gives the RAW, WAR and WAW dependences of an instruction.

An instruction that reads a class depends on the last writer of the class (RAW). An instruction that writes a class
depends on every reader since (WAR), each of which depends on the last writer; without a reader, on the last writer
itself (WAW). Of the readers on one queue only the last is kept, and a reader depends on the reader before it on the
same queue: readers of one place keep their order on a queue. A caller that gives each instruction a queue of its own
keeps every reader. Who comes to a class that nobody has written yet depends on the users of its bytes before
(:attr:`AccessClasses.before`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_classes import NO_CLASSES, AccessClasses, ClassIndex
from nki.ir.instruction import Inst
from nki.ir.loop import all_blocks
from nki.ir.program import CoreProgram
from nki.ir.types import Access

Ids = NDArray[np.int64]
_MOST_SETS = 256
"""Sets of instructions that are kept, to be found again."""
_NOBODY: frozenset[int] = frozenset()
_NO_USERS: tuple[int, ...] = ()
_FEW = 4
"""Dependences of an instruction up to which it is no use to look for others with the same ones."""


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
        self._reader = [-1] * classes.count
        """The last reader of each class since it was written, on the queue that read it first; -1: nobody did."""
        self._queue_of: dict[int, int] = {}
        """The queue of each instruction."""
        self._more_readers: dict[int, dict[int, int]] = {}
        """Of classes that several queues have read: the last reader on each other queue. Few have any."""
        self._users: dict[int, tuple[int, ...]] = {}
        """By the ``id`` of a tuple of :attr:`AccessClasses.before`: the last users of its classes."""
        self._sets: dict[tuple[int, int, int], tuple[list[int], frozenset[int], int]] = {}
        """Lists of instructions, and results of :meth:`_distinct` for them in this block, by first, last and length."""
        self._large = [_LargeMemory(size) for size in classes.large_sizes]

    def visit(self, number: int, queue: int, inst: Inst) -> tuple[set[int], set[int]]:
        """Producers of instruction ``number`` on ``queue``, which becomes the last access to its classes: those whose
        results it reads, and others. A producer may be in both sets; one that another producer depends on may be left
        out.
        """
        results, others, _ = next(self.visit_each(number, (queue,), (inst,)))
        return results, others

    def visit_each(
        self, first: int, queues: Iterable[int], instructions: Iterable[Inst]
    ) -> Iterator[tuple[set[int], set[int], bool]]:
        """:meth:`visit` instructions one after the other, whose numbers begin with ``first``; True with sets that may
        be frozen, because other instructions have them too.
        """
        classes, floor, writers, readers = self.classes, self.floor, self._writer, self._reader
        self._sets.clear()
        small, before, has_runtime_index = classes.small, classes.before, classes.has_runtime_index
        twins, follows = classes.twins, bool(self._large)
        queue_of, more_readers = self._queue_of, self._more_readers
        for number, (queue, inst) in enumerate(zip(queues, instructions, strict=True), first):
            queue_of[number] = queue
            results: set[int] = set()
            others: set[int] = set()
            known, is_shared = _NO_USERS, False
            reads, changes = classes.reads(inst) if has_runtime_index else inst.read_operands(), inst.changes()
            for access in reads:
                of = small.get(access, NO_CLASSES)
                if type(of) is range and (found := self._reads_at_once(number, queue, of, others)) is not None:
                    results, is_shared = _joined(results, (found,), number, access, reads), True
                    continue
                for alias_class in of:
                    producer, reader = writers[alias_class], readers[alias_class]
                    if producer >= floor:
                        results.add(producer)
                    elif producer < 0:
                        results.update([p for each in classes.earlier(alias_class) if (p := writers[each]) >= floor])
                    if reader < 0 or queue_of[reader] == queue:
                        readers[alias_class] = number
                        if reader >= floor:
                            others.add(reader)
                    else:
                        self._reads_beside(number, queue, alias_class, others)
            for access in changes:
                of = small.get(access, NO_CLASSES)
                if type(of) is range and (several := self._writes_at_once(number, of)) is not None:
                    others, is_shared = _joined(others, several, number, access, changes), True
                    continue
                for alias_class in of:
                    producer = writers[alias_class]
                    if producer < 0:
                        if (twin := twins[alias_class]) >= 0:
                            if (user := readers[twin]) >= floor or (user < 0 and (user := writers[twin]) >= floor):
                                others.add(user)
                            if twin in more_readers:
                                others.update([p for p in more_readers[twin].values() if p >= floor])
                        elif (olds := before.get(alias_class, known)) is not known:  # neighbours often share a tuple
                            others.update(self._last_users(known := olds))
                    writers[alias_class], reader = number, readers[alias_class]
                    if reader >= 0:
                        if reader >= floor:
                            others.add(reader)
                        readers[alias_class] = -1
                        if alias_class in more_readers:
                            others.update([p for p in more_readers.pop(alias_class).values() if p >= floor])
                    elif producer >= floor:
                        others.add(producer)
            if follows or inst.effects.external:
                results, others = self._follows(number, queue, inst, results, others)
            if number in others:
                others.discard(number)
            yield results, others, is_shared

    def _reads_beside(self, number: int, queue: int, alias_class: int, others: set[int]) -> None:
        """Let instruction ``number`` read a class that another queue read first."""
        by_queue = self._more_readers.setdefault(alias_class, {})
        if by_queue.get(queue, -1) >= self.floor:
            others.add(by_queue[queue])
        by_queue[queue] = number

    def _follows(
        self,
        number: int,
        queue: int,
        inst: Inst,
        results: AbstractSet[int],
        others: AbstractSet[int],
    ) -> tuple[set[int], set[int]]:
        """Let instruction ``number`` access large memories, and write the world outside, as far as it does; the results
        that it reads, and the others, with these.
        """
        results, others = _changeable(results), _changeable(others)
        if inst.effects.external:
            self._add_users((0,), others)
            self._writer[0], self._reader[0] = number, -1
            self._more_readers.pop(0, None)
        if self._large:
            self._visit_large(number, queue, inst, results, others)
        return results, others

    def _reads_at_once(self, number: int, queue: int, classes: range, others: set[int]) -> frozenset[int] | None:
        """Let instruction ``number`` read ``classes``, as :meth:`visit_each` does one by one; their writers. None, and
        nothing, if the classes are not alike.
        """
        cut, count = slice(classes.start, classes.stop, classes.step), len(classes)
        writers, unwritten = self._distinct(self._writer[cut])
        last_readers = self._reader[cut]
        if unwritten:
            return None
        if last_readers[0] < 0:
            if self._distinct(last_readers)[1] < count:
                return None
        else:
            queue_of, several = self._queue_of, set(last_readers)
            if -1 in several or any(queue_of[reader] != queue for reader in several):
                return None
            self._add(others, several)
        self._reader[cut] = [number] * count
        return writers

    def _writes_at_once(self, number: int, classes: range) -> list[frozenset[int]] | None:
        """Let instruction ``number`` write ``classes``, as :meth:`visit_each` does one by one; whom it follows. None,
        and nothing, if the classes are not alike.
        """
        cut, count = slice(classes.start, classes.stop, classes.step), len(classes)
        producers, unwritten = self._distinct(self._writer[cut])
        last_readers, unread = self._distinct(self._reader[cut])
        if unwritten not in (0, count) or unread not in (0, count):
            return None
        if self._more_readers and not self._more_readers.keys().isdisjoint(classes):
            return None
        found: list[frozenset[int]] = []
        if unwritten:
            first = self.classes.twins[classes.start]
            if first >= 0:
                found.append(self._users_of(range(first, first + classes.stop - classes.start, classes.step)))
            elif not self.classes.before.keys().isdisjoint(classes):
                return None
        if not unread:
            found.append(last_readers)
            self._reader[cut] = [-1] * count
        elif not unwritten:
            found.append(producers)
        self._writer[cut] = [number] * count
        return found

    def _distinct(self, numbers: list[int]) -> tuple[frozenset[int], int]:
        """The instructions of this block among ``numbers``, and how many numbers are -1.

        Accesses in turns to the views of a tile find the same ones again and again. To compare a list with the one
        before takes a fraction of the time of a hash.
        """
        key = numbers[0], numbers[-1], len(numbers)
        known = self._sets.get(key)
        if known is None or known[0] != numbers:
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            found = set[int]()
            self._add(found, set(numbers))
            known = self._sets[key] = numbers, frozenset(found), numbers.count(-1)
        return known[1], known[2]

    def _add(self, producers: set[int], found: set[int]) -> None:
        """Add those that are instructions of this block."""
        if self.floor:
            producers.update([each for each in found if each >= self.floor])
        else:
            found.discard(-1)
            producers |= found

    def _last_users(self, classes: tuple[int, ...]) -> Iterable[int]:
        """:meth:`_add_users` of the classes of earlier tiles, to which nobody comes any more."""
        users = self._users.get(id(classes))
        if users is None:
            found: set[int] = set()
            self._add_users(classes, found)
            users = self._users[id(classes)] = tuple(found)
        return [user for user in users if user >= self.floor] if self.floor else users

    def _users_of(self, classes: range) -> frozenset[int]:
        """Those that :meth:`_add_users` adds."""
        if self._more_readers:
            found: set[int] = set()
            self._add_users(classes, found)
            return frozenset(found)
        cut = slice(classes.start, classes.stop, classes.step)
        users = self._reader[cut]
        known, unread = self._distinct(users)
        if not unread:
            return known
        if unread == len(users):
            users = self._writer[cut]
        else:
            users += [writer for reader, writer in zip(users, self._writer[cut], strict=True) if reader < 0]
        return self._distinct(users)[0]

    def _add_users(self, classes: Sequence[int], producers: set[int]) -> None:
        """Add the readers of each class since it was written last, or its last writer if there are none."""
        writers, readers, more_readers, floor = self._writer, self._reader, self._more_readers, self.floor
        for alias_class in classes:
            user = readers[alias_class]
            if user < 0:
                user = writers[alias_class]
            elif alias_class in more_readers:
                producers.update([p for p in more_readers[alias_class].values() if p >= floor])
            if user >= floor:
                producers.add(user)

    def _visit_large(
        self,
        number: int,
        queue: int,
        inst: Inst,
        results: set[int],
        others: set[int],
    ) -> None:
        floor, large = self.floor, self.classes.large
        for access in self.classes.reads(inst):
            if access in large:
                memory, classes = large[access]
                for ids, producers in zip(
                    self._large[memory].read(number, queue, classes), (results, others), strict=True
                ):
                    producers.update(ids[ids >= floor].tolist())
        for access in inst.changes():
            if access in large:
                memory, classes = large[access]
                for ids in self._large[memory].write(number, classes):
                    others.update(ids[ids >= floor].tolist())


def _joined(
    numbers: AbstractSet[int],
    several: Iterable[frozenset[int]],
    number: int,
    access: Access,
    accesses: Sequence[Access],
) -> Any:
    """``numbers`` and ``several`` sets as one: a frozen one if there is no other, instruction ``number`` is not in it,
    and nobody adds to it, since no access comes behind ``access``.
    """
    is_last = accesses.index(access) == len(accesses) - 1
    for more in several:
        if is_last and not numbers and number not in more:
            numbers = more
        else:
            joined = _changeable(numbers)
            joined |= more
            numbers = joined
    return numbers


def _changeable(numbers: AbstractSet[int]) -> set[int]:
    """The set itself, or a copy of a frozen one."""
    return numbers if isinstance(numbers, set) else set(numbers)


class DependenceGraph:
    """Dependences among the instructions of one basic block, by their number in it.

    ``predecessors[i]`` are the instructions that ``i`` has to follow, directly or as predecessors of others: producers
    and users of its data, and those of the edges that the program requests. ``chained[i]`` are the predecessors on the
    queue of ``i`` whose result it reads.
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


class GraphBuilder:
    """Builds the dependence graphs of a program's basic blocks, one after the other in program order."""

    def __init__(self, core: CoreProgram) -> None:
        self._reaching = ReachingAccesses(AccessClasses(core))
        self._has_edges = core.has_edges
        self._labels: dict[str, int] = {}
        self._first = 0

    def graph(self, instructions: Sequence[Inst], queues: Sequence[int]) -> DependenceGraph:
        """The graph of the next block, whose instructions run on ``queues``."""
        graph = DependenceGraph()
        predecessors, chained = graph.predecessors, graph.chained
        first = self._reaching.floor = self._first
        found = self._reaching.visit_each(first, queues, instructions)
        known: dict[object, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for queue, (results, producers, is_shared) in zip(queues, found, strict=True):
            on_queue: tuple[int, ...] = ()
            if is_shared and len(results) + len(producers) <= _FEW:
                producers = set(producers)
            elif is_shared:
                # Accesses in turns to the views of a tile have the same dependences, and get the same tuples.
                key = queue, frozenset(results), frozenset(producers)
                both = known.get(key)
                if both is None:
                    if len(known) >= _MOST_SETS:
                        known.clear()
                    both = known[key] = self._numbers(results, producers, queue, queues)
                chained.append(both[0])
                predecessors.append(both[1])
                continue
            if len(results) > 1:
                on_queue = tuple([producer - first for producer in results if queues[producer - first] == queue])
                producers |= results
            else:
                for producer in results:
                    producers.add(producer)
                    if queues[producer - first] == queue:
                        on_queue = (producer - first,)
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
    """The graphs of the basic blocks of a core whose instructions have queues, in program order; kept with ``core``."""
    if core.dependences is None:
        _, queues = queue_numbers(core)
        builder = GraphBuilder(core)
        first = 0
        graphs: list[DependenceGraph] = []
        for block in all_blocks(core.body):
            graphs.append(builder.graph(block, queues[first : first + len(block)]))
            first += len(block)
        core.dependences = graphs
    return core.dependences


def queue_numbers(core: CoreProgram) -> tuple[list[str], list[int]]:
    """The queues of a core in the order of their first instructions, and the number in that list of every
    instruction's queue, by its dense number.
    """
    of_each = [inst.queue for inst in core.numbered]
    numbers = {queue: number for number, queue in enumerate(dict.fromkeys(of_each))}
    return list(numbers), [numbers[queue] for queue in of_each]
