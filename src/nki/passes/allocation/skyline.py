"""A plan for memory that is nearly full: all blocks at once, first from the bottom up, then by making way.

The blocks that lie already have an upper edge, a height for each moment. Where it is lowest, the heaviest block whose
life fits between the higher parts around is laid; if there is none, the gap is filled up to the lower of its sides.
Weight is made of duration and size. What then ends above the memory is laid again, the earliest first, into gaps; a
block that finds none takes the place of those that are cheapest to move, which are laid again in turn, and it becomes
more expensive to move, so that two do not push one another for ever. That touches only the moments that are too full.

Where nothing is in use from one moment to the next, the lives fall apart into parts that are planned alone. Parts that
are alike but for the moment, such as the rounds of an outer loop that Python unrolls, get the same plan.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.liveness import LiveRange

_MIXTURES: Final = (0.25, 0.0)
"""Weight is duration times this power of size."""
_ROUNDS: Final = 2
_LEAST: Final = 2_000
"""Blocks that one repair may lay: so many times all that there are, and no less than this."""
_CROWD: Final = 256
"""Laying a block among so many others counts as one more."""
_WORK: Final = 30_000
"""Blocks that all repairs together lay again, at the least one repair."""
_DEAREST: Final = 1e12
"""The most that moving a block costs, so that sums of costs stay exact enough."""
_FEW: Final = 24
"""Below this many a plain loop is faster than NumPy."""
_HIGHEST: Final = 1 << 62

Array = NDArray[Any]


def skyline(lives: Sequence[LiveRange], capacity: int) -> list[int] | None:
    """An offset for each of ``lives``, which are in the order of their beginning; None if no plan was found."""
    parts = list(_parts(lives))
    shapes = [
        tuple((one.first - part[0].first, one.last - part[0].first, one.size, one.align) for one in part)
        for part in parts
    ]
    repairs = max(1, _WORK // (_ROUNDS * sum(map(len, set(shapes)))))
    plans: dict[tuple[tuple[int, int, int, int], ...], list[int]] = {}
    for shape in shapes:
        if shape not in plans:
            plan = _planned(_Blocks(shape), capacity, repairs)
            if plan is None:
                return None
            plans[shape] = plan
    return [offset for shape in shapes for offset in plans[shape]]


def _parts(lives: Sequence[LiveRange]) -> Iterator[Sequence[LiveRange]]:
    """The lives in groups; each begins after all of the group before have ended."""
    start, end = 0, -1
    for i, life in enumerate(lives):
        if life.first > end and i > start:
            yield lives[start:i]
            start = i
        end = max(end, life.last)
    yield lives[start:]


class _Blocks:
    """Lives of one part as columns, in the order of their beginning."""

    def __init__(self, shape: Sequence[tuple[int, int, int, int]]) -> None:
        self.firsts, self.lasts, self.sizes, self.aligns = (list(column) for column in zip(*shape, strict=True))
        self.first, self.last, self.size = (np.array(column) for column in (self.firsts, self.lasts, self.sizes))
        self.duration: NDArray[np.float64] = (self.last - self.first + 1).astype(np.float64)


def _planned(blocks: _Blocks, capacity: int, repairs: int) -> list[int] | None:
    """Offsets of the first mixture that fits, or of the first repair that does."""
    weights = [blocks.duration * blocks.size**power for power in _MIXTURES]
    laid: list[list[int]] = []
    for its in weights:
        offsets = _laid(blocks, its)
        if max(offset + size for offset, size in zip(offsets, blocks.sizes, strict=True)) <= capacity:
            return offsets
        laid.append(offsets)
    tries = [(offsets, costs, tight) for tight in (True, False) for offsets in laid for costs in weights]
    for offsets, costs, tight in tries[:repairs]:
        found = _repaired(blocks, offsets, capacity, costs, tight)
        if found is not None:
            return found
    return None


class _Edge:
    """The upper edge: where each piece starts, and its height, unlike its neighbours'; the last stands at the end."""

    def __init__(self, end: int) -> None:
        self.starts, self.heights = [0, end], [0, _HIGHEST]

    def fill(self, number: int) -> None:
        """Raise a piece to the lower of its sides."""
        left = self.heights[number - 1] if number else _HIGHEST
        right = self.heights[number + 1]
        self.replace(number, [(self.starts[number], min(left, right))])

    def replace(self, number: int, pieces: Sequence[tuple[int, int]]) -> None:
        """Put ``pieces`` in the place of one; join neighbours of one height."""
        low = number
        before = self.heights[number - 1] if number else -1
        starts: list[int] = []
        heights: list[int] = []
        for start, height in pieces:
            if height != before:
                starts.append(start)
                heights.append(height)
            before = height
        high = number + 2 if self.heights[number + 1] == before else number + 1
        self.starts[low:high] = starts
        self.heights[low:high] = heights


