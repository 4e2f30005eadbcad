"""Arithmetic on one number or on a vector of them, element by element and correctly rounded.

A formula written with :class:`Lanes` gives the same bits for a scalar and for each element of a vector, because it can
only use operations that IEEE 754 defines for one element: add, multiply, divide, square root, fused multiply-add,
comparison, conversion, and integer operations on the representation. There is no call into a mathematical library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    F64,
    I32,
    I64,
    Value,
    call,
    constant,
    fixed_up,
    has_avx2,
    has_avx512,
    intrinsic,
    lanes_of,
)

Operand: TypeAlias = Any
"""A :data:`Value`, or a Python number that takes the type of the operation's other operand."""

_MANTISSA_BITS: dict[ir.Type, int] = {F32: 23, F64: 52}
_EXPONENT_BIAS: dict[ir.Type, int] = {F32: 127, F64: 1023}
_INTEGER: dict[ir.Type, ir.Type] = {F32: I32, F64: I64}


def rounded(element: ir.Type, number: float) -> float:
    """``number`` as a constant of type ``element`` holds it: to nearest even if that is float."""
    return struct.unpack("f", struct.pack("f", number))[0] if element == F32 else number


LIFT: Final = 64
"""Exponent by which :meth:`Lanes.scale_low` keeps numbers away from the subnormal ones."""

SUBNORMAL_LIFT: Final = 24
"""Exponent by which :meth:`Lanes.lifted` makes normal numbers of subnormal ones."""

# What VFIXUPIMMPS makes of a class of numbers.
_FIX_NOTHING: Final = 0
_FIX_NAN: Final = 3
_FIX_MINUS_INFINITY: Final = 4
_FIX_INFINITY: Final = 5
_FIX_SIGNED_INFINITY: Final = 6
_FIX_ZERO: Final = 8

_CURRENT_ROUNDING: Final = 4
"""_MM_FROUND_CUR_DIRECTION."""


