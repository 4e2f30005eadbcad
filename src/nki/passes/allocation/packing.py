"""Offsets for blocks of bytes that are in use for a time, so that no two in use at once overlap.

Finding the least memory that suffices is NP-hard. Planners are tried in turn, from the one that shares least to the one
that wastes least; each is deterministic, and the first two take time in proportion to the blocks.

:class:`_Oldest` walks through time and gives each block the place that was free for longest, never used ones first: the
engines then seldom wait for a place. Blocks that live long would cut its memory into pieces; they go to a part of their
own, packed by :class:`_Gaps`, which gives each block the smallest gap that holds it. The less room there is, the more
blocks count as living long, until none is left for the other part. Then ``skyline`` looks at all of time at once.
Where blocks are to lie around fixed ones, or beside each other in other partitions, :func:`stack` places the hardest
first; a block that finds no room moves to the front, and all are placed anew.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.liveness import LiveRange, peak_pressure
from nki.ir.types import TileAddress
from nki.passes.allocation.skyline import skyline
from nki.target.memory_spaces import QUADRANT

Range = tuple[int, int]

ROOMY_ALIGN: Final = 32
"""Where there is room, blocks start at multiples of 32 bytes, as nki-library's allocator aligns by default. No public
document states what an engine needs beyond whole elements, so a tight plan aligns to no more than that."""
_SHARES: Final = (1.0, 0.5, 0.25, 0.125, 0.03125, 0.0)
"""A block lives long when, within its life, blocks are made of this share of the memory."""
_GRAIN: Final = 256
"""Free pieces below this part of the memory are joined with their neighbours, so that there are never many."""
_WORK: Final = 40_000
"""Blocks that :func:`stack` places in all its attempts together, at the least one attempt of each order."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A block whose place is given: its first partition, and its byte offset there."""

    life: LiveRange
    partition: int
    offset: int


