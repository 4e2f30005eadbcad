"""The ALU operators as LLVM IR on scalars and vectors alike: the same bits as ``nki.backend.numpy.executor``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from llvmlite import ir

from nki.numerics.functions import emit_power
from nki.numerics.llvm import F64, I32, I64, Builder, Value, constant, intrinsic, like

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
    if op in ("add", "subtract", "multiply"):  # whose low bits depend on low bits only
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
