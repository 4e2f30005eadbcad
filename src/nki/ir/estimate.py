"""Predicted time of one instruction; every declaration returns one from ``cost``."""

from __future__ import annotations

from dataclasses import dataclass

from nki.target.model import Kind


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted time of one instruction, in nanoseconds from its issue.

    ``resource`` is an engine's name or ``dma``, the DMA engines of a core as one shared resource, of which
    ``occupancy`` is the time at full rate. The next instruction on the resource may begin ``occupancy`` ns after this
    one; an instruction on another queue that waits for the result, ``latency`` ns after it (semaphore included); one on
    the same engine that reads the result, ``occupancy + dependent`` ns after it.

    A DMA has three parts, of which ``latency`` is the sum with the semaphore behind them: ``issue`` keeps its queue and
    the ``generator`` of its descriptors (an engine's name; empty for static ones); ``start`` goes by before the first
    data; ``transfer`` moves the data if no other DMA does. ``bytes`` counts the bytes that it moves. A transfer of few
    partitions keeps each DMA engine for the time in ``engines``; if that is empty, each is kept for ``occupancy``.
    ``fetches``: it loads from HBM to the chip, with descriptors that a generator makes.

    ``activity`` tells how busy a matmul keeps the Tensor engine's array, or a part of it, which decides about the
    throttled clock; ``clocked`` is the part of ``occupancy`` that this clock stretches. ``part`` is that part of the
    array as a bit mask (0: the whole), which the matmul keeps for ``part_ns``.
    ``table`` names the table that an activation function needs. ``ports`` are the ways to memory that engines have in
    common and that this instruction keeps from the others for ``ports_ns``.

    ``load`` is the part of ``occupancy`` that a matmul saves if the one before it has loaded the same columns.
    ``flops`` counts two operations for each product of the Tensor engine, each of which takes ``passes`` times the
    cycles of one of 16-bit operands (in modes of 8-bit operands less than once); ``moves`` is true if those only move
    data, as in a transpose.

    ``kind`` and ``source`` say where the occupancy comes from: a document, a published measurement, or a guess.
    """

    resource: str
    occupancy: float
    latency: float
    dependent: float
    bytes: int
    kind: Kind
    source: str
    issue: float = 0.0
    start: float = 0.0
    transfer: float = 0.0
    generator: str = ""
    table: str = ""
    ports: tuple[str, ...] = ()
    ports_ns: float = 0.0
    activity: float = 1.0
    clocked: float = 1.0
    flops: int = 0
    passes: float = 1
    moves: bool = False
    load: float = 0.0
    part: int = 0
    part_ns: float = 0.0
    engines: tuple[float, ...] = ()
    fetches: bool = False
