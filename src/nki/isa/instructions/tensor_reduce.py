"""``nisa.tensor_reduce`` and ``nisa.tensor_partition_reduce``."""

from __future__ import annotations

import math
from typing import Any, cast

from nki.base.element_types import float32 as _F32
from nki.base.errors import ArgumentError, OperatorError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.declaration.combining import Combining, RowSum
from nki.ir.deprecation import DeprecatedForms, DeprecatedValue
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, INTEGERS, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile, access_of
from nki.isa.rules.indirection import indirection
from nki.isa.rules.operand_rules import alu_op, bit_types, buffer, rule, same_elements, same_partitions, tiles
from nki.isa.tables import alu_operators, enums
from nki.isa.tables.operators import OPS, AluOp, Op
from nki.target.model import Target

_E = enums.engine
_SOURCE = "NKI reference, nki.isa.tensor_reduce"
_DIMENSIONS = 5
"""Partitions and the free dimensions of a pattern of the engine."""
_ACROSS = ("add", "average", "maximum", "bitwise_or", "bitwise_and")
"""Operators that reduce over partitions."""


def _axes(i: Any) -> tuple[int, ...]:
    """The reduced dimensions, counted from the front, sorted; none if some are no integers."""
    axis: object = i.axis
    axes: tuple[Any, ...] = cast("tuple[Any, ...]", axis) if isinstance(axis, tuple) else (axis,)
    if any(type(a) is not int for a in axes):
        return ()
    return tuple(sorted(a + i.data.ndim if a < 0 else a for a in axes))


def _from_the_last(axis: object, data: Any) -> object:
    """Dimensions in an older count, as they are counted today.

    The last one was 1, or 4 of five dimensions; the public library of Neuron 2.28 counts in both ways.
    """
    access = access_of(data)
    counted: list[Any] = list(cast("list[Any]", axis)) if isinstance(axis, list | tuple) else [axis]
    is_whole = isinstance(access, Access) and all(type(a) is int for a in counted)
    if is_whole and len(counted) > 0 and access.ndim <= max(counted) < _DIMENSIONS:
        return tuple(a - _DIMENSIONS + access.ndim for a in counted)
    if not isinstance(access, Access) or sorted(counted, key=str) != list(range(1, len(counted) + 1)):
        return cast("object", axis)
    return tuple(range(access.ndim - len(counted), access.ndim))


def _trailing(i: Any) -> bool:
    axes = _axes(i)
    return len(axes) > 0 and axes[0] > 0 and axes == tuple(range(i.data.ndim - len(axes), i.data.ndim))


def _kept(i: Any) -> int:
    """Results per partition."""
    return math.prod(i.data.shape[1 : i.data.ndim - len(_axes(i))])


def _store(m: Algebra[Any], op: Op, dst: Tile, value: Any) -> None:
    """Bit operators store their pattern, arithmetic is converted."""
    if op.alu is not None and op.alu.bits:
        m.store_bits(dst, value)
    else:
        m.store(dst, m.cast(value, dst.dtype))


def _row_sum(i: Any) -> RowSum | None:
    adds_all = i.op.name == "add" and not i.negate and i.dst.free_elements == 1 < i.data.free_elements
    return RowSum(i.dst, i.data) if adds_all else None


