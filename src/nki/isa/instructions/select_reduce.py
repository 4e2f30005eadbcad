"""``nisa.select_reduce`` and ``nisa.range_select``: a choice for each element, and the largest chosen element."""

from __future__ import annotations

from typing import Any, Final

from nki.base.element_types import float32
from nki.base.errors import ArgumentError, DTypeError, OperatorError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, Draw
from nki.ir.types import In, Index, InOut, Out, Scalar, Tile
from nki.isa.deprecated import first_partitions
from nki.isa.rules import accumulators
from nki.isa.rules.operand_rules import (
    column,
    exists_from,
    is_float32,
    not_both_psum,
    rule,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS, AluOp
from nki.target.model import Target

_R = enums.reduce_cmd
_SELECT = "NKI reference, nki.isa.select_reduce"
_RANGE = "NKI reference, nki.isa.range_select"
_COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")
_PREDICATES = ("int8", "uint8", "int16", "uint16", "bool")

FP32_MIN: Final = -3.4028234663852886e38
"""The smallest float32 number."""
_HALF_STEP: Final = 2.0**103
"""Half the distance from it to its neighbour: what is nearer to it rounds to it."""
_EXACT: Final = 1 << 24
"""Whole numbers up to this size are float32 numbers."""


@instruction(engines=(enums.engine.vector,), effects=Effects(implicit=accumulators.implicit(accumulators.VECTOR)))
class SelectReduce(Inst):
    """``dst = on_true`` where ``predicate`` is not zero, ``on_false`` elsewhere, and the maximum of these elements.

    ``reverse_pred`` swaps the two cases. ``on_false`` is a number or a tile ``(partitions, 1)``. The tiles agree on
    partitions and on elements per partition, not on how those are arranged; ``on_true`` and ``predicate`` are not both
    in PSUM. ``predicate`` is an integer of at most 16 bits or a bool. The maximum is taken of the float32 values before
    they are rounded to ``dst``, and goes through the Vector engine's reduction registers: ``reset_reduce`` begins with
    -inf, ``reduce`` with what they hold. After ``idle`` their contents are unknown: NaN here. ``reduce_res``, a float
    tile ``(partitions, 1)``, receives the registers afterwards.
    """

    dst: Out[Tile]
    predicate: In[Tile]
    on_true: In[Tile]
    on_false: Scalar | In[Tile]
    reduce_res: Out[Tile] | None = None
    reduce_cmd: enums.reduce_cmd = _R.idle
    reduce_op: AluOp = OPS["maximum"]
    reverse_pred: bool = False
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = (
        *tiles("dst", "predicate", "on_true", "on_false", "reduce_res"),
        same_partitions("dst", "predicate", "on_true"),
        same_elements("dst", "predicate", "on_true"),
        column("on_false", "on_true"),
        column("reduce_res", "on_true"),
        not_both_psum("on_true", "predicate"),
        rule(
            "SR01",
            "on_true '{i.on_true.name}' is {i.on_true.dtype}; it can be neither tfloat32 nor a 32-bit integer",
            lambda i, t: i.on_true.dtype.name not in ("tfloat32", "int32", "uint32"),
            _SELECT,
            error=DTypeError,
            fix="copy it to a float32 tile with nisa.tensor_copy",
        ),
        rule(
            "SR02",
            "predicate '{i.predicate.name}' is {i.predicate.dtype}, not int8, uint8, int16, uint16 or bool",
            lambda i, t: i.predicate.dtype.name in _PREDICATES,
            _SELECT,
            error=DTypeError,
            fix="write the comparison into a uint8 tile",
        ),
        accumulators.result_is_float(_SELECT),
        accumulators.operator(_SELECT, "reduce_op", "maximum"),
        accumulators.commands(_SELECT, _R.idle, _R.reduce, _R.reset_reduce),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """True: ``idle`` leaves unknown contents in the registers."""
        return True

    def semantics(self, m: Algebra[Any]) -> None:
        selected = m.alu("equal" if self.reverse_pred else "not_equal", m.load(self.predicate), m.const(0.0, float32))
        value = m.select(selected, *(m.cast(m.load(v), float32) for v in (self.on_true, self.on_false)))
        held = accumulators.total_or_unknown(self, m, "maximum", value)
        m.store(self.dst, m.cast(value, self.dst.dtype))
        accumulators.keep(self, m, held)

    def cost(self, target: Target) -> Estimate:
        """``max(64, f N) + issue`` Vector cycles for N elements per partition; f = 1 if one of ``on_true`` and
        ``predicate`` is in PSUM, else as for two tiles of 32 bits in SBUF.
        """
        why = "like tensor_copy_predicated, which reads as much"
        cycles, _ = cost.selecting_cycles(self.on_true, self.predicate, target)
        return cost.guessed(self, target, cycles * self.dst.free_elements, why)

    @classmethod
    def sample(cls, draw: Draw) -> SelectReduce:
        partitions, free = draw.partitions(), draw.free()
        kinds = [d for d in COMPUTING if d.name not in ("tfloat32", "int32", "uint32")]
        return cls(
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            draw.tile(partitions, free, draw.choice([d for d in COMPUTING if d.name in _PREDICATES])),
            draw.tile(partitions, free, draw.choice(kinds)),
            draw.number() if draw.flag() else draw.column(partitions, draw.choice(COMPUTING)),
            draw.column(partitions, draw.choice(FLOATS)) if draw.flag() else None,
            draw.choice((_R.idle, _R.reduce, _R.reset_reduce)),
            reverse_pred=draw.flag(),
        )


@instruction(
    engines=(enums.engine.vector,),
    effects=Effects(implicit=accumulators.implicit(accumulators.VECTOR)),
    deprecated=DeprecatedForms(
        values=(first_partitions("bound0", "on_true_tile"), first_partitions("bound1", "on_true_tile"))
    ),
)
class RangeSelect(Inst):
    """``dst[p, i] = on_true_tile[p, i]`` where both comparisons of ``range_start + i`` hold, else the smallest float32.

    They are ``comp_op0`` with ``bound0[p]`` and ``comp_op1`` with ``bound1[p]``, in float32; a bound is a float32 tile
    ``(partitions, 1)`` or, as kernels in use have it, a number. ``on_false_value`` can be no other number than the
    smallest float32, however it is written. The maximum of the float32 results, before they are rounded to ``dst``,
    goes through the Vector engine's reduction registers: ``reset_reduce`` begins with -inf, ``reduce`` with what they
    hold, ``reset`` leaves -inf and ``idle`` what was there. ``reduce_res``, a ``(partitions, 1)`` tile, receives the
    registers afterwards; if ``dst`` is narrower than float32, where the smallest float32 becomes -inf there, keep it in
    float32. Since NeuronCore-v3.
    """

    dst: Out[Tile]
    on_true_tile: In[Tile]
    comp_op0: AluOp
    comp_op1: AluOp
    bound0: Scalar | In[Tile]
    bound1: Scalar | In[Tile]
    reduce_cmd: enums.reduce_cmd = _R.reset_reduce
    reduce_res: Out[Tile] | None = None
    reduce_op: AluOp = OPS["maximum"]
    range_start: Index = 0
    on_false_value: Scalar = FP32_MIN
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = (
        exists_from(3, _RANGE),
        *tiles("dst", "on_true_tile", "bound0", "bound1", "reduce_res"),
        same_partitions("dst", "on_true_tile"),
        same_elements("dst", "on_true_tile"),
        column("bound0", "on_true_tile"),
        column("bound1", "on_true_tile"),
        column("reduce_res", "on_true_tile"),
        is_float32("bound0", _RANGE),
        is_float32("bound1", _RANGE),
        rule(
            "RS01",
            "on_true_tile '{i.on_true_tile.name}' is {i.on_true_tile.dtype}; it must be of a float dtype",
            lambda i, t: i.on_true_tile.dtype.is_float,
            _RANGE,
            error=DTypeError,
            fix="copy it to a float tile with nisa.tensor_copy",
        ),
        rule(
            "RS02",
            "comp_op0={i.comp_op0}, comp_op1={i.comp_op1}: one is not a comparison that this instruction makes",
            lambda i, t: i.comp_op0.name in _COMPARISONS and i.comp_op1.name in _COMPARISONS,
            _RANGE,
            error=OperatorError,
            fix="use " + ", ".join(f"nl.{name}" for name in _COMPARISONS),
        ),
        rule(
            "RS03",
            "on_false_value={i.on_false_value} is not the smallest float32, the one value that the hardware fills in",
            lambda i, t: abs(i.on_false_value - FP32_MIN) < _HALF_STEP,
            _RANGE,
            error=ArgumentError,
            fix="leave it out, or pass -3.4028235e38",
            by_value=True,
        ),
        rule(
            "RS04",
            "range_start={i.range_start} and {i.on_true_tile.free_elements} elements: indices beyond 2**24 are not "
            "exact in float32",
            lambda i, t: -_EXACT <= i.range_start <= _EXACT - i.on_true_tile.free_elements + 1,
            _RANGE,
            error=ArgumentError,
            fix="subtract a base from range_start and from both bounds",
            by_value=True,
        ),
        accumulators.operator(_RANGE, "reduce_op", "maximum"),
        accumulators.commands(_RANGE, _R.idle, _R.reset, _R.reduce, _R.reset_reduce),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """True if the instruction uses the reduction registers."""
        return self.reduce_cmd is not _R.idle or self.reduce_res is not None

    def semantics(self, m: Algebra[Any]) -> None:
        index = m.iota(((1, self.on_true_tile.free_elements),), self.range_start, 0, self.on_true_tile.partitions)
        first = m.alu(self.comp_op0.name, index, m.load(self.bound0))
        second = m.alu(self.comp_op1.name, index, m.load(self.bound1))
        inside = m.alu("multiply", first, second)
        value = m.select(inside, m.cast(m.load(self.on_true_tile), float32), m.load(self.on_false_value))
        held = accumulators.total(self, m, "maximum", value) if self.registers is not None else None
        m.store(self.dst, m.cast(value, self.dst.dtype))
        if self.registers is not None:
            accumulators.keep(self, m, held)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements per partition."""
        return cost.streaming(self, target, self.dst.free_elements, "range_select")

    @classmethod
    def sample(cls, draw: Draw) -> RangeSelect:
        partitions, free = draw.partitions(), draw.free()
        return cls(
            draw.tile(partitions, free, draw.choice(COMPUTING)),
            draw.tile(partitions, free, draw.choice(FLOATS)),
            OPS[draw.choice(_COMPARISONS)],
            OPS[draw.choice(_COMPARISONS)],
            draw.scalar(partitions),
            draw.scalar(partitions),
            draw.choice((_R.idle, _R.reset, _R.reduce, _R.reset_reduce)),
            draw.column(partitions, draw.choice(COMPUTING)) if draw.flag() else None,
            range_start=draw.integer(-20, 20),
        )
