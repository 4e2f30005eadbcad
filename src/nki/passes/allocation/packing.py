"""Addresses for live ranges such that no two live at the same time overlap.

Finding the least memory that suffices is NP-hard. Allocators are tried in turn, from the one that reuses addresses
least to the one that wastes least. All are deterministic; the first two take linear time.

:class:`_LeastRecentlyFreed` visits program points in order and gives each tensor the bytes that have been free for
longest, never used bytes first: the engines then seldom wait for an address. Long live ranges would fragment its
memory, so they go to a part of their own, packed by :class:`_BestFit`, which gives each tensor the smallest gap that
holds it. The less room there is, the more ranges count as long, until all of them do. Then ``skyline`` looks at all
program points at once. To allocate around pinned tiles, or at several start partitions, :func:`first_fit` places the
hardest tensors first; a tensor that finds no room moves to the front, and all are placed anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.liveness import LiveRange, live_ranges, peak_pressure
from nki.ir.program import AnalysisResult, CoreProgram
from nki.ir.types import Buffer, TileAddress
from nki.passes.allocation.skyline import skyline
from nki.target.memory_spaces import QUADRANT, MemorySpace, memory_spaces
from nki.target.model import Target

ByteRange = tuple[int, int]
_PLANS: Final = AnalysisResult[dict[tuple[str, int], list[TileAddress] | None]]("plans")

ROOMY_ALIGN: Final = 32
"""If there is room, tensors start at multiples of 32 bytes, as nki-library's allocator aligns by default. No public
document states what an engine needs beyond whole elements, so a tight plan aligns to no more than that."""
_TURNOVER_FRACTIONS: Final = (1.0, 0.5, 0.25, 0.125, 0.03125, 0.0)
"""Fractions of the memory, tried in turn: a live range is long if tensors of that size in all are made within it."""
_MIN_PIECE_DIVISOR: Final = 256
"""Free pieces smaller than 1/256 of the memory are joined with their neighbours, so that there are never many."""
_NEARBY: Final = 32
"""Most tensors that are made within a live range that counts as short in a tight plan."""
_MOST_BLOCKS: Final = 64
"""Most free blocks among which a tensor's is the one that is free for longest."""
_FIRST_FIT_BUDGET: Final = 40_000
"""Tensors that :func:`first_fit` places in all its attempts together; each order gets at least one attempt."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pinned:
    """A live range with a given address: its first partition, and its byte offset there."""

    live: LiveRange
    partition: int
    offset: int


def quadrants(first: int, count: int) -> int:
    """Bit mask of the quadrants of 32 partitions that ``count`` partitions from ``first`` on touch."""
    return (1 << -(-(first + count) // QUADRANT)) - (1 << first // QUADRANT)


def pack(ranges: Sequence[LiveRange], capacity: int, pinned: Sequence[Pinned] = ()) -> list[TileAddress] | None:
    """An address at partition 0 for each of ``ranges``, which are in the order of their first points.

    ``capacity`` is in bytes per partition. None: no allocator found a plan.
    """
    blocked = _merged((p.offset, p.offset + p.live.size) for p in pinned)
    for attempt, fraction in enumerate(_TURNOVER_FRACTIONS):
        if attempt == 1 and peak_pressure(ranges)[0] > capacity:
            return None  # nor does another allocator find a plan; the first one mostly does
        offsets = _split_by_length(ranges, capacity, blocked, fraction)
        if offsets is not None:
            if not fraction:
                _rotate(ranges, offsets, capacity, blocked)
            return [(0, offset) for offset in offsets]
    if pinned:
        return first_fit(ranges, capacity, pinned, [(0,)] * len(ranges))
    tight = skyline(ranges, capacity)
    if tight is None:
        return None
    _rotate(ranges, tight, capacity, blocked)
    return [(0, offset) for offset in tight]


def plan_of(core: CoreProgram, space: MemorySpace, target: Target) -> list[TileAddress] | None:
    """:func:`pack` for all tiles of ``core`` in one memory, where no tile has an address.

    The result is kept with ``core``, and is not to be changed.
    """
    plans = core.result(_PLANS)
    if plans is None:
        plans = core.keep(_PLANS, {})
    key = space.name, space.usable
    if key not in plans:
        plans[key] = pack(live_ranges(core, target)[Buffer[space.name]], space.usable)
    return plans[key]


def short_memories(core: CoreProgram, target: Target) -> list[MemorySpace]:
    """The memories in which tiles may find no place: of one with an address, only an allocation tells."""
    found = live_ranges(core, target)
    return [
        space
        for space in memory_spaces(target)
        if (ranges := found[Buffer[space.name]]) and (has_address(core, ranges) or plan_of(core, space, target) is None)
    ]


def has_address(core: CoreProgram, ranges: Iterable[LiveRange]) -> bool:
    """True if the user, or a text, has placed one of the tiles."""
    return any(live.tensor.address is not None or live.tensor in core.placement for live in ranges)


def _rotate(ranges: Sequence[LiveRange], offsets: list[int], capacity: int, blocked: Sequence[ByteRange]) -> None:
    """Move short live ranges of a tight plan to the next free bytes behind the one before, from the end to the start.

    A plan that is tight at one point reuses bytes at all others too, where instructions would wait for them.
    """
    count, cursor = len(ranges), 0
    active: list[int] = []
    for number, live in enumerate(ranges):
        active = [other for other in active if ranges[other].last >= live.first]
        end = number + 1
        while end < count and end - number <= _NEARBY and ranges[end].first <= live.last:
            end += 1
        if end - number <= _NEARBY:
            near = (*active, *range(number + 1, end))
            taken = sorted([(offsets[other], offsets[other] + ranges[other].size) for other in near] + list(blocked))
            place = _next_free(taken, cursor, live.size, capacity)
            if place is not None and place % live.align == 0:
                offsets[number], cursor = place, place + live.size
        active.append(number)


def _next_free(taken: Sequence[ByteRange], cursor: int, size: int, capacity: int) -> int | None:
    """The first place from ``cursor`` on for ``size`` bytes beside ``taken``, else the first one at all."""
    first: int | None = None
    low = 0
    for start, end in (*taken, (capacity, capacity)):
        place = -(-max(low, min(cursor, start)) // ROOMY_ALIGN) * ROOMY_ALIGN
        if place >= cursor and place + size <= start:
            return place
        place = -(-low // ROOMY_ALIGN) * ROOMY_ALIGN
        if first is None and place + size <= start:
            first = place
        low = max(low, end)
    return first


def first_fit(
    ranges: Sequence[LiveRange], capacity: int, pinned: Sequence[Pinned], start_partitions: Sequence[Sequence[int]]
) -> list[TileAddress] | None:
    """An address for each of ``ranges``, at one of its ``start_partitions``; None: no plan found.

    Tensors are placed by size, by size times duration, and by duration; in each of these orders, a tensor that finds
    no room moves to the front.
    """
    table = _Table(ranges, pinned, start_partitions)
    indices = range(len(ranges))
    orders = [
        sorted(indices, key=lambda i: (-ranges[i].size, ranges[i].first - ranges[i].last, i)),
        sorted(indices, key=lambda i: (-ranges[i].size * (ranges[i].last - ranges[i].first + 1), i)),
        sorted(indices, key=lambda i: (ranges[i].first - ranges[i].last, -ranges[i].size, i)),
    ]
    attempts = max(1, _FIRST_FIT_BUDGET // max(1, len(ranges) * len(orders)))
    for order in orders:
        for _ in range(min(attempts, 3 * len(ranges))):
            failed = table.place(order, capacity)
            if failed is None:
                return table.addresses()
            if order[0] == failed:
                break
            order.remove(failed)
            order.insert(0, failed)
    return None


def _merged(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """The same bytes as ranges that do not touch, in order."""
    result: list[ByteRange] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def _free_ranges(low: int, high: int, blocked: Sequence[ByteRange]) -> list[ByteRange]:
    """The ranges from ``low`` to ``high`` that are not blocked."""
    result: list[ByteRange] = []
    for start, end in blocked:
        if start > low:
            result.append((low, min(start, high)))
        low = max(low, end)
    result.append((low, high))
    return [(start, end) for start, end in result if start < end]


def _split_by_length(
    ranges: Sequence[LiveRange], capacity: int, blocked: Sequence[ByteRange], fraction: float
) -> list[int] | None:
    """Offsets: long live ranges at the bottom by best fit, the others above by least recently freed; None: no room."""
    is_long = _long_ranges(ranges, capacity * fraction)
    offsets = [0] * len(ranges)
    long = [i for i, one_is_long in enumerate(is_long) if one_is_long]
    top = _linear_scan(ranges, long, _BestFit(_free_ranges(0, capacity, blocked)), offsets)
    if top is None:
        return None
    short = [i for i, one_is_long in enumerate(is_long) if not one_is_long]
    if not short:
        return offsets
    free = _free_ranges(-(-top // ROOMY_ALIGN) * ROOMY_ALIGN, capacity, blocked)
    memory = _LeastRecentlyFreed(free, capacity // _MIN_PIECE_DIVISOR)
    return offsets if _linear_scan(ranges, short, memory, offsets) is not None else None


def _long_ranges(ranges: Sequence[LiveRange], turnover: float) -> list[bool]:
    """True for each live range within which tensors of at least ``turnover`` bytes together are made after it."""
    if not turnover:
        return [True] * len(ranges)
    allocated = list(accumulate([live.size for live in ranges], initial=0))  # bytes of the tensors before each one
    if allocated[-1] < turnover:
        return [False] * len(ranges)
    firsts = [live.first for live in ranges]
    return [
        allocated[bisect_left(firsts, live.last + 1, behind)] - allocated[behind] >= turnover
        for behind, live in enumerate(ranges, 1)
    ]


def _linear_scan(
    ranges: Sequence[LiveRange], selected: Sequence[int], memory: _BestFit | _LeastRecentlyFreed, offsets: list[int]
) -> int | None:
    """Set the offsets of the ``selected`` ranges in the order of program points; the highest end, None: no room."""
    ends: list[tuple[int, int, int]] = []
    top, allocate, free = 0, memory.allocate, memory.free
    for i in selected:
        live = ranges[i]
        first = live.first
        while ends and ends[0][0] < first:
            _, start, end = heappop(ends)
            free(start, end)
        block = allocate(live.size, live.align)
        if block is None:
            return None
        offset, end = block
        offsets[i] = offset
        heappush(ends, (live.last, offset, end))
        if end > top:
            top = end
    return top


class _BestFit:
    """Free memory as gaps in address order; allocates from the smallest gap that holds the block."""

    def __init__(self, free: Sequence[ByteRange]) -> None:
        self.starts = [start for start, _ in free]
        self.ends = [end for _, end in free]

    def allocate(self, size: int, align: int) -> ByteRange | None:
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
        offset = start + -start % align
        pieces = [(low, high) for low, high in ((start, offset), (offset + size, end)) if low < high]
        self.starts[best : best + 1] = [low for low, _ in pieces]
        self.ends[best : best + 1] = [high for _, high in pieces]
        return offset, offset + size

    def free(self, start: int, end: int) -> None:
        i = bisect_left(self.starts, start)
        low, high = i, i
        if i and self.ends[i - 1] == start:
            low, start = i - 1, self.starts[i - 1]
        if i < len(self.starts) and self.starts[i] == end:
            high, end = i + 1, self.ends[i]
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]


class _LeastRecentlyFreed:
    """Free memory as pieces in the order in which they became free; allocates the block that is free for longest.

    A block may extend over the pieces that follow in memory. A piece keeps its turn when its lower part is allocated,
    so each piece is known by its end. Pieces of up to ``min_piece`` bytes are joined with their neighbours.
    """

    def __init__(self, free: Sequence[ByteRange], min_piece: int) -> None:
        self.min_piece = min_piece
        self.start_of = {end: start for start, end in free}
        """The start of each piece by its end, in the order of becoming free."""
        self.end_of = dict(free)
        self.turns = {end: turn for turn, end in enumerate(self.start_of)}
        """The turn at which each piece became free, by its end."""
        self.turn = len(self.turns)

    def allocate(self, size: int, align: int) -> ByteRange | None:
        if align < ROOMY_ALIGN:
            align = ROOMY_ALIGN
        size += -size % ROOMY_ALIGN
        block = self._oldest(size, align)
        if block is None:
            return None
        start_of, end_of, turns = self.start_of, self.end_of, self.turns
        start, offset = block
        below, top = start, offset + size
        while start < top:  # remove the pieces that the block covers; the rest of the last keeps its turn
            end = end_of.pop(start)
            if end > top:
                start_of[end] = top
                end_of[top] = end
            else:
                del start_of[end], turns[end]
            start = end
        if below < offset:
            self._add(below, offset)
        return offset, top

    def _oldest(self, size: int, align: int) -> tuple[int, int] | None:
        """The piece where the block begins and the offset in it, of all blocks the one that is free for longest.

        A block is free since the last of its pieces is: a scrap that is old may lie beside memory just freed.
        """
        best: tuple[int, int] | None = None
        since = tried = 0
        end_of, turns = self.end_of, self.turns
        for end, start in self.start_of.items():  # in the order of their turns
            if best is not None and (turns[end] >= since or tried == _MOST_BLOCKS):
                break
            offset = start + -start % align
            if end - offset >= size:
                return start, offset
            last, high = turns[end], end
            while high - offset < size and (above := end_of.get(high)) is not None:
                high = above
                turn = turns[high]
                if turn > last:
                    last = turn
            if high - offset >= size:
                tried += 1
                if best is None or last < since:
                    best, since = (start, offset), last
        return best

    def _add(self, start: int, end: int) -> None:
        self.start_of[end], self.end_of[start] = start, end
        self.turns[end] = self.turn
        self.turn += 1

    def free(self, start: int, end: int) -> None:
        start_of, end_of = self.start_of, self.end_of
        below = start_of.get(start)
        if below is not None and end - below <= self.min_piece:
            del start_of[start], end_of[below], self.turns[start]
            start = below
        above = end_of.get(end)
        if above is not None and above - start <= self.min_piece:
            del start_of[above], end_of[end], self.turns[above]
            end = above
        self._add(start, end)


_CHUNK: Final = 256
"""Neighbouring rows of a table that are compared with a live range together at first."""


class _Table:
    """All live ranges as columns, pinned ones first, to look up which of them are live together."""

    def __init__(
        self, ranges: Sequence[LiveRange], pinned: Sequence[Pinned], start_partitions: Sequence[Sequence[int]]
    ) -> None:
        rows = [*(p.live for p in pinned), *ranges]
        self.ranges, self.pinned_count = ranges, len(pinned)
        counts = [live.tensor.shape[0] for live in ranges]
        self.starts = [
            [(p, quadrants(p, count)) for p in starts] for starts, count in zip(start_partitions, counts, strict=True)
        ]
        """For each range, its start partitions and the quadrants that the tensor touches from there on."""
        self.first = np.array([live.first for live in rows], np.int64)
        self.last = np.array([live.last for live in rows], np.int64)
        self.size = np.array([live.size for live in rows], np.int64)
        self.offset = np.zeros(len(rows), np.int64)
        self.offset[: self.pinned_count] = [p.offset for p in pinned]
        self.quadrants = np.zeros(len(rows), np.int64)
        """0 for tensors that have no address yet."""
        self.quadrants[: self.pinned_count] = [quadrants(p.partition, p.live.tensor.shape[0]) for p in pinned]
        self.partition = [0] * len(ranges)
        chunks = np.arange(0, len(rows), _CHUNK)
        self.chunk_first = np.minimum.reduceat(self.first, chunks)
        self.chunk_last = np.maximum.reduceat(self.last, chunks)

    def addresses(self) -> list[TileAddress]:
        return list(zip(self.partition, self.offset[self.pinned_count :].tolist(), strict=True))

    def place(self, order: Sequence[int], capacity: int) -> int | None:
        """Give each range, in this order, its lowest address; the first that finds none below ``capacity``, or None."""
        self.quadrants[self.pinned_count :] = 0
        for i in order:
            live, row = self.ranges[i], i + self.pinned_count
            concurrent = self._concurrent(live)
            placed = self.quadrants[concurrent]
            options = [
                (self._lowest_offset(live, concurrent[placed & touched != 0]), partition, touched)
                for partition, touched in self.starts[i]
            ]
            offset, partition, touched = min(options)
            if offset + live.size > capacity:
                return i
            self.offset[row], self.quadrants[row], self.partition[i] = offset, touched, partition
        return None

    def _concurrent(self, live: LiveRange) -> NDArray[np.int64]:
        """The rows that are live together with ``live``, found chunk by chunk: most chunks lie before or after it."""
        chunks = np.flatnonzero((self.chunk_first <= live.last) & (self.chunk_last >= live.first))
        rows = (chunks[:, None] * _CHUNK + np.arange(_CHUNK)).reshape(-1)
        rows = rows[: np.searchsorted(rows, len(self.first))]
        return rows[(self.first[rows] <= live.last) & (self.last[rows] >= live.first)]

    def _lowest_offset(self, live: LiveRange, rows: NDArray[np.int64]) -> int:
        """The lowest offset of a gap between the ``rows`` that holds ``live``."""
        if not len(rows):
            return 0
        starts = self.offset[rows]
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate((starts + self.size[rows])[order])
        ends += -ends % live.align
        below = np.concatenate(([0], ends[:-1]))
        gaps = np.flatnonzero(starts - below >= live.size)
        return int(below[gaps[0]] if len(gaps) else ends[-1])
