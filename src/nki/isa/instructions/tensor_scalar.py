"""``nisa.tensor_scalar`` and ``nisa.scalar_tensor_tensor``: up to two operators with broadcast operands."""

from __future__ import annotations

from typing import Any, Final

from nki.base.errors import ArgumentError, EngineError, OperatorError
from nki.cost import engines as cost
from nki.cost.division import behind_reciprocals, divisors
from nki.ir.algebra import Algebra
from nki.ir.declaration.combining import Combination, Combining, Scaling, Step
from nki.ir.effects import Effects, Update
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, INTEGERS, Draw
from nki.ir.types import Access, In, Out, Scalar, Tile
from nki.isa.rules.indirection import indirection, no_addresses, scalar_not_in_psum
from nki.isa.rules.operand_rules import (
    alu_op,
    bit_types,
    bits_on_vector,
    column,
    engines,
    float_operand,
    not_both_psum,
    rule,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import alu_operators, enums
from nki.isa.tables.operators import OPS, AluOp, Op, is_unary, operand_fits, operand_matters, staged
from nki.target.model import Target

_E = enums.engine
_SOURCE = "NKI reference, nki.isa.tensor_scalar"


def _operand(m: Algebra[Any], op: Op, operand: Any, like: Any) -> Any:
    """The operand of ``op``: a bit operator's number is an integer of the tile's own width."""
    if isinstance(operand, Tile) or op.alu is None or not op.alu.bits:
        return m.load(0.0 if operand is None else operand)
    return m.const(0 if operand is None else operand, like.dtype)


def _is_bitwise(op: Op | None) -> bool:
    return op is not None and op.alu is not None and op.alu.bits


def _has_bitwise_op(i: Any) -> bool:
    return _is_bitwise(i.op0) or _is_bitwise(i.op1)


def _has_unary_op0(i: Any) -> bool:
    return is_unary(i.op0)


def _pattern(i: Any, op: Op | None, operand: Any) -> bool:
    """A bit operator's number is whole and has the width of the elements, as a signed or an unsigned integer."""
    if not _is_bitwise(op) or operand is None or isinstance(operand, Tile):
        return True
    width = 8 * i.data.dtype.itemsize
    return -(1 << (width - 1)) <= operand < 1 << width and operand == int(operand)


def _scalar_engine(i: Any) -> bool:
    """Operator pairs that the Scalar engine runs."""
    second = i.op1.name if i.op1 is not None else None
    return (i.op0.name, second) in (("multiply", "add"), ("multiply", None), ("add", None))


_GPSIMD: Final = frozenset({"rsqrt", "power"})
"""The operators that the table of release 2.26.1 does not give to Vector."""


def _names(i: Any) -> set[str]:
    return {op.name for op in (i.op0, i.op1) if op is not None}


def _gpsimd_engine(i: Any) -> bool:
    """Operators that GpSimd runs: its own, and beside them those that the reference gives to GpSimd, too."""
    names = _names(i)
    return not _GPSIMD.isdisjoint(names) and names <= _GPSIMD | {"add", "multiply"}


def _steps(i: Any) -> tuple[tuple[str | None, bool], ...]:
    """The operators that ``data`` goes through, and whether it is their right argument."""
    return (i.op0.name, i.reverse0), (None if i.op1 is None else i.op1.name, i.reverse1)


def _scaling(i: Any) -> Scaling | None:
    if i.op0.alu is None or i.op0.alu.bits:
        return None
    steps = (Step(i.op0.name, i.operand0, i.reverse0),)
    if i.op1 is not None:
        steps += (Step(i.op1.name, i.operand1, i.reverse1),)
    return Scaling(i.dst, i.data, steps)


def _after_scaling(i: Any, scaling: Scaling, result: Access) -> Combination | None:
    """Both operators in one instruction, if each scaling has one."""
    if result is not i.data or len(scaling.steps) != 1 or i.op1 is not None or _scaling(i) is None:
        return None
    (step,) = scaling.steps
    both = i.replace(
        data=scaling.data,
        op0=OPS[step.op],
        operand0=step.operand,
        reverse0=step.reverse,
        op1=i.op0,
        operand1=i.operand0,
        reverse1=i.reverse0,
    )
    return Combination(both, "let nisa.tensor_scalar apply both operators: op1= and operand1=")


@instruction(
    engines=(_E.vector, _E.scalar, _E.gpsimd),
    effects=Effects(
        updates=lambda i: (Update(i.data, _steps(i)),),
        combining=Combining(scaling=_scaling, after_scaling=_after_scaling),
        streamed=("data",),
        element_indexed=("dst", "data"),
    ),
)
class TensorScalar(Inst):
    """``dst = (data <op0> operand0) <op1> operand1``, operands repeated along the free dimensions.

    An operand is a number or a float32 tile ``(partitions, 1)``. ``reverse0``/``reverse1`` swap the sides of an
    operator. Both operators are arithmetic (each rounds to float32, the result is converted once) or both work on bits
    (integer tiles and numbers of one width, Vector engine only; bits are stored as they are). With an ``op0`` of one
    operand, ``operand0`` is None or 0 (with ``nl.bypass`` it may be anything). GpSimd runs only ``nl.rsqrt`` and
    ``nl.power``, alone or with add or multiply, and is preferred for them; the Scalar engine of gen3 multiply, add, and
    multiply followed by add, gen4's all arithmetic (Trainium3 guide: "natively", as Vector). On gen4 ``dst`` and
    ``data`` may be indirect views, except in arithmetic on 32-bit integers.
    """

    dst: Out[Tile]
    data: In[Tile]
    op0: AluOp
    operand0: Scalar | In[Tile] | None
    reverse0: bool = False
    op1: AluOp | None = None
    operand1: Scalar | In[Tile] | None = None
    reverse1: bool = False
    engine: enums.engine = _E.unknown
    name: str | None = None

    rules = (
        *tiles("dst", "data", "operand0", "operand1"),
        same_partitions("dst", "data"),
        same_elements("dst", "data"),
        column("operand0", "data"),
        column("operand1", "data"),
        *engines(_E.vector, _E.scalar, _E.gpsimd),
        *alu_op("op0"),
        *alu_op("op1"),
        rule(
            "TS01",
            "op0={i.op0} and op1={i.op1}: both must be arithmetic, or both bit operators",
            lambda i, t: i.op1 is None or i.op0.alu is None or i.op1.alu is None or i.op0.alu.bits == i.op1.alu.bits,
            _SOURCE,
            error=OperatorError,
            fix="use two instructions",
        ),
        rule(
            "TS02",
            "op0={i.op0} needs operand0, and op1={i.op1} needs operand1={i.operand1} (both or neither)",
            lambda i, t: operand_fits(i.op0, i.operand0) and operand_fits(i.op1, i.operand1),
            _SOURCE,
            error=OperatorError,
            fix="pass the operand of each operator; leave op1 and operand1 out together",
        ),
        rule(
            "TS07",
            "op0={i.op0} takes one operand, and operand0={o[operand0]} is neither None nor 0",
            lambda i, t: i.op0.name == "bypass" or not operand_matters(i.op0, i.operand0),
            _SOURCE,
            error=OperatorError,
            fix="pass operand0=None",
            by_value=_has_unary_op0,
        ),
        bits_on_vector("TS05", "op0", _SOURCE),
        rule(
            "TS03",
            "the Scalar engine of {t.name} does not run op0={i.op0}, op1={i.op1}",
            lambda i, t: i.engine is not _E.scalar or _scalar_engine(i),
            _SOURCE,
            error=EngineError,
            fix="use multiply, add, or multiply then add; or nisa.engine.vector",
            until=3,
        ),
        rule(
            "TS03",
            "the Scalar engine of {t.name} has no tensor_scalar",
            lambda i, t: i.engine is not _E.scalar,
            "NKI reference of release 2.26.1, Supported Math Operators for NKI ISA: on Scalar from NeuronCore-v3",
            error=EngineError,
            fix="use nisa.activation(op=nl.copy, scale=…, bias=…), or nisa.engine.vector",
            until=2,
            release="0.2",
        ),
        rule(
            "TS04",
            "the GpSimd engine runs nl.rsqrt and nl.power here, alone or with nl.add or nl.multiply, not op0={i.op0}, "
            "op1={i.op1}",
            lambda i, t: i.engine is not _E.gpsimd or _gpsimd_engine(i),
            _SOURCE,
            error=EngineError,
            fix="use nisa.engine.vector, or leave engine out",
        ),
        rule(
            "TS06",
            "operand0={i.operand0}, operand1={i.operand1}: a bit operator takes whole numbers that fit into "
            "{i.data.dtype}, the dtype of data '{i.data.name}'",
            lambda i, t: _pattern(i, i.op0, i.operand0) and _pattern(i, i.op1, i.operand1),
            _SOURCE,
            error=ArgumentError,
            fix="pass an integer of that width",
            by_value=_has_bitwise_op,
        ),
        bit_types("op0", "dst", "data", "operand0", "operand1"),
        float_operand("operand0", "op0"),
        float_operand("operand1", "op1"),
        *indirection("dst", "data"),
        scalar_not_in_psum(),
        no_addresses(),
    )

    def choices(self) -> tuple[enums.engine, ...]:
        """GpSimd first for the reverse square root and for powers, which the table of operators of release 2.26.1 gives
        to GpSimd, and the former to Scalar: as an activation function only. Vector where GpSimd cannot go.
        """
        return self.engines if _GPSIMD.isdisjoint(_names(self)) else (_E.gpsimd, _E.vector)

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.load(self.data)
        value = staged(m, self.op0, value, _operand(m, self.op0, self.operand0, self.data), self.reverse0)
        if self.op1 is not None:
            value = staged(m, self.op1, value, _operand(m, self.op1, self.operand1, self.data), self.reverse1)
        if self.op0.alu is not None and self.op0.alu.bits:
            m.store_bits(self.dst, value)
        else:
            m.store(self.dst, m.cast(value, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / w) + issue`` cycles for N elements per partition; w = 1, 2 or 4 by engine, dtype and memory.
        GpSimd, ``4 N + issue``: its reverse square root has a quarter of Scalar's throughput, and a power no more. A
        division is a product behind the reciprocals of a column or, reversed, of the tile.
        """
        if cost.engine_of(self) == "gpsimd":
            if "power" in _names(self):
                return cost.raising(self, target)
            origin = "docs", "NKI ISA API Common Fields: engine selection, reverse square root"
            return cost.streaming(self, target, self.dst.free_elements, "", 4.0, origin=origin)
        scaled = cost.copying(self, target, self.dst.free_elements, "tensor_scalar")
        count = divisors(self.op0, self.data, self.operand0, self.reverse0)
        count += divisors(self.op1, self.data, self.operand1, self.reverse1)
        return behind_reciprocals(scaled, count, target)

    def cost_on_scalar(self, target: Target) -> Estimate | None:
        """A product, a sum or a product and a sum: Vector or Scalar, "based on the input tile shape" (reference of
        release 2.21, nki.isa.tensor_scalar, which has no limit to a target).
        """
        if self.engine is not _E.unknown or not _scalar_engine(self):
            return None
        return self.replace(engine=_E.scalar).cost(target)

    @classmethod
    def sample(cls, draw: Draw) -> TensorScalar:
        partitions, free = draw.partitions(), draw.free()
        rows = [r for r in alu_operators.TABLE.values() if r.since <= draw.target.generation]
        first = draw.choice(rows)
        second = draw.choice([r for r in rows if r.bits == first.bits]) if draw.flag() else None
        if first.bits:
            kinds = [d for d in INTEGERS if d.itemsize == draw.choice((1, 2, 4))] or list(INTEGERS[:2])
            kinds = [d for d in INTEGERS if d.itemsize == kinds[0].itemsize]
            operands: list[Any] = [draw.integer(0, 9), draw.integer(0, 9)]
        else:
            kinds = list(COMPUTING)
            operands = [draw.scalar(partitions), draw.scalar(partitions)]
        return cls(
            draw.tile(partitions, free, draw.choice(kinds)),
            draw.tile(partitions, free, draw.choice(kinds)),
            OPS[first.name],
            operands[0] if first.arity == 2 else draw.choice((None, 0)),
            draw.flag(),
            OPS[second.name] if second else None,
            operands[1] if second else None,
            draw.flag(),
        )


def _updates(i: Any) -> tuple[Update, ...]:
    first, second = _steps(i)
    chains = [Update(i.operand1, ((i.op1.name, not i.reverse1),)), Update(i.data, (first, second))]
    if isinstance(i.operand0, Tile):
        chains.append(Update(i.operand0, ((i.op0.name, not i.reverse0), second)))
    return tuple(chains)


@instruction(engines=(_E.vector,), effects=Effects(updates=_updates, streamed=("data", "operand1")))
class ScalarTensorTensor(Inst):
    """``dst = (data <op0> operand0) <op1> operand1`` with ``operand0`` a number or ``(partitions, 1)`` tile and
    ``operand1`` a tile like ``data``.

    Arithmetic operators only, in float32. ``data`` and ``operand1`` are not both in PSUM.
    """

    dst: Out[Tile]
    data: In[Tile]
    op0: AluOp
    operand0: Scalar | In[Tile]
    op1: AluOp
    operand1: In[Tile]
    reverse0: bool = False
    reverse1: bool = False
    name: str | None = None

    rules = (
        *tiles("dst", "data", "operand0", "operand1"),
        same_partitions("dst", "data", "operand1"),
        same_elements("dst", "data", "operand1"),
        column("operand0", "data"),
        not_both_psum("data", "operand1"),
        *alu_op("op0", arithmetic=True),
        *alu_op("op1", arithmetic=True),
        rule(
            "ST01",
            "op1={i.op1} takes one operand",
            lambda i, t: i.op1.alu is None or i.op1.alu.arity == 2,
            "NKI reference, nki.isa.scalar_tensor_tensor",
            error=OperatorError,
            fix="use nisa.tensor_scalar with two operators",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        value = staged(m, self.op0, m.load(self.data), m.load(self.operand0), self.reverse0)
        value = staged(m, self.op1, value, m.load(self.operand1), self.reverse1)
        m.store(self.dst, m.cast(value, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, f N) + issue`` Vector cycles for N elements per partition; f as in ``nisa.tensor_tensor``, where
        the operators of trn1 are subtract and then multiply. A division is a product behind reciprocals.
        """
        simple = (self.op0.name, self.op1.name) == ("subtract", "multiply")
        combined = cost.combining(self, target, (self.data, self.operand1), "scalar_tensor_tensor", simple=simple)
        count = divisors(self.op0, self.data, self.operand0, self.reverse0)
        count += divisors(self.op1, self.data, self.operand1, self.reverse1)
        return behind_reciprocals(combined, count, target)

    @classmethod
    def sample(cls, draw: Draw) -> ScalarTensorTensor:
        partitions, free = draw.partitions(), draw.free()
        rows = [r for r in alu_operators.TABLE.values() if not r.bits and r.since <= draw.target.generation]
        return cls(
            draw.tile(partitions, free, draw.choice(FLOATS)),
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            OPS[draw.choice(rows).name],
            draw.scalar(partitions),
            OPS[draw.choice([r for r in rows if r.arity == 2]).name],
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            draw.flag(),
            draw.flag(),
        )
