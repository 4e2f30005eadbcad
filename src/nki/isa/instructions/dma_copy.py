"""``nisa.dma_copy``."""

from __future__ import annotations

from typing import Any

from nki.base.errors import DTypeError, EngineError, ShapeError
from nki.cost import dma_costs
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms, DeprecatedParameter
from nki.ir.effects import Copy, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import In, Out, Tile
from nki.isa.deprecated import dropped
from nki.isa.rules.dma import HARDWARE, NO_PSUM, ONE_COLUMN, PRIORITY, ROWS, ROWS_MODE, row_indexed, skips
from nki.isa.rules.operand_rules import converts, rule
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.dma_copy"


def _modified(arguments: dict[str, Any], value: Any) -> str | None:
    """A copy that combined the source with the old contents of ``dst`` is a ``dma_compute`` today."""
    if value is None:
        return None
    dst, src = arguments.pop("dst"), arguments.pop("src")
    kept = {name: argument for name, argument in arguments.items() if name in ("oob_mode", "name")}
    arguments.clear()
    arguments.update(dst=dst, srcs=[src, dst], reduce_op=value, **kept)
    return "dma_compute"


@instruction(
    engines=(enums.engine.dma,),
    effects=Effects(copy=lambda i: Copy(i.dst, i.src), skips=skips, row_indexed=True),
    deprecated=DeprecatedForms(
        (
            DeprecatedParameter(
                "dst_rmw_op",
                "0.3",
                "write `nisa.dma_compute(dst, [src, dst], nl.add)` to add to what dst holds, and leave it out to copy",
                _modified,
            ),
            dropped("unique_indices", "0.3", "leave it out: only `nisa.dma_compute` adds to rows, and it takes it"),
        )
    ),
)
class DmaCopy(Inst):
    """Copy ``src`` to ``dst`` with the DMA engines, between HBM and SBUF or within either.

    Both have the same number of elements; shapes may differ, elements keep their row-major order. Where dtypes differ,
    each element passes through float32. ``priority`` (0, most urgent, to 3) is a hint of gen4; ``dge_mode`` and
    ``engine`` choose how descriptors are made.

    ``dst`` and ``src`` may have a run-time index, for all of it or (HBM tensors) one for each row; then both have as
    many rows, which are copied one after the other. A row with an index outside its tensor is an error, or is left
    out with ``oob_mode=nisa.oob_mode.skip``.
    """

    dst: Out[Tile]
    src: In[Tile]
    priority: int | None = None
    oob_mode: enums.oob_mode = enums.oob_mode.error
    dge_mode: enums.dge_mode = enums.dge_mode.unknown
    engine: enums.engine = enums.engine.unknown
    name: str | None = None

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
        NO_PSUM,
        HARDWARE,
        rule(
            "DC02",
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
            "DC03",
            "hardware descriptor generation cannot convert {i.src.dtype} to {i.dst.dtype}",
            lambda i, t: i.dge_mode is not enums.dge_mode.hwdge or i.dst.dtype is i.src.dtype,
            "Release notes of NKI 0.3",
            error=DTypeError,
            fix="make both dtypes equal, or use nisa.dge_mode.swdge",
        ),
        converts("DC04", _SOURCE),
        rule(
            "DC05",
            "dst is {o[dst]}, src is {o[src]}: with an index for each row, both have as many rows",
            lambda i, t: not row_indexed(i) or i.dst.shape[0] == i.src.shape[0],
            "Access-pattern guide, vector dynamic access",
            error=ShapeError,
            fix="reshape the other side, so that its first dimension is the number of indices",
        ),
        *PRIORITY,
        *ROWS,
        ROWS_MODE,
        ONE_COLUMN,
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.cast(m.flat(self.src), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(packets, bytes / bandwidth)``; the DMA engines of the core share the bandwidth."""
        dge = dma_costs.dge_of(
            self.dge_mode.name,
            self.engine.name,
            target,
            indirect=row_indexed(self),
            converts=self.dst.dtype is not self.src.dtype,
            accesses=self.accesses(),
        )
        return dma_costs.transfer(self.dst, (self.src,), target, dge=dge)

    @classmethod
    def sample(cls, draw: Draw) -> DmaCopy:
        partitions, free = draw.partitions(), draw.free()
        dtype, other = draw.copied()
        tile = draw.tile(partitions, free, dtype)
        hbm = draw.hbm((free, partitions) if draw.flag() else (partitions * free,), other)
        return cls(hbm, tile) if draw.flag() else cls(tile, hbm)
