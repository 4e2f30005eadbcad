"""``nisa.dma_copy``."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, DTypeError, EngineError, GenerationError, MemoryRegionError, ShapeError
from nki.ir.algebra import Algebra
from nki.ir.inst import Cost, Inst, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, Buffer, In, Out, Reach, Tile
from nki.isa import enums
from nki.isa.rules import rule
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.dma_copy"


def _rows_of(a: Access) -> bool:
    return a.dynamic is not None and a.dynamic.reach is Reach.rows


def _by_rows(i: Any) -> bool:
    return _rows_of(i.dst) or _rows_of(i.src)


@instruction(engines=(enums.engine.dma,))
class DmaCopy(Inst):
    """Copy ``src`` to ``dst`` with the DMA engines, between HBM and SBUF or within either.

    Both have the same number of elements; shapes may differ, elements keep their row-major order. Where dtypes differ,
    each element passes through float32. ``priority`` (0, most urgent, to 3) is a hint of gen4; ``dge_mode`` and
    ``engine`` choose how descriptors are made.

    ``dst`` and ``src`` may have a run-time index, for all of it or (HBM tensors) one for each row; then both have as
    many rows, which are copied one after the other. A row whose index leads outside its tensor is an error, or is left
    out with ``oob_mode=nisa.oob_mode.skip``.
    """

    dst: Out[Tile]
    src: In[Tile]
    priority: int | None = None
    oob_mode: enums.oob_mode = enums.oob_mode.error
    dge_mode: enums.dge_mode = enums.dge_mode.unknown
    engine: enums.engine = enums.engine.unknown
    name: str | None = None

    by_rows = True
    rules = (
        rule(
            "DC01",
            "dst '{i.dst.name}' has {i.dst.size} elements (shape {i.dst.shape}), src '{i.src.name}' has {i.src.size} "
            "(shape {i.src.shape})",
            lambda i, t: i.dst.size == i.src.size,
            _SOURCE,
            error=ShapeError,
            fix="slice both sides to the same number of elements",
        ),
        rule(
            "DC02",
            "DMA cannot reach psum, where '{i.dst.name}' or '{i.src.name}' is",
            lambda i, t: Buffer.psum not in (i.dst.buffer, i.src.buffer),
            "Release notes of NKI 0.3 (no DMA from PSUM)",
            error=MemoryRegionError,
            fix="move the tile between PSUM and SBUF with nisa.tensor_copy",
        ),
        rule(
            "DC03",
            "hardware descriptor generation does not exist on {t.name}",
            lambda i, t: i.dge_mode is not enums.dge_mode.hwdge,
            _SOURCE,
            error=GenerationError,
            until=2,
            fix="use nisa.dge_mode.swdge, or target trn2 or trn3",
        ),
        rule(
            "DC04",
            "engine {i.engine.name} does not issue this DMA: engine is for dge_mode=hwdge and is sync or scalar",
            lambda i, t: (
                i.engine is enums.engine.unknown
                or (i.dge_mode is enums.dge_mode.hwdge and i.engine in (enums.engine.sync, enums.engine.scalar))
            ),
            _SOURCE,
            error=EngineError,
            fix="leave engine out, or pass dge_mode=nisa.dge_mode.hwdge with nisa.engine.sync or nisa.engine.scalar",
        ),
        rule(
            "DC05",
            "hardware descriptor generation cannot convert {i.src.dtype} to {i.dst.dtype}",
            lambda i, t: i.dge_mode is not enums.dge_mode.hwdge or i.dst.dtype is i.src.dtype,
            "Release notes of NKI 0.3",
            error=DTypeError,
            fix="make both dtypes equal, or use nisa.dge_mode.swdge",
        ),
        rule(
            "DC06",
            "priority={i.priority} is not one of 0, 1, 2, 3",
            lambda i, t: i.priority is None or i.priority in (0, 1, 2, 3),
            _SOURCE,
            error=ArgumentError,
            fix="pass 0 (most urgent) to 3, or None",
        ),
        rule(
            "DC07",
            "priority needs gen4; {t.name} has no DMA quality of service",
            lambda i, t: i.priority is None,
            _SOURCE,
            error=GenerationError,
            until=3,
            fix="leave priority out, or target trn3",
        ),
        rule(
            "DC08",
            "cannot convert {i.src.dtype} to {i.dst.dtype}",
            lambda i, t: i.dst.dtype is i.src.dtype or (i.dst.dtype.computes and i.src.dtype.computes),
            _SOURCE,
            error=DTypeError,
            fix="copy between tensors of one dtype",
        ),
        rule(
            "DC09",
            "dst is {o[dst]}, src is {o[src]}: with an index for each row, both have as many rows",
            lambda i, t: not _by_rows(i) or i.dst.shape[0] == i.src.shape[0],
            "Access-pattern guide, vector dynamic access",
            error=ShapeError,
            fix="reshape the other side, so that its first dimension is the number of indices",
        ),
        rule(
            "DC10",
            "dge_mode={i.dge_mode.name} cannot follow an index for each row; only software on GpSimd can",
            lambda i, t: not _by_rows(i) or i.dge_mode in (enums.dge_mode.unknown, enums.dge_mode.swdge),
            "Descriptor generation guide, how access patterns affect the mode",
            error=ArgumentError,
            fix="leave dge_mode out, or pass nisa.dge_mode.swdge",
        ),
        rule(
            "DC11",
            "{t.name} has no DMA with an index for each row",
            lambda i, t: not _by_rows(i),
            "Descriptor generation guide, mode selection summary (indirect: NeuronCore-v3 and newer)",
            error=GenerationError,
            until=2,
            fix="loop over the rows with one index each, or target trn2 or trn3",
        ),
        rule(
            "DC12",
            "{o[dst]} or {o[src]} has an index for each row; only tensors in HBM can be addressed so",
            lambda i, t: all(a.buffer.is_hbm for a in i.accesses() if _rows_of(a)),
            "NKI reference, nki.isa.dma_copy",
            error=MemoryRegionError,
            fix="copy the tensor to HBM first",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.cast(m.flat(self.src), self.dst.dtype))

    def cost(self, target: Target) -> Cost:
        nbytes = self.dst.size * self.dst.dtype.itemsize
        return Cost(
            target.vector_clock_ghz * nbytes / (target.dma_engine_sustained_gbps * target.dma_engines),
            "docs",
            "sustained rate of all DMA engines; fixed latencies belong to the queue, not to the instruction",
        )

    @classmethod
    def sample(cls, draw: Draw) -> DmaCopy:
        partitions, free = draw.partitions(), draw.free()
        dtype = draw.choice(COMPUTING)
        other = dtype if draw.flag() else draw.choice(COMPUTING)
        tile = draw.tile(partitions, free, dtype)
        hbm = draw.hbm((free, partitions) if draw.flag() else (partitions * free,), other)
        return cls(hbm, tile) if draw.flag() else cls(tile, hbm)
