"""Time of DMA transfers: all queues share the 16 DMA engines of a core, and each engine serves eight partitions.

A transfer costs its queue and a generator the issue of its descriptors, then waits for the first packet, then shares
the bandwidth of the DMA engines and of HBM with the transfers of the other queues, and ends with the semaphore that its
reader waits for. A descriptor moves one contiguous run of bytes and costs a fixed time beside the bytes, so short rows
are slow. A transfer of few partitions leaves the other engines to others, and the next one of the same partitions waits
for its engines.

Descriptors come from hardware that the Sync or the Scalar engine commands, from software on GpSimd, or lie in HBM
before the kernel begins. Each generator works on one transfer at a time, and the DMA engines move the data of its
transfers in that order (:mod:`nki.cost.sharing`). Where the kernel leaves the choice open, they
are generated for the kernel's inputs and outputs and for offsets known at run time alone ("DGE ON Levels: {'io',
'scalar_dynamic_offset'}", log of the compiler in the RMSNorm tutorial of release 2.26.1); descriptors of spills, of
tensors that the kernel makes in HBM, and within SBUF lie in HBM. Sync then commands the hardware; before trn2, and for
indices in SBUF, GpSimd writes them: one for each row that an index names, behind the time in which it reads the
indices. The fact ``dma_open_descriptors`` says so, and another value of it is another compiler's choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from nki.ir.estimate import Dma, Estimate
from nki.ir.types import Access, is_row_indexed
from nki.target.fact_rows import Kind
from nki.target.model import Target

SOFTWARE = "gpsimd"
"""The engine with software that generates descriptors."""
OPEN = "open"
"""The kernel names no generator."""
_ARGUMENTS = ("input", "output")
_SOURCE = "rate of all DMA engines, shared by all queues, and the time of a packet beside its bytes"


def transfer(
    dst: Access,
    srcs: tuple[Access, ...],
    target: Target,
    *,
    dge: str = OPEN,
    efficiency: float = 1.0,
    kind: Kind = "measured",
    source: str = _SOURCE,
) -> Dma:
    """Moving each of ``srcs`` to ``dst``, at ``efficiency`` of the rate of a plain copy; ``dge`` as
    :func:`dge_of` gives it.
    """
    engine_ns = sum(packets(dst, src, target).ns for src in srcs)
    hbm_ns = sum(_hbm_bytes(dst, src) for src in srcs) / target.hbm_stack_gbps / efficiency
    shared = max(engine_ns / target.dma_engines / efficiency, hbm_ns)
    parts = _parts_of_engines(dst, srcs, target)
    spread = target.dma_spread_ns * sum(map(bool, parts)) / target.dma_engines
    made = _descriptors(dge, target, one=_is_one_run(dst, srcs))
    own, times = target.dma_engine_by_partition, ()
    even = (1 - own) / target.dma_engines
    alone = max(shared, engine_ns * (own * max(parts) + even) / efficiency, spread)
    if own and max(parts) > 1 / target.dma_engines:
        times = tuple([engine_ns * (own * part + even) / efficiency for part in parts])
    fetches = bool(made.generator) and dst.buffer.on_chip and any(src.buffer.is_hbm for src in srcs)
    if dge == SOFTWARE and any(map(is_row_indexed, (dst, *srcs))):
        made = made.by_rows(target)
    moved = len(srcs) * _bytes(dst)
    return _estimate(shared, alone, hbm_ns, moved, target, made, kind, source, times, fetches)


def exchanged(dst: Access, src: Access, target: Target) -> Dma:
    """A tile to another core through the DMA engines, behind a barrier, so that the memory that each writes is free
    (reference, ``nisa.sendrecv``: "the standard DMA engine with CoreBarrier synchronization").
    """
    estimate = transfer(dst, (src,), target, dge="")
    return replace(estimate, start=estimate.start + target.sequencer_ns + target.remote_semaphore_ns)


def between_cores(dst: Access, target: Target) -> Dma:
    """A tile from another core by GpSimd's own DMA, which leaves the DMA engines free.

    Each of its processors moves the partitions that it serves, so few partitions are slower.
    """
    issue = target.gpsimd_issue_cycles / target.gpsimd_clock_ghz
    part = math.ceil(dst.partitions / target.gpsimd_core_partitions) * target.gpsimd_core_partitions
    moved = _bytes(dst) / target.gpsimd_dma_gbps * target.partitions / part
    kind, source = target.origin("gpsimd_dma_gbps")
    return Dma(0.0, issue, 0.0, moved, target.gpsimd_dma_latency_ns, _bytes(dst), kind, source, SOFTWARE)


def transposed(dst: Access, target: Target, efficiency: float, dge: str, *, by_rows: bool = False) -> Dma:
    """A transpose of 2-byte or 4-byte elements into ``dst``, at ``efficiency`` of the rate of a plain copy;
    ``by_rows``: of rows that indices name.

    All DMA engines together write blocks of 128 partitions and 16 elements (Trainium2 Architecture Guide for NKI, DMA
    Transpose). A smaller block is assumed to take the time of a whole one.
    """
    rows, columns = target.partitions, target.dma_transpose_block_rows
    blocks = math.ceil(dst.partitions / rows) * math.ceil(dst.free_elements / columns)
    moved = blocks * rows * columns * dst.dtype.itemsize
    shared, hbm_ns = moved / (efficiency * bandwidth(target)), moved / (efficiency * target.hbm_stack_gbps)
    source = "documented part of the rate that the DMA engines sustain, in whole blocks of 128 partitions"
    kind = "docs" if moved == _bytes(dst) else "guess"
    alone = max(shared, target.dma_spread_ns)
    made = _descriptors(dge, target)
    if dge == SOFTWARE and by_rows:
        made = made.by_rows(target)
    return _estimate(shared, alone, hbm_ns, _bytes(dst), target, made, kind, source)


def dge_of(
    mode: str,
    engine: str,
    target: Target,
    *,
    indirect: bool = False,
    converts: bool = False,
    accesses: Iterable[Access] | None = None,
) -> str:
    """The engine that generates the descriptors of a DMA with this ``dge_mode`` and ``engine``.

    Empty: none does; :data:`OPEN`: the compiler chooses. Hardware can generate none that are ``indirect``, or that
    convert dtypes (release notes of NKI 0.3). ``accesses``: what it reads and writes (None: an argument).
    """
    if mode == "none":
        return ""
    if mode == "swdge" or indirect:
        return SOFTWARE
    if mode == "hwdge" and target.dma_hardware_descriptors:
        return "scalar" if engine == "scalar" else "sync"
    if accesses is not None and not needs_descriptors(accesses):
        return ""
    return SOFTWARE if converts and target.dma_hardware_descriptors else OPEN


def needs_descriptors(accesses: Iterable[Access]) -> bool:
    """Test if an access is one of the kernel's arguments or results, or at an offset that only the run knows."""
    for access in accesses:  # noqa: SIM110  # a generator takes four times as long, for each transfer of a kernel
        if access.dynamic is not None or access.tensor.role in _ARGUMENTS:
            return True
    return False


