"""Finds parallel regions: neighbouring dispatch entries in which no partition meets what another one does in another
partition.

An entry joins the open region if each of its uses either shares no byte with the uses of the entries before it, or only
such that both read, or shares them partition by partition: both step from partition to partition alike, and all that
both use of one partition lies within a step. Otherwise partitions cross, and the entry opens the next region.
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

MOST_ENTRIES: Final = 256
"""Entries of a region. Between two regions, and between chunks, a launch looks for signals."""
_MOST_WINDOWS: Final = 64
"""Windows of one memory in an open region; with more, the search would take longer than the region is worth."""
WORTHWHILE: Final = 4000.0
"""Nanoseconds of a region from which on it is worth an offer, which takes about half a microsecond."""
_CACHE: Final = 512 * 1024
"""Bytes that the entries of a chunk may use: half of the second-level cache of a present core."""
_ENTRIES_IN_CACHE: Final = 3
"""Entries in turn whose bytes are to be in the cache together."""
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
    return False


def _work_of(statement: Statement, routines: Iterator[Routine | None]) -> float:
    """The estimated nanoseconds of ``statement``."""
    if isinstance(statement, Inst):
        routine = next(routines)
        return 0.0 if routine is None else routine.nanoseconds
    return rounds_of(statement) * sum([_work_of(inner, routines) for inner in statement.body])


_Memory = tuple[int, int]
"""A tensor's memory: slot of the frame and offset."""
_Window = tuple[int, int, int, int, int, int, bool]
"""Bytes of one memory that entries use: ``step``, ``pitch``, ``low``, ``high`` and ``writes`` as in
:class:`~nki.backend.cpu.kernel_ir.partitions.Use`, and before ``writes`` the first byte of all partitions and the one
behind the last.
"""
_NEW: Final = -1
"""Stands for the number of a window that there is not yet."""


