"""``nisa.iota`` and ``nisa.affine_select``: patterns that GpSimd computes from element positions."""

from __future__ import annotations

import math
from typing import Any, cast

from nki.base.element_types import int32
from nki.base.errors import ArgumentError, OperatorError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms, DeprecatedOrder
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.loop import is_register
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, Buffer, In, Index, Out, Scalar, Tile
from nki.isa.rules.operand_rules import buffer, rule, same_elements, same_partitions, tiles
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS, AluOp
from nki.target.memory_spaces import ACCESS_PATTERN_DIMS
from nki.target.model import Target

Pattern = tuple[tuple[int, int], ...]
_COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
_WORD = range(-(1 << 31), 1 << 31)


def _well_formed(i: Any) -> bool:
    pattern: tuple[Any, ...] = i.pattern
    return 1 <= len(pattern) < ACCESS_PATTERN_DIMS and all(
        isinstance(pair, tuple) and _pair(cast(tuple[Any, ...], pair)) for pair in pattern
    )


def _pair(pair: tuple[Any, ...]) -> bool:
    return len(pair) == 2 and all(type(n) is int and n in _WORD for n in pair) and pair[1] >= 1


def _values(i: Any) -> int:
    return math.prod(count for _, count in i.pattern)


def _pattern_rules(source: str) -> tuple[Rule, ...]:
    return (
        rule(
            "IO01",
            "pattern={i.pattern} is not a list of 1 to 4 [step, count] pairs of 32-bit integers",
            lambda i, t: _well_formed(i),
            source,
            error=ArgumentError,
            fix="write [[step, count], …], the fastest dimension last",
        ),
        rule(
            "IO02",
            "pattern={i.pattern} does not have as many values as '{i.dst.name}' {i.dst.shape} has per partition",
            lambda i, t: not _well_formed(i) or _values(i) == i.dst.free_elements,
            source,
            error=ShapeError,
            fix="make the product of the counts {i.dst.free_elements}",
        ),
        rule(
            "IO03",
            "offset={i.offset} and channel_multiplier={i.channel_multiplier} must be 32-bit integers",
            lambda i, t: (isinstance(i.offset, Access) or i.offset in _WORD) and i.channel_multiplier in _WORD,
            source,
            error=ArgumentError,
            fix="pass integers between -2**31 and 2**31 - 1",
            by_value=True,
        ),
        rule(
            "IO04",
            "offset is {o[offset]}, neither a number nor a register",
            lambda i, t: not isinstance(i.offset, Access) or is_register(i.offset),
            "Release notes of NKI 0.4 (register offsets)",
            error=ArgumentError,
            fix="load it into a register with nisa.register_load",
        ),
    )


def _positions(m: Algebra[Any], i: Any) -> Any:
    """The numbers of the pattern; an offset that only the run knows is added to them as they wrap."""
    dynamic = isinstance(i.offset, Access)
    value = m.iota(i.pattern, 0 if dynamic else i.offset, i.channel_multiplier, i.dst.partitions)
    return m.integer("add", value, m.load(i.offset), int32) if dynamic else value


def _random_offset(draw: Draw, most: int) -> int | Access:
    return draw.register() if draw.flag() and draw.flag() else draw.integer(-most, most)


def _random_pattern(draw: Draw, elements: int) -> Pattern:
    outer = draw.choice([n for n in range(1, elements + 1) if elements % n == 0][:3])
    return ((draw.integer(-5, 40), outer), (draw.integer(-3, 3), elements // outer))


@instruction(engines=(enums.engine.gpsimd,), effects=Effects(scalar_registers=("offset",)))
class Iota(Inst):
    """``dst[p, i…] = offset + p * channel_multiplier + sum(i_k * step_k)`` in wrapping 32-bit integers.

    ``pattern`` is up to four ``[step, count]`` pairs, the fastest last; the counts multiply to the elements per
    partition of ``dst``, which is in SBUF. ``offset`` is a number or a register. Integer tiles receive
    the value saturated, others rounded once.
    """

    dst: Out[Tile]
    pattern: Pattern
    offset: Index | In[Tile] = 0
    channel_multiplier: Index = 0
    name: str | None = None

    rules = (*tiles("dst"), buffer("dst", Buffer.sbuf), *_pattern_rules("NKI reference, nki.isa.iota"))

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.narrow(_positions(m, self), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``150 + N`` GpSimd cycles for N elements per partition."""
        return cost.generated(self, target, self.dst.free_elements, "iota")

    @classmethod
    def sample(cls, draw: Draw) -> Iota:
        dst = draw.tile(draw.partitions(), draw.free(), draw.choice(COMPUTING))
        pattern = _random_pattern(draw, dst.free_elements)
        return cls(dst, pattern, _random_offset(draw, 1000), draw.integer(-300, 300))


@instruction(
    engines=(enums.engine.gpsimd,),
    effects=Effects(scalar_registers=("offset",)),
    deprecated=DeprecatedForms(
        order=DeprecatedOrder(
            "on_false_value",
            Access,
            ("dst", "pattern", "offset", "channel_multiplier", "on_true_tile", "on_false_value", "cmp_op"),
            "0.3",
            "pass `offset=…` by its name, behind on_false_value",
        )
    ),
)
class AffineSelect(Inst):
    """``dst = on_true_tile`` where ``cmp_op(position, 0)`` holds, ``on_false_value`` elsewhere.

    ``position`` is what ``nisa.iota`` computes from ``pattern``, ``offset`` and ``channel_multiplier``. Tiles are in
    SBUF; the false value is a float32 number.
    """

    dst: Out[Tile]
    pattern: Pattern
    channel_multiplier: Index
    on_true_tile: In[Tile]
    on_false_value: Scalar
    cmp_op: AluOp = OPS["equal"]
    offset: Index | In[Tile] = 0
    name: str | None = None

    rules = (
        *tiles("dst", "on_true_tile"),
        buffer("dst", Buffer.sbuf),
        buffer("on_true_tile", Buffer.sbuf),
        same_partitions("dst", "on_true_tile"),
        same_elements("dst", "on_true_tile"),
        *_pattern_rules("NKI reference, nki.isa.affine_select"),
        rule(
            "AS01",
            "cmp_op={i.cmp_op} is not a comparison",
            lambda i, t: i.cmp_op.name in _COMPARISONS,
            "NKI reference, nki.isa.affine_select",
            error=OperatorError,
            fix="use " + ", ".join(f"nl.{name}" for name in _COMPARISONS),
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        selected = m.alu(self.cmp_op.name, _positions(m, self), m.const(0, int32))
        yes = m.cast(m.load(self.on_true_tile), self.dst.dtype)
        m.store(self.dst, m.select(selected, yes, m.cast(m.load(self.on_false_value), self.dst.dtype)))

    def cost(self, target: Target) -> Estimate:
        """``150 + N`` GpSimd cycles for N elements per partition."""
        return cost.generated(self, target, self.dst.free_elements, "affine_select")

    @classmethod
    def sample(cls, draw: Draw) -> AffineSelect:
        dst = draw.tile(draw.partitions(), draw.free(), draw.choice(COMPUTING))
        return cls(
            dst,
            _random_pattern(draw, dst.free_elements),
            draw.integer(-4, 4),
            draw.tile(dst.partitions, dst.free_elements, draw.choice(COMPUTING)),
            draw.number(),
            OPS[draw.choice(_COMPARISONS)],
            _random_offset(draw, 50),
        )
