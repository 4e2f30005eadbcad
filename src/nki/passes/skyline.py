"""A plan for memory that is nearly full: all blocks at once, from the bottom up, as in a game of falling blocks.

The blocks that lie already have an upper edge, a height for each moment. Where it is lowest, the heaviest block whose
life fits between the higher parts around is laid; if there is none, the gap is filled up to the lower of its sides.
Weight is size times duration, or duration alone; a block that ends above the memory becomes heavier, and all are laid
anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nki.passes.liveness import Life

_ATTEMPTS: Final = 40
_WORK: Final = 40_000
"""Blocks that all attempts from one kind of weights lay together."""
_BUMP: Final = 3.0
_HIGHEST: Final = 1 << 62


class _Edge:
    """The upper edge: pieces of first moment, moment behind the last, and height; neighbours differ in height."""

    def __init__(self, end: int) -> None:
        self.pieces: list[tuple[int, int, int]] = [(0, end, 0)]

    def lowest(self) -> int:
        """The number of the lowest piece, the first of several."""
        heights = [height for _, _, height in self.pieces]
        return heights.index(min(heights))

    def replace(self, number: int, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Put ``pieces``, those that last at all, in the place of one; join neighbours of one height."""
        around = self.pieces[max(0, number - 1) : number + 2]
        before, after = around[: min(number, 1)], around[min(number, 1) + 1 :]
        joined: list[tuple[int, int, int]] = []
        for start, end, height in (*before, *(p for p in pieces if p[0] < p[1]), *after):
            if joined and joined[-1][2] == height:
                joined[-1] = (joined[-1][0], end, height)
            else:
                joined.append((start, end, height))
        self.pieces[max(0, number - 1) : number + 2] = joined

    def fill(self, number: int) -> None:
        """Raise a piece to the lower of its sides."""
        start, end, _ = self.pieces[number]
        left = self.pieces[number - 1][2] if number else _HIGHEST
        right = self.pieces[number + 1][2] if number + 1 < len(self.pieces) else _HIGHEST
        self.replace(number, [(start, end, min(left, right))])


def skyline(lives: Sequence[Life], capacity: int) -> list[int] | None:
    """An offset for each of ``lives``; None if no attempt stays below ``capacity``."""
    durations = [life.last - life.first + 1 for life in lives]
    areas = [duration * life.size for duration, life in zip(durations, lives, strict=True)]
    for chosen in (areas, durations):
        weights = [float(weight) for weight in chosen]
        for _ in range(max(1, min(_ATTEMPTS, _WORK // len(lives)))):
            offsets = _laid(lives, weights)
            over = [i for i, life in enumerate(lives) if offsets[i] + life.size > capacity]
            if not over:
                return offsets
            for i in over:
                weights[i] *= _BUMP
    return None


def _laid(lives: Sequence[Life], weights: Sequence[float]) -> list[int]:
    order = sorted(range(len(lives)), key=lambda i: -weights[i])
    first = np.array([lives[i].first for i in order])
    last = np.array([lives[i].last for i in order])
    waiting = np.ones(len(lives), np.bool_)
    edge = _Edge(int(last.max()) + 1)
    offsets = [0] * len(lives)
    for _ in lives:
        while True:
            number = edge.lowest()
            start, end, height = edge.pieces[number]
            fits = waiting & (first >= start) & (last < end)
            found = int(fits.argmax())
            if fits[found]:
                break
            edge.fill(number)
        waiting[found] = False
        life = lives[order[found]]
        at = offsets[order[found]] = height + -height % life.align
        top = (life.first, life.last + 1, at + life.size)
        edge.replace(number, [(start, life.first, height), top, (life.last + 1, end, height)])
    return offsets
