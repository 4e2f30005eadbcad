"""Skyline packing for memory that is nearly full: all live ranges at once, then local repair.

The tensors placed so far have an upper edge, the skyline: a height for each program point. Where the skyline is lowest,
the heaviest tensor with a live range that fits between the higher parts around is placed; if there is none, the gap is
filled up to the lower of its sides. The weight of a tensor is made of its duration and its size.

A tensor that then ends above the memory is placed again, the earliest first, into a gap. If there is none, the tensor
takes the place of the tensors that are cheapest to move, which are placed again in turn, and its own cost of moving
grows, so that two tensors do not evict each other for ever. A repair touches only the program points that are too full.

Where no tensor is live from one point to the next, the problem falls apart into independent components. Components
that are equal but for their start, such as iterations of an outer loop that Python unrolls, share one plan.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.liveness import LiveRange

_SIZE_EXPONENTS: Final = (0.25, 0.0)
"""The weight of a tensor is its duration in instructions times its size in bytes to this power."""
_REPAIR_ROUNDS: Final = 2
"""A repair may place so many tensors per tensor of the component, and no fewer than :data:`_MIN_REPAIR_STEPS`."""
_MIN_REPAIR_STEPS: Final = 2_000
_NEIGHBOURS_PER_STEP: Final = 256
"""Concurrent tensors that cost a repair one more step when a tensor is placed among them."""
_TOTAL_REPAIR_STEPS: Final = 30_000
"""Tensors that all repairs together place again; at least one repair is made."""
_MAX_EVICTION_COST: Final = 1e12
"""The most that moving a tensor costs (same unit as weights), so that sums of costs stay exact enough."""
_MIN_VECTOR_LENGTH: Final = 24
"""Tensors; up to this many, a Python loop is faster than NumPy."""
_INFINITE_HEIGHT: Final = 1 << 62

Array = NDArray[Any]


def skyline(ranges: Sequence[LiveRange], capacity: int) -> list[int] | None:
    """A byte offset for each of ``ranges``, which are in the order of their first points; None if no plan was found."""
    components = list(_components(ranges))
    shapes = [
        tuple((live.first - part[0].first, live.last - part[0].first, live.size, live.align) for live in part)
        for part in components
    ]
    repairs = max(1, _TOTAL_REPAIR_STEPS // (_REPAIR_ROUNDS * sum(map(len, set(shapes)))))
    plans: dict[tuple[tuple[int, int, int, int], ...], list[int]] = {}
    for shape in shapes:
        if shape not in plans:
            plan = _plan(_Blocks(shape), capacity, repairs)
            if plan is None:
                return None
            plans[shape] = plan
    return [offset for shape in shapes for offset in plans[shape]]


def _components(ranges: Sequence[LiveRange]) -> Iterator[Sequence[LiveRange]]:
    """The live ranges in groups; each group begins after all ranges of the group before have ended."""
    start, end = 0, -1
    for i, live in enumerate(ranges):
        if live.first > end and i > start:
            yield ranges[start:i]
            start = i
        end = max(end, live.last)
    yield ranges[start:]


class _Blocks:
    """The live ranges of one component as columns, in the order of their first points."""

    def __init__(self, shape: Sequence[tuple[int, int, int, int]]) -> None:
        self.firsts, self.lasts, self.sizes, self.aligns = (list(column) for column in zip(*shape, strict=True))
        self.first, self.last, self.size = (np.array(column) for column in (self.firsts, self.lasts, self.sizes))
        self.duration: NDArray[np.float64] = (self.last - self.first + 1).astype(np.float64)


def _plan(blocks: _Blocks, capacity: int, repairs: int) -> list[int] | None:
    """Offsets of the first skyline that fits, or of the first repair that does."""
    weightings = [blocks.duration * blocks.size**power for power in _SIZE_EXPONENTS]
    too_high: list[list[int]] = []
    for weights in weightings:
        offsets = _stack(blocks, weights)
        if max(offset + size for offset, size in zip(offsets, blocks.sizes, strict=True)) <= capacity:
            return offsets
        too_high.append(offsets)
    attempts = [(offsets, costs, tight) for tight in (True, False) for offsets in too_high for costs in weightings]
    for offsets, costs, tight in attempts[:repairs]:
        repaired = _repair(blocks, offsets, capacity, costs, tight)
        if repaired is not None:
            return repaired
    return None


class _Skyline:
    """The upper edge: the start of each piece, and its height, unlike its neighbours'; the last piece is the end."""

    def __init__(self, end: int) -> None:
        self.starts, self.heights = [0, end], [0, _INFINITE_HEIGHT]

    def fill(self, number: int) -> None:
        """Raise a piece to the lower of its sides."""
        left = self.heights[number - 1] if number else _INFINITE_HEIGHT
        right = self.heights[number + 1]
        self.replace(number, [(self.starts[number], min(left, right))])

    def replace(self, number: int, pieces: Sequence[tuple[int, int]]) -> None:
        """Replace one piece by ``pieces``, (start, height); join neighbours of one height."""
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


