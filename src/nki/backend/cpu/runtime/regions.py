"""Finds parallel regions: neighbouring dispatch entries in which no partition meets what another one does in another
partition.

An entry joins the open region if the windows of bytes that it uses go with the windows of the entries before it
(:func:`~nki.backend.cpu.kernel_ir.accesses.taking`). Otherwise partitions cross, and the entry opens the next region.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from nki.backend.cpu.kernel_ir.accesses import NEW, Window, take_in, taking
from nki.backend.cpu.kernel_ir.nodes import GRANULE
from nki.backend.cpu.runtime.routines import Routine
from nki.backend.cpu.runtime.storage import Storage, native_bytes
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.types import Access, Tensor

MOST_ENTRIES: Final = 256
"""Entries of a region. Between two regions, and between chunks, a launch looks for signals."""
WORTHWHILE: Final = 4000.0
"""Nanoseconds of a region from which on it is worth an offer, which takes about half a microsecond."""
_CACHE: Final = 512 * 1024
"""Bytes that the entries of a chunk may use: half of the second-level cache of a present core."""
_ENTRIES_IN_CACHE: Final = 3
"""Entries in turn with bytes that are to be in the cache together."""
_PACKED_ROWS: Final = 2 * GRANULE
"""Partitions with numbers that share words of packed operands: half of them would write each word by itself."""
_UNKNOWN_ROUNDS: Final = 16
"""Assumed rounds of a loop with a number of rounds known at run time only."""


def rounds_of(loop: Loop) -> int:
    """The number of rounds of a loop, where it is known."""
    if isinstance(loop, For) and isinstance(loop.start, int) and isinstance(loop.stop, int):
        return max(0, -(-(loop.stop - loop.start) // loop.step))
    return _UNKNOWN_ROUNDS


_Memory = tuple[int, int]
"""A tensor's memory: slot of the frame and offset."""


class Region:
    """Entries that may run chunk by chunk, and what is known about them; ``never_written``: tensors that may be read by
    every entry.
    """

    def __init__(self, storage: Storage, never_written: Container[Tensor]) -> None:
        self._storage = storage
        self._never_written = never_written
        self._windows: dict[_Memory, list[Window]] = {}
        """The bytes that the entries use."""
        self._routines: set[Routine] = set()
        self.entries: list[int] = []
        """Pairs of a routine and its first argument."""
        self.partitions = 0
        self.nanoseconds = 0.0
        self.has_product = False
        self._bytes_of_partition = 0
        """The most bytes that an entry uses of one partition."""
        self._granule = GRANULE
        """The fewest partitions of a chunk."""

    @property
    def is_worthwhile(self) -> bool:
        """True if the region takes so long that threads may share it."""
        return self.nanoseconds >= WORTHWHILE and self.partitions > GRANULE

    @property
    def block(self) -> int:
        """Partitions of a chunk that some entries in turn find in the cache; a matmul wants all of them, as it packs
        its operand for all.
        """
        every = -(-self.partitions // GRANULE) * GRANULE
        if self.has_product or len(self.entries) == 2 or self._bytes_of_partition == 0:
            return every
        fitting = _CACHE // (_ENTRIES_IN_CACHE * self._bytes_of_partition) // self._granule * self._granule
        return min(every, max(self._granule, fitting))

    def add(self, inst: Inst, routine: Routine, operands: Sequence[Access], places: Sequence[int], first: int) -> bool:
        """Add the entry of an instruction with the arguments from ``first`` on; False, and no change, if it must not
        join. An empty region takes every entry.

        ``places`` are slot and byte offset of each of its operands.
        """
        if self.entries and (
            len(self.entries) >= 2 * MOST_ENTRIES
            or (routine.partitions != self.partitions and not self._suits(routine))
        ):
            return False
        joining = self._joining(routine, operands, places)
        if joining is None:
            return False
        for memory, number, window in joining:
            take_in(self._windows.setdefault(memory, []), number, window)
        self.entries += (routine.address, first)
        self.nanoseconds += routine.nanoseconds
        if routine not in self._routines:
            self._routines.add(routine)
            size = sum(high - low for _, (step, _, low, high, *_) in routine.uses if step)
            self.partitions = max(self.partitions, routine.partitions)
            self._bytes_of_partition = max(self._bytes_of_partition, size)
            self.has_product = self.has_product or inst.effects.accumulation is not None
            if any(access.tensor.layout.pairs for access in inst.writes()):
                self._granule = _PACKED_ROWS
        return True

    def _suits(self, routine: Routine) -> bool:
        """False if threads would share an expensive entry badly, since others of the region have more partitions."""
        few, many = sorted((routine.partitions, self.partitions))
        return 4 * few > 3 * many or min(routine.nanoseconds, self.nanoseconds) < WORTHWHILE

    def _joining(
        self, routine: Routine, operands: Sequence[Access], places: Sequence[int]
    ) -> list[tuple[_Memory, int, Window]] | None:
        """The memory that an entry uses, with the number of the window that takes it in; None if partitions cross.

        Memory that is never written is left out, and so are windows that the region has.
        """
        joining: list[tuple[_Memory, int, Window]] = []
        for operand, (step, pitch, low, high, start, end, writes) in routine.uses:
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
                number = taking(windows, window) if windows else NEW
                if number is None:
                    return None
                if number == NEW or not windows or windows[number] != window:
                    joining.append((memory, number, window))
        return joining

    def _whole(self, tensor: Tensor, writes: bool) -> list[tuple[_Memory, Window]]:
        if tensor in self._never_written:
            return []
        slot, start = self._storage.bases[tensor]
        end = start + native_bytes(tensor)
        return [((slot, start), (0, 0, start, end, start, end, writes))]
