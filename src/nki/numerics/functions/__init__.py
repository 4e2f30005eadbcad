"""The activation functions as LLVM IR: the one implementation that every executor runs; and the ALU operators.

:func:`emit` works on ``float`` and on ``<N x float>`` and gives the same bits for both. Errors and special values are
those of the rows of ``nki.isa.tables.activations``.

Formulas go through float64 (``float64.py``), where a plain one leaves little but the result's rounding. Functions that
networks spend their time in are faster in float32, within their bounds (``float32.py``).

:func:`operations` is the cost of a function or an operator: rules that weigh time against memory, or threads, ask for
it. Its unit is an operation on a vector of 16 float32 numbers; one on float64 counts twice, a division or a root eight
times. Counted is code for AVX-512, without what runs for few numbers only. On an EPYC 9005 a function in cache takes
0.16 ns for each number, and 0.004 to 0.008 ns more for each operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from llvmlite import ir

from nki.numerics.functions import float32, float64
from nki.numerics.llvm import F64, I32, I64, Builder, constant, intrinsic, like
from nki.numerics.simd import Lanes, Value

Formula = Callable[..., Value]
"""Of ``Lanes`` and a number, or of two for ``prelu``."""


def _copy(_lanes: Lanes, x: Value) -> Value:
    return x


def _square(lanes: Lanes, x: Value) -> Value:
    return lanes.mul(x, x)


def _relu(lanes: Lanes, x: Value) -> Value:
    return lanes.select(lanes.compare("<=", x, 0.0), 0.0, x)


def _prelu(lanes: Lanes, x: Value, slope: Value) -> Value:
    return lanes.select(lanes.compare("<", x, 0.0), lanes.mul(x, slope), x)


def _sign(lanes: Lanes, x: Value) -> Value:
    nonzero = lanes.select(lanes.is_nan(x), x, lanes.copysign(1.0, x))
    return lanes.select(lanes.compare("==", x, 0.0), 0.0, nonzero)


def _reciprocal(lanes: Lanes, x: Value) -> Value:
    return lanes.div(1.0, x)


def _sqrt(lanes: Lanes, x: Value) -> Value:
    """LLVM (22) takes "NaN if isnan(sqrt(x)) else sqrt(x)" for "sqrt(x)", whatever the NaN that a processor gives."""
    return lanes.sqrt(lanes.select(lanes.compare(">=", x, 0.0), x, math.nan))


def _piecewise(name: str, tail: Formula | None = None) -> Formula:
    return partial(float32.piecewise, name=name, tail=tail)


class Normal(NamedTuple):
    """A shorter formula with the same bits, for numbers that ``holds`` accepts: results are normal numbers."""

    holds: Callable[[Lanes, Sequence[Value]], Value]
    formula: Formula


class Function(NamedTuple):
    """A function; ``operations`` is its cost."""

    formula: Formula
    operations: int
    normal: Normal | None = None


FUNCTIONS: Final = {
    "copy": Function(_copy, 0),
    "square": Function(_square, 1),
    "abs": Function(Lanes.abs, 1),
    "relu": Function(_relu, 2),
    "prelu": Function(_prelu, 3),
    "sign": Function(_sign, 5),
    "reciprocal": Function(_reciprocal, 8),
    "sqrt": Function(_sqrt, 10),
    "rsqrt": Function(float32.rsqrt, 24),
    "log": Function(float32.log, 28),
    "exp": Function(float32.exp, 20, Normal(float32.has_normal_exp, float32.normal_exp)),
    "erf": Function(_piecewise("erf"), 20),
    "tanh": Function(_piecewise("tanh"), 20),
    "sigmoid": Function(_piecewise("sigmoid", float32.sigmoid_tail), 22),
    "silu": Function(_piecewise("silu", float32.silu_tail), 25),
    "gelu_apprx_sigmoid": Function(_piecewise("gelu_apprx_sigmoid", float32.gelu_apprx_sigmoid_tail), 25),
    "gelu": Function(_piecewise("gelu", float32.gelu_tail), 27),
    "gelu_dx": Function(_piecewise("gelu_dx", float64.gelu_dx_tail), 35),
    "sin": Function(float64.sin, 32),
    "erf_dx": Function(float64.erf_dx, 41),
    "arctan": Function(float64.arctan, 61),
    "softplus": Function(float64.softplus, 78),
    "mish": Function(float64.mish, 62),
    "silu_dx": Function(float64.silu_dx, 72),
    "gelu_apprx_sigmoid_dx": Function(float64.gelu_apprx_sigmoid_dx, 74),
    "gelu_apprx_tanh": Function(float64.gelu_apprx_tanh, 67),
}

_OPERATORS: Final = {
    0: ("bypass",),
    1: ("add", "subtract", "multiply", "abs", "square", "invert", "bitwise_and", "bitwise_or", "bitwise_xor"),
    2: ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less", "logical_not"),
    4: ("abs_max", "abs_min", "logical_and", "logical_or", "logical_xor", "left_shift", "right_shift"),
    6: ("maximum", "minimum", "relu"),
    8: ("divide", "reciprocal"),
    36: ("rsqrt",),
    139: ("power",),
    1000: ("fmod",),
    1008: ("mod",),
}
"""ALU operators by their cost; a library computes the rest of a quotient, one number at a time."""

_OF_OPERATOR: Final = {name: cost for cost, names in _OPERATORS.items() for name in names}


def operations(kind: str, name: str) -> int:
    """The cost of a function (``kind`` "act") or an ALU operator ("alu")."""
    return FUNCTIONS[name].operations if kind == "act" else _OF_OPERATOR[name]


def emit(builder: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
    """The activation function ``name`` of ``float`` or ``<N x float>`` operands; the result has their type.

    ``prelu`` takes its slope as well, all others one operand. Raises ``KeyError`` for a name that is not in the table.
    """
    return FUNCTIONS[name].formula(Lanes(builder, operands[0]), *operands)


def emit_power(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """``x`` to the power ``y``, element by element, for ``float`` or ``<N x float>``; within 1 ulp.

    Special values are as in C and NumPy: anything to the power 0, and 1 to any power, is 1; a negative number has
    integer powers only (NaN otherwise); an odd integer power keeps the sign, also of zero and infinity.
    """
    return float64.power(Lanes(builder, x), x, y)


# The ALU operators, on scalars and vectors alike, with the bits of ``nki.backend.numpy.executor``


_COMPARE: Final = {
    "equal": "==", "not_equal": "!=", "greater_equal": ">=", "greater": ">", "less_equal": "<=", "less": "<",
}  # fmt: skip
_LOGICAL: Final = {"logical_and": "and_", "logical_or": "or_", "logical_xor": "xor"}

ARITHMETIC: Final = frozenset({"add", "subtract", "multiply", "divide", "square"})
"""Operators that are one instruction of IEEE arithmetic: a NaN that they give has an operand's payload, or none."""


