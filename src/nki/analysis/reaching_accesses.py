"""Last writer and readers of every alias class; gives the RAW, WAR and WAW dependences of an instruction.

An instruction that reads a class depends on the last writer of the class (RAW). An instruction that writes a class
depends on all readers since then (WAR), which in turn depend on the last writer; without readers, it depends on the
last writer itself (WAW). Only the last reader on each queue is kept, and a reader depends on the reader before it on
the same queue, so readers of one class keep their order on a queue. A caller that wants every reader gives each
instruction a queue of its own. The first access to a class depends on the last accesses to the same bytes in earlier
tiles (:attr:`AccessClasses.previous_classes`).

Most accesses have few classes, which are visited one by one. Many classes at equal distances are a slice of the lists
of last writers and readers, which is read and written as a whole. Such a slice has few different writers and readers,
and each of them is visited once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_classes import NO_CLASSES, AccessClasses, ClassIndex
from nki.ir.instruction import Inst

Ids = NDArray[np.int64]
MOST_SETS = 256
"""Sets of instructions that are kept, to be found again."""
_NOBODY: AbstractSet[int] = frozenset()
_NO_USERS: tuple[int, ...] = ()


class _LargeMemory:
    """Last writer and readers of a memory with accesses of many classes: arrays over its classes."""

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


class _Readers:
    """The readers of classes that several queues have read since they were written."""

    __slots__ = ("by_queue", "classes")

    def __init__(self, by_queue: dict[int, int], classes: int) -> None:
        self.by_queue = by_queue
        """The last reader on each queue."""
        self.classes = classes
        """The number of classes that have just these readers."""


class ReachingAccesses:
    """Last writer and readers of every alias class, while instructions are visited in program order.

    Instructions have increasing numbers. Dependences on numbers below ``floor`` are not reported.
    """

    def __init__(self, classes: AccessClasses) -> None:
        self.floor = 0
        self.classes = classes
        self._writer = [-1] * classes.count
        self._reader = [-1] * classes.count
        """The last reader of each class since it was written; -1: it was not read; below: a key of ``_readers``."""
        self._queue_of: dict[int, int] = {}
        """The queue of each instruction."""
        self._readers: dict[int, _Readers] = {}
        """The readers of classes that several queues have read. Few have any."""
        self._last_key = -1
        self._users: dict[int, tuple[int, ...]] = {}
        """By the ``id`` of a tuple of :attr:`AccessClasses.previous_classes`: the last users of its classes."""
        self._sets: dict[tuple[int, int, int], tuple[list[int], frozenset[int], int, bool]] = {}
        """Lists of instructions, and results of :meth:`_distinct` for them in this block, by first, last and length."""
        self._large = [_LargeMemory(size) for size in classes.large_sizes]

    def visit(self, number: int, queue: int, inst: Inst) -> tuple[AbstractSet[int], AbstractSet[int]]:
        """Producers of instruction ``number`` on ``queue``, which becomes the last access to its classes: the
        producers of results that it reads, and others. A producer may be in both sets; one that another producer
        depends on may be left out.
        """
        results, others, _ = next(self.visit_each(number, (queue,), (inst,)))
        return results, others

    def visit_each(
        self, first: int, queues: Iterable[int], instructions: Iterable[Inst]
    ) -> Iterator[tuple[AbstractSet[int], AbstractSet[int], bool]]:
        """:meth:`visit` instructions one after the other, with numbers from ``first`` on; True with sets that other
        instructions may have, too.
        """
        classes, floor, writers, readers = self.classes, self.floor, self._writer, self._reader
        self._sets.clear()
        small, before, has_runtime_index = classes.small, classes.previous_classes, classes.has_runtime_index
        previous_class, follows, queue_of = classes.previous_class, bool(self._large), self._queue_of
        for number, (queue, inst) in enumerate(zip(queues, instructions, strict=True), first):
            queue_of[number] = queue
            results: set[int] = set()
            others: set[int] = set()
            many_results, many_others, known = _NOBODY, _NOBODY, _NO_USERS
            for access in classes.reads(inst) if has_runtime_index else inst.read_operands():
                of = small.get(access, NO_CLASSES)
                if type(of) is range:
                    many_results = _union(many_results, self._read_at_once(number, queue, of, others))
                    continue
                for alias_class in of:
                    producer, reader = writers[alias_class], readers[alias_class]
                    if producer >= floor:
                        results.add(producer)
                    elif producer < 0:
                        results.update([p for each in classes.earlier(alias_class) if (p := writers[each]) >= floor])
                    if reader == -1 or (reader >= 0 and queue_of[reader] == queue):
                        readers[alias_class] = number
                        if reader >= floor:
                            others.add(reader)
                    else:
                        readers[alias_class] = self._read_beside(number, queue, reader, 1, others)
            for access in inst.changes():
                of = small.get(access, NO_CLASSES)
                if type(of) is range:
                    many_others = self._write_at_once(number, of, many_others)
                    continue
                for alias_class in of:
                    producer, reader = writers[alias_class], readers[alias_class]
                    if producer < 0:
                        if (old := previous_class[alias_class]) >= 0:
                            if (user := readers[old]) >= floor or (user == -1 and (user := writers[old]) >= floor):
                                others.add(user)
                            elif user < -1:
                                self._add_readers(user, others)
                        elif (olds := before.get(alias_class, known)) is not known:  # neighbours often share a tuple
                            others.update(self._last_users(known := olds))
                    writers[alias_class] = number
                    if reader != -1:
                        readers[alias_class], producer = -1, reader
                    if producer >= floor:
                        others.add(producer)
                    elif producer < -1:
                        self._take_readers(producer, 1, others)
            if follows or inst.effects.external:
                self._follow(number, queue, inst, results, others)
            if number in others:
                others.discard(number)
            if many_results or many_others:
                many_others = many_others - {number} if number in many_others else many_others
                yield _union(results, many_results), _union(others, many_others), True
            else:
                yield results, others, False

    def _read_beside(self, number: int, queue: int, reader: int, count: int, others: set[int]) -> int:
        """Let instruction ``number`` read ``count`` classes, with the entry ``reader``, that other queues have read;
        their new entry.
        """
        if reader >= 0:
            by_queue = {self._queue_of[reader]: reader}
        else:
            readers = self._readers[reader]
            by_queue = readers.by_queue
            if by_queue.get(queue, -1) >= self.floor:
                others.add(by_queue[queue])
            if readers.classes == count:
                by_queue[queue] = number
                return reader
            readers.classes -= count
            by_queue = by_queue.copy()
        by_queue[queue] = number
        self._last_key -= 1
        self._readers[self._last_key] = _Readers(by_queue, count)
        return self._last_key

    def _add_readers(self, key: int, producers: set[int]) -> None:
        """Add the readers with this key."""
        floor = self.floor
        producers.update([reader for reader in self._readers[key].by_queue.values() if reader >= floor])

    def _take_readers(self, key: int, count: int, producers: set[int]) -> None:
        """Add the readers with this key; ``count`` of their classes are written."""
        self._add_readers(key, producers)
        readers = self._readers[key]
        readers.classes -= count
        if not readers.classes:
            del self._readers[key]

    def _follow(self, number: int, queue: int, inst: Inst, results: set[int], others: set[int]) -> None:
        """Let instruction ``number`` access large memories, and write the world outside if it does; add the
        producers of what it reads there to ``results``, and the others that it follows.
        """
        if inst.effects.external:
            self._add_users((0,), others)
            self._writer[0], self._reader[0] = number, -1
        if self._large:
            self._visit_large(number, queue, inst, results, others)

    def _read_at_once(self, number: int, queue: int, classes: range, others: set[int]) -> AbstractSet[int]:
        """Let instruction ``number`` read ``classes``, as :meth:`visit_each` does one by one; their writers."""
        cut, count = slice(classes.start, classes.stop, classes.step), len(classes)
        last_writers, last_readers = self._writer[cut], self._reader[cut]
        writers, unwritten, _ = self._distinct(last_writers)
        if unwritten:
            writers |= self._earlier_writers([c for c, w in zip(classes, last_writers, strict=True) if w < 0])
        entries = dict.fromkeys(last_readers, number)
        floor, queue_of, is_alone = self.floor, self._queue_of, True
        for reader in entries:
            if reader >= 0 and queue_of[reader] == queue:
                if reader >= floor:
                    others.add(reader)
            elif reader != -1:
                share = count if len(entries) == 1 else last_readers.count(reader)
                entries[reader] = self._read_beside(number, queue, reader, share, others)
                is_alone = False
        if is_alone or len(entries) == 1:
            self._reader[cut] = [entries[last_readers[0]]] * count
        else:
            self._reader[cut] = [entries[reader] for reader in last_readers]
        return writers

    def _write_at_once(self, number: int, classes: range, found: AbstractSet[int]) -> AbstractSet[int]:
        """Let instruction ``number`` write ``classes``, as :meth:`visit_each` does one by one; ``found``, and those
        that the instruction follows.
        """
        cut, count = slice(classes.start, classes.stop, classes.step), len(classes)
        last_writers, last_readers = self._writer[cut], self._reader[cut]
        producers, unwritten, _ = self._distinct(last_writers)
        readers, unread, several_queues = self._distinct(last_readers)
        if unwritten:
            found = _union(found, self._users_before(classes, last_writers, unwritten))
        if unread == count:
            found = _union(found, producers)
        else:
            found = _union(found, readers)
            if unread or several_queues:
                more: set[int] = set()
                floor = self.floor
                if unread:
                    more.update([w for w, r in zip(last_writers, last_readers, strict=True) if r == -1 and w >= floor])
                if several_queues:
                    for key in set(last_readers):
                        if key < -1:
                            self._take_readers(key, last_readers.count(key), more)
                found = _union(found, more)
            self._reader[cut] = [-1] * count
        self._writer[cut] = [number] * count
        return found

    def _distinct(self, numbers: list[int]) -> tuple[AbstractSet[int], int, bool]:
        """The instructions of this block among ``numbers``, how many numbers are -1, and if some are below.

        Accesses in turns to the views of a tile find the same ones again and again. To compare a list with the one
        before takes a fraction of the time of a hash.
        """
        key = numbers[0], numbers[-1], len(numbers)
        known = self._sets.get(key)
        if known is None or known[0] != numbers:
            if len(self._sets) >= MOST_SETS:
                self._sets.clear()
            different, floor = set(numbers), self.floor
            found = frozenset([number for number in different if number >= floor])
            known = self._sets[key] = numbers, found, numbers.count(-1), min(different) < -1
        return known[1], known[2], known[3]

    def _earlier_writers(self, classes: Iterable[int]) -> set[int]:
        """The last writers of the bytes of ``classes``, which are not written yet."""
        writers, floor, earlier = self._writer, self.floor, self.classes.earlier
        return {writer for each in classes for old in earlier(each) if (writer := writers[old]) >= floor}

    def _users_before(self, classes: range, last_writers: list[int], unwritten: int) -> AbstractSet[int]:
        """The last users of the bytes of the ``classes`` that are not written yet."""
        first = self.classes.previous_class[classes.start]
        if first >= 0 and unwritten == len(classes):
            return self._users_of(range(first, first + classes.stop - classes.start, classes.step))
        before = self.classes.previous_classes
        users: set[int] = set()
        if first >= 0:
            to_previous = first - classes.start
            self._add_users([c + to_previous for c, w in zip(classes, last_writers, strict=True) if w < 0], users)
        elif not before.keys().isdisjoint(classes):
            known = _NO_USERS
            for alias_class, writer in zip(classes, last_writers, strict=True):
                if writer < 0 and (olds := before.get(alias_class, known)) is not known:
                    users.update(self._last_users(known := olds))
        return users

    def _users_of(self, classes: range) -> AbstractSet[int]:
        """The instructions that :meth:`_add_users` adds."""
        cut = slice(classes.start, classes.stop, classes.step)
        last_readers = self._reader[cut]
        readers, unread, several_queues = self._distinct(last_readers)
        if not unread and not several_queues:
            return readers
        if unread == len(last_readers):
            return self._distinct(self._writer[cut])[0]
        users = set(readers)
        if unread:
            writers = [w for w, r in zip(self._writer[cut], last_readers, strict=True) if r == -1]
            users.update(self._distinct(writers)[0])
        if several_queues:
            for key in set(last_readers):
                if key < -1:
                    self._add_readers(key, users)
        return users

    def _last_users(self, classes: tuple[int, ...]) -> Iterable[int]:
        """:meth:`_add_users` of the classes of earlier tiles that are not accessed any more."""
        users = self._users.get(id(classes))
        if users is None:
            found: set[int] = set()
            self._add_users(classes, found)
            users = self._users[id(classes)] = tuple(found)
        return [user for user in users if user >= self.floor] if self.floor else users

    def _add_users(self, classes: Sequence[int], producers: set[int]) -> None:
        """Add the readers of each class since it was written last, or its last writer if there are none."""
        writers, readers, floor = self._writer, self._reader, self.floor
        for alias_class in classes:
            user = readers[alias_class]
            if user == -1:
                user = writers[alias_class]
            elif user < -1:
                self._add_readers(user, producers)
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


def _union(one: AbstractSet[int], other: AbstractSet[int]) -> AbstractSet[int]:
    """All members of both sets, as one of the sets if that has all."""
    if not one or one is other:
        return other
    return one | other if other else one
