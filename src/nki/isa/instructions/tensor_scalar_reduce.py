"""``nisa.tensor_scalar_reduce`` and ``nisa.tensor_scalar_cumulative``: an operator, then a fold or all its steps."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, DTypeError, OperatorError
from nki.cost import engines as cost
from nki.cost.division import behind_reciprocals, divisors
from nki.ir.algebra import Algebra, Step
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, INTEGERS, Draw
from nki.ir.types import In, InOut, Out, Scalar, Tile
from nki.isa.rules import accumulators
from nki.isa.rules.indirection import indirection
from nki.isa.rules.operand_rules import (
    alu_op,
    column,
    float_operand,
    is_float32,
    rule,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import alu_operators, enums
from nki.isa.tables.operators import OPS, AluOp, is_unary, operand_fits, operand_matters, staged
from nki.target.model import Target

_R = enums.reduce_cmd
_REDUCE = "NKI reference, nki.isa.tensor_scalar_reduce"
_CUMULATIVE = "NKI reference, nki.isa.tensor_scalar_cumulative"
_COMMANDS = (_R.reset_reduce, _R.reduce, _R.load_reduce)
_NARROW = (*FLOATS[:-1], *(d for d in INTEGERS if d.itemsize < 4))
"""Dtypes that the cumulative instruction reads and writes."""


def _has_unary_op0(i: Any) -> bool:
    return is_unary(i.op0)


@instruction(
    engines=(enums.engine.vector,),
    effects=Effects(
        implicit=accumulators.implicit(accumulators.VECTOR), streamed=("data",), element_indexed=("dst", "data")
    ),
)
class TensorScalarReduce(Inst):
    """``dst = data <op0> operand0``, and the fold of these results with ``reduce_op`` over the free dimensions.

    ``op0`` is an arithmetic operator; ``operand0`` is a number or a float32 tile ``(partitions, 1)``, None or 0 for
    operators of one operand. The fold (add, multiply, maximum or minimum) goes through the Vector engine's reduction
    registers: ``reset_reduce`` begins anew (with 0, 1, -inf or +inf), ``reduce`` goes on from what they hold,
    ``load_reduce`` from ``reduce_init``, a number or a float32 tile ``(partitions, 1)``. It takes the float32 results
    before they are rounded to ``dst``, one after the other. ``reduce_res``, a ``(partitions, 1)`` tile, receives the
    registers afterwards, with ``reduce_res_negate`` with the other sign; without it they only keep the result. On gen4
    ``dst`` and ``data`` may be indirect views.
    """

    dst: Out[Tile]
    data: In[Tile]
    op0: AluOp
    operand0: Scalar | In[Tile] | None
    reduce_op: AluOp
    reduce_res: Out[Tile] | None = None
    reverse0: bool = False
    reduce_cmd: enums.reduce_cmd = _R.reset_reduce
    reduce_init: Scalar | In[Tile] | None = None
    reduce_res_negate: bool = False
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = (
        *tiles("dst", "data", "operand0", "reduce_res", "reduce_init"),
        same_partitions("dst", "data"),
        same_elements("dst", "data"),
        column("operand0", "data"),
        column("reduce_res", "data"),
        column("reduce_init", "data"),
        *alu_op("op0", arithmetic=True),
        rule(
            "TD01",
            "op0={i.op0} needs operand0",
            lambda i, t: operand_fits(i.op0, i.operand0),
            _REDUCE,
            error=OperatorError,
            fix="pass a number or a float32 tile of one element per partition",
        ),
        rule(
            "TD02",
            "op0={i.op0} takes one operand, and operand0={o[operand0]} is neither None nor 0",
            lambda i, t: not operand_matters(i.op0, i.operand0),
            _REDUCE,
            error=OperatorError,
            fix="pass operand0=None",
            by_value=_has_unary_op0,
        ),
        rule(
            "TD03",
            "reverse0=True is not supported yet",
            lambda i, t: not i.reverse0,
            _REDUCE,
            error=ArgumentError,
            fix="reverse in a nisa.tensor_scalar first, or negate or invert the operand",
        ),
        float_operand("operand0", "op0"),
        is_float32("reduce_init", _REDUCE),
        accumulators.operator(_REDUCE, "reduce_op", "add", "multiply", "maximum", "minimum"),
        accumulators.commands(_REDUCE, *_COMMANDS),
        accumulators.loaded(_REDUCE, "reduce_init"),
        rule(
            "TD04",
            "reduce_init={o[reduce_init]} with reduce_cmd={i.reduce_cmd.name}, which does not load it",
            lambda i, t: i.reduce_init is None or i.reduce_cmd is _R.load_reduce,
            _REDUCE,
            error=ArgumentError,
            fix="use nisa.reduce_cmd.load_reduce, or leave reduce_init out",
        ),
        *indirection("dst", "data"),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """The registers always take part."""
        return True

    def semantics(self, m: Algebra[Any]) -> None:
        operand = m.load(0.0 if self.operand0 is None else self.operand0)
        value = staged(m, self.op0, m.load(self.data), operand, self.reverse0)
        held = accumulators.total(self, m, self.reduce_op.name, value, self.reduce_init)
        m.store(self.dst, m.cast(value, self.dst.dtype))
        accumulators.keep(self, m, held, negate=self.reduce_res_negate)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + 64 + issue`` Vector cycles for N elements per partition; to divide by a column, behind its
        reciprocals.
        """
        extra = target.min_interval_cycles
        reduced = cost.streaming(self, target, self.dst.free_elements, "tensor_scalar_reduce", extra=extra)
        return behind_reciprocals(reduced, divisors(self.op0, self.data, self.operand0), target)

    @classmethod
    def sample(cls, draw: Draw) -> TensorScalarReduce:
        partitions, free = draw.partitions(), draw.free()
        rows = [r for r in alu_operators.TABLE.values() if not r.bits and r.since <= draw.target.generation]
        row = draw.choice(rows)
        command = draw.choice(_COMMANDS)
        return cls(
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            OPS[row.name],
            draw.scalar(partitions) if row.arity == 2 else draw.choice((None, 0.0)),
            OPS[draw.choice(("add", "multiply", "maximum", "minimum"))],
            draw.column(partitions, draw.choice(FLOATS[:3])) if draw.flag() else None,
            reduce_cmd=command,
            reduce_init=draw.scalar(partitions) if command is _R.load_reduce else None,
            reduce_res_negate=draw.flag(),
        )


