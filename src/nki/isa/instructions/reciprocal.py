"""``nisa.reciprocal``."""

from __future__ import annotations

from typing import Any, Final

from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import In, Out, Tile
from nki.isa.instructions.activation import Activation
from nki.isa.rules.operand_rules import same_elements, same_partitions, tiles
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS
from nki.target.model import Target

_ON_VECTOR: Final = 64
"""Elements per partition below which Vector is as fast."""


@instruction(engines=(enums.engine.vector,), effects=Effects(streamed=("data",)))
class Reciprocal(Inst):
    """``dst = 1 / data``, element by element, in float32 on the Vector engine (correctly rounded)."""

    dst: Out[Tile]
    data: In[Tile]
    name: str | None = None

    rules = (*tiles("dst", "data"), same_partitions("dst", "data"), same_elements("dst", "data"))

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.cast(m.alu("reciprocal", m.load(self.data)), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, c N) + issue`` Vector cycles for N elements per partition; c depends on the target."""
        return cost.streaming(self, target, self.dst.free_elements, "reciprocal", target.reciprocal_cycles)

    def cost_on_scalar(self, target: Target) -> Estimate | None:
        """A function of Scalar, ``max(64, N)`` cycles (reference of release 2.21, nki.isa.reciprocal, which advises
        Vector for less than 64 elements per partition).
        """
        if self.dst.free_elements < _ON_VECTOR:
            return None
        return Activation(self.dst, OPS["reciprocal"], self.data).cost(target)

    @classmethod
    def sample(cls, draw: Draw) -> Reciprocal:
        partitions, free = draw.partitions(), draw.free()
        operands = [draw.tile(partitions, free, draw.choice(COMPUTING)) for _ in range(2)]
        return cls(operands[0], operands[1])
