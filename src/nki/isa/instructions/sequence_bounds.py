"""``nisa.sequence_bounds``: bounds of runs of equal numbers."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import DType, float32, int32
from nki.base.errors import PartitionError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, Step
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.rules.operand_rules import buffer, dtypes, rule, tiles
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.sequence_bounds"


@instruction(engines=(enums.engine.gpsimd,))
class SequenceBounds(Inst):
    """For each element of ``segment_ids``, the first position of its run of equal neighbours and the one behind it.

    ``segment_ids`` has one partition of n elements, ``dst`` the shape ``(1, 2, n)``: the beginnings, then the ends. An
    element that is 0 pads, and gets n and -1. Tiles are in SBUF, float32 or int32; positions are rounded once to a
    float32 ``dst``.
    """

    dst: Out[Tile]
    segment_ids: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "segment_ids"),
        buffer("dst", Buffer.sbuf),
        buffer("segment_ids", Buffer.sbuf),
        dtypes("dst", float32, int32),
        dtypes("segment_ids", float32, int32),
        rule(
            "SB01",
            "segment_ids '{i.segment_ids.name}' has {i.segment_ids.partitions} partitions",
            lambda i, t: i.segment_ids.partitions == 1,
            _SOURCE,
            error=PartitionError,
            fix="pass a tile of one partition",
        ),
        rule(
            "SB02",
            "dst '{i.dst.name}' has the shape {i.dst.shape}",
            lambda i, t: i.dst.shape == (1, 2, i.segment_ids.free_elements),
            _SOURCE,
            error=ShapeError,
            fix="allocate it as (1, 2, {i.segment_ids.free_elements})",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        n, ids = self.segment_ids.free_elements, m.load(self.segment_ids)
        kind, backwards = self.segment_ids.dtype, m.iota(((-1, n),), n - 1, 0, 1)
        first = _beginnings(m, ids, n, kind)
        last = m.gather(_beginnings(m, m.gather(ids, backwards), n, kind), backwards)
        behind = m.integer("subtract", m.const(n, int32), last, int32)
        padding = _compared(m, "equal", ids, m.const(0, kind), kind)
        for half, (bound, pad) in enumerate(((first, n), (behind, -1))):
            value = m.select(padding, m.const(pad, int32), bound)
            m.store(self._half(half), m.narrow(value, self.dst.dtype))

    def _half(self, number: int) -> Access:
        dst = self.dst
        offset, shape, strides = (
            dst.offset + number * dst.strides[1],
            (1, dst.shape[2]),
            (dst.strides[0], dst.strides[2]),
        )
        return Access(dst.tensor, offset, shape, strides, dst.dtype)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` GpSimd cycles for N elements per partition of ``dst``."""
        why = "as other GpSimd instructions that write every element"
        return cost.guessed(self, target, self.dst.free_elements, why)

    @classmethod
    def sample(cls, draw: Draw) -> SequenceBounds:
        n, kinds = draw.free(), (float32, int32)
        return cls(draw.block(1, (2, n), draw.choice(kinds)), draw.tile(1, n, draw.choice(kinds)))


def _beginnings(m: Algebra[Any], ids: Any, n: int, kind: DType) -> Any:
    """int32, for each element: where its run of equal neighbours begins. The largest beginning so far is its own."""
    place = m.iota(((1, n),), 0, 0, 1)
    before = m.gather(ids, m.integer("maximum", m.iota(((1, n),), -1, 0, 1), m.const(0, int32), int32))
    begins = m.select(_compared(m, "not_equal", ids, before, kind), place, m.const(0, int32))
    return m.cast(m.scan((Step("maximum", True),), (begins,), m.const(0, float32)), int32)


def _compared(m: Algebra[Any], op: str, left: Any, right: Any, kind: DType) -> Any:
    """1 or 0: integers by value, which float32 would round."""
    return m.integer(op, left, right, int32) if kind is int32 else m.alu(op, left, right)
