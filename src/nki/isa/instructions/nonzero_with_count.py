"""``nisa.nonzero_with_count``: positions of the elements that are not zero."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import float32, int32
from nki.base.errors import ArgumentError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, In, Index, Out, Tile
from nki.isa.rules.operand_rules import buffer, dtypes, exists_from, rule, same_partitions, tiles
from nki.isa.tables import enums
from nki.target.memory_spaces import GPSIMD_CORE
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.nonzero_with_count"
_WORD = range(-(1 << 31), 1 << 31)


def _first(access: Access) -> Access:
    """The first partition of every GpSimd core."""
    shape, strides = (
        (-(-access.partitions // GPSIMD_CORE), *access.shape[1:]),
        (GPSIMD_CORE * access.strides[0], *access.strides[1:]),
    )
    return Access(access.tensor, access.offset, shape, strides, access.dtype)


@instruction(engines=(enums.engine.gpsimd,), effects=Effects(partial=lambda i: i.dst.partitions > 1))
class NonzeroWithCount(Inst):
    """The positions of the elements that are not 0, in partitions 0, 16, 32, … of ``src``; gen3 and later.

    The same partitions of ``dst``, which has one element more, receive the positions in order, each plus
    ``index_offset`` (wrapping), then ``padding_val``, and as the last element how many there are. The other partitions
    of ``dst`` are left alone. Tiles are in SBUF, ``src`` float32 or int32, ``dst`` int32. NaN is not 0, -0 is.
    """

    dst: Out[Tile]
    src: In[Tile]
    index_offset: Index = 0
    padding_val: Index = -1
    name: str | None = None

    rules = (
        exists_from(3, _SOURCE),
        *tiles("dst", "src"),
        buffer("dst", Buffer.sbuf),
        buffer("src", Buffer.sbuf),
        dtypes("dst", int32),
        dtypes("src", float32, int32),
        same_partitions("dst", "src"),
        rule(
            "NZ01",
            "dst {o[dst]} does not have one element per partition more than src {o[src]}",
            lambda i, t: i.dst.free_elements == i.src.free_elements + 1,
            _SOURCE,
            error=ShapeError,
            fix="allocate dst with {i.src.free_elements} + 1 elements per partition",
        ),
        rule(
            "NZ02",
            "index_offset={i.index_offset} and padding_val={i.padding_val} must be 32-bit integers",
            lambda i, t: i.index_offset in _WORD and i.padding_val in _WORD,
            _SOURCE,
            error=ArgumentError,
            fix="pass integers between -2**31 and 2**31 - 1",
            by_value=True,
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        positions = m.nonzero(m.load(_first(self.src)))
        moved = m.integer("add", positions, m.const(self.index_offset, int32), int32)
        valid = m.alu("greater_equal", positions, m.const(0, int32))
        listed = m.select(valid, moved, m.const(self.padding_val, int32))
        place = m.iota(((1, self.dst.free_elements),), 0, 0, 1)
        last = m.alu("equal", place, m.const(self.src.free_elements, int32))
        m.store(_first(self.dst), m.select(last, positions, listed))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` GpSimd cycles for N elements per partition."""
        why = "as other GpSimd instructions that look at every element"
        return cost.guessed(self, target, self.dst.free_elements, why)

    @classmethod
    def sample(cls, draw: Draw) -> NonzeroWithCount:
        partitions, free = draw.partitions(), draw.free()
        dst, src = draw.tile(partitions, free + 1, int32), draw.tile(partitions, free, draw.choice((float32, int32)))
        return cls(dst, src, draw.integer(-(1 << 31), (1 << 31) - 1), draw.integer(-3, 3))