def emit_alu(b: Builder, op: str, x: Value, y: Value | None) -> Value:
    """An arithmetic row of the ALU table on float32."""
    if op in _COMPARE:
        compare = b.fcmp_unordered if op == "not_equal" else b.fcmp_ordered
        return b.uitofp(compare(_COMPARE[op], x, y), x.type)
    if op in _LOGICAL:
        truths = [b.fcmp_unordered("!=", value, constant(x.type, 0.0)) for value in (x, y)]
        return b.uitofp(getattr(b, _LOGICAL[op])(*truths), x.type)
    return _UNARY[op](b, x) if y is None else _BINARY[op](b, x, y)


def _rsqrt(b: Builder, x: Value) -> Value:
    wide = b.fpext(x, like(x, F64))
    root = intrinsic(b, "sqrt", wide.type, [wide])
    return b.fptrunc(b.fdiv(constant(wide.type, 1.0), root), x.type)


def _extreme(op: str, b: Builder, x: Value, y: Value) -> Value:
    """IEEE 754-2019 maximum or minimum.

    For single numbers, where LLVM knows that one operand is not NaN (it was an integer, or is a constant), its x86 code
    takes a signalling NaN of the other one for a number (seen in LLVM 22). So NaN is looked for by ourselves there.
    """
    extreme = intrinsic(b, op, x.type, [x, y])
    if isinstance(x.type, ir.VectorType):
        return extreme
    return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), extreme)