def _stack(blocks: _Blocks, weights: Array) -> list[int]:
    """The offsets of a plan of unlimited height."""
    weights = weights.copy()
    edge = _Skyline(int(blocks.last.max()) + 1)
    offsets = [0] * len(blocks.sizes)
    for _ in offsets:
        while True:
            height = min(edge.heights)
            number = edge.heights.index(height)
            start, end = edge.starts[number], edge.starts[number + 1]
            block = _heaviest(blocks, weights, start, end)
            if block is not None:
                break
            edge.fill(number)
        weights[block] = 0.0
        offset = offsets[block] = height + -height % blocks.aligns[block]
        first, after = blocks.firsts[block], blocks.lasts[block] + 1
        pieces = [(start, height), (first, offset + blocks.sizes[block]), (after, height)]
        edge.replace(number, pieces[start == first : 3 - (after == end)])
    return offsets


def _heaviest(blocks: _Blocks, weights: Array, start: int, end: int) -> int | None:
    """The first heaviest block with a live range within two points; blocks already placed have weight 0."""
    low = bisect_left(blocks.firsts, start)
    high = bisect_left(blocks.firsts, end, low)
    if high - low > _MIN_VECTOR_LENGTH:
        fits = np.where(blocks.last[low:high] < end, weights[low:high], 0.0)
        best = int(fits.argmax())
        return low + best if fits[best] else None
    heaviest, most = None, 0.0
    for i, weight in enumerate(weights[low:high].tolist(), low):
        if weight > most and blocks.lasts[i] < end:
            heaviest, most = i, weight
    return heaviest


def _repair(blocks: _Blocks, offsets: Sequence[int], capacity: int, costs: Array, tight: bool) -> list[int] | None:
    """The plan with the blocks above ``capacity`` moved into the memory; None if that takes too many steps."""
    at = np.array(offsets)
    top = at + blocks.size
    until = np.where(top > capacity, -1, blocks.last)  # the last point of each placed block; -1: not placed
    costs = costs.copy()
    pending = np.flatnonzero(until < 0).tolist()  # in order, so a heap: the earliest is placed first
    steps = max(_MIN_REPAIR_STEPS, _REPAIR_ROUNDS * len(offsets))
    while pending:
        if steps <= 0:
            return None
        i = heapq.heappop(pending)
        after = bisect_left(blocks.firsts, blocks.lasts[i] + 1)
        near = np.flatnonzero(until[:after] >= blocks.firsts[i])
        steps -= 1 + len(near) // _NEIGHBOURS_PER_STEP
        near = near[np.argsort(at[near], kind="stable")]
        low, high, size, align = at[near], top[near], blocks.sizes[i], blocks.aligns[i]
        offset = _gap(low, high, capacity, size, align, tight)
        if offset is None:
            offset = _cheapest(low, high, costs[near], capacity, size, align)
            evicted = near[(low < offset + size) & (high > offset)]
            until[evicted] = -1
            costs[i] = min(costs[i] + costs[evicted].sum(), _MAX_EVICTION_COST)
            for other in evicted.tolist():
                heapq.heappush(pending, other)
        at[i], top[i], until[i] = offset, offset + size, blocks.lasts[i]
    return at.tolist()


def _gap(low: Array, high: Array, capacity: int, size: int, align: int, tight: bool) -> int | None:
    """The offset of the smallest gap (``tight``) or of the lowest, between ranges in the order of ``low``; or None."""
    starts = np.concatenate(([0], np.maximum.accumulate(high)))
    starts += -starts % align
    room = np.append(low, capacity) - starts
    fits = room >= size
    best = int(np.where(fits, room, _INFINITE_HEIGHT).argmin() if tight else fits.argmax())
    return int(starts[best]) if fits[best] else None


def _cheapest(low: Array, high: Array, costs: Array, capacity: int, size: int, align: int) -> int:
    """The offset, beside one of the ranges or an end of the memory, at which the evicted blocks cost least."""
    starts = np.concatenate(([0, capacity - size - (capacity - size) % align], high + -high % align))
    starts = np.concatenate((starts, (low - size) // align * align))
    starts = starts[(starts >= 0) & (starts + size <= capacity)]
    by_end = np.argsort(high, kind="stable")
    begun = np.concatenate(([0.0], np.cumsum(costs)))[np.searchsorted(low, starts + size)]
    ended = np.concatenate(([0.0], np.cumsum(costs[by_end])))[np.searchsorted(high[by_end], starts, "right")]
    return int(starts[(begun - ended).argmin()])
