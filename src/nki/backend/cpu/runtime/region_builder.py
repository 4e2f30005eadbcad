"""Finds parallel regions: neighbouring rows in which no partition meets what another row does in another partition.

A row joins the open region if each of its uses either shares no byte with the uses of the rows before it, or only such
that both reads, or shares them partition by partition: both step from partition to partition alike, and all that both
use of one partition lies within a step. Otherwise partitions cross, and the row opens the next region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from nki.backend.cpu.kernel_ir.nodes import GRANULE
from nki.backend.cpu.runtime.routines import Routine
from nki.backend.cpu.runtime.storage import Storage, native_bytes
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Access, Tensor

MOST_ROWS: Final = 256
"""Rows of a region. Between two regions, and between chunks, a launch looks for signals."""
_MOST_ENTRIES: Final = 64
"""Entries of one memory in an open region; with more, the search would take longer than the region is worth."""
WORTHWHILE: Final = 4000.0
"""Nanoseconds of a region from which on it is worth an offer, which takes about half a microsecond."""
_CACHE: Final = 512 * 1024
"""Bytes that the rows of a chunk may use: half of the second-level cache of a present core."""
_ROWS_IN_CACHE: Final = 3
"""Rows in turn whose bytes are to be in the cache together."""
_PACKED_ROWS: Final = 2 * GRANULE
"""Partitions whose numbers share words of packed operands: half of them would write each word by itself."""


LEAST_WORK: Final = 30_000.0
"""Nanoseconds of a launch below which regions are not worth the search for them."""
_UNKNOWN_ROUNDS: Final = 16
"""Assumed rounds of a loop whose number of rounds is known at run time only."""


def rounds_of(loop: Loop) -> int:
    """The number of rounds of a loop, as far as it is known."""
    if isinstance(loop, For) and isinstance(loop.start, int) and isinstance(loop.stop, int):
        return max(0, -(-(loop.stop - loop.start) // loop.step))
    return _UNKNOWN_ROUNDS


def has_work(body: Iterable[Statement], routines: Iterator[Routine | None]) -> bool:
    """True if ``body`` is estimated to take :data:`LEAST_WORK`.

    ``routines`` gives the routine of each instruction in turn, None where it has none.
    """
    total = 0.0
    for statement in body:
        total += _work_of(statement, routines)
        if total >= LEAST_WORK:
            return True  # most are, within a few instructions
    return total >= LEAST_WORK


def _work_of(statement: Statement, routines: Iterator[Routine | None]) -> float:
    """The estimated nanoseconds of ``statement``."""
    if isinstance(statement, Inst):
        routine = next(routines)
        return 0.0 if routine is None else routine.nanoseconds
    return rounds_of(statement) * sum([_work_of(inner, routines) for inner in statement.body])


_Bytes = tuple[int, int, int, int, int, int, bool]
"""Bytes that a row uses of one memory, or all rows of the open region: ``step``, ``pitch``, ``low``, ``high`` and
``writes`` as in :class:`Use`, and before ``writes`` the first byte of all partitions and the one behind the last.
"""
_Uses = tuple[tuple[int, int, int, int, int, int, int, bool, bool], ...]
"""The uses of a routine: of each the number of the operand, then :data:`_Bytes` counted from its first element, and
whether rows that use the same bytes in the same way may be in one region.
"""
_NEW: Final = -1
"""Stands for the number of an entry that there is not yet."""


@dataclass(slots=True)
class Region:
    """Rows that may run chunk by chunk: pairs of a routine and its first argument, and what is known about them."""

    rows: list[int] = field(default_factory=list[int])
    partitions: int = 0
    nanoseconds: float = 0.0
    has_product: bool = False
    bytes_of_row: int = 0
    """The most bytes that a row uses of one partition."""
    granule: int = GRANULE
    """The fewest partitions of a chunk."""

    @property
    def is_worthwhile(self) -> bool:
        """True if the region takes so long that threads may share it."""
        return self.nanoseconds >= WORTHWHILE and self.partitions > GRANULE

    @property
    def block(self) -> int:
        """Partitions of a chunk that some rows in turn find in the cache; a product wants all of them, as it packs its
        operand for all.
        """
        every = -(-self.partitions // GRANULE) * GRANULE
        if self.has_product or len(self.rows) == 2 or self.bytes_of_row == 0:
            return every
        fitting = _CACHE // (_ROWS_IN_CACHE * self.bytes_of_row) // self.granule * self.granule
        return min(every, max(self.granule, fitting))


class RegionBuilder:
    """Collects rows of one core in regions."""

    def __init__(self, core: CoreProgram, signature: Signature, storage: Storage) -> None:
        self._storage = storage
        self._never_written = {*signature.inputs, *core.constants()}.difference(signature.outputs)
        self._uses: dict[Routine, tuple[_Uses, int]] = {}
        """The uses of a routine, and the bytes of a partition that it uses."""
        self.region = Region()
        self._entries: dict[tuple[int, int], list[_Bytes]] = {}
        """The bytes that rows of the open region use, by slot and first byte of a memory."""
        self._joined: dict[tuple[Routine, tuple[int, ...]], int] = {}
        """Rows of the open region that changed no entry as they joined, by their routine and the places of their
        operands, each with the changes of the entries until then: if there were none since, it may join again.
        """
        self._changes = 0
        self._routines: set[Routine] = set()
        """The routines of the open region."""

    def start(self) -> None:
        """Begin a new region."""
        self.region = Region()
        self._routines = set()
        self._entries = {}
        self._joined = {}

    def add(
        self, inst: Inst, routine: Routine, operands: Sequence[Access], places: Sequence[int], row: tuple[int, int]
    ) -> bool:
        """Add the ``row`` of an instruction to the region; False, and no change, if it must not join.

        ``places`` are slot and byte offset of each of its operands.
        """
        region, rows, joined = self.region, self.region.rows, self._joined
        if rows and (
            len(rows) >= 2 * MOST_ROWS or (routine.partitions != region.partitions and not self._suits(routine))
        ):
            return False
        if not joined or joined.get((routine, tuple(places))) != self._changes:
            taking = self._all_taking(routine, operands, places)
            if taking is None:
                return False  # an empty region takes every row
            before = self._changes
            for key, used, into in taking:
                if into == _NEW and key not in self._entries:  # as most of a product are, so without the call
                    self._entries[key] = [used]
                    self._changes += 1
                else:
                    self._note(key, used, into)
            if self._changes == before and not inst.form().has_runtime_index:
                joined[routine, tuple(places)] = before
        rows += row
        region.nanoseconds += routine.nanoseconds
        if routine not in self._routines:
            self._routines.add(routine)
            region.partitions = max(region.partitions, routine.partitions)
            region.bytes_of_row = max(region.bytes_of_row, self._uses[routine][1])
            region.has_product = region.has_product or inst.effects.accumulation is not None
            if any(access.tensor.layout.pairs for access in inst.writes()):
                region.granule = _PACKED_ROWS
        return True

    def _suits(self, routine: Routine) -> bool:
        """False if threads would share an expensive row badly, since other rows of the region have more partitions."""
        few, many = sorted((routine.partitions, self.region.partitions))
        return 4 * few > 3 * many or min(routine.nanoseconds, self.region.nanoseconds) < WORTHWHILE

    def _all_taking(
        self, routine: Routine, operands: Sequence[Access], places: Sequence[int]
    ) -> list[tuple[tuple[int, int], _Bytes, int]] | None:
        """The memory that a row uses, its bytes there, and what :meth:`_taking` gives; None if partitions cross.

        Memory that is never written is left out, and so are bytes that an entry has.
        """
        uses = self._uses.get(routine)
        if uses is None:
            uses = self._uses[routine] = _uses_of(routine)
        taking: list[tuple[tuple[int, int], _Bytes, int]] = []
        base, never_written, all_entries = self._storage.bases, self._never_written, self._entries
        for memory, step, pitch, low, high, first, end, writes, repeats in uses[0]:
            access = operands[memory]
            tensor = access.tensor
            if access.dynamic is not None:
                for whole in (*self._whole(access.dynamic.source.tensor, False), *self._whole(tensor, writes)):
                    into = _taking(all_entries.get(whole[0], ()), whole[1])
                    if into is None:
                        return None
                    taking.append((*whole, into))
            elif tensor not in never_written:
                at, key = places[2 * memory + 1], base[tensor]
                used = (step, pitch, at + low, at + high, at + first, at + end, writes)
                entries = all_entries.get(key)
                if repeats and entries and len(entries) == 1 and entries[0] == used:
                    continue  # as most of a product do, so without the call
                into = _taking(entries, used) if entries else _NEW
                if into is None:
                    return None
                if into == _NEW or entries is None or entries[into] != used:  # else there is nothing to note
                    taking.append((key, used, into))
        return taking

    def _whole(self, tensor: Tensor, writes: bool) -> list[tuple[tuple[int, int], _Bytes]]:
        if tensor in self._never_written:
            return []
        slot, start = self._storage.bases[tensor]
        end = start + native_bytes(tensor)
        return [((slot, start), (0, 0, start, end, start, end, writes))]

    def _note(self, key: tuple[int, int], used: _Bytes, into: int) -> None:
        """Enter these bytes, or let entry ``into`` take them in."""
        entries = self._entries.get(key)
        if into == _NEW or entries is None:
            if entries is None:
                self._entries[key] = [used]
            else:
                entries.append(used)
            self._changes += 1
            return
        step, pitch, low, high, first, end, writes = entries[into]
        _, _, own_low, own_high, own_first, own_end, own_writes = used
        inside = own_low >= low and own_high <= high and own_first >= first and own_end <= end
        if inside and own_writes <= writes:
            return
        low, high, first, end = min(low, own_low), max(high, own_high), min(first, own_first), max(end, own_end)
        entries[into] = (step, pitch, low, high, first, end, writes or own_writes)
        self._changes += 1


def _uses_of(routine: Routine) -> tuple[_Uses, int]:
    """The uses of ``routine``, and the bytes of a partition that it uses."""
    uses: list[tuple[int, int, int, int, int, int, int, bool, bool]] = []
    for u in routine.uses:
        repeats = not u.writes or (u.step != 0 and u.high - u.low <= abs(u.step))
        uses.append((u.memory, u.step, u.pitch, u.low, u.high, *u.span(), u.writes, repeats))
    return tuple(uses), sum(use.high - use.low for use in routine.uses if use.step)


def _taking(entries: Sequence[_Bytes], used: _Bytes) -> int | None:
    """The number of the entry that can take in these bytes, :data:`_NEW` if none can, None if partitions cross."""
    into = _NEW
    if len(entries) >= _MOST_ENTRIES:
        return None
    step, pitch, low, high, first, end, writes = used
    for number, entry in enumerate(entries):
        its_step, its_pitch, its_low, its_high, its_first, its_end, its_writes = entry
        if (
            its_step == step
            and step
            and its_pitch == pitch
            and (its_high if its_high > high else high) - (its_low if its_low < low else low) <= abs(step)
        ):
            into = number
        elif (its_writes or writes) and first < its_end and its_first < end:
            return None
        elif entry == used:
            into = number
    return into
