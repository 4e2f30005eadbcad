"""``nisa.activate2``: an activation function after up to two operators."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, DTypeError, OperatorError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, Draw
from nki.ir.types import In, InOut, Out, Scalar, Tile
from nki.isa.rules import accumulators
from nki.isa.rules.indirection import indirection, scalar_not_in_psum
from nki.isa.rules.operand_rules import column, exists_from, rule, same_elements, same_partitions, tiles
from nki.isa.tables import activations, enums
from nki.isa.tables.operators import OPS, Act, AluOp, staged
from nki.target.model import Target

_R = enums.reduce_cmd
_SOURCE = "NKI reference, nki.isa.activate2"
_PAIRS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
_REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")


def _reversals_fit(i: Any) -> bool:
    return not (i.reverse0 and i.op0.name == "bypass") and not (i.reverse1 and i.op1.name == "bypass")


@instruction(
    engines=(enums.engine.scalar,),
    effects=Effects(implicit=accumulators.implicit(accumulators.SCALAR), element_indexed=("dst", "data")),
)
class Activate2(Inst):
    """``dst = op((data <op0> imm0) <op1> imm1)`` on the Scalar engine, in float32.

    The operators are multiply and add, multiply and subtract, one of multiply, add and subtract followed by
    ``nl.bypass``, or ``nl.bypass`` twice; bypass ignores its immediate. ``reverse0`` and ``reverse1`` put the
    immediates on the left. Immediates and ``relu_param``, the slope of ``nl.prelu``, are numbers or tiles
    ``(partitions, 1)``. With ``reduce_cmd`` the float32 results, before they are rounded to ``dst``, are folded with
    ``reduce_op`` (add, maximum, minimum, abs_max, abs_min) into the engine's reduction registers, which
    ``nisa.activation`` shares: ``reset`` sets them to what the fold begins with (0, -inf, +inf, 0, +inf), ``reduce``
    folds on, ``reset_reduce`` does both, ``idle`` leaves them. ``reduce_res``, a ``(partitions, 1)`` tile, receives the
    registers afterwards. ``dst``, in SBUF, and ``data`` may be indirect views. Since NeuronCore-v4.
    """

    dst: Out[Tile]
    op: Act
    data: In[Tile]
    imm0: Scalar | In[Tile]
    imm1: Scalar | In[Tile]
    op0: AluOp
    op1: AluOp
    relu_param: Scalar | In[Tile] = 0.0
    reverse0: bool = False
    reverse1: bool = False
    reduce_op: AluOp | None = None
    reduce_res: Out[Tile] | None = None
    reduce_cmd: enums.reduce_cmd = _R.idle
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = (
        exists_from(4, _SOURCE),
        *tiles("dst", "data", "imm0", "imm1", "relu_param", "reduce_res"),
        same_partitions("dst", "data"),
        same_elements("dst", "data"),
        column("imm0", "data"),
        column("imm1", "data"),
        column("relu_param", "data"),
        column("reduce_res", "data"),
        rule(
            "AT01",
            "op={i.op} is not an activation function",
            lambda i, t: i.op.act is not None,
            _SOURCE,
            error=OperatorError,
            fix="use one of " + ", ".join(f"nl.{name}" for name in activations.ACTIVATIONS),
        ),
        rule(
            "AT02",
            "op0={i.op0} with op1={i.op1} is not a pair that the Scalar engine computes",
            lambda i, t: (i.op0.name, i.op1.name) in _PAIRS,
            _SOURCE,
            error=OperatorError,
            fix="use one of " + ", ".join(f"(nl.{first}, nl.{second})" for first, second in _PAIRS),
        ),
        rule(
            "AT03",
            "reverse0={i.reverse0} with op0={i.op0}, reverse1={i.reverse1} with op1={i.op1}: nl.bypass has no sides",
            lambda i, t: _reversals_fit(i),
            _SOURCE,
            error=ArgumentError,
            fix="leave reverse0, or reverse1, out",
        ),
        rule(
            "AT04",
            "imm0 is {o[imm0]} and imm1 is {o[imm1]}; two tiles must have one dtype",
            lambda i, t: not isinstance(i.imm0, Tile) or not isinstance(i.imm1, Tile) or i.imm0.dtype is i.imm1.dtype,
            _SOURCE,
            error=DTypeError,
            fix="copy one of them to a tile of the other's dtype",
        ),
        accumulators.operator(_SOURCE, "reduce_op", *_REDUCTIONS),
        accumulators.commands(_SOURCE, _R.idle, _R.reset, _R.reduce, _R.reset_reduce),
        rule(
            "AT05",
            "reduce_cmd={i.reduce_cmd.name} needs reduce_op",
            lambda i, t: i.reduce_cmd is _R.idle or i.reduce_op is not None,
            _SOURCE,
            error=ArgumentError,
            fix="pass reduce_op=nl.add, or another of " + ", ".join(f"nl.{name}" for name in _REDUCTIONS),
        ),
        *indirection("dst", "data", older=False),
        scalar_not_in_psum(always=True),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """True if the instruction uses the reduction registers."""
        return self.reduce_cmd is not _R.idle or self.reduce_res is not None

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.load(self.data)
        for op, operand, reverse in ((self.op0, self.imm0, self.reverse0), (self.op1, self.imm1, self.reverse1)):
            value = staged(m, op, value, m.load(operand), reverse)
        parameter = m.load(self.relu_param) if self.op.name == "prelu" else None
        value = m.act(self.op.name, value, parameter)
        held = None
        if self.registers is not None:
            held = accumulators.total(self, m, self.reduce_op.name if self.reduce_op is not None else "add", value)
        m.store(self.dst, m.cast(value, self.dst.dtype))
        if self.registers is not None:
            accumulators.keep(self, m, held)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Scalar cycles for N elements per partition; a reduction adds a readout."""
        return cost.activation(
            self,
            target,
            self.dst.free_elements,
            self.op.table,
            "guess",
            "like nisa.activation",
            reduces=self.reduce_res is not None,
        )

    @classmethod
    def sample(cls, draw: Draw) -> Activate2:
        partitions, free = draw.partitions(), draw.free()
        first, second = draw.choice(_PAIRS)
        dtype = draw.choice(FLOATS)
        imm0, imm1, slope = (
            draw.number() if draw.flag() else draw.column(partitions, kind)
            for kind in (dtype, dtype, draw.choice(FLOATS))
        )
        return cls(
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            OPS[draw.choice(("prelu", *activations.ACTIVATIONS))],
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            imm0,
            imm1,
            OPS[first],
            OPS[second],
            slope,
            draw.flag() and first != "bypass",
            draw.flag() and second != "bypass",
            OPS[draw.choice(_REDUCTIONS)],
            draw.column(partitions) if draw.flag() else None,
            draw.choice((_R.idle, _R.reset, _R.reduce, _R.reset_reduce)),
        )
