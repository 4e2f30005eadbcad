"""Arithmetic on one number or on a vector of them, element by element and correctly rounded.

A formula written with :class:`Lanes` gives the same bits for a scalar and for each element of a vector, because it can
only use operations that IEEE 754 defines for one element: add, multiply, divide, square root, fused multiply-add,
comparison, conversion, and integer operations on the representation. There is no call into a mathematical library.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from llvmlite import ir

from nki.numerics.llvm import constant, has_avx512

F32 = ir.FloatType()
F64 = ir.DoubleType()
I1 = ir.IntType(1)
I32 = ir.IntType(32)
I64 = ir.IntType(64)

Value: TypeAlias = Any
"""An ``ir.Value``: float, double, integer or truth value, scalar or vector."""

Operand: TypeAlias = Any
"""A :data:`Value`, or a Python number that takes the type of the operation's other operand."""

_MANGLED: dict[ir.Type, str] = {F32: "f32", F64: "f64"}
_MANTISSA_BITS: dict[ir.Type, int] = {F32: 23, F64: 52}
_EXPONENT_BIAS: dict[ir.Type, int] = {F32: 127, F64: 1023}
_INTEGER: dict[ir.Type, ir.Type] = {F32: I32, F64: I64}


def rounded(element: ir.Type, number: float) -> float:
    """``number`` as a constant of type ``element`` holds it: to nearest even if that is float."""
    return struct.unpack("f", struct.pack("f", number))[0] if element == F32 else number


LIFT: Final = 64
"""Exponent by which :meth:`Lanes.scale_low` keeps numbers away from the subnormal ones."""

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

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule with fused steps."""
        total: Operand = coefficients[-1]
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

    def both(self, a: Value, b: Value) -> Value:
        return self.builder.and_(a, b)

    def either(self, a: Value, b: Value) -> Value:
        return self.builder.or_(a, b)

    def negate(self, a: Value) -> Value:
        return self.builder.not_(a)

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        return self.builder.select(condition, *self._lift(yes, no))

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

    def integer_at_least(self, x: Value, limit: int) -> Value:
        """The larger of the signed integers x and ``limit``."""
        bound = self.integer(x, limit)
        return self.builder.select(self.builder.icmp_signed("<", x, bound), bound, x)

    def power_of_two(self, element: ir.Type, exponent: Value) -> Value:
        """2^exponent for integer exponents of normal results; anything for other exponents."""
        biased = self.builder.add(exponent, self.integer(exponent, _EXPONENT_BIAS[element]))
        return self.from_bits(element, self.builder.shl(biased, self.integer(exponent, _MANTISSA_BITS[element])))

    def scale(self, x: Value, exponent: Value, whole: Value, where: Value | None = None) -> Value:
        """x 2^exponent of floats, rounded once, for exponents from -252 to 254: results may be subnormal or infinite.

        ``whole`` is the exponent as an integer. If that is not so, the exponent is NaN and x too; so is the result.
        ``where``: it is 0 elsewhere.
        AVX-512 has an instruction for it; elsewhere two multiplications, of which at most the second rounds. The bits
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
        full = "llvm.x86.avx512.mask.scalef.ps.512"
        module, bits = self.builder.module, ir.IntType(16)
        mask = ir.Constant(bits, -1) if where is None else self.builder.bitcast(where, bits)
        rounding = ir.Constant(I32, _CURRENT_ROUNDING)
        function = module.globals.get(full)
        if function is None:
            function = ir.Function(module, ir.FunctionType(x.type, [x.type] * 3 + [mask.type, I32]), full)
        return self.builder.call(function, [*self._lift(x, exponent, elsewhere), mask, rounding])

    def _intrinsic(self, name: str, *operands: Value) -> Value:
        lanes = "" if self.count is None else f"v{self.count}"
        full = f"llvm.{name}.{lanes}{_MANGLED[self._element(operands[0])]}"
        module = self.builder.module
        function = module.globals.get(full)
        if function is None:
            signature = ir.FunctionType(operands[0].type, [value.type for value in operands])
            function = ir.Function(module, signature, full)
        return self.builder.call(function, operands)