class _Descriptors(NamedTuple):
    """The origin of a transfer's descriptors: the engine that generates them ("": none does), the time that this keeps
    the queue and the generator, and the time from there to the first packet.
    """

    generator: str
    issue: float
    start: float

    def by_rows(self, target: Target) -> _Descriptors:
        """The same behind the indices of rows, which GpSimd reads."""
        return self._replace(issue=self.issue + target.dma_row_indices_ns)


def _descriptors(dge: str, target: Target, *, one: bool = False) -> _Descriptors:
    """The descriptors of a transfer with ``dge``, as :func:`dge_of` gives it; ``one``: they are a single one."""
    own = "hardware" if target.dma_hardware_descriptors else "software"
    way = target.dma_open_descriptors
    if dge == OPEN and way == own:
        generator = "sync" if target.dma_hardware_descriptors else SOFTWARE
        made = _Descriptors(generator, target.dma_trigger_ns, target.dma_start_ns)
    elif not dge or (dge == OPEN and way == "static"):
        return _Descriptors("", target.sequencer_ns, target.dma_static_start_ns)
    elif dge == SOFTWARE or (dge == OPEN and way == "software"):
        return _Descriptors(SOFTWARE, target.dma_software_trigger_ns, target.dma_software_start_ns)
    else:
        generator = "sync" if dge == OPEN else dge
        made = _Descriptors(generator, target.dma_hardware_trigger_ns, target.dma_hardware_start_ns)
    if one and made.generator != SOFTWARE:
        made = made._replace(issue=made.issue * target.dma_one_descriptor_part)
    return made


def _is_one_run(dst: Access, srcs: tuple[Access, ...]) -> bool:
    """Test if a transfer moves one run of bytes, as one row of a tile is."""
    (first, *others) = srcs
    return not others and all(contiguous_bytes(access) == access.nbytes for access in (dst, first))


def bandwidth(target: Target, *, cores: int = 1, stores: bool = False) -> float:
    """Bytes per ns that all transfers of a core have together where ``cores`` run: what its DMA engines sustain, or
    its part of HBM.

    ``stores``: of transfers from SBUF to HBM, which wait for no data of HBM.
    """
    engines = target.dma_engines * (target.dma_engine_store_gbps if stores else target.dma_engine_sustained_gbps)
    return min(engines, target.hbm_stack_gbps / _sharing(cores, target))


def where_cores_share(estimate: Estimate, cores: int, target: Target) -> Estimate:
    """The estimate where ``cores`` run, all of them with transfers: the ones at one stack of HBM share its rate, and
    cores that do not run leave theirs to others.
    """
    if not isinstance(estimate, Dma):
        return estimate
    shared = estimate.hbm_ns * _sharing(cores, target)
    if shared <= estimate.occupancy:
        return estimate
    return replace(estimate, occupancy=shared, transfer=max(estimate.transfer, shared))


