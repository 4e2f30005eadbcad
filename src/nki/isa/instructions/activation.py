"""``nisa.activation`` and ``nisa.activation_reduce``: functions of the Scalar engine."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import float32
from nki.base.errors import ArgumentError, DTypeError, GenerationError, OperatorError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.declaration.combining import Combination, Combining, RowSum, Scaling, Step
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.sample import COMPUTING, FLOATS, Draw
from nki.ir.types import Access, In, InOut, Out, Scalar, Tile
from nki.isa.rules import accumulators
from nki.isa.rules.indirection import indirection, scalar_not_in_psum
from nki.isa.rules.operand_rules import column, rule, same_elements, same_partitions, tiles
from nki.isa.tables import activations, enums
from nki.isa.tables.operators import OPS, Act, AluOp, Op
from nki.target.model import Target

_R = enums.reduce_cmd
_SOURCE = "NKI reference, nki.isa.activation"


_BIAS = (
    rule(
        "AC04",
        "bias={i.bias} is a number; {t.name} takes bias only as a tile of shape ({i.data.partitions}, 1)",
        lambda i, t: i.bias is None or isinstance(i.bias, Access),
        _SOURCE,
        error=GenerationError,
        until=2,
        fix="fill a ({i.data.partitions}, 1) float32 tile with nisa.memset and pass it, or target trn2 or trn3",
    ),
    rule(
        "AC08",
        "op=nl.reciprocal with bias={o[bias]}: {t.name} takes no bias with it",
        lambda i, t: i.op.name != "reciprocal" or i.bias is None,
        "NKI reference, Engine Selection for Operators Supported on Multiple Engines",
        error=GenerationError,
        until=2,
        fix="add the bias with nisa.tensor_scalar first, or target trn2 or trn3",
    ),
    rule(
        "AC05",
        "bias '{i.bias.name}' is tfloat32, the one dtype that it cannot be",
        lambda i, t: not isinstance(i.bias, Access) or i.bias.dtype.name != "tfloat32",
        _SOURCE,
        error=DTypeError,
        fix="copy it to a float32 tile with nisa.tensor_copy",
    ),
)
"""Rules of the bias."""
_INDIRECTION = (*indirection("dst", "data"), scalar_not_in_psum(always=True))


def _rules(*more: Rule) -> tuple[Rule, ...]:
    return (
        *tiles("dst", "data", "bias", "scale", "reduce_res"),
        same_partitions("dst", "data"),
        same_elements("dst", "data"),
        column("bias", "data"),
        column("scale", "data"),
        column("reduce_res", "data"),
        rule(
            "AC01",
            "op={i.op} is not an activation function",
            lambda i, t: i.op.act is not None,
            _SOURCE,
            error=OperatorError,
            fix="use one of " + ", ".join(f"nl.{name}" for name in activations.ACTIVATIONS),
        ),
        rule(
            "AC02",
            "op=nl.prelu needs a slope, which this instruction has no argument for",
            lambda i, t: i.op.name != "prelu",
            "NKI reference, nki.isa.activate2",
            error=OperatorError,
            fix="use nl.relu, or combine two instructions",
        ),
        rule(
            "AC03",
            "scale '{i.scale.name}' is {i.scale.dtype}; it must be float32",
            lambda i, t: not isinstance(i.scale, Access) or i.scale.dtype is float32,
            _SOURCE,
            error=DTypeError,
            fix="copy it to a float32 tile with nisa.tensor_copy",
        ),
        rule(
            "AC06",
            "reduce_op={i.reduce_op}; the Scalar engine reduces only with nl.add",
            lambda i, t: i.reduce_op is None or i.reduce_op.name == "add",
            _SOURCE,
            error=OperatorError,
            fix="use nl.add here, or nisa.tensor_reduce on the result",
        ),
        *_BIAS,
        *_INDIRECTION,
        *more,
    )


def _activated(i: Any, m: Algebra[Any]) -> Any:
    """``op(data * scale + bias)``, multiplication and addition rounded separately to float32."""
    value = m.alu("multiply", m.load(i.data), m.load(i.scale))
    if i.bias is not None:
        value = m.alu("add", value, m.load(i.bias))
    return m.act(i.op.name, value)


def _operands(draw: Draw, partitions: int) -> tuple[Any, Any]:
    bias = draw.column(partitions, draw.choice(FLOATS[:3])) if draw.target.generation == 2 else draw.scalar(partitions)
    return (bias if draw.flag() else None), draw.scalar(partitions)


def _function(draw: Draw, bias: object) -> Op:
    biased = bias is not None and draw.target.generation == 2
    refused = ("prelu", "reciprocal") if biased else ("prelu",)
    return OPS[draw.choice([name for name in activations.ACTIVATIONS if name not in refused])]


def _scaling(i: Any) -> Scaling | None:
    """``nl.copy`` with the ``scale`` and ``bias`` that do something."""
    if i.op.name != "copy" or i.uses_registers:
        return None
    scale = () if isinstance(i.scale, int | float) and i.scale == 1.0 else (Step("multiply", i.scale),)
    return Scaling(i.dst, i.data, scale if i.bias is None else (*scale, Step("add", i.bias)))


def _after_scaling(i: Any, scaling: Scaling, result: Access) -> Combination | None:
    """A scaling by ``scale`` and ``bias``, where a function without them follows."""
    plain = result is i.data and i.bias is None and isinstance(i.scale, int | float) and i.scale == 1.0
    if not plain or i.op.name == "copy":
        return None
    operators = tuple(step.op for step in scaling.steps)
    if operators not in (("multiply",), ("add",), ("multiply", "add")):
        return None
    operands = {"multiply": 1.0, "add": None} | {step.op: step.operand for step in scaling.steps}
    both = i.replace(data=scaling.data, scale=operands["multiply"], bias=operands["add"])
    return Combination(both, "let nisa.activation multiply and add: scale= and bias=")


def _with_row_sum(i: Any, total: RowSum) -> Combination | None:
    if i.uses_registers:
        return None
    both = ActivationReduce(i.dst, i.op, i.data, OPS["add"], total.dst, i.bias, i.scale)
    return Combination(
        both,
        "let nisa.activation add up its results: reduce_op= and reduce_res=",
        "let nisa.activation_reduce add up its results",
    )


@instruction(
    engines=(enums.engine.scalar,),
    effects=Effects(
        implicit=accumulators.implicit(accumulators.SCALAR),
        combining=Combining(scaling=_scaling, after_scaling=_after_scaling, with_row_sum=_with_row_sum),
        streamed=("data",),
        element_indexed=("dst", "data"),
    ),
)
class Activation(Inst):
    """``dst = op(data * scale + bias)`` on the Scalar engine, in float32.

    ``scale`` is a number or a float32 tile ``(partitions, 1)``; ``bias`` likewise, of any float dtype (on gen2 only a
    tile). With ``reduce_cmd`` the results' sum over the free dimensions goes to the engine's reduction registers, one a
    partition: ``reset`` clears them, ``reduce`` adds to them, ``reset_reduce`` clears and adds; ``idle`` leaves them.
    ``reduce_res``, a ``(partitions, 1)`` tile, receives the registers afterwards: it may lie in ``dst``. The sum runs
    over the float32 results before they are rounded to ``dst``, on from what the registers hold. On gen4 ``dst``, in
    SBUF, and ``data`` may be indirect views.
    """

    dst: Out[Tile]
    op: Act
    data: In[Tile]
    bias: Scalar | In[Tile] | None = None
    scale: Scalar | In[Tile] = 1.0
    reduce_op: AluOp | None = None
    reduce_res: Out[Tile] | None = None
    reduce_cmd: enums.reduce_cmd = _R.idle
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = _rules(
        rule(
            "AC07",
            "reduce_cmd={i.reduce_cmd.name} needs reduce_op=nl.add",
            lambda i, t: i.reduce_cmd not in (_R.reduce, _R.reset_reduce) or i.reduce_op is not None,
            _SOURCE,
            error=ArgumentError,
            fix="pass reduce_op=nl.add",
        ),
        accumulators.commands(_SOURCE, _R.idle, _R.reset, _R.reduce, _R.reset_reduce),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """True if the instruction uses the reduction registers."""
        return self.reduce_cmd is not _R.idle or self.reduce_res is not None

    def semantics(self, m: Algebra[Any]) -> None:
        value = _activated(self, m)
        held = accumulators.total(self, m, "add", value) if self.registers is not None else None
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
            "docs",
            f"{cost.REFERENCE}activation",
            reduces=self.reduce_res is not None,
        )

    @classmethod
    def sample(cls, draw: Draw) -> Activation:
        partitions, free = draw.partitions(), draw.free()
        bias, scale = _operands(draw, partitions)
        command = draw.choice((_R.idle, _R.reset, _R.reduce, _R.reset_reduce))
        result = draw.column(partitions) if draw.flag() else None
        used = command is not _R.idle or result is not None
        return cls(
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            _function(draw, bias),
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            bias,
            scale,
            OPS["add"],
            result,
            command,
            registers=draw.registers(partitions) if used else None,
        )


@instruction(
    engines=(enums.engine.scalar,),
    effects=Effects(
        implicit=accumulators.implicit(accumulators.SCALAR),
        combining=Combining(after_scaling=_after_scaling),
        streamed=("data",),
        element_indexed=("dst", "data"),
    ),
)
class ActivationReduce(Inst):
    """``dst = op(data * scale + bias)`` and ``reduce_res`` = its sum over the free dimensions.

    The same as ``nisa.activation`` with ``reduce_cmd=reset_reduce``; it leaves the sum in the reduction registers too.
    """

    dst: Out[Tile]
    op: Act
    data: In[Tile]
    reduce_op: AluOp
    reduce_res: Out[Tile] | None
    bias: Scalar | In[Tile] | None = None
    scale: Scalar | In[Tile] = 1.0
    name: str | None = None
    registers: Out[Tile] | None = None

    rules = _rules(accumulators.registers(own=False))  # it computes the same without them

    @property
    def uses_registers(self) -> bool:
        """True: the instruction always uses the registers."""
        return True

    def semantics(self, m: Algebra[Any]) -> None:
        value = _activated(self, m)
        total = m.reduce("add", value, start=m.const(0.0, float32))
        m.store(self.dst, m.cast(value, self.dst.dtype))
        if self.registers is not None:
            m.store(self.registers, total)
        if self.reduce_res is not None:
            m.store(self.reduce_res, m.cast(total, self.reduce_res.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + readout + issue`` Scalar cycles for N elements per partition."""
        return cost.activation(
            self,
            target,
            self.dst.free_elements,
            self.op.table,
            "docs",
            f"{cost.REFERENCE}activation_reduce",
            reduces=True,
        )

    @classmethod
    def sample(cls, draw: Draw) -> ActivationReduce:
        partitions, free = draw.partitions(), draw.free()
        bias, scale = _operands(draw, partitions)
        return cls(
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            _function(draw, bias),
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            OPS["add"],
            draw.column(partitions),
            bias,
            scale,
        )
