"""Resources that queues of a core share: the one that has each, and the time from which another one may have it.

The replay and the list scheduler both ask :class:`SharedResources`, so that an instruction waits for the same reasons
in both. Each resource reads the facts that it needs of the target: a mechanism of the hardware is a row in ``target/``,
a resource here, and, if it is a new reason to wait, a row of :class:`nki.base.terms.Cause`, which the resource names.
Work of a queue before an instruction begins is a :class:`Preparation`, which both ask without a change of theirs.
Parts of the array are in :mod:`nki.cost.tensor_array`, DMA engines that queues with data share in turns in
:mod:`nki.cost.sharing`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from nki.base.terms import Cause
from nki.cost.arbitration import data_queue
from nki.cost.sharing import DataQueue, EngineLoads, EnginesInOrder
from nki.cost.tensor_array import TensorArray
from nki.ir.estimate import Compute, Dma, Estimate, Matmul
from nki.target.activation_sets import differ
from nki.target.model import Target

_NOT_KEPT = (-1, 0.0)
IDLE = (0.0, -1)


class SharedResources:
    """All shared resources of a core. The array, tables and loads keep their state from block to block; ports,
    generators and DMA engines are free where a block begins, since all before it is complete.
    """

    def __init__(self, target: Target) -> None:
        self.array = TensorArray(target)
        self.tables = ActivationTables(target)
        self.preparations: tuple[Preparation, ...] = (self.tables,)
        self.loads = GeneratedLoads(target)

    def begin_block(self, engines: EngineLoads) -> None:
        """Free what a basic block finds free; ``engines`` are the DMA engines that matter for its transfers."""
        self.ports, self.dges = Ports(), DescriptorGenerators()
        self.are_kept = bool(self.array.parts.until)
        """A port or a part of the array was in use."""
        self.transfers = TransfersInOrder(engines, self.loads)

    def prepared(self, by_id: Mapping[int, Estimate], scheduling: bool = False) -> dict[int, list[Preparation]]:
        """The preparations for each estimate, by its ``id``, without those that have none; ``scheduling``: for the list
        scheduler.
        """
        kinds = [each for each in self.preparations if each.is_scheduled or not scheduling]
        waits = {number: [each for each in kinds if each.concerns(estimate)] for number, estimate in by_id.items()}
        return {number: preparations for number, preparations in waits.items() if preparations}

    def free(self, estimate: Estimate, queue: int, time: float) -> float:
        """The time, ``time`` or later, from which on an instruction of ``queue`` has what it shares, apart from a
        generator and DMA engines, for which transfers stand in line.
        """
        if isinstance(estimate, Compute):
            return self.ports.free(estimate, queue, time) if estimate.ports else time
        return self.array.parts.free(estimate.array_mask, time) if isinstance(estimate, Matmul) else time

    def keep(self, estimate: Compute | Matmul, queue: int, time: float) -> None:
        """An instruction of ``queue`` has what it shares from ``time`` on, at the full rate of each engine."""
        if isinstance(estimate, Matmul):
            if estimate.array_mask:
                self.array.parts.keep(estimate.array_mask, time + estimate.array_ns)
                self.are_kept = True
        elif estimate.ports:
            self.ports.keep(estimate, queue, time)
            self.are_kept = True


class Preparation(ABC):
    """Work of a queue before some of its instructions begin. The replay and the list scheduler ask once for each of
    them, in the order of the queue; queues run ahead of each other, so the state of one tells nothing about another.
    """

    cause: ClassVar[Cause]
    is_scheduled: ClassVar[bool] = True
    """The list scheduler counts it, as the replay does."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def concerns(self, estimate: Estimate) -> bool:
        """Test if an instruction with this estimate may have to wait for it."""

    @abstractmethod
    def prepare(self, estimate: Estimate, queue: int, free: float, time: float) -> tuple[float, float]:
        """Begin and end of it for an instruction that has all else at ``time``, and its queue at ``free``; twice
        ``time`` if there is nothing to do. The end may be before ``time``.
        """