class Lanes:
    """Emits element-wise operations at ``builder`` for values with as many lanes as ``like`` has."""

    def __init__(self, builder: ir.IRBuilder, like: Value) -> None:
        self.builder: Any = builder
        self.count: int | None = like.type.count if isinstance(like.type, ir.VectorType) else None

    def type_of(self, element: ir.Type) -> ir.Type:
        return element if self.count is None else ir.VectorType(element, self.count)

    def constant(self, element: ir.Type, number: float) -> Value:
        """``number`` in every lane."""
        return constant(self.type_of(element), rounded(element, number))

    # Floating point. Both operands have one type; either may be a Python number.

    def add(self, a: Operand, b: Operand) -> Value:
        return self.builder.fadd(*self._lift(a, b))

    def sub(self, a: Operand, b: Operand) -> Value:
        return self.builder.fsub(*self._lift(a, b))

    def mul(self, a: Operand, b: Operand) -> Value:
        return self.builder.fmul(*self._lift(a, b))

    def div(self, a: Operand, b: Operand) -> Value:
        return self.builder.fdiv(*self._lift(a, b))

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c in one rounding."""
        return self._intrinsic("fma", *self._lift(a, b, c))

    def neg(self, x: Value) -> Value:
        return self.builder.fneg(x)

    def abs(self, x: Value) -> Value:
        return self._intrinsic("fabs", x)

    def sqrt(self, x: Value) -> Value:
        return self._intrinsic("sqrt", x)

    def copysign(self, magnitude: Operand, sign: Value) -> Value:
        return self._intrinsic("copysign", *self._lift(magnitude, sign))

    def polynomial(self, x: Value, coefficients: Sequence[Operand]) -> Value:
        """c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule with fused steps; a coefficient may differ by lane."""
        total = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            total = self.fma(total, x, coefficient)
        return total

    def at_most(self, x: Value, limit: float) -> Value:
        """The smaller of x and ``limit``; NaN stays NaN."""
        return self.select(self.compare("<", limit, x), limit, x)

    def at_least(self, x: Value, limit: float) -> Value:
        """The larger of x and ``limit``; NaN stays NaN."""
        return self.select(self.compare(">", limit, x), limit, x)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """x, no less than ``low`` and no more than ``high``; NaN stays NaN."""
        return self.at_least(self.at_most(x, high), low)

    # Truth values.

    def compare(self, operator: str, a: Operand, b: Operand) -> Value:
        """``a operator b`` per lane; false where an operand is NaN (``!=``: true)."""
        emit = self.builder.fcmp_unordered if operator == "!=" else self.builder.fcmp_ordered
        return emit(operator, *self._lift(a, b))

    def not_below(self, a: Operand, b: Operand) -> Value:
        """True where a < b does not hold, so also where an operand is NaN."""
        return self.builder.fcmp_unordered(">=", *self._lift(a, b))

    def is_nan(self, x: Value) -> Value:
        return self.builder.fcmp_unordered("uno", x, x)

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        return self.builder.select(condition, *self._lift(yes, no))

    # Tables and special values.

    def lookup(self, table: Sequence[float], index: Value) -> Value:
        """The float in ``table`` (of 16 or 32) that the last bits (4 or 5) of the 32-bit integers ``index`` name."""
        numbers = [rounded(F32, number) for number in table]
        lanes = 16 if has_avx512() else 8 if has_avx2() else 0
        if not (self.count or 1) <= lanes:
            return self._lookup_one_by_one(numbers, index)
        kind, wide = ir.VectorType(F32, lanes), self._widened(index, lanes)
        parts = [ir.Constant(kind, numbers[first : first + lanes]) for first in range(0, len(numbers), lanes)]
        if lanes == 8:
            return self._narrowed(self._lookup_in_eights(parts, wide))
        if len(parts) == 1:
            return self._narrowed(self._call("llvm.x86.avx512.permvar.sf.512", kind, [parts[0], wide]))
        return self._narrowed(self._call("llvm.x86.avx512.vpermi2var.ps.512", kind, [parts[0], wide, parts[1]]))

    def _lookup_in_eights(self, parts: list[Value], index: Value) -> Value:
        """Choices by one bit of the index after the other, among eights that an instruction of AVX2 looks up."""
        b, bit = self.builder, 8
        left = [self._call("llvm.x86.avx2.permps", part.type, [part, index]) for part in parts]
        while len(left) > 1:
            one = constant(index.type, bit)
            is_set = b.icmp_signed("==", b.and_(index, one), one)
            left = [b.select(is_set, high, low) for low, high in zip(left[::2], left[1::2], strict=True)]
            bit *= 2
        return left[0]

    def _lookup_one_by_one(self, numbers: list[float], index: Value) -> Value:
        b, last = self.builder, ir.Constant(I32, len(numbers) - 1)
        table = ir.Constant(ir.VectorType(F32, len(numbers)), numbers)
        if self.count is None:
            return b.extract_element(table, b.and_(index, last))
        result: Value = ir.Constant(self.type_of(F32), ir.Undefined)
        for lane in range(self.count):
            place = ir.Constant(I32, lane)
            one = b.and_(b.extract_element(index, place), last)
            result = b.insert_element(result, b.extract_element(table, one), place)
        return result

    def _widened(self, x: Value, count: int) -> Value:
        """x in the first of ``count`` lanes."""
        if self.count == count:
            return x
        if self.count is None:
            kind = ir.VectorType(x.type, count)
            return self.builder.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(I32, 0))
        places = ir.Constant(ir.VectorType(I32, count), [lane % self.count for lane in range(count)])
        return self.builder.shuffle_vector(x, x, places)

    def _narrowed(self, x: Value) -> Value:
        """The lanes of x that :meth:`_widened` filled."""
        if self.count is None:
            return self.builder.extract_element(x, ir.Constant(I32, 0))
        return x if self.count == x.type.count else lanes_of(self.builder, x, x, 0, self.count)

    def of_positive(self, x: Value, result: Value, zero: float, infinity: float) -> Value:
        """``result`` where x is a positive number, ``zero`` or ``infinity`` where it is that, and NaN elsewhere.

        ``zero`` is infinite: +inf takes the sign of x, -inf does not. ``infinity`` is 0 or +inf.
        """
        if self.count == 16 and has_avx512():
            classes = [_FIX_NAN] * 8  # quiet and other NaN, 0, 1, -inf, inf, negative, positive
            classes[2] = _FIX_SIGNED_INFINITY if zero > 0 else _FIX_MINUS_INFINITY
            classes[3] = classes[7] = _FIX_NOTHING
            classes[5] = _FIX_INFINITY if infinity > 0 else _FIX_ZERO
            return fixed_up(self.builder, result, x, sum(answer << 4 * i for i, answer in enumerate(classes)))
        at_zero = self.copysign(math.inf, x) if zero > 0 else self.constant(F32, zero)
        result = self.select(self.compare("==", x, 0.0), at_zero, result)
        result = self.select(self.compare("==", x, math.inf), infinity, result)
        return self.select(self.compare(">=", x, 0.0), result, math.nan)

    def mend(self, where: Value, usual: Value, rare: Callable[[], Value]) -> Value:
        """``usual``, with what ``rare`` emits ``where`` that holds; its code runs only if it holds in a lane."""
        b = self.builder
        lanes = ir.IntType(self.count or 1)
        is_any = where if self.count is None else b.icmp_signed("!=", b.bitcast(where, lanes), ir.Constant(lanes, 0))
        before = b.block
        with b.if_then(is_any, likely=False):
            mended = self.select(where, rare(), usual)
            after = b.block
        result = b.phi(usual.type)
        result.add_incoming(usual, before)
        result.add_incoming(mended, after)
        return result

    # Conversions and representations.

    def widen(self, x: Value) -> Value:
        """float to double, exactly."""
        return self.builder.fpext(x, self.type_of(F64))

    def narrow(self, x: Value) -> Value:
        """double to float, to nearest even."""
        return self.builder.fptrunc(x, self.type_of(F32))

    def bits(self, x: Value) -> Value:
        """The representation of a float or double as an integer of its size."""
        return self.builder.bitcast(x, self.type_of(_INTEGER[self._element(x)]))

    def from_bits(self, element: ir.Type, bits: Value) -> Value:
        return self.builder.bitcast(bits, self.type_of(element))

    def integer(self, like: Value, number: int) -> Value:
        """The integer ``number`` in every lane, of the type of ``like``."""
        return self.constant(self._element(like), number)

    def power_of_two(self, element: ir.Type, exponent: Value) -> Value:
        """2^exponent for integer exponents of normal results; anything for other exponents."""
        biased = self.builder.add(exponent, self.integer(exponent, _EXPONENT_BIAS[element]))
        return self.from_bits(element, self.builder.shl(biased, self.integer(exponent, _MANTISSA_BITS[element])))

    def scale(self, x: Value, exponent: Value, whole: Value, where: Value | None = None) -> Value:
        """x 2^exponent of floats, rounded once, for exponents from -252 to 254: results may be subnormal or infinite.

        ``whole`` is the exponent as an integer. If that is not so, the exponent is NaN and x too; so is the result.
        ``where``: it is 0 elsewhere.
        AVX-512 has an instruction for it; elsewhere two multiplications; at most the second rounds. The bits
        are the same. (``llvm.ldexp`` converts an integer first, and calls the C library where there is no instruction.)
        """
        if self.count == 16 and has_avx512():
            return self._scalef(x, exponent, where)
        half = self.builder.ashr(whole, self.integer(whole, 1))
        other = self.builder.sub(whole, half)
        scaled = self.mul(self.mul(x, self.power_of_two(F32, half)), self.power_of_two(F32, other))
        return scaled if where is None else self.select(where, scaled, 0.0)

    def scale_low(self, x: Value, exponent: Value, whole: Value) -> Value:
        """x 2^(exponent - LIFT) of floats that are not negative, rounded once; x 2^exponent is 0, NaN or normal.

        A result that is too small for a normal number costs what others do: adding 2^(LIFT - 126) rounds it where a
        subnormal number ends, and leaves its representation in the low bits. A multiplication takes 150 cycles for it.
        """
        lifted, edge = self.scale(x, exponent, whole), 2.0 ** (LIFT - 126)
        low = self.compare("<", lifted, edge)
        representation = self.builder.sub(self.bits(self.add(lifted, edge)), self.bits(self.constant(F32, edge)))
        if self.count == 16 and has_avx512():
            others = self.builder.not_(low)
            return self._scalef(lifted, self.constant(F32, -LIFT), others, self.from_bits(F32, representation))
        # The larger one as integers (a NaN is larger still): LLVM would move a choice of floats behind the product.
        code, least = self.bits(lifted), self.bits(self.constant(F32, edge))
        bounded = self.from_bits(F32, self.builder.select(self.builder.icmp_unsigned(">", code, least), code, least))
        return self.select(low, self.from_bits(F32, representation), self.mul(bounded, 2.0**-LIFT))

    def lifted(self, x: Value) -> tuple[Value, Value]:
        """For floats that are not negative: (x is too small for a normal number, x 2^SUBNORMAL_LIFT there, else x)."""
        small = self.compare("<", x, 2.0**-126)
        return small, self.select(small, self.mul(x, 2.0**SUBNORMAL_LIFT), x)

    def split(self, x: Value) -> tuple[Value, Value]:
        """(n, m) with x = m 2^n and m from 1 to 2, both floats, for positive numbers; anything for others."""
        if self.count == 16 and has_avx512():
            every, rounding = ir.Constant(ir.IntType(16), -1), ir.Constant(I32, _CURRENT_ROUNDING)
            number = self._call("llvm.x86.avx512.mask.getexp.ps.512", x.type, [x, x, every, rounding])
            operands = [x, ir.Constant(I32, 0), x, every, rounding]
            return number, self._call("llvm.x86.avx512.mask.getmant.ps.512", x.type, operands)
        small, normal = self.lifted(x)
        bits, b = self.bits(normal), self.builder
        biased = b.lshr(bits, self.integer(bits, _MANTISSA_BITS[F32]))
        number = self.sub(b.sitofp(biased, self.type_of(F32)), float(_EXPONENT_BIAS[F32]))
        number = self.select(small, self.sub(number, float(SUBNORMAL_LIFT)), number)
        fraction = b.and_(bits, self.integer(bits, 2 ** _MANTISSA_BITS[F32] - 1))
        return number, self.from_bits(F32, b.or_(fraction, self.bits(self.constant(F32, 1.0))))

    def round(self, x: Value, factor: float) -> tuple[Value, Value]:
        """x * factor rounded to an integer, as a floating-point number and as an integer.

        Right for results below 2^21 (float) or 2^50 (double): adding 1.5 * 2^mantissa leaves the integer in the low
        bits. Unlike a conversion to integer it is defined for NaN and infinity (the results mean nothing).
        """
        element = self._element(x)
        magic = 1.5 * 2.0 ** _MANTISSA_BITS[element]
        shifted = self.fma(x, factor, magic)
        whole = self.builder.sub(self.bits(shifted), self.bits(self.constant(element, magic)))
        return self.sub(shifted, magic), whole

    def round_to_power(self, x: Value, factor: float) -> tuple[Value, Value]:
        """x * factor, of floats, rounded to an integer n, and 2^n; n is from -126 to 127.

        As :meth:`round`, with the bias of exponents in the low bits too; halves are rounded to the odd number.
        """
        magic = 1.5 * 2.0 ** _MANTISSA_BITS[F32] + _EXPONENT_BIAS[F32]
        shifted = self.fma(x, factor, magic)
        bits = self.bits(shifted)
        power = self.from_bits(F32, self.builder.shl(bits, self.integer(bits, _MANTISSA_BITS[F32])))
        return self.sub(shifted, magic), power

    # Inside.

    @staticmethod
    def _element(x: Value) -> Any:
        kind = x.type.element if isinstance(x.type, ir.VectorType) else x.type
        return next(known for known in (F32, F64, I32, I64) if known == kind)

    def _lift(self, *operands: Operand) -> list[Value]:
        element = next(self._element(value) for value in operands if isinstance(value, ir.Value))
        return [value if isinstance(value, ir.Value) else self.constant(element, value) for value in operands]

    def _scalef(self, x: Value, exponent: Value, where: Value | None, elsewhere: Operand = 0.0) -> Value:
        """x 2^exponent; ``elsewhere`` in lanes where ``where`` does not hold."""
        bits = ir.IntType(16)
        mask = ir.Constant(bits, -1) if where is None else self.builder.bitcast(where, bits)
        rounding = ir.Constant(I32, _CURRENT_ROUNDING)
        operands = [*self._lift(x, exponent, elsewhere), mask, rounding]
        return self._call("llvm.x86.avx512.mask.scalef.ps.512", x.type, operands)

    def _intrinsic(self, name: str, *operands: Value) -> Value:
        return intrinsic(self.builder, name, operands[0].type, operands)

    def _call(self, name: str, kind: ir.Type, operands: Sequence[Value]) -> Value:
        return call(self.builder, name, kind, operands)
