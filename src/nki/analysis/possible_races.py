"""Possible races: the accesses of several cores to one tensor in shared memory, and the test if they may race."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from nki.analysis.access_pattern import AccessPattern, ByteRanges
from nki.analysis.alias_classes import alias_classes, boxes_of
from nki.ir.types import Tensor

SOMEWHERE: Final[AccessPattern] = (-1, (), (), 0)
"""Pattern of an access of every run, at a place that depends on data."""
Event = tuple[int, bool, AccessPattern | None]
"""Number of barriers on the tensor before, is a write, pattern; None: an access that some runs may not have."""


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
        """True if a core may read what another one writes between the same two barriers, or what no core has written;
        or if both write, one of them at a place that depends on data. ``in_order``: cores meet outside of loops alone.
        """
        if not in_order or self.moves_with_loops:
            return self._is_read_by_others() or self._both_write_somewhere(in_any_epoch=True)
        return self._is_read_early() or self._both_write_somewhere()

    def _is_read_by_others(self) -> bool:
        """True if a core reads the tensor and another one writes it, or nothing is in it before."""
        reads, writes = (
            {rank for rank, events in enumerate(self.events) if any(w is is_write for _, w, _ in events)}
            for is_write in (False, True)
        )
        return bool(reads) and (not self.is_ready or bool(writes and len(reads | writes) > 1))

    def _both_write_somewhere(self, *, in_any_epoch: bool = False) -> bool:
        """True if two cores write between the same barriers in every run, one at a place that depends on data."""
        writers: dict[int, set[int]] = {}
        somewhere: set[int] = set()
        for rank, events in enumerate(self.events):
            for epoch, is_write, pattern in events:
                if is_write and pattern is not None:
                    now = 0 if in_any_epoch else epoch
                    writers.setdefault(now, set()).add(rank)
                    if pattern is SOMEWHERE:
                        somewhere.add(now)
        return any(len(writers[epoch]) > 1 for epoch in somewhere)

    def _is_read_early(self) -> bool:
        """True if a core may read what others alone write in the same epoch, or what nothing wrote."""
        numbers: dict[AccessPattern, int] = {}
        for _, _, pattern in (event for events in self.events for event in events):
            if pattern is not None and pattern is not SOMEWHERE:
                numbers.setdefault(pattern, len(numbers))
        if not any(not is_write for events in self.events for _, is_write, _ in events) or not numbers:
            return False
        classes: dict[AccessPattern | None, frozenset[int]] = dict(
            zip(numbers, map(frozenset, pieces_of(self.tensor, list(numbers))), strict=True)
        )
        return any(
            _reads_early(events, chain(*self.events[:rank], *self.events[rank + 1 :]), classes, self.is_ready)
            for rank, events in enumerate(self.events)
        )


def _reads_early(
    own: Iterable[Event], others: Iterable[Event], classes: dict[AccessPattern | None, frozenset[int]], ready: bool
) -> bool:
    """``classes``: the pieces of each pattern; unknown places have none."""
    theirs: dict[int, set[int]] = {}
    for epoch, is_write, pattern in others:
        if not is_write:
            continue
        pieces = classes.get(pattern)
        if pieces is None:
            ready = True
        else:
            theirs.setdefault(epoch, set()).update(pieces)
    defined: set[int] = set()
    written: set[int] = set()
    last = passed = 0
    for epoch, is_write, pattern in own:
        if epoch > last:
            written.clear()
            last = epoch
        while passed < epoch:
            defined |= theirs.get(passed, set())
            passed += 1
        pieces = classes.get(pattern)
        if pieces is None:
            ready = ready or is_write
        elif is_write:
            written |= pieces
            defined |= pieces
        elif (not ready and defined.isdisjoint(pieces)) or not (pieces - written).isdisjoint(theirs.get(epoch, ())):
            return True
    return False


def pieces_of(tensor: Tensor, patterns: list[AccessPattern]) -> Sequence[Sequence[int]]:
    """The bytes of each pattern, as numbers of pieces into which the patterns cut the tensor."""
    ranges = [ByteRanges.of(pattern) for pattern in patterns]
    if any(r.dims for r in ranges):
        return [classes.tolist() for classes in alias_classes(boxes_of(tensor, patterns))[1]]
    ends = sorted({end for r in ranges for end in (r.start, r.start + r.size)})
    numbers = dict(zip(ends, range(len(ends)), strict=True))
    return [range(numbers[r.start], numbers[r.start + r.size]) for r in ranges]