class Ports:
    """Ways to memory that engines have in common; one queue has each at a time."""

    __slots__ = ("kept",)
    cause: ClassVar = Cause.port

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
    cause: ClassVar = Cause.generator

    def __init__(self) -> None:
        self.served: dict[str, tuple[float, int]] = {}
        """The time from which each is free again, and the number that it served last."""

    def free(self, dge: str) -> tuple[float, int]:
        """The time from which a generator is free, and the number that it served last."""
        return self.served.get(dge, IDLE)

    def keep(self, dge: str, until: float, number: int) -> None:
        """A generator serves ``number`` until that time."""
        self.served[dge] = until, number


class GeneratedLoads:
    """Loads with generated descriptors. The data of the second one stands still at first."""

    __slots__ = ("count", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.count = 0

    def stall(self) -> float:
        """The time for which the data of the next load stands still."""
        self.count += 1
        return self.target.dma_second_load_ns if self.count == 2 else 0.0


class TransfersInOrder:
    """Transfers that the DMA engines serve in the order in which their descriptors are there.

    The replay lets them move so where one data queue is in use; the list scheduler always, for speed.
    """

    __slots__ = ("_engines", "_loads", "_next_begin", "_queue_ends", "_stalls")

    def __init__(self, engines: EngineLoads, stalls: GeneratedLoads) -> None:
        self._loads, self._stalls = engines, stalls
        self._engines = EnginesInOrder(engines.count)
        self._next_begin: dict[DataQueue, float] = {}
        """The time before which the next transfer of each data queue does not begin."""
        self._queue_ends: dict[DataQueue, float] = {}
        """The end of the last transfer of each data queue: they end in order."""

    def move(self, estimate: Dma, ring: int, time: float) -> tuple[float, float]:
        """Begin and end of the data of a transfer of ``ring`` that has its descriptors at ``time``."""
        queue, ends = data_queue(estimate, ring), self._queue_ends
        begin, end = self._engines.move(self.begin(estimate, queue, time), self._loads.of(estimate))
        if (share := self._loads.busiest(estimate)) < estimate.transfer:
            end += estimate.transfer - share
        if (last := ends.get(queue, 0.0)) > end:
            end = last
        ends[queue] = end
        return begin, end

    def begin(self, estimate: Dma, queue: DataQueue, time: float) -> float:
        """The time at which the data comes to ``queue`` of a transfer that has its descriptors at ``time``."""
        begin, least = time + estimate.start, self._next_begin.get(queue, 0.0)
        if estimate.fetches:
            begin += self._stalls.stall()
        if least > begin:
            begin = least
        self._next_begin[queue] = begin
        return begin


class ActivationTables(Preparation):
    """The table of activation functions that Scalar has; it loads another one before it uses it, while operands are
    still awaited.
    """

    cause = Cause.table
    is_scheduled = False  # for speed

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.loaded = ""
        self.loads: list[tuple[float, float]] = []
        """Begin and end of each load."""

    def concerns(self, estimate: Estimate) -> bool:
        return isinstance(estimate, Compute) and bool(estimate.table)

    def prepare(self, estimate: Estimate, queue: int, free: float, time: float) -> tuple[float, float]:  # noqa: ARG002
        assert isinstance(estimate, Compute)
        if estimate.table == self.loaded:
            return time, time
        end = free + table_ns(self.loaded, estimate.table, self.target)
        self.loaded = estimate.table
        self.loads.append((free, end))
        return free, end


def table_ns(loaded: str, table: str, target: Target) -> float:
    """The time until ``table`` is there where ``loaded`` is (empty: none): known for tables of different sets."""
    if not loaded or differ(loaded, table):
        return target.activation_table_load_ns
    return target.activation_table_swap_ns