def _sharing(cores: int, target: Target) -> int:
    return min(cores, target.hbm_stack_cores)


def contiguous_bytes(access: Access) -> int:
    """Bytes of the longest contiguous runs that the window consists of; rows of a tile are runs of their own."""
    run = 1
    dimensions = list(zip(access.shape, access.strides, strict=True))
    for count, stride in reversed(dimensions[access.buffer.on_chip :]):
        if count > 1 and stride != run:
            break
        run *= count
    return run * access.dtype.itemsize


def _estimate(
    shared: float,
    alone: float,
    hbm_ns: float,
    moved: int,
    target: Target,
    made: _Descriptors,
    kind: Kind,
    source: str,
    engine_times: tuple[float, ...] = (),
    fetches: bool = False,
) -> Dma:
    generator, issue, start = made
    completion = target.dma_completion_ns
    return Dma(shared, issue, start, alone, completion, moved, kind, source, generator, engine_times, fetches, hbm_ns)


class Packets(NamedTuple):
    """The packets of a transfer: how many, and their time in ns one after the other on one DMA engine."""

    number: int
    ns: float


def packets(dst: Access, src: Access, target: Target) -> Packets:
    """The packets of one copy. Packets of 4 KiB run at the rate that an engine sustains (of bytes in HBM), short ones
    are slower by the time beside their bytes. Packets that convert are shorter on trn2, and take no less time than an
    empty packet that does not.
    """
    elements = min(
        contiguous_bytes(dst) // dst.dtype.itemsize,
        contiguous_bytes(src) // src.dtype.itemsize,
    )
    itemsize = max(dst.dtype.itemsize, src.dtype.itemsize)
    runs = math.ceil(dst.size / elements)
    moved = dst.size * itemsize
    overhead, sustained = target.dma_packet_overhead_ns, target.dma_engine_sustained_gbps
    if _are_adjacent(dst, src, elements):
        overhead = target.dma_adjacent_overhead_ns
    if _stores(dst, src):
        overhead, sustained = target.dma_store_overhead_ns, target.dma_engine_store_gbps
    if dst.dtype is src.dtype:
        count = runs * math.ceil(elements * itemsize / target.dma_packet_bytes)
        burst = count * overhead + moved / target.dma_engine_peak_gbps
    else:
        count = runs * math.ceil(elements * itemsize / target.dma_cast_packet_bytes)
        burst = count * target.dma_cast_overhead_ns + moved / target.dma_engine_peak_gbps
        burst = max(burst, count * overhead)
    return Packets(count, max(burst, _hbm_bytes(dst, src) / sustained))


def _parts_of_engines(dst: Access, srcs: tuple[Access, ...], target: Target) -> tuple[float, ...]:
    """The part of a transfer that each DMA engine moves: the rows of its partitions, of the tile with most rows.

    Tiles count as if they began at partition 0, since the place that another allocator gives them is not known.
    """
    tiles = [access for access in (dst, *srcs) if access.buffer.on_chip]
    if not tiles:
        return (1 / target.dma_engines,) * target.dma_engines
    tile = max(tiles, key=lambda access: access.partitions)
    step = tile.strides[0] // max(1, tile.partition_step)
    return _rows_by_engine(tile.start_partition, step, tile.partitions, target.partitions, target.dma_engines)


@lru_cache(maxsize=4096)
def _rows_by_engine(start: int, step: int, rows: int, partitions: int, engines: int) -> tuple[float, ...]:
    """The part of rows ``step`` partitions apart, from ``start`` on, that lies on the partitions of each engine."""
    counts = [0] * engines
    for partition in range(start, start + rows * step, step) if step else [start] * rows:
        counts[partition * engines // partitions % engines] += 1
    return tuple(count / rows for count in counts)


def _are_adjacent(dst: Access, src: Access, elements: int) -> bool:
    """Test if the runs of ``elements`` that a copy moves lie side by side in HBM."""
    sides = [access for access in (dst, src) if access.buffer.is_hbm]
    if any(map(is_row_indexed, sides)):
        return False
    return bool(sides) and all(contiguous_bytes(side) > elements * side.dtype.itemsize for side in sides)


def _stores(dst: Access, src: Access) -> bool:
    """Test if a copy reads on-chip memory and writes HBM."""
    return dst.buffer.is_hbm and src.buffer.on_chip


def _hbm_bytes(dst: Access, src: Access) -> int:
    """Bytes that HBM reads or writes, which a conversion changes; of a copy within one memory the larger side."""
    if dst.buffer.is_hbm is not src.buffer.is_hbm:
        return _bytes(dst if dst.buffer.is_hbm else src)
    return max(_bytes(dst), _bytes(src))


def _bytes(access: Access) -> int:
    return access.nbytes
