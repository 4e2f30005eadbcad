"""``psum_zero``: the start of an accumulation in places that no matmul has written."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import bfloat16, float32
from nki.ir.algebra import Algebra
from nki.ir.estimate import Estimate, Matmul
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Buffer, Out, Tile
from nki.isa.rules.operand_rules import buffer
from nki.isa.tables import enums
from nki.target.model import Target


@instruction(engines=(enums.engine.tensor,), public=False)
class PsumZero(Inst):
    """The places of ``dst`` in PSUM count as 0 for the matmul that follows.

    No kernel calls it: the compiler writes it where a matmul without ``accumulate`` meets places that were written and
    others that were not, as overlapping windows of a convolution do. The hardware does the same with flags of PSUM.
    """

    dst: Out[Tile]

    rules = (buffer("dst", Buffer.psum),)

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.const(0.0, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """One Tensor cycle: a flag of the next matmul."""
        cycle = 1 / target.tensor_clock_ghz
        why = "a flag of the matmul's own instruction (psum_zero in the profiler's view of it)"
        return Matmul(cycle, cycle + target.semaphore_ns, "guess", why)

    @classmethod
    def sample(cls, draw: Draw) -> PsumZero:
        return cls(draw.tile(draw.partitions(), draw.free(), draw.choice((float32, bfloat16)), Buffer.psum))
