"""The ALU operators as LLVM IR on scalars and vectors alike: the same bits as ``nki.backend.numpy.executor``."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from nki.isa.tables.alu import TABLE
from nki.numerics.activations import emit_power
from nki.numerics.llvm import F64, constant, intrinsic, like

_COMPARE: Final = {"equal": "==", "greater_equal": ">=", "greater": ">", "less_equal": "<=", "less": "<"}
_LOGICAL: Final = {"logical_and": "and_", "logical_or": "or_", "logical_xor": "xor"}

TRUTHS: Final = frozenset({*_COMPARE, *_LOGICAL, "not_equal", "logical_not"})
"""Operators whose results are 1.0 and 0.0."""

IDENTITIES: Final = {row.name: row.identity for row in TABLE.values() if row.identity is not None}
"""Identity elements: a reduction that starts from one has the same result; ``subtract`` has none."""

ANY_ORDER: Final = frozenset(IDENTITIES) - {"add", "multiply"}
"""Reductions whose result does not depend on the order of the elements."""


def emit_alu(b: ir.IRBuilder, op: str, x: ir.Value, y: ir.Value | None) -> ir.Value:
    """An arithmetic row of the ALU table on float32."""
    return _unary(b, op, x) if y is None else _binary(b, op, x, y)


def _unary(b: ir.IRBuilder, op: str, x: ir.Value) -> ir.Value:
    zero = constant(x.type, 0.0)
    match op:
        case "bypass":
            return x
        case "abs":
            return intrinsic(b, "fabs", x.type, [x])
        case "square":
            return b.fmul(x, x)
        case "relu":
            return _extreme(b, "maximum", x, zero)
        case "reciprocal":
            return b.fdiv(constant(x.type, 1.0), x)
        case "rsqrt":
            wide = b.fpext(x, like(x, F64))
            root = intrinsic(b, "sqrt", wide.type, [wide])
            return b.fptrunc(b.fdiv(constant(wide.type, 1.0), root), x.type)
        case "logical_not":
            return b.uitofp(b.fcmp_ordered("==", x, zero), x.type)
        case _:
            raise KeyError(op)


def _binary(b: ir.IRBuilder, op: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if op in _COMPARE:
        return b.uitofp(b.fcmp_ordered(_COMPARE[op], x, y), x.type)
    if op in _LOGICAL:
        zero = constant(x.type, 0.0)
        left, right = b.fcmp_unordered("!=", x, zero), b.fcmp_unordered("!=", y, zero)
        return b.uitofp(getattr(b, _LOGICAL[op])(left, right), x.type)
    match op:
        case "add":
            return b.fadd(x, y)
        case "subtract":
            return b.fsub(x, y)
        case "multiply":
            return b.fmul(x, y)
        case "divide":
            return b.fdiv(x, y)
        case "maximum" | "minimum":
            return _extreme(b, op, x, y)
        case "abs_max" | "abs_min":
            sizes = [intrinsic(b, "fabs", x.type, [v]) for v in (x, y)]
            return b.select(b.fcmp_ordered(">" if op == "abs_max" else "<", sizes[0], sizes[1]), x, y)
        case "not_equal":
            return b.uitofp(b.fcmp_unordered("!=", x, y), x.type)
        case "power":
            return emit_power(b, x, y)
        case "fmod":
            return _fmod(b, x, y)
        case "mod":
            return _mod(b, x, y)
        case _:
            raise KeyError(op)


def _extreme(b: ir.IRBuilder, op: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """IEEE 754-2019 maximum or minimum.

    For single numbers, where LLVM knows that one operand is not NaN (it was an integer, or is a constant), its x86 code
    takes a signalling NaN of the other one for a number (seen in LLVM 22). So NaN is looked for by ourselves there.
    """
    extreme = intrinsic(b, op, x.type, [x, y])
    if isinstance(x.type, ir.VectorType):
        return extreme
    return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), extreme)


def _fmod(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """LLVM turns frem into calls of the C library's exact fmodf."""
    return b.frem(x, y)


def _mod(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    rest, zero = _fmod(b, x, y), constant(x.type, 0.0)
    signs = b.xor(b.fcmp_ordered("<", rest, zero), b.fcmp_ordered("<", y, zero))
    none = intrinsic(b, "copysign", x.type, [zero, y])
    return b.select(b.fcmp_ordered("==", rest, zero), none, b.select(signs, b.fadd(rest, y), rest))


def emit_bits(b: ir.IRBuilder, op: str, x: ir.Value, y: ir.Value | None) -> ir.Value:
    """A bit operator on stored integers; shifts by the width or more give 0."""
    if y is None:
        return b.not_(x)
    match op:
        case "bitwise_and":
            return b.and_(x, y)
        case "bitwise_or":
            return b.or_(x, y)
        case "bitwise_xor":
            return b.xor(x, y)
        case "left_shift" | "right_shift":
            element: Any = x.type.element if isinstance(x.type, ir.VectorType) else x.type
            inside = b.icmp_unsigned("<", y, constant(x.type, element.width))
            amount = b.select(inside, y, constant(x.type, 0))
            moved = b.shl(x, amount) if op == "left_shift" else b.lshr(x, amount)
            return b.select(inside, moved, constant(x.type, 0))
        case _:
            raise KeyError(op)


def emit_integer(b: ir.IRBuilder, op: str, x: ir.Value, y: ir.Value, signed: tuple[bool, bool]) -> ir.Value:
    """Arithmetic and comparisons of up to 32-bit integers by value, for which 64 bits suffice; the low 32 bits.

    Sums, differences and products of 64-bit integers have 64.
    """
    x, y = (_word(b, v, s) for v, s in zip((x, y), signed, strict=True))
    if op in ("add", "subtract", "multiply"):  # whose low bits depend on low bits only
        return {"add": b.add, "subtract": b.sub, "multiply": b.mul}[op](x, y)
    wide = like(x, ir.IntType(64))
    one, two = ((b.sext if s else b.zext)(v, wide) for v, s in zip((x, y), signed, strict=True))
    if op in _COMPARE or op == "not_equal":
        return b.zext(b.icmp_signed(_COMPARE.get(op, "!="), one, two), x.type)
    sizes = (one, two) if op in ("maximum", "minimum") else (_size(b, one), _size(b, two))
    return b.select(b.icmp_signed(">" if op.endswith(("maximum", "_max")) else "<", *sizes), x, y)


def _word(b: ir.IRBuilder, x: ir.Value, signed: bool) -> ir.Value:
    kind, wide = like(x, ir.IntType(32)), like(x, ir.IntType(64))
    return x if x.type in (kind, wide) else (b.sext if signed else b.zext)(x, kind)


def _size(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, constant(x.type, 0)), b.neg(x), x)