@dataclass(slots=True)
class Region:
    """Entries that may run chunk by chunk: pairs of a routine and its first argument, and what is known about them."""

    entries: list[int] = field(default_factory=list[int])
    partitions: int = 0
    nanoseconds: float = 0.0
    has_product: bool = False
    bytes_of_partition: int = 0
    """The most bytes that an entry uses of one partition."""
    granule: int = GRANULE
    """The fewest partitions of a chunk."""

    @property
    def is_worthwhile(self) -> bool:
        """True if the region takes so long that threads may share it."""
        return self.nanoseconds >= WORTHWHILE and self.partitions > GRANULE

    @property
    def block(self) -> int:
        """Partitions of a chunk that some entries in turn find in the cache; a product wants all of them, as it packs
        its operand for all.
        """
        every = -(-self.partitions // GRANULE) * GRANULE
        if self.has_product or len(self.entries) == 2 or self.bytes_of_partition == 0:
            return every
        fitting = _CACHE // (_ENTRIES_IN_CACHE * self.bytes_of_partition) // self.granule * self.granule
        return min(every, max(self.granule, fitting))


class RegionBuilder:
    """Collects entries of one core in regions."""

    def __init__(self, core: CoreProgram, signature: Signature, storage: Storage) -> None:
        self._storage = storage
        self._never_written = {*signature.inputs, *core.constants()}.difference(signature.outputs)
        self._uses: dict[Routine, list[tuple[int, _Window]]] = {}
        """The uses of a routine: operand and window, which counts from the operand's first element."""
        self.region = Region()
        self._windows: dict[_Memory, list[_Window]] = {}
        """The bytes that entries of the open region use."""
        self._routines: set[Routine] = set()
        """The routines of the open region."""

    def start(self) -> None:
        """Begin a new region."""
        self.region = Region()
        self._windows = {}
        self._routines = set()

    def add(self, inst: Inst, routine: Routine, operands: Sequence[Access], places: Sequence[int], first: int) -> bool:
        """Add the entry of an instruction with the arguments from ``first`` on; False, and no change, if it must not
        join. An empty region takes every entry.

        ``places`` are slot and byte offset of each of its operands.
        """
        region = self.region
        if region.entries and (
            len(region.entries) >= 2 * MOST_ENTRIES
            or (routine.partitions != region.partitions and not self._suits(routine))
        ):
            return False
        joining = self._joining(routine, operands, places)
        if joining is None:
            return False
        for memory, number, window in joining:
            windows = self._windows.setdefault(memory, [])
            if number == _NEW:
                windows.append(window)
            else:
                windows[number] = _joined(windows[number], window)
        region.entries += (routine.address, first)
        region.nanoseconds += routine.nanoseconds
        if routine not in self._routines:
            self._routines.add(routine)
            size = sum(use.high - use.low for use in routine.uses if use.step)
            region.partitions = max(region.partitions, routine.partitions)
            region.bytes_of_partition = max(region.bytes_of_partition, size)
            region.has_product = region.has_product or inst.effects.accumulation is not None
            if any(access.tensor.layout.pairs for access in inst.writes()):
                region.granule = _PACKED_ROWS
        return True

    def _suits(self, routine: Routine) -> bool:
        """False if threads would share an expensive entry badly, since others of the region have more partitions."""
        few, many = sorted((routine.partitions, self.region.partitions))
        return 4 * few > 3 * many or min(routine.nanoseconds, self.region.nanoseconds) < WORTHWHILE

    def _joining(
        self, routine: Routine, operands: Sequence[Access], places: Sequence[int]
    ) -> list[tuple[_Memory, int, _Window]] | None:
        """The memory that an entry uses, with the number of the window that takes it in; None if partitions cross.

        Memory that is never written is left out, and so are windows that the region has.
        """
        joining: list[tuple[_Memory, int, _Window]] = []
        uses = self._uses.get(routine)
        if uses is None:
            uses = self._uses[routine] = [
                (use.memory, (use.step, use.pitch, use.low, use.high, *use.span(), use.writes)) for use in routine.uses
            ]
        for operand, (step, pitch, low, high, start, end, writes) in uses:
            access = operands[operand]
            if access.dynamic is not None:
                used = (*self._whole(access.dynamic.source.tensor, False), *self._whole(access.tensor, writes))
            elif access.tensor in self._never_written:
                continue
            else:
                at = places[2 * operand + 1]
                window = (step, pitch, at + low, at + high, at + start, at + end, writes)
                used = ((self._storage.bases[access.tensor], window),)
            for memory, window in used:
                windows = self._windows.get(memory)
                number = _taking(windows, window) if windows else _NEW
                if number is None:
                    return None
                if number == _NEW or not windows or windows[number] != window:
                    joining.append((memory, number, window))
        return joining

    def _whole(self, tensor: Tensor, writes: bool) -> list[tuple[_Memory, _Window]]:
        if tensor in self._never_written:
            return []
        slot, start = self._storage.bases[tensor]
        end = start + native_bytes(tensor)
        return [((slot, start), (0, 0, start, end, start, end, writes))]


def _joined(one: _Window, two: _Window) -> _Window:
    """The window of both."""
    step, pitch, low, high, first, end, writes = one
    _, _, other_low, other_high, other_first, other_end, other_writes = two
    low, high, first, end = min(low, other_low), max(high, other_high), min(first, other_first), max(end, other_end)
    return step, pitch, low, high, first, end, writes or other_writes


def _taking(windows: Sequence[_Window], window: _Window) -> int | None:
    """The number of the window that can take in this one, :data:`_NEW` if none can, None if partitions cross."""
    if len(windows) >= _MOST_WINDOWS:
        return None
    number = _NEW
    step, pitch, low, high, first, end, writes = window
    for n, other in enumerate(windows):
        its_step, its_pitch, its_low, its_high, its_first, its_end, its_writes = other
        if (
            its_step == step
            and step
            and its_pitch == pitch
            and (its_high if its_high > high else high) - (its_low if its_low < low else low) <= abs(step)
        ):
            number = n
        elif (its_writes or writes) and first < its_end and its_first < end:
            return None
        elif other == window:
            number = n
    return number