@instruction(
    engines=(enums.engine.vector,),
    effects=Effects(implicit=accumulators.implicit(accumulators.VECTOR), element_indexed=("dst", "src")),
)
class TensorScalarCumulative(Inst):
    """Running results: ``reg = (src[i] <op0> imm0) <op1> reg; dst[i] = reg``, partition by partition, in float32.

    ``op0`` is an arithmetic operator, ``op1`` add, subtract, multiply, maximum or minimum. ``reg`` is the Vector
    engine's reduction register: ``reset_reduce`` begins with 0, 1, -inf or +inf, whichever fits ``op1``; ``reduce``
    with what the register holds; ``load_reduce`` with ``imm1``, which the other commands ignore. Both immediates are
    numbers or float32 tiles ``(partitions, 1)``. The register is not rounded to ``dst``. 32-bit integers and tfloat32
    are not supported. On gen4 ``dst`` and ``src`` may be indirect views.
    """

    dst: Out[Tile]
    src: In[Tile]
    op0: AluOp
    op1: AluOp
    imm0: Scalar | In[Tile]
    imm1: Scalar | In[Tile] | None = None
    reduce_cmd: enums.reduce_cmd = _R.reset_reduce
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = (
        *tiles("dst", "src", "imm0", "imm1"),
        same_partitions("dst", "src"),
        same_elements("dst", "src"),
        column("imm0", "src"),
        column("imm1", "src"),
        *alu_op("op0", arithmetic=True),
        accumulators.operator(_CUMULATIVE, "op1", "add", "subtract", "multiply", "maximum", "minimum"),
        is_float32("imm0", _CUMULATIVE),
        is_float32("imm1", _CUMULATIVE),
        rule(
            "TU01",
            "dst {o[dst]} and src {o[src]}: int32, uint32, tfloat32 and bool are not supported",
            lambda i, t: i.dst.dtype in _NARROW and i.src.dtype in _NARROW,
            _CUMULATIVE,
            error=DTypeError,
            fix="use float32 tiles, and convert with nisa.tensor_copy",
        ),
        accumulators.commands(_CUMULATIVE, *_COMMANDS),
        accumulators.loaded(_CUMULATIVE, "imm1"),
        *indirection("dst", "src"),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """The registers always take part."""
        return True

    def semantics(self, m: Algebra[Any]) -> None:
        value = staged(m, self.op0, m.load(self.src), m.load(self.imm0), False)
        start = accumulators.before(self, m, self.op1.name, self.imm1)
        states = m.scan((Step(self.op1.name, False),), (value,), start)
        m.store(self.dst, m.cast(states, self.dst.dtype))
        assert self.registers is not None  # rule RC03
        m.store(self.registers, m.strided(states, self.src.free_elements - 1, self.src.free_elements))

    def cost(self, target: Target) -> Estimate:
        """``max(64, 2 N) + issue`` Vector cycles for N elements per partition."""
        why = "like tensor_tensor_scan: a result needs the last one"
        return cost.guessed(self, target, 2.0 * self.dst.free_elements, why)

    @classmethod
    def sample(cls, draw: Draw) -> TensorScalarCumulative:
        partitions, free = draw.partitions(), draw.free()
        rows = [r for r in alu_operators.TABLE.values() if not r.bits and r.since <= draw.target.generation]
        command = draw.choice(_COMMANDS)
        return cls(
            draw.tile(partitions, free, draw.choice(_NARROW)),
            draw.tile(partitions, free, draw.choice(_NARROW)),
            OPS[draw.choice(rows).name],
            OPS[draw.choice(("add", "subtract", "multiply", "maximum", "minimum"))],
            draw.scalar(partitions),
            draw.scalar(partitions) if command is _R.load_reduce or draw.flag() else None,
            command,
        )
