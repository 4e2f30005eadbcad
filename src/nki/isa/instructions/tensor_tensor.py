"""``nisa.tensor_tensor``."""

from __future__ import annotations

from typing import Any

from nki.base.errors import EngineError, MemoryRegionError
from nki.cost import engines as cost
from nki.cost.division import behind_reciprocals, divisors
from nki.ir.algebra import Algebra
from nki.ir.declaration.combining import Combination, Combining, Scaling
from nki.ir.effects import Effects, Update
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, INTEGERS, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.instructions.tensor_scalar import ScalarTensorTensor, TensorScalar
from nki.isa.rules.indirection import indirection
from nki.isa.rules.operand_rules import (
    alu_op,
    bit_types,
    bits_on_vector,
    engines,
    not_both_psum,
    rule,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import alu_operators, enums
from nki.isa.tables.operators import OPS, AluOp
from nki.target.model import Target

_E = enums.engine
_SOURCE = "NKI reference, nki.isa.tensor_tensor"
_WORDS = ("int32", "uint32")
_COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
_EXACT = ("add", "subtract", "multiply", "maximum", "minimum", "abs_max", "abs_min", *_COMPARISONS)
"""Operators that GpSimd computes on integers; on the logical ones float32 changes nothing."""


def _updates(i: Any) -> tuple[Update, ...]:
    return Update(i.data1, ((i.op.name, False),)), Update(i.data2, ((i.op.name, True),))


def _is_arithmetic(i: Any) -> bool:
    return i.op.alu is not None and not i.op.alu.bits


def _after_scaling(i: Any, scaling: Scaling, result: Access) -> Combination | None:
    """Scaling of one of the two tiles, on Vector, which alone has the instruction."""
    if len(scaling.steps) != 1 or not _is_arithmetic(i) or i.queue != "vector":
        return None
    (step,) = scaling.steps
    if step.operand is None:
        return None
    other, reverse = (i.data2, False) if result is i.data1 else (i.data1, True)
    both = ScalarTensorTensor(
        i.dst, scaling.data, OPS[step.op], step.operand, i.op, other, reverse0=step.reverse, reverse1=reverse
    )
    return Combination(both, "let nisa.scalar_tensor_tensor do both")


def _by_column(i: Any) -> TensorScalar | None:
    """``nisa.tensor_scalar``, if each partition of a tile has one place that all elements read."""
    if not _is_arithmetic(i):
        return None
    for column, data in ((i.data2, i.data1), (i.data1, i.data2)):
        if column.one_place():
            shape = (column.partitions, *(1 for _ in column.shape[1:]))
            operand = column.with_window(column.offset, shape, column.strides, column.dynamic)
            return TensorScalar(i.dst, data, i.op, operand, reverse0=column is i.data1, engine=i.engine)
    return None


@instruction(
    engines=(_E.vector, _E.gpsimd),
    effects=Effects(
        updates=_updates,
        combining=Combining(after_scaling=_after_scaling, by_column=_by_column),
        streamed=("data1", "data2"),
        element_indexed=("dst", "data1"),
    ),
)
class TensorTensor(Inst):
    """``dst = data1 <op> data2``, element by element.

    All tiles have the same partitions and elements per partition; the inputs are not both in PSUM. Arithmetic operators
    compute in float32, with one exception: sums, products, extremes and comparisons of tiles that are all int32 or
    uint32 run on GpSimd in exact integers and keep 32 bits, unless ``engine`` says Vector or a tile is in
    PSUM. Bit operators take integers of one width and store bits. ``nl.power`` runs on GpSimd, so all its tiles are in
    SBUF. On gen4 ``dst`` and ``data1`` may be indirect views.
    """

    dst: Out[Tile]
    data1: In[Tile]
    data2: In[Tile]
    op: AluOp
    engine: enums.engine = _E.unknown
    name: str | None = None

    rules = (
        *tiles("dst", "data1", "data2"),
        same_partitions("dst", "data1", "data2"),
        same_elements("dst", "data1", "data2"),
        not_both_psum("data1", "data2"),
        *engines(_E.vector, _E.gpsimd),
        *alu_op("op"),
        rule(
            "TT01",
            "op={i.op} takes one operand",
            lambda i, t: i.op.alu is None or i.op.alu.arity == 2,
            _SOURCE,
            error=EngineError,
            fix="use nisa.tensor_scalar or nisa.activation for a unary operator",
        ),
        rule(
            "TT02",
            "nl.power runs on GpSimd, which cannot reach psum, where it would find {o[in psum]}",
            lambda i, t: i.op.name != "power" or all(a.buffer is Buffer.sbuf for a in i.accesses()),
            _SOURCE,
            error=MemoryRegionError,
            fix="copy the operand to SBUF with nisa.tensor_copy first",
        ),
        rule(
            "TT03",
            "nl.power runs on GpSimd only",
            lambda i, t: i.op.name != "power" or i.engine in (_E.unknown, _E.gpsimd),
            _SOURCE,
            error=EngineError,
            fix="leave engine out",
        ),
        bits_on_vector("TT04", "op", _SOURCE),
        bit_types("op", "dst", "data1", "data2"),
        *indirection("dst", "data1"),
    )

    def exact_integers(self) -> bool:
        """True if GpSimd's native integer arithmetic computes the result."""
        words = all(a.dtype.name in _WORDS for a in self.accesses())
        on_sbuf = all(a.buffer is not Buffer.psum for a in self.accesses())
        return words and on_sbuf and self.op.name in _EXACT and self.engine is not _E.vector

    def choices(self) -> tuple[enums.engine, ...]:
        """GpSimd alone computes exact integers and powers, the Vector engine alone works on bits."""
        if self.op.alu is not None and self.op.alu.bits:
            return (_E.vector,)
        return (_E.gpsimd,) if self.exact_integers() or self.op.name == "power" else self.engines

    def semantics(self, m: Algebra[Any]) -> None:
        left, right = m.load(self.data1), m.load(self.data2)
        if self.exact_integers():
            m.store(self.dst, m.integer(self.op.name, left, right, self.dst.dtype))
        elif self.op.alu is not None and self.op.alu.bits:
            value = m.alu(self.op.name, left, right)
            m.store_bits(self.dst, value)
        else:
            m.store(self.dst, m.cast(m.alu(self.op.name, left, right), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, f N) + issue`` cycles for N elements per partition; f = 2, or on Vector 1 for one tile in PSUM and
        for two in SBUF (trn1: bfloat16 side by side, and only add, subtract and multiply). A division is a product
        behind the reciprocals of ``data2``. A power takes GpSimd longer than that (:func:`nki.cost.engines.raising`).
        """
        if self.op.name == "power":
            return cost.raising(self, target)
        simple = self.op.name in ("add", "subtract", "multiply")
        combined = cost.combining(self, target, (self.data1, self.data2), "tensor_tensor", simple=simple)
        return behind_reciprocals(combined, divisors(self.op, self.data1, self.data2), target)

    @classmethod
    def sample(cls, draw: Draw) -> TensorTensor:
        partitions, free = draw.partitions(), draw.free()
        names = [r.name for r in alu_operators.TABLE.values() if r.arity == 2 and r.since <= draw.target.generation]
        op = OPS[draw.choice(names)]
        if op.alu is not None and op.alu.bits:
            width = draw.choice((1, 2, 4))
            kinds = [d for d in INTEGERS if d.itemsize == width]
        else:
            kinds = [d for d in COMPUTING if d.itemsize == 4] if draw.flag() else list(COMPUTING)
        operands = [draw.tile(partitions, free, draw.choice(kinds)) for _ in range(3)]
        return cls(operands[0], operands[1], operands[2], op)
