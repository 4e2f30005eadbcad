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
    the same engine that reads the result, ``occupancy + dependent`` ns after it. ``issue`` is the time that a DMA keeps
    its own queue, 0 for other instructions. ``bytes`` counts the bytes that a DMA moves.

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