@instruction(
    engines=(_E.vector,),
    effects=Effects(combining=Combining(row_sum=_row_sum), element_indexed=("dst", "data")),
    deprecated=DeprecatedForms(values=(DeprecatedValue("axis", "data", "0.3", _from_the_last),)),
)
class TensorReduce(Inst):
    """Fold the last dimensions of ``data`` with ``op``, partition by partition.

    ``axis`` is one or more trailing dimensions, never dimension 0; ``dst`` holds the remaining elements (``keepdims``
    leaves ones in the shape, which changes nothing in memory). Arithmetic operators fold float32 strictly from left to
    right, starting with the first element; ``negate`` flips the sign of the result. Bit operators take integers of one
    width. On gen4 both tiles may be indirect views.
    """

    dst: Out[Tile]
    op: AluOp
    data: In[Tile]
    axis: int | tuple[int, ...]
    negate: bool = False
    keepdims: bool = False
    name: str | None = None

    rules = (
        *tiles("dst", "data"),
        rule(
            "TR02",
            "axis={i.axis} of data {o[data]}: the reduced dimensions must be the last ones, without dimension 0",
            lambda i, t: _trailing(i),
            _SOURCE,
            error=ShapeError,
            fix="reduce trailing dimensions; for the partition axis use nisa.nc_transpose or a matmul with ones",
        ),
        same_partitions("dst", "data"),
        alu_op("op")[0],  # without OP02: no target reduces with an operator that only some targets have
        rule(
            "TR01",
            "op={i.op} is not a reduction operator",
            lambda i, t: i.op.alu is None or i.op.alu.reduces,
            _SOURCE,
            error=OperatorError,
            fix="use add, subtract, multiply, maximum, minimum, a logical or a bitwise operator",
        ),
        rule(
            "TR03",
            "dst {o[dst]} does not hold data {o[data]} reduced over axis={i.axis}",
            lambda i, t: i.dst.free_elements == _kept(i),
            _SOURCE,
            error=ShapeError,
            fix="allocate dst with the dimensions that stay",
        ),
        rule(
            "TR04",
            "negate=True with the bit operator {i.op}",
            lambda i, t: not i.negate or i.op.alu is None or not i.op.alu.bits,
            _SOURCE,
            error=ArgumentError,
            fix="leave negate out, or use an arithmetic operator",
        ),
        bit_types("op", "dst", "data"),
        *indirection("dst", "data", others=False),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.reduce(self.op.name, m.load(self.data), _kept(self))
        if self.negate:
            value = m.alu("multiply", value, m.const(-1.0, _F32))
        _store(m, self.op, self.dst, value)

    def cost(self, target: Target) -> Estimate:
        """``max(64, f N) + issue`` Vector cycles for N elements of ``data`` per partition; f = 1, or 1/2 for add and
        maximum of 16-bit floats into such (trn1: bfloat16).
        """
        narrow = all(d.itemsize == 2 and d in target.performance_dtypes for d in (self.data.dtype, self.dst.dtype))
        fast = narrow and self.op.name in ("add", "maximum")
        return cost.streaming(self, target, self.data.free_elements, "tensor_reduce", 0.5 if fast else 1.0)

    @classmethod
    def sample(cls, draw: Draw) -> TensorReduce:
        partitions = draw.partitions()
        op = OPS[draw.choice([r.name for r in alu_operators.TABLE.values() if r.reduces])]
        bits = op.alu is not None and op.alu.bits
        kinds = [d for d in INTEGERS if d.itemsize == 2] if bits else list(COMPUTING)
        data = draw.tile(partitions, draw.free(), draw.choice(kinds))
        axes = tuple(range(draw.integer(1, data.ndim - 1), data.ndim))
        kept = math.prod(data.shape[1 : axes[0]])
        dst = draw.tile(partitions, kept, draw.choice(kinds))
        return cls(
            dst, op, data, axes if draw.flag() else axes[0] if len(axes) == 1 else axes, not bits and draw.flag()
        )


@instruction(engines=(_E.gpsimd,))
class TensorPartitionReduce(Inst):
    """Fold ``data`` over its partitions into the one partition of ``dst``, on GpSimd.

    ``op`` is add, average, maximum, bitwise_or or bitwise_and, computed in float32 (bit operators: on integers of one
    width), lowest partition first; the average is the sum divided by the number of partitions. Both tiles are in SBUF.
    """

    dst: Out[Tile]
    op: AluOp
    data: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "data"),
        same_elements("dst", "data"),
        buffer("dst", Buffer.sbuf),
        buffer("data", Buffer.sbuf),
        rule(
            "PR01",
            "op={i.op} is not one that reduces over partitions",
            lambda i, t: i.op.name in _ACROSS,
            "NKI reference, nki.isa.tensor_partition_reduce",
            error=OperatorError,
            fix="use one of " + ", ".join(f"nl.{name}" for name in _ACROSS),
        ),
        rule(
            "PR02",
            "dst '{i.dst.name}' has {i.dst.partitions} partitions; the result has one",
            lambda i, t: i.dst.partitions == 1,
            "NKI reference, nki.isa.tensor_partition_reduce",
            error=ShapeError,
            fix="pass a tile of one partition",
        ),
        bit_types("op", "dst", "data"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        if self.op.name == "average":
            total = m.reduce_partitions("add", m.load(self.data))
            value = m.alu("divide", total, m.const(float(self.data.partitions), _F32))
        else:
            value = m.reduce_partitions(self.op.name, m.load(self.data))
        _store(m, self.op, self.dst, value)

    def cost(self, target: Target) -> Estimate:
        """``c N`` GpSimd cycles for N elements of ``data`` per partition; c cycles per element depend on the target."""
        cycles = target.gpsimd_partition_reduce_cycles * self.data.free_elements
        return cost.guessed(self, target, cycles, "GpSimd reads 16 partitions per processor")

    @classmethod
    def sample(cls, draw: Draw) -> TensorPartitionReduce:
        free = draw.free()
        op = OPS[draw.choice(_ACROSS)]
        kinds = [d for d in INTEGERS if d.itemsize == 4] if op.alu is not None and op.alu.bits else list(FLOATS)
        return cls(draw.tile(1, free, draw.choice(kinds)), op, draw.tile(draw.partitions(), free, draw.choice(kinds)))