def lanes(first: int, count: int) -> int:
    """The quadrants of 32 partitions that ``count`` partitions from ``first`` on touch, a bit each."""
    return (1 << -(-(first + count) // QUADRANT)) - (1 << first // QUADRANT)


def pack(lives: Sequence[LiveRange], capacity: int, fixed: Sequence[Fixed] = ()) -> list[TileAddress] | None:
    """A place at partition 0 for each of ``lives``, which are in the order of their beginning; None: no plan found."""
    if sum(life.size for life in lives) > capacity and peak_pressure(lives)[0] > capacity:
        return None
    blocked = _joined((f.offset, f.offset + f.life.size) for f in fixed)
    for share in _SHARES:
        made = _spread(lives, capacity, blocked, share)
        if made is not None:
            return [(0, offset) for offset in made]
    if fixed:
        return stack(lives, capacity, fixed, [(0,)] * len(lives))
    tight = skyline(lives, capacity)
    return None if tight is None else [(0, offset) for offset in tight]


def stack(
    lives: Sequence[LiveRange], capacity: int, fixed: Sequence[Fixed], seats: Sequence[Sequence[int]]
) -> list[TileAddress] | None:
    """A place for each of ``lives``, starting at one of the partitions in its ``seats``; None: no plan found.

    Orders by size, by size and time, and by time are tried; in each, a block that finds no room moves to the front.
    """
    table = _Table(lives, fixed, seats)
    numbers = range(len(lives))
    orders = [
        sorted(numbers, key=lambda i: (-lives[i].size, lives[i].first - lives[i].last, i)),
        sorted(numbers, key=lambda i: (-lives[i].size * (lives[i].last - lives[i].first + 1), i)),
        sorted(numbers, key=lambda i: (lives[i].first - lives[i].last, -lives[i].size, i)),
    ]
    attempts = max(1, _WORK // max(1, len(lives) * len(orders)))
    for order in orders:
        for _ in range(min(attempts, 3 * len(lives))):
            failed = table.place(order, capacity)
            if failed is None:
                return table.places()
            if order[0] == failed:
                break
            order.remove(failed)
            order.insert(0, failed)
    return None


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """The same bytes as ranges that do not touch, in order."""
    result: list[Range] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def _free(low: int, high: int, blocked: Sequence[Range]) -> list[Range]:
    """What of ``low`` to ``high`` is not blocked."""
    result: list[Range] = []
    for start, end in blocked:
        if start > low:
            result.append((low, min(start, high)))
        low = max(low, end)
    result.append((low, high))
    return [(start, end) for start, end in result if start < end]


def _spread(lives: Sequence[LiveRange], capacity: int, blocked: Sequence[Range], share: float) -> list[int] | None:
    """Blocks that live long at the bottom, close together; the others above, each where it was free for longest."""
    long = _long(lives, capacity * share)
    offsets = [0] * len(lives)
    settled = _walk(
        lives, [i for i, is_long in enumerate(long) if is_long], _Gaps(_free(0, capacity, blocked)), offsets
    )
    if settled is None:
        return None
    others = [i for i, is_long in enumerate(long) if not is_long]
    if not others:
        return offsets
    room = _free(-(-settled // ROOMY_ALIGN) * ROOMY_ALIGN, capacity, blocked)
    return offsets if _walk(lives, others, _Oldest(room, capacity // _GRAIN), offsets) is not None else None


def _long(lives: Sequence[LiveRange], turn: float) -> list[bool]:
    """Whether, within each life, blocks of at least ``turn`` bytes together are made after it."""
    if not turn:
        return [True] * len(lives)
    starts = [life.first for life in lives]
    made = [0]
    for life in lives:
        made.append(made[-1] + life.size)
    if made[-1] < turn:
        return [False] * len(lives)
    return [made[bisect_left(starts, life.last + 1)] - made[i + 1] >= turn for i, life in enumerate(lives)]


def _walk(lives: Sequence[LiveRange], chosen: Sequence[int], memory: _Gaps | _Oldest, offsets: list[int]) -> int | None:
    """Take a place for each of the chosen when it begins and give it back when it ends; the highest end of all."""
    ends: list[tuple[int, int, int]] = []
    top = 0
    for i in chosen:
        life = lives[i]
        while ends and ends[0][0] < life.first:
            _, start, end = heapq.heappop(ends)
            memory.give(start, end)
        found = memory.take(life.size, life.align)
        if found is None:
            return None
        offset, end = found
        offsets[i] = offset
        heapq.heappush(ends, (life.last, offset, end))
        top = max(top, end)
    return top


class _Gaps:
    """Free memory as gaps in the order of their addresses. The smallest that holds a block is taken, from below."""

    def __init__(self, free: Sequence[Range]) -> None:
        self.starts = [start for start, _ in free]
        self.ends = [end for _, end in free]

    def take(self, size: int, align: int) -> Range | None:
        best, least = -1, 1 << 62
        for i, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            room = end - start
            if size <= room < least and room - -start % align >= size:
                best, least = i, room
                if room == size:
                    break
        if best < 0:
            return None
        start, end = self.starts[best], self.ends[best]
        at = start + -start % align
        pieces = [(low, high) for low, high in ((start, at), (at + size, end)) if low < high]
        self.starts[best : best + 1] = [low for low, _ in pieces]
        self.ends[best : best + 1] = [high for _, high in pieces]
        return at, at + size

    def give(self, start: int, end: int) -> None:
        i = bisect_left(self.starts, start)
        low, high = i, i
        if i and self.ends[i - 1] == start:
            low, start = i - 1, self.starts[i - 1]
        if i < len(self.starts) and self.starts[i] == end:
            high, end = i + 1, self.ends[i]
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]


class _Oldest:
    """Free memory as pieces in the order in which they became free. The first that, with what follows it, holds a block
    is taken. A piece keeps its turn when its lower part is taken, so it is known by its end.
    """

    def __init__(self, free: Sequence[Range], grain: int) -> None:
        self.grain = grain
        self.pieces = {end: start for start, end in free}
        """The start of each by its end, in the order of becoming free."""
        self.ends = dict(free)

    def take(self, size: int, align: int) -> Range | None:
        align = max(align, ROOMY_ALIGN)
        size += -size % ROOMY_ALIGN
        ends = self.ends
        for end, start in self.pieces.items():
            at = start + -start % align
            top = end
            while top - at < size and top in ends:
                top = ends[top]
            if top - at >= size:
                break
        else:
            return None
        below = start
        while start < at + size:  # all that the block lies in is taken; what is left over above keeps its turn
            end = ends.pop(start)
            if end > at + size:
                self.pieces[end] = at + size
                ends[at + size] = end
            else:
                del self.pieces[end]
            start = end
        if below < at:
            ends[below] = at
            self.pieces[at] = below
        return at, at + size

    def give(self, start: int, end: int) -> None:
        below = self.pieces.get(start)
        if below is not None and end - below <= self.grain:
            del self.pieces[start], self.ends[below]
            start = below
        above = self.ends.get(end)
        if above is not None and above - start <= self.grain:
            del self.pieces[above], self.ends[end]
            end = above
        self.pieces[end] = start
        self.ends[start] = end


class _Table:
    """All blocks side by side, the given ones first, for looking up which of them are in use together."""

    def __init__(self, lives: Sequence[LiveRange], fixed: Sequence[Fixed], seats: Sequence[Sequence[int]]) -> None:
        every = [*(f.life for f in fixed), *lives]
        self.lives, self.given = lives, len(fixed)
        counts = [life.tensor.shape[0] for life in lives]
        self.seats = [[(p, lanes(p, n)) for p in its] for its, n in zip(seats, counts, strict=True)]
        self.first = np.array([life.first for life in every], np.int64)
        self.last = np.array([life.last for life in every], np.int64)
        self.size = np.array([life.size for life in every], np.int64)
        self.offset = np.zeros(len(every), np.int64)
        self.offset[: self.given] = [f.offset for f in fixed]
        self.lanes = np.zeros(len(every), np.int64)
        """Nothing, for blocks that have no place yet."""
        self.lanes[: self.given] = [lanes(f.partition, f.life.tensor.shape[0]) for f in fixed]
        self.partition = [0] * len(lives)

    def places(self) -> list[TileAddress]:
        return list(zip(self.partition, self.offset[self.given :].tolist(), strict=True))

    def place(self, order: Sequence[int], capacity: int) -> int | None:
        """Give each, in this order, its lowest place; the first that has none below ``capacity``, or None."""
        self.lanes[self.given :] = 0
        for i in order:
            life, row = self.lives[i], i + self.given
            meets = (self.first <= life.last) & (self.last >= life.first)
            found = [(self._lowest(life, meets & (self.lanes & its != 0)), p, its) for p, its in self.seats[i]]
            offset, partition, its = min(found)
            if offset + life.size > capacity:
                return i
            self.offset[row], self.lanes[row], self.partition[i] = offset, its, partition
        return None

    def _lowest(self, life: LiveRange, meets: NDArray[np.bool_]) -> int:
        rows = np.flatnonzero(meets)
        starts = self.offset[rows]
        at = 0
        for start, size in sorted(zip(starts.tolist(), self.size[rows].tolist(), strict=True)):
            if start - at >= life.size:
                break
            at = max(at, start + size)
            at += -at % life.align
        return at
