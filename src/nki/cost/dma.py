"""Time of DMA transfers: the 16 DMA engines of a core are one resource, which all queues share.

A transfer costs its queue the issue of its descriptors, then waits for the first packet, then shares the bandwidth of
the DMA engines and of HBM with the transfers of the other queues, and ends with the semaphore that its reader waits
for. A descriptor moves one contiguous run of bytes and costs a fixed time beside the bytes, so short rows are slow. One
DMA engine serves eight partitions: a transfer of few partitions leaves the other engines to other transfers.
"""

from __future__ import annotations

import math

from nki.ir.estimate import Estimate
from nki.ir.types import Access
from nki.target.model import Kind, Target

_SOURCE = "rate of all DMA engines, shared by all queues, and the time of a packet beside its bytes"


def transfer(
    dst: Access,
    srcs: tuple[Access, ...],
    target: Target,
    *,
    efficiency: float = 1.0,
    kind: Kind = "measured",
    source: str = _SOURCE,
) -> Estimate:
    """Moving each of ``srcs`` to ``dst``, at ``efficiency`` of the rate of a plain copy."""
    engine_ns = sum(_packets_ns(dst, src, target) for src in srcs)
    moved = sum(max(_bytes(dst), _bytes(src)) for src in srcs)
    shared = max(engine_ns / target.dma_engines, moved / bandwidth(target)) / efficiency
    alone = max(shared, engine_ns / _engines_used(dst, srcs, target) / efficiency)
    return _estimate(shared, alone, len(srcs) * _bytes(dst), target, kind, source)


def transposed(dst: Access, target: Target, efficiency: float) -> Estimate:
    """A transpose of 2-byte or 4-byte elements into ``dst``, at ``efficiency`` of the rate of a plain copy."""
    shared = _bytes(dst) / (efficiency * bandwidth(target))
    alone = max(shared, shared * target.dma_engines / _engines_used(dst, (), target))
    source = "documented part of the rate that the DMA engines sustain"
    return _estimate(shared, alone, _bytes(dst), target, "docs", source)


def bandwidth(target: Target) -> float:
    """Bytes per ns that all transfers of a core have together: what its DMA engines sustain, or its part of HBM."""
    engines = target.dma_engines * target.dma_engine_sustained_gbps
    return min(engines, target.hbm_chip_gbps / target.cores_per_chip)


def contiguous_bytes(access: Access) -> int:
    """Bytes of the longest contiguous runs that the window consists of; rows of a tile are runs of their own."""
    run = 1
    dimensions = list(zip(access.shape, access.strides, strict=True))
    for count, stride in reversed(dimensions[access.buffer.on_chip :]):
        if count > 1 and stride != run:
            break
        run *= count
    return run * access.dtype.itemsize


def _estimate(shared: float, alone: float, moved: int, target: Target, kind: Kind, source: str) -> Estimate:
    issue = target.dma_trigger_ns
    latency = issue + target.dma_start_ns + alone + target.dma_completion_ns
    return Estimate("dma", shared, latency, latency - shared, moved, kind, source, issue)


def _packets_ns(dst: Access, src: Access, target: Target) -> float:
    """Time of all packets of one copy, one after the other on one DMA engine."""
    elements = min(
        contiguous_bytes(dst) // dst.dtype.itemsize,
        contiguous_bytes(src) // src.dtype.itemsize,
    )
    itemsize = max(dst.dtype.itemsize, src.dtype.itemsize)
    runs = math.ceil(dst.size / elements)
    packets = runs * math.ceil(elements * itemsize / target.dma_packet_bytes)
    return packets * target.dma_packet_overhead_ns + dst.size * itemsize / target.dma_engine_peak_gbps


def _engines_used(dst: Access, srcs: tuple[Access, ...], target: Target) -> int:
    rows = [access.partitions for access in (dst, *srcs) if access.buffer.on_chip]
    per_engine = target.partitions // target.dma_engines
    return min(target.dma_engines, math.ceil(max(rows) / per_engine)) if rows else target.dma_engines


def _bytes(access: Access) -> int:
    return access.nbytes
