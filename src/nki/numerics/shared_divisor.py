"""Quotients of many numbers by one: multiplications by its reciprocal, with the bits of divisions.

A processor divides sixteen floats in ten cycles or more; four fused steps take two. With ``y = rounded(1 / d)`` and the
rest ``z`` of the reciprocal, ``q = n y + n z`` is at most one unit in the last place away from ``n / d``. Then
``q + rounded(n - d q) y`` is the correctly rounded quotient, since ``n - d q`` is exact and ``y`` correctly rounded
(P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, IBM Journal of Research and
Development 34, 1990). All numbers must be far from overflow and underflow; others are divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    AVX512,
    F32,
    I32,
    POSITIVE_ZERO,
    Builder,
    Value,
    constant,
    either,
    has_classes,
    in_classes,
    intrinsic,
    like,
    splat,
)

_DIVISORS: Final = (2.0**-32, 2.0**32)
"""Divisors, which are positive: the quotient then lies between 2**-98 and 2**93."""
_LEAST: Final = (127 - 66) << 24
_MOST: Final = (127 + 61) << 24
"""Numerators other than +0 as bits without their sign, shifted left by one: from 2**-66 to below 2**61.

The rest ``n - d q`` is then a multiple of 2**-113 at least, and exact.
"""


@dataclass(frozen=True, slots=True)
class SharedDivisor:
    """A divisor, and what is computed of it once: scalars."""

    divisor: Value
    reciprocal: Value
    rest: Value
    is_usual: Value
    """True if the divisor is in the range."""


def may_share(count: int) -> bool:
    """True if ``count`` quotients at a time gain by a shared divisor: without AVX-512 the tests take too long."""
    return count % AVX512 == 0 and has_classes()


def shared(b: Builder, divisor: Value) -> SharedDivisor:
    """``divisor``, float32, before the loop that divides by it."""
    one = constant(F32, 1.0)
    reciprocal = b.fdiv(one, divisor)
    error = intrinsic(b, "fma", F32, [b.fneg(divisor), reciprocal, one])
    low, high = (constant(F32, bound) for bound in _DIVISORS)
    is_usual = b.and_(b.fcmp_ordered(">=", divisor, low), b.fcmp_ordered("<=", divisor, high))
    return SharedDivisor(divisor, reciprocal, b.fmul(error, reciprocal), is_usual)


def quotient(b: Builder, numerator: Value, by: SharedDivisor) -> Value:
    """``numerator``, a vector of float32, divided: the bits of ``fdiv``, but for the payload of a NaN."""
    kind, flags = numerator.type, ir.IntType(numerator.type.count)
    unusual = b.bitcast(_unusual(b, numerator), flags)
    is_usual = b.and_(b.icmp_unsigned("==", unusual, ir.Constant(flags, 0)), by.is_usual)
    divisor, reciprocal, rest = (splat(b, value, kind) for value in (by.divisor, by.reciprocal, by.rest))

    def multiplied() -> Value:
        nearly = intrinsic(b, "fma", kind, [numerator, reciprocal, b.fmul(numerator, rest)])
        left = intrinsic(b, "fma", kind, [b.fneg(divisor), nearly, numerator])
        return intrinsic(b, "fma", kind, [left, reciprocal, nearly])

    return either(b, is_usual, multiplied, lambda: b.fdiv(numerator, divisor))


def _unusual(b: Builder, numerator: Value) -> Value:
    """True in the lanes with numerators that are neither +0 nor in the range."""
    bits = b.bitcast(numerator, like(numerator, I32))
    kind = bits.type
    size = b.shl(bits, constant(kind, 1))
    outside = b.icmp_unsigned(">=", b.sub(size, constant(kind, _LEAST)), constant(kind, _MOST - _LEAST))
    return b.and_(outside, b.not_(in_classes(b, numerator, POSITIVE_ZERO)))


__all__ = ["SharedDivisor", "may_share", "quotient", "shared"]