def _laid(blocks: _Blocks, weights: Array) -> list[int]:
    """The offsets of a plan as high as it gets."""
    weights = weights.copy()
    edge = _Edge(int(blocks.last.max()) + 1)
    offsets = [0] * len(blocks.sizes)
    for _ in offsets:
        while True:
            height = min(edge.heights)
            number = edge.heights.index(height)
            start, end = edge.starts[number], edge.starts[number + 1]
            found = _heaviest(blocks, weights, start, end)
            if found is not None:
                break
            edge.fill(number)
        weights[found] = 0.0
        at = offsets[found] = height + -height % blocks.aligns[found]
        first, behind = blocks.firsts[found], blocks.lasts[found] + 1
        pieces = [(start, height), (first, at + blocks.sizes[found]), (behind, height)]
        edge.replace(number, pieces[start == first : 3 - (behind == end)])
    return offsets


def _heaviest(blocks: _Blocks, weights: Array, start: int, end: int) -> int | None:
    """The heaviest block that lives between two moments, the first of several; what lies has no weight."""
    low = bisect_left(blocks.firsts, start)
    high = bisect_left(blocks.firsts, end, low)
    if high - low > _FEW:
        fits = np.where(blocks.last[low:high] < end, weights[low:high], 0.0)
        best = int(fits.argmax())
        return low + best if fits[best] else None
    found, most = None, 0.0
    for i, weight in enumerate(weights[low:high].tolist(), low):
        if weight > most and blocks.lasts[i] < end:
            found, most = i, weight
    return found


def _repaired(blocks: _Blocks, offsets: Sequence[int], capacity: int, costs: Array, tight: bool) -> list[int] | None:
    """The plan with what ends above the memory moved into it; None if that takes too many steps."""
    at = np.array(offsets)
    top = at + blocks.size
    until = np.where(top > capacity, -1, blocks.last)  # the last moment of what lies, before all time for the others
    costs = costs.copy()
    waiting = np.flatnonzero(until < 0).tolist()  # in order, so a heap: the earliest is laid first
    effort = max(_LEAST, _ROUNDS * len(offsets))
    while waiting:
        if effort <= 0:
            return None
        i = heapq.heappop(waiting)
        behind = bisect_left(blocks.firsts, blocks.lasts[i] + 1)
        near = np.flatnonzero(until[:behind] >= blocks.firsts[i])
        effort -= 1 + len(near) // _CROWD
        near = near[np.argsort(at[near], kind="stable")]
        low, high, size, align = at[near], top[near], blocks.sizes[i], blocks.aligns[i]
        offset = _gap(low, high, capacity, size, align, tight)
        if offset is None:
            offset = _cheapest(low, high, costs[near], capacity, size, align)
            pushed = near[(low < offset + size) & (high > offset)]
            until[pushed] = -1
            costs[i] = min(costs[i] + costs[pushed].sum(), _DEAREST)
            for other in pushed.tolist():
                heapq.heappush(waiting, other)
        at[i], top[i], until[i] = offset, offset + size, blocks.lasts[i]
    return at.tolist()


def _gap(low: Array, high: Array, capacity: int, size: int, align: int, tight: bool) -> int | None:
    """The offset of the smallest gap, or else of the lowest, between ranges in the order of ``low``; None: no gap."""
    starts = np.concatenate(([0], np.maximum.accumulate(high)))
    starts += -starts % align
    room = np.append(low, capacity) - starts
    fits = room >= size
    best = int(np.where(fits, room, _HIGHEST).argmin() if tight else fits.argmax())
    return int(starts[best]) if fits[best] else None


def _cheapest(low: Array, high: Array, costs: Array, capacity: int, size: int, align: int) -> int:
    """The offset, beside one of the ranges or an end of the memory, at which what is in the way costs least."""
    starts = np.concatenate(([0, capacity - size - (capacity - size) % align], high + -high % align))
    starts = np.concatenate((starts, (low - size) // align * align))
    starts = starts[(starts >= 0) & (starts + size <= capacity)]
    by_end = np.argsort(high, kind="stable")
    begun = np.concatenate(([0.0], np.cumsum(costs)))[np.searchsorted(low, starts + size)]
    ended = np.concatenate(([0.0], np.cumsum(costs[by_end])))[np.searchsorted(high[by_end], starts, "right")]
    return int(starts[(begun - ended).argmin()])
