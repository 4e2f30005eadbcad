"""Processor sharing of the DMA engines: the data queues that have data take turns, a packet of each.

A transfer goes to one queue on all DMA engines, which serve a queue in order and the queues round robin; the queue is
that of the engine that triggers the transfer and of the method that generates its descriptors (NKI documentation,
"Introduction to Direct Memory Access with NKI", DMA Queues). With packets that are small beside a transfer, each of
``n`` queues with data has the ``n``-th part of the bandwidth, and queues together never have more than all of it.

Virtual time makes that cost a few steps for each transfer: it runs ``n`` times as slowly as time, so a transfer that
begins at the virtual time ``v`` ends at ``v`` and its share, whoever comes and goes meanwhile.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

DataQueue = str | int
"""The name of a generator of descriptors, or the number of a ring whose descriptors lie in HBM."""
NEVER = float("inf")


class SharedBandwidth:
    """Transfers under processor sharing, in the order of events: :meth:`arrive` and :meth:`complete` at times that do
    not go back, and the next completion comes at ``next_end`` if nothing arrives before. Times are ns.
    """

    def __init__(self) -> None:
        self.next_end = NEVER
        self._time = self._virtual = 0.0
        self._served: list[tuple[float, int, DataQueue, float]] = []
        """Of each queue with data the transfer that moves: virtual end, number, queue, begin; a heap."""
        self._behind: dict[DataQueue, deque[tuple[int, float]]] = {}
        """Of each queue with data the transfers that have arrived behind that one: number and share."""

    def arrive(self, time: float, queue: DataQueue, number: int, share: float) -> None:
        """Transfer ``number``, which takes ``share`` ns of the whole bandwidth, comes to ``queue`` at ``time``."""
        behind = self._behind.get(queue)
        if behind is not None:
            behind.append((number, share))
            return
        self._behind[queue] = deque()
        self._pass(time)
        heappush(self._served, (self._virtual + share, number, queue, time))
        self._plan()

    def complete(self) -> tuple[int, float, float]:
        """The transfer that completes at ``next_end``: its number, and the time in which its data moved."""
        end = self.next_end
        virtual, number, queue, begin = heappop(self._served)
        self._time, self._virtual = end, virtual
        behind = self._behind[queue]
        if behind:
            following, share = behind.popleft()
            heappush(self._served, (virtual + share, following, queue, end))
        else:
            del self._behind[queue]
        self._plan()
        return number, begin, end

    def _pass(self, time: float) -> None:
        """Let time pass until ``time``, before which nothing completes."""
        if self._served:
            self._virtual += (time - self._time) / len(self._served)
        else:
            self._virtual = 0.0
        self._time = time

    def _plan(self) -> None:
        served = self._served
        self.next_end = self._time + (served[0][0] - self._virtual) * len(served) if served else NEVER