def _extreme_size(relation: str, b: Builder, x: Value, y: Value) -> Value:
    sizes = [intrinsic(b, "fabs", x.type, [value]) for value in (x, y)]
    return b.select(b.fcmp_ordered(relation, *sizes), x, y)


def _mod(b: Builder, x: Value, y: Value) -> Value:
    rest, zero = b.frem(x, y), constant(x.type, 0.0)
    signs = b.xor(b.fcmp_ordered("<", rest, zero), b.fcmp_ordered("<", y, zero))
    none = intrinsic(b, "copysign", x.type, [zero, y])
    return b.select(b.fcmp_ordered("==", rest, zero), none, b.select(signs, b.fadd(rest, y), rest))


_UNARY: Final[dict[str, Callable[[Builder, Value], Value]]] = {
    "bypass": lambda _, x: x,
    "abs": lambda b, x: intrinsic(b, "fabs", x.type, [x]),
    "square": lambda b, x: b.fmul(x, x),
    "relu": lambda b, x: _extreme("maximum", b, x, constant(x.type, 0.0)),
    "reciprocal": lambda b, x: b.fdiv(constant(x.type, 1.0), x),
    "rsqrt": _rsqrt,
    "logical_not": lambda b, x: b.uitofp(b.fcmp_ordered("==", x, constant(x.type, 0.0)), x.type),
}
_BINARY: Final[dict[str, Callable[[Builder, Value, Value], Value]]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "subtract": lambda b, x, y: b.fsub(x, y),
    "multiply": lambda b, x, y: b.fmul(x, y),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "maximum": partial(_extreme, "maximum"),
    "minimum": partial(_extreme, "minimum"),
    "abs_max": partial(_extreme_size, ">"),
    "abs_min": partial(_extreme_size, "<"),
    "power": emit_power,
    "fmod": lambda b, x, y: b.frem(x, y),  # calls the C library's fmodf, which is exact
    "mod": _mod,
}


def emit_bits(b: Builder, op: str, x: Value, y: Value | None) -> Value:
    """A bit operator on stored integers; shifts by the width or more give 0."""
    if y is None:
        return b.not_(x)
    if not op.endswith("shift"):
        return {"bitwise_and": b.and_, "bitwise_or": b.or_, "bitwise_xor": b.xor}[op](x, y)
    element: Any = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    inside, zero = b.icmp_unsigned("<", y, constant(x.type, element.width)), constant(x.type, 0)
    amount = b.select(inside, y, zero)
    return b.select(inside, (b.shl if op == "left_shift" else b.lshr)(x, amount), zero)


def emit_integer(b: Builder, op: str, x: Value, y: Value, signed: tuple[bool, bool]) -> Value:
    """Arithmetic and comparisons of up to 32-bit integers by value, for which 64 bits suffice; the low 32 bits.

    Sums, differences and products of 64-bit integers have 64.
    """
    x, y = (_word(b, v, s) for v, s in zip((x, y), signed, strict=True))
    if op in ("add", "subtract", "multiply"):  # their low bits depend on low bits only
        return {"add": b.add, "subtract": b.sub, "multiply": b.mul}[op](x, y)
    wide = like(x, I64)
    one, two = ((b.sext if s else b.zext)(v, wide) for v, s in zip((x, y), signed, strict=True))
    if op in _COMPARE:
        return b.zext(b.icmp_signed(_COMPARE[op], one, two), x.type)
    sizes = (one, two) if op in ("maximum", "minimum") else (_size(b, one), _size(b, two))
    return b.select(b.icmp_signed(">" if op.endswith(("maximum", "_max")) else "<", *sizes), x, y)


def _word(b: Builder, x: Value, signed: bool) -> Value:
    kind, wide = like(x, I32), like(x, I64)
    return x if x.type in (kind, wide) else (b.sext if signed else b.zext)(x, kind)


def _size(b: Builder, x: Value) -> Value:
    return b.select(b.icmp_signed("<", x, constant(x.type, 0)), b.neg(x), x)
