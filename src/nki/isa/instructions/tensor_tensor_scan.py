"""``nisa.tensor_tensor_scan``."""

from __future__ import annotations

from typing import Any

from nki.base.errors import OperatorError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, Step
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, Draw
from nki.ir.types import In, Out, Scalar, Tile
from nki.isa.rules.operand_rules import alu_op, column, not_both_psum, rule, same_elements, same_partitions, tiles
from nki.isa.tables import alu_operators, enums
from nki.isa.tables.operators import OPS, AluOp
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.tensor_tensor_scan"


def _binary(i: Any, name: str) -> bool:
    row = getattr(i, name).alu
    return row is None or row.arity == 2


@instruction(engines=(enums.engine.vector,))
class TensorTensorScan(Inst):
    """``state = (data0[i] <op0> state) <op1> data1[i]; dst[i] = state``, partition by partition, from ``initial``.

    ``initial`` is a number or a tile ``(partitions, 1)``; both operators are arithmetic ones of two operands.
    ``reverse0`` puts the state on the left of ``op0``, ``reverse1`` puts ``data1`` on the left of ``op1``. The state is
    float32; only what is written to ``dst`` is rounded. ``data0`` and ``data1`` are not both in PSUM.
    """

    dst: Out[Tile]
    data0: In[Tile]
    data1: In[Tile]
    initial: Scalar | In[Tile]
    op0: AluOp
    op1: AluOp
    reverse0: bool = False
    reverse1: bool = False
    name: str | None = None

    rules = (
        *tiles("dst", "data0", "data1", "initial"),
        same_partitions("dst", "data0", "data1"),
        same_elements("dst", "data0", "data1"),
        column("initial", "data0"),
        not_both_psum("data0", "data1"),
        *alu_op("op0", arithmetic=True),
        *alu_op("op1", arithmetic=True),
        rule(
            "SC01",
            "op0={i.op0}, op1={i.op1}: both take two operands in a scan",
            lambda i, t: _binary(i, "op0") and _binary(i, "op1"),
            _SOURCE,
            error=OperatorError,
            fix="apply the operator of one operand with nisa.tensor_scalar before",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        steps = (Step(self.op0.name, self.reverse0), Step(self.op1.name, not self.reverse1))
        states = m.scan(steps, (m.load(self.data0), m.load(self.data1)), m.load(self.initial))
        m.store(self.dst, m.cast(states, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, 2 N) + issue`` Vector cycles for N elements per partition."""
        return cost.streaming(self, target, self.dst.free_elements, "tensor_tensor_scan", 2.0)

    @classmethod
    def sample(cls, draw: Draw) -> TensorTensorScan:
        partitions, free = draw.partitions(), draw.free()
        rows = [
            r for r in alu_operators.TABLE.values() if not r.bits and r.arity == 2 and r.since <= draw.target.generation
        ]
        start = draw.number() if draw.flag() else draw.column(partitions, draw.choice(COMPUTING))
        return cls(
            draw.tile(partitions, free, draw.choice(FLOATS)),
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            start,
            OPS[draw.choice(rows).name],
            OPS[draw.choice(rows).name],
            draw.flag(),
            draw.flag(),
        )
