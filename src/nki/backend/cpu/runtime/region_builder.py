"""Finds parallel regions: neighbouring rows in which no partition meets what another row does in another partition.

A row joins the open region if each of its uses either shares no byte with the uses of the rows before it, or only such
that both reads, or shares them partition by partition: both step from partition to partition alike, and all that both
use of one partition lies within a step. Otherwise partitions cross, and the row opens the next region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from nki.backend.cpu.loop_ir.nodes import GRANULE
from nki.backend.cpu.loop_ir.partitions import Use
from nki.backend.cpu.runtime.routines import Routine
from nki.backend.cpu.runtime.storage import Storage
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Tensor

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


LEAST_WORK: Final = 30_000.0
"""Nanoseconds of a launch below which regions are not worth the search for them."""
_UNKNOWN_ROUNDS: Final = 16
"""Assumed rounds of a loop whose number of rounds is known at run time only."""


def rounds_of(loop: Loop) -> int:
    """The number of rounds of a loop, as far as it is known."""
    if isinstance(loop, For) and isinstance(loop.start, int) and isinstance(loop.stop, int):
        return max(0, -(-(loop.stop - loop.start) // loop.step))
    return _UNKNOWN_ROUNDS


def work_of(body: Iterable[Statement], routines: Iterator[Routine | None]) -> float:
    """The estimated nanoseconds of ``body``; ``routines`` gives that of each instruction in turn, if it has one."""
    total = 0.0
    for statement in body:
        if isinstance(statement, Inst):
            routine = next(routines)
            total += 0.0 if routine is None else routine.nanoseconds
        else:
            total += rounds_of(statement) * work_of(statement.body, routines)
    return total


_Bytes = tuple[int, int, int, int, int, int, bool]
"""Bytes that a row uses of one memory, as fields of :class:`_Entry`."""


class _Entry:
    """Bytes that rows of the open region use, of one memory; see :class:`Use`. ``first`` and ``end`` span all."""

    __slots__ = ("end", "first", "high", "low", "pitch", "step", "writes")

    def __init__(self, used: _Bytes) -> None:
        self.step, self.pitch, self.low, self.high, self.first, self.end, self.writes = used

    def equals(self, used: _Bytes) -> bool:
        """True if these are the same bytes, used alike."""
        return used == (self.step, self.pitch, self.low, self.high, self.first, self.end, self.writes)


_Span = tuple[Use, int, int]
"""A use, the first byte of all its partitions, and the one behind the last."""


@dataclass(slots=True)
class Region:
    """Rows that may run chunk by chunk: pairs of a routine and its first argument, and what is known about them."""

    rows: list[int] = field(default_factory=list[int])
    partitions: int = 0
    nanoseconds: float = 0.0
    has_product: bool = False
    bytes_of_row: int = 0
    """The most bytes that a row uses of one partition."""

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
        fitting = _CACHE // (_ROWS_IN_CACHE * self.bytes_of_row) // GRANULE * GRANULE
        return min(every, max(GRANULE, fitting))


class RegionBuilder:
    """Collects rows of one core in regions."""

    def __init__(self, core: CoreProgram, signature: Signature, storage: Storage) -> None:
        self._storage = storage
        self._never_written = {*signature.inputs, *core.constants()}.difference(signature.outputs)
        self._spans: dict[Routine, list[_Span]] = {}
        self.region = Region()
        self._entries: dict[tuple[int, int], list[_Entry]] = {}
        self._joined: dict[tuple[Routine, tuple[int, ...]], int] = {}
        """Rows of the open region without run-time indices, by their routine and the places of their operands, each
        with the changes of the entries that there were when it joined: if there were none since, it may join again.
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

    def add(self, inst: Inst, routine: Routine, places: tuple[int, ...], row: tuple[int, int]) -> bool:
        """Add the ``row`` of an instruction to the region; False, and no change, if it must not join.

        ``places`` are slot and byte offset of each operand.
        """
        region = self.region
        if len(region.rows) >= 2 * MOST_ROWS or (region.rows and not self._suits(routine)):
            return False
        if self._joined.get((routine, places)) != self._changes:
            located = self._located(inst, routine, places)
            into = [self._taking(key, used) for key, used in located]
            if None in into:
                return False  # an empty region takes every row
            for (key, used), old in zip(located, into, strict=True):
                self._note(key, used, old)
            if not inst.indexed_by():
                self._joined[routine, places] = self._changes
        region.rows += row
        region.nanoseconds += routine.nanoseconds
        if routine not in self._routines:
            self._routines.add(routine)
            region.partitions = max(region.partitions, routine.partitions)
            region.bytes_of_row = max(region.bytes_of_row, sum(use.high - use.low for use in routine.uses if use.step))
            region.has_product = region.has_product or inst.effects.accumulation is not None
        return True

    def _suits(self, routine: Routine) -> bool:
        """False if threads would share an expensive row badly, since other rows of the region have more partitions."""
        if routine.partitions == self.region.partitions:
            return True
        few, many = sorted((routine.partitions, self.region.partitions))
        return 4 * few > 3 * many or min(routine.nanoseconds, self.region.nanoseconds) < WORTHWHILE

    def _located(self, inst: Inst, routine: Routine, places: tuple[int, ...]) -> list[tuple[tuple[int, int], _Bytes]]:
        """The memory that a row uses, and its bytes there; nothing for memory that is never written."""
        located: list[tuple[tuple[int, int], _Bytes]] = []
        spans = self._spans.get(routine)
        if spans is None:
            spans = self._spans[routine] = [(use, *use.span()) for use in routine.uses]
        operands, base, never_written = inst.accesses(), self._storage.base, self._never_written
        for use, first, end in spans:
            memory = use.memory
            access = operands[memory]
            tensor = access.tensor
            if access.dynamic is not None:
                located += self._whole(access.dynamic.source.tensor, False)
                located += self._whole(tensor, use.writes)
            elif tensor not in never_written:
                at = places[2 * memory + 1]
                used = (use.step, use.pitch, at + use.low, at + use.high, at + first, at + end, use.writes)
                located.append((base(tensor), used))
        return located

    def _whole(self, tensor: Tensor, writes: bool) -> list[tuple[tuple[int, int], _Bytes]]:
        if tensor in self._never_written:
            return []
        slot, start = self._storage.base(tensor)
        end = start + self._storage.layout.nbytes(tensor)
        return [((slot, start), (0, 0, start, end, start, end, writes))]

    def _taking(self, key: tuple[int, int], used: _Bytes) -> _Entry | int | None:
        """The entry that can take in these bytes, 0 if none can, None if partitions cross."""
        into: _Entry | int = 0
        entries = self._entries.get(key, ())
        if len(entries) >= _MOST_ENTRIES:
            return None
        step, pitch, low, high, first, end, writes = used
        for entry in entries:
            if (
                entry.step == step
                and step
                and entry.pitch == pitch
                and (entry.high if entry.high > high else high) - (entry.low if entry.low < low else low) <= abs(step)
            ):
                into = entry
            elif (entry.writes or writes) and first < entry.end and entry.first < end:
                return None
            elif entry.low == low and entry.high == high and entry.step == step and entry.equals(used):
                into = entry
        return into

    def _note(self, key: tuple[int, int], used: _Bytes, into: _Entry | int | None) -> None:
        """Enter these bytes, or let ``into`` take them in."""
        if not isinstance(into, _Entry):
            self._entries.setdefault(key, []).append(_Entry(used))
            self._changes += 1
            return
        _, _, low, high, first, end, writes = used
        if low >= into.low and high <= into.high and first >= into.first and end <= into.end and writes <= into.writes:
            return
        into.low, into.high = min(into.low, low), max(into.high, high)
        into.first, into.end = min(into.first, first), max(into.end, end)
        into.writes = into.writes or writes
        self._changes += 1
