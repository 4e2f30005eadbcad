"""``nisa.dma_compute``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import ArgumentError, DTypeError, DynamicIndexError, MemoryRegionError, OperatorError, ShapeError
from nki.cost import dma_costs
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms, DeprecatedOrder
from nki.ir.effects import Contents, Effects, Update
from nki.ir.estimate import Estimate
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile, is_row_indexed
from nki.isa.rules.dma import NO_PSUM, ONE_COLUMN, ROWS, row_indexed, skips
from nki.isa.rules.operand_rules import rule
from nki.isa.tables import enums
from nki.isa.tables.operators import AluOp, Op, named
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.dma_compute"
_MODIFY = f"{_SOURCE}, read-modify-write"
_UNIQUE = (
    "make the indices unique: add up the rows of equal indices first, or call it once for each set of unique indices"
)


def _added(i: Any) -> list[Access]:
    """Of a read-modify-write, the sources that are not ``dst`` itself; empty if there is no other."""
    return [a for a in i.srcs if not a.equals(i.dst)]


def _reaches(i: Any) -> bool:
    """True if one side of a read-modify-write is rows in HBM, and the other a tile in SBUF."""
    tile = next(iter(_added(i)), i.dst) if is_row_indexed(i.dst) else i.dst
    return tile.buffer is Buffer.sbuf and not is_row_indexed(tile)


def _named_once(i: Any) -> tuple[Contents, ...]:
    """``unique_indices``: no row that is added to is named twice. Rows that are only read may be."""
    if not is_row_indexed(i.dst):
        return ()
    source, last = i.dst.dynamic.source, largest_index(i.dst)

    def wrong(indices: NDArray[Any]) -> str:
        named = np.asarray(indices.astype(np.int64) % (1 << 32)).ravel()
        rows, counts = np.unique(named[named <= last], return_counts=True)
        twice = np.flatnonzero(counts > 1)
        return f"row {rows[twice[0]]} is named {counts[twice[0]]} times" if len(twice) else ""

    text = f"unique_indices=True promises that '{source.name}' names no row of dst '{i.dst.name}' twice"
    return (Contents(source, wrong, text, _UNIQUE, "DA11"),)


def _updates(i: Any) -> tuple[Update, ...]:
    return tuple(Update(src, ((i.reduce_op.name, True),)) for src in i.srcs)


@instruction(
    engines=(enums.engine.dma,),
    effects=Effects(updates=_updates, skips=skips, row_indexed=True, contents=_named_once),
    deprecated=DeprecatedForms(
        order=DeprecatedOrder(
            "scales",
            Op,
            ("dst", "srcs", "scales", "reduce_op"),
            "0.3",
            "write `nisa.dma_compute(dst, srcs, nl.add, scales)`, or leave scales out",
        )
    ),
)
class DmaCompute(Inst):
    """``dst`` = the sum of the 2 to 16 tensors in ``srcs``, element by element, in HBM or SBUF.

    All have the same number of elements; shapes may differ. Each source is converted to float32; additions go from the
    first to the last and the result is converted once. ``reduce_op`` is ``nl.add``, ``scales`` are all 1.0.

    With an index for each row it adds to what is there, row after row: ``dst`` is one of two sources, and either it has
    the indices and the other source is a tile in SBUF (scatter), or it is the tile and the other has them (gather).
    ``unique_indices=False`` is refused then. In a scatter, an index that occurs twice is an error, which is found when
    the kernel is compiled if the indices are constant, else in the simulator; native code adds both rows. A row with an
    index outside its tensor is an error, or is left out with ``oob_mode=nisa.oob_mode.skip``.
    """

    dst: Out[Tile]
    srcs: In[tuple[Tile, ...]]
    reduce_op: AluOp
    scales: tuple[float, ...] | None = None
    unique_indices: bool = True
    oob_mode: enums.oob_mode = enums.oob_mode.error
    name: str | None = None

    rules = (
        rule(
            "DA01",
            "srcs are {o[srcs]}; a DMA adds 2 to {t.dma_sources_max} tensors",
            lambda i, t: 2 <= len(i.srcs) <= t.dma_sources_max,
            f"{_SOURCE}; of one source it says a copy, the migration guide to 0.3 an addition to dst",
            error=ArgumentError,
            fix="to add one tensor to dst, pass both in srcs; to copy it, use nisa.dma_copy; add more than 16 in steps",
        ),
        rule(
            "DA02",
            "dst is {o[dst]}, srcs are {o[srcs]}: the numbers of elements differ",
            lambda i, t: all(a.size == i.dst.size for a in i.srcs),
            _SOURCE,
            error=ShapeError,
            fix="slice all to the same number of elements",
        ),
        rule(
            "DA03",
            "reduce_op={i.reduce_op}; a DMA only adds",
            lambda i, t: i.reduce_op.name == "add",
            _SOURCE,
            error=OperatorError,
            fix="pass nl.add, or load the tensors and use nisa.tensor_tensor",
        ),
        rule(
            "DA04",
            "scales={i.scales} for {o[srcs]}; a DMA multiplies by nothing but 1.0",
            lambda i, t: i.scales is None or (len(i.scales) == len(i.srcs) and all(s == 1 for s in i.scales)),
            _SOURCE,
            error=ArgumentError,
            fix="leave scales out, or multiply with nisa.tensor_scalar first",
        ),
        NO_PSUM,
        rule(
            "DA05",
            "dst is {o[dst]}, srcs are {o[srcs]}: packed elements cannot be added",
            lambda i, t: all(a.dtype.computes for a in i.accesses()),
            _SOURCE,
            error=DTypeError,
            fix="use plain float or integer dtypes",
        ),
        rule(
            "DA06",
            "dst {o[dst]} or one of srcs {o[srcs]} has a single run-time index; the addresses of nisa.dma_compute are "
            "known when the kernel is compiled, or each row has an index",
            lambda i, t: all(a.dynamic is None or is_row_indexed(a) for a in i.accesses()),
            _SOURCE,
            error=DynamicIndexError,
            fix="copy the window to a tile with nisa.dma_copy first",
        ),
        rule(
            "DA07",
            "oob_mode=skip needs an index for each row; neither dst {o[dst]} nor a source has one",
            lambda i, t: i.oob_mode is enums.oob_mode.error or row_indexed(i),
            "Release notes of NKI 0.4",
            error=ArgumentError,
            fix="leave oob_mode out",
        ),
        *ROWS,
        ONE_COLUMN,
        rule(
            "DA08",
            "dst is {o[dst]}, srcs are {o[srcs]}: with an index for each row, dst is one of two sources",
            lambda i, t: not row_indexed(i) or (len(i.srcs) == 2 and len(_added(i)) < 2),
            _MODIFY,
            error=ArgumentError,
            fix="pass the same window as dst and in srcs, with the same indices if it has them",
            by_value=True,
        ),
        rule(
            "DA09",
            "dst is {o[dst]}, srcs are {o[srcs]}: rows are added to a tile in SBUF, or such a tile to rows",
            lambda i, t: not row_indexed(i) or _reaches(i),
            _MODIFY,
            error=MemoryRegionError,
            fix="keep one side in SBUF, without indices",
            by_value=True,
        ),
        rule(
            "DA10",
            "dst is {o[dst]}, srcs are {o[srcs]}: with an index for each row, all have as many rows",
            lambda i, t: not row_indexed(i) or all(a.shape[0] == i.dst.shape[0] for a in i.srcs),
            _MODIFY,
            error=ShapeError,
            fix="reshape the tile, so that its first dimension is the number of indices",
        ),
        rule(
            "DA11",
            "unique_indices=False: rows that {o[by rows]} names twice cannot be added to",
            lambda i, t: i.unique_indices or not row_indexed(i),
            _MODIFY,
            error=ArgumentError,
            fix=f"leave unique_indices out, and {_UNIQUE}",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        total = m.flat(self.srcs[0])
        for source in self.srcs[1:]:
            total = m.alu("add", total, m.flat(source))
        m.store(self.dst, m.cast(total, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """Half of the bandwidth for a sum of two, in which the DMA engines read twice what they write; each source
        takes its part of that time. Descriptors lie in HBM; those by indices, GpSimd writes.
        """
        dge = dma_costs.dge_of("swdge" if row_indexed(self) else "none", "unknown", target)
        efficiency = min(2 * target.dma_accumulate_efficiency, len(self.srcs))
        kind, source = target.origin("dma_accumulate_efficiency")
        return dma_costs.transfer(self.dst, self.srcs, target, dge=dge, efficiency=efficiency, kind=kind, source=source)

    @classmethod
    def sample(cls, draw: Draw) -> DmaCompute:
        partitions, free = draw.partitions(), draw.free()
        shape = (free, partitions) if draw.flag() else (partitions * free,)
        tensors = [
            draw.tile(partitions, free, draw.choice(COMPUTING))
            if draw.flag()
            else draw.hbm(shape, draw.choice(COMPUTING))
            for _ in range(draw.choice((3, 3, 4, 6)))
        ]
        return cls(tensors[0], tuple(tensors[1:]), named("add"))
