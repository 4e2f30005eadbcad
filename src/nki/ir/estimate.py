"""Predicted time of one instruction; every declaration returns one from ``cost``.

All times are nanoseconds. Every estimate has:

* ``resource``: the name of an engine, or ``dma``, the DMA engines of a core as one shared resource, or
  ``collectives``, the cores that run collectives beside the engines;
* ``occupancy``: the next instruction on the resource may begin so long after this one;
* ``latency``: an instruction on another queue that waits for the result may begin so long after this one (the
  semaphore included);
* ``dependent``: one on the same engine that reads the result may begin ``occupancy + dependent`` after this one;
* ``queue_ns``: the time for which it keeps its queue; ``busy``: the longest for which it keeps any resource;
* ``chained_ns``: an instruction behind it on its queue that reads the result may begin so long after it;
* ``kind`` and ``source``: where the occupancy comes from: a document, a published measurement, or a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from nki.target.fact_rows import Kind


@dataclass(frozen=True, slots=True)
class _OnEngine:
    """Shared fields of all instructions that are no transfers."""

    occupancy: float
    latency: float
    kind: Kind
    source: str
    queue_ns: float = field(init=False)  # kept, as the sum of a Dma is: the schedulers read them for each candidate

    def __post_init__(self) -> None:
        object.__setattr__(self, "queue_ns", self.occupancy)

    @property
    def busy(self) -> float:
        return self.occupancy

    def lasting(self, occupancy: float) -> Self:
        """The same work in another time; the result comes as much sooner or later."""
        return replace(self, occupancy=occupancy, latency=self.latency - (self.occupancy - occupancy))

    def releasing_after(self, occupancy: float) -> Self:
        """The engine is free after another time; the result comes as late as before."""
        return replace(self, occupancy=occupancy)


@dataclass(frozen=True, slots=True)
class Compute(_OnEngine):
    """An instruction of Vector, Scalar, GpSimd or a sequencer.

    ``table`` names the table that an activation function needs. ``ports`` are the ways to memory that engines have in
    common and that this instruction keeps from the others for ``ports_ns``. ``streaming`` is the part of ``occupancy``
    in which elements stream, without the issue of the instruction.
    """

    resource: str
    dependent: float = 0.0
    table: str = ""
    ports: tuple[str, ...] = ()
    ports_ns: float = 0.0
    streaming: float = 0.0

    @property
    def chained_ns(self) -> float:
        return self.occupancy + self.dependent

    def joined(self) -> Self:
        """The same work as a part of one longer instruction, behind its neighbour: without an issue of its own."""
        less = max(0.0, self.occupancy - self.streaming)
        return replace(self, occupancy=self.occupancy - less, dependent=self.dependent + less)

    def lasting(self, occupancy: float) -> Self:
        """The same work in another time; the result comes, and the ports are free, as much sooner or later."""
        less = self.occupancy - occupancy
        ports_ns = max(0.0, self.ports_ns - less) if self.ports else 0.0
        streaming = max(0.0, self.streaming - less)
        return replace(self, occupancy=occupancy, latency=self.latency - less, ports_ns=ports_ns, streaming=streaming)


@dataclass(frozen=True, slots=True)
class Matmul(_OnEngine):
    """An instruction of the Tensor engine's array.

    ``flops`` counts two operations for each product. A product takes ``tensor_passes`` times the cycles of one of
    16-bit operands (in modes of 8-bit operands less than once); ``is_data_movement``: they only move data, as in a
    transpose.

    ``activity`` tells how busy the array is, or a part of it, which decides about the throttled clock; ``clocked`` is
    the part of ``occupancy`` that this clock stretches. ``array_mask`` is that part of the array as a bit mask (0: the
    whole), which is kept for ``array_ns``. ``weight_load_saving`` is the part of ``occupancy`` that is saved if the
    matmul before has loaded the same columns.
    """

    flops: int = 0
    tensor_passes: float = 1
    is_data_movement: bool = False
    activity: float = 1.0
    clocked: float = 1.0
    weight_load_saving: float = 0.0
    array_mask: int = 0
    array_ns: float = 0.0

    resource: ClassVar[str] = "tensor"
    dependent: ClassVar[float] = 0.0
    """Sums in PSUM follow each other without delay."""

    @property
    def chained_ns(self) -> float:
        return self.occupancy

    @property
    def is_matmul(self) -> bool:
        """Test if it multiplies."""
        return self.flops > 0 and not self.is_data_movement


@dataclass(frozen=True, slots=True)
class Dma:
    """A transfer. Its latency is the sum of its four parts.

    ``issue`` keeps its queue and ``dge``, the generator of its descriptors (an engine's name; empty for static ones);
    ``start`` goes by before the first data; ``transfer`` moves the data if no other DMA does; ``completion`` is the
    semaphore. ``occupancy`` is the time of the DMA engines at full rate (0: of GpSimd's own DMA, which leaves them
    free). A transfer of few partitions keeps each DMA engine for the time in ``engine_times``; if that is empty, each
    is kept for ``occupancy``. ``fetches``: it loads from HBM to the chip, with descriptors that a generator makes.
    ``hbm_ns``: the part of ``occupancy`` for which it keeps HBM, at the rate that a core has where no other runs.
    """

    occupancy: float
    issue: float
    start: float
    transfer: float
    completion: float
    bytes: int
    kind: Kind
    source: str
    dge: str = ""
    engine_times: tuple[float, ...] = ()
    fetches: bool = False
    hbm_ns: float = 0.0
    latency: float = field(init=False)
    queue_ns: float = field(init=False)

    resource: ClassVar[str] = "dma"

    def __post_init__(self) -> None:
        object.__setattr__(self, "latency", self.issue + self.start + self.transfer + self.completion)
        object.__setattr__(self, "queue_ns", self.issue)

    @property
    def chained_ns(self) -> float:
        return self.latency

    @property
    def dependent(self) -> float:
        return self.latency - self.occupancy

    @property
    def busy(self) -> float:
        return self.occupancy if self.occupancy > self.issue else self.issue

    def scaled(self, share: float) -> Self:
        """The estimate of the part ``share`` of the transfer."""
        return replace(
            self,
            occupancy=self.occupancy * share,
            issue=self.issue * share,
            start=self.start * share,
            transfer=self.transfer * share,
            engine_times=tuple([busy * share for busy in self.engine_times]),
            hbm_ns=self.hbm_ns * share,
        )


@dataclass(frozen=True, slots=True)
class Collective(Dma):
    """A collective of several ranks: a transfer that keeps the links to other chips for ``transfer``, and the DMA
    engines for ``occupancy`` of it. ``issue`` is the time of its start and its steps.
    """

    resource: ClassVar[str] = "collectives"


Estimate = Compute | Matmul | Dma
