"""The last one of many results that an instruction needs, found once for all instructions that need the same ones.

Views of a tile that many instructions write, and many others read, give each reader all writers as its dependences.
Readers of the same views share the tuple of their dependences, so the last result of a tuple is known after its first
reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from nki.cost.sharing import NEVER
from nki.ir.estimate import Dma, Estimate

MANY: Final = 16
"""Dependences from which on it pays to keep the last one, and to wait for that one alone."""
_One = tuple[int, ...]


class LastResults:
    """Last results of a basic block. The lists belong to its replay, which fills them."""

    def __init__(
        self, queues: Sequence[int], estimates: Sequence[Estimate], releases: list[float], results: list[float]
    ) -> None:
        self.queues, self.estimates, self.releases, self.results = queues, estimates, releases, results
        self._known: dict[tuple[int, int, int], tuple[_One, _One]] = {}
        """Results of :meth:`of` that no longer change, by the ``id`` of both sequences, and queue."""

    @staticmethod
    def shared(predecessors: Iterable[Sequence[int]]) -> set[int]:
        """The ``id`` of each sequence of dependences that several instructions have, and that is long."""
        numbers = [id(each) for each in predecessors if len(each) >= MANY]
        return {number for number, count in Counter(numbers).items() if count > 1} if numbers else set()

    def of(self, producers: Sequence[int], chained: Sequence[int], queue: int) -> tuple[_One, _One]:
        """The latest producer on another queue, and the latest ``chained`` one on ``queue``; empty if there is none."""
        key = id(producers), id(chained), queue
        known = self._known.get(key)
        if known is not None:
            return known
        queues, results = self.queues, self.results
        times = [results[producer] if queues[producer] != queue else 0.0 for producer in producers]
        one, ends = (producers[times.index(max(times))],), list[float]()
        if chained:
            estimates, releases = self.estimates, self.releases
            for producer in chained:
                other = estimates[producer]
                ends.append(results[producer] if isinstance(other, Dma) else releases[producer] + other.dependent)
        both = one, ((chained[ends.index(max(ends))],) if chained else ())
        if NEVER not in times and NEVER not in ends:
            self._known[key] = both
        return both
