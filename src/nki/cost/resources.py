"""Resources that queues of a core share: the one that has each, and the time from which another one may have it.

The replay and the list scheduler both ask these, so that an instruction waits for the same reasons in both: for ports
of memory and generators of descriptors here, for parts of the array in :mod:`nki.cost.tensor_array`, for DMA engines
in :mod:`nki.cost.sharing`.
"""

from __future__ import annotations

from nki.ir.estimate import Compute

_NOT_KEPT = (-1, 0.0)
_IDLE = (0.0, -1)


class Ports:
    """Ways to memory that engines have in common; one queue has each at a time."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[str, tuple[int, float]] = {}
        """The queue that had each port last, and the time from which another one may have it."""

    def free(self, estimate: Compute, queue: int, time: float) -> float:
        """The time, ``time`` or later, from which on an instruction of ``queue`` has its ports."""
        for port in estimate.ports:
            holder, until = self.kept.get(port, _NOT_KEPT)
            if until > time and holder != queue:
                time = until
        return time

    def keep(self, estimate: Compute, queue: int, time: float) -> None:
        """An instruction of ``queue`` has its ports from ``time`` on."""
        held = queue, time + estimate.ports_ns
        for port in estimate.ports:
            self.kept[port] = held


class DescriptorGenerators:
    """Generators of DMA descriptors; each serves one transfer at a time."""

    __slots__ = ("served",)

    def __init__(self) -> None:
        self.served: dict[str, tuple[float, int]] = {}
        """The time from which each is free again, and the number that it served last."""

    def free(self, dge: str) -> tuple[float, int]:
        """The time from which a generator is free, and the number that it served last."""
        return self.served.get(dge, _IDLE)

    def keep(self, dge: str, until: float, number: int) -> None:
        """A generator serves ``number`` until that time."""
        self.served[dge] = until, number
