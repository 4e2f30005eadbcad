"""May-analysis of races: the accesses of cores to one tensor in shared memory, and the test if they may race."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import TypeGuard

from nki.analysis.byte_sets import ByteSet
from nki.ir.types import Access, Tensor

Event = tuple[int, bool, Access | None]
"""Number of barriers on the tensor before, is a write, access; None: an access that some runs may not have.

An access with a run-time index is one of every run, at a place that depends on data.
"""


class SharedAccesses:
    """Accesses of each core to a tensor. ``is_ready``: it holds something before the kernel begins."""

    __slots__ = ("events", "is_ready", "moves_with_loops", "tensor")

    def __init__(self, tensor: Tensor, cores: int, *, is_ready: bool) -> None:
        self.tensor = tensor
        self.is_ready = is_ready
        self.events: tuple[dict[Event, None], ...] = tuple({} for _ in range(cores))
        self.moves_with_loops = False
        """Some access has an index that the iterations of loops decide."""

    def may_race(self, *, in_order: bool) -> bool:
        """True if a core may read what another one writes between the same two barriers, or what no core has written.

        ``in_order``: cores meet outside of loops alone.
        """
        return self._is_read_early() if self._has_epochs(in_order) else self._is_read_by_others()

    def _has_epochs(self, in_order: bool) -> bool:
        """True if it is known between which barriers each access is."""
        return in_order and not self.moves_with_loops

    def _is_read_by_others(self) -> bool:
        """True if a core reads the tensor and another one writes it, or nothing is in it before."""
        reads, writes = (
            {rank for rank, events in enumerate(self.events) if any(w is is_write for _, w, _ in events)}
            for is_write in (False, True)
        )
        return bool(reads) and (not self.is_ready or bool(writes and len(reads | writes) > 1))

    def both_write_somewhere(self, *, in_order: bool) -> bool:
        """True if two cores may write between the same barriers in every run, one at a place that depends on data."""
        has_epochs = self._has_epochs(in_order)
        writers: dict[int, set[int]] = {}
        somewhere: set[int] = set()
        for rank, events in enumerate(self.events):
            for epoch, is_write, access in events:
                if is_write and access is not None:
                    now = epoch if has_epochs else 0
                    writers.setdefault(now, set()).add(rank)
                    if access.dynamic is not None:
                        somewhere.add(now)
        return any(len(writers[epoch]) > 1 for epoch in somewhere)

    def _is_read_early(self) -> bool:
        """True if a core may read what others alone write in the same epoch, or what nothing wrote."""
        if all(is_write for events in self.events for _, is_write, _ in events):
            return False
        return any(
            self._reads_early(events, chain(*self.events[:rank], *self.events[rank + 1 :]))
            for rank, events in enumerate(self.events)
        )

    def _reads_early(self, own: Iterable[Event], others: Iterable[Event]) -> bool:
        """:meth:`_is_read_early` of a core, by its ``own`` accesses and the accesses of the ``others``."""
        is_ready = self.is_ready
        theirs: dict[int, ByteSet] = defaultdict(lambda: ByteSet(self.tensor))
        for epoch, is_write, access in others:
            if is_write and _is_known(access):
                theirs[epoch].add(access)
            is_ready |= is_write and not _is_known(access)
        now, written = 0, ByteSet(self.tensor)
        alone = theirs[0].copy()  # what others alone write in this epoch
        for epoch, is_write, access in own:
            for passed in range(now, epoch):
                for part in theirs[passed].patterns.values():
                    written.add(part)
            if epoch > now:
                now, alone = epoch, theirs[epoch].copy()
            if not _is_known(access):
                is_ready |= is_write
            elif is_write:
                written.add(access)
                alone.subtract(access)
            elif not (is_ready or written.intersects(access)) or alone.intersects(access):
                return True
        return False


def _is_known(access: Access | None) -> TypeGuard[Access]:
    """True if ``access`` is one of every run, at a place that is known."""
    return access is not None and access.dynamic is None
