"""Functions of float32 numbers computed in float64 and rounded once: the polynomials' errors are below 1e-10.

Each takes and returns float32 values, scalar or vector. Arguments are clamped before an exponential, to a range beyond
which the float32 result is 0, infinite or constant, so that no exponent can wrap around; clamping keeps NaN.
"""

from __future__ import annotations

import math
from typing import Final

from nki.isa.tables.activations import SIN_LIMIT
from nki.numerics.functions.coefficients import polynomial, table
from nki.numerics.simd import F32, F64, I32, Lanes, Value

_LOG2_E = math.log2(math.e)
_LN2 = math.log(2.0)
_PI_LOW = 1.2246467991473532e-16  # pi - float64(pi)
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # of float64 sqrt(1/2)
MILLS_DX_END: Final = 15.0
"""z phi(z) is below half the smallest float32 from z = 14.6 on."""
_BIG = 110.0  # e^-110 rounds to 0 in float32, even times 110; e^110 to infinity


def _exp(lanes: Lanes, x: Value) -> Value:
    """e^x of doubles; |x| at most some hundreds."""
    n, whole = lanes.round(x, _LOG2_E)
    p = lanes.polynomial(lanes.fma(n, -_LN2, x), polynomial("exp"))
    return lanes.mul(p, lanes.power_of_two(F64, whole))


def _atanh(lanes: Lanes, s: Value) -> Value:
    """2 atanh(s) for |s| <= 1/3."""
    return lanes.mul(s, lanes.polynomial(lanes.mul(s, s), polynomial("atanh")))


def _log(lanes: Lanes, x: Value) -> Value:
    """Natural logarithm of positive finite normal doubles."""
    builder = lanes.builder
    bits = lanes.bits(x)
    offset = builder.sub(bits, lanes.integer(bits, _SQRT_HALF_BITS))
    whole = builder.ashr(offset, lanes.integer(bits, 52))
    mantissa = lanes.from_bits(F64, builder.sub(bits, builder.shl(whole, lanes.integer(bits, 52))))
    n = builder.sitofp(whole, lanes.type_of(F64))
    log_mantissa = _atanh(lanes, lanes.div(lanes.sub(mantissa, 1.0), lanes.add(mantissa, 1.0)))
    return lanes.fma(n, _LN2, log_mantissa)


def gelu_apprx_tanh(lanes: Lanes, x: Value) -> Value:
    """x sigmoid(2 u), which is x (1 + tanh(u)) / 2; from 11 on, that is x or 0."""
    z = lanes.widen(lanes.at_most(lanes.abs(x), 11.0))
    scale = -2.0 * math.sqrt(2.0 / math.pi)
    small = _exp(lanes, lanes.mul(z, lanes.fma(lanes.mul(z, z), scale * 0.044715, scale)))
    above = lanes.mul(z, lanes.select(lanes.compare("<", x, 0.0), small, 1.0))
    result = lanes.narrow(lanes.div(above, lanes.add(small, 1.0)))
    return lanes.select(lanes.compare("<", x, 11.0), lanes.copysign(result, x), x)


def _silu_dx(lanes: Lanes, y: Value) -> Value:
    """a (a + b + y b) / (a + b)^2 with sigmoid(y) = a / (a + b), sigmoid(-y) = b / (a + b), for doubles y."""
    small = _exp(lanes, lanes.neg(lanes.abs(y)))
    negative = lanes.compare("<", y, 0.0)
    a, b = lanes.select(negative, small, 1.0), lanes.select(negative, 1.0, small)
    inverse = lanes.div(1.0, lanes.add(small, 1.0))
    slope = lanes.fma(lanes.mul(y, b), inverse, 1.0)
    return lanes.narrow(lanes.mul(lanes.mul(a, inverse), slope))


def silu_dx(lanes: Lanes, x: Value) -> Value:
    """Derivative of x sigmoid(x); constant in float32 beyond the clamp."""
    return _silu_dx(lanes, lanes.widen(lanes.clamp(x, -_BIG, _BIG)))


def gelu_apprx_sigmoid_dx(lanes: Lanes, x: Value) -> Value:
    """silu_dx of 1.702 x, the factor not rounded to float32."""
    return _silu_dx(lanes, lanes.mul(lanes.widen(lanes.clamp(x, -_BIG, _BIG)), 1.702))


def gelu_dx_tail(lanes: Lanes, x: Value) -> Value:
    """Phi(-z) - z phi(z) with z = -x, for negative x: both are e^(-z^2 / 2) times something smooth."""
    z = lanes.widen(lanes.at_most(lanes.abs(x), MILLS_DX_END))
    density = _exp(lanes, lanes.mul(lanes.mul(z, z), -0.5))
    over, under = table("gelu_dx_tail")
    mills = lanes.div(lanes.polynomial(z, over), lanes.polynomial(z, under))
    return lanes.narrow(lanes.mul(density, lanes.fma(z, -1.0 / math.sqrt(2.0 * math.pi), mills)))


def erf_dx(lanes: Lanes, x: Value) -> Value:
    """2 / sqrt(pi) e^(-x^2); 0 from 11 on."""
    z = lanes.widen(lanes.at_most(lanes.abs(x), 11.0))
    return lanes.narrow(lanes.mul(_exp(lanes, lanes.mul(lanes.neg(z), z)), 2.0 / math.sqrt(math.pi)))


def softplus(lanes: Lanes, x: Value) -> Value:
    """max(x, 0) + log(1 + e), e = exp(-|x|); the logarithm is 2 atanh(e / (2 + e))."""
    e = _exp(lanes, lanes.widen(lanes.at_least(lanes.neg(lanes.abs(x)), -_BIG)))
    positive = lanes.widen(lanes.select(lanes.compare("<", x, 0.0), 0.0, x))
    return lanes.narrow(lanes.add(positive, _atanh(lanes, lanes.div(e, lanes.add(e, 2.0)))))


def mish(lanes: Lanes, x: Value) -> Value:
    """x w / (w + 2) with w = e^x (e^x + 2); from 20 on, that is x."""
    bounded = lanes.widen(lanes.clamp(x, -_BIG, 20.0))
    e = _exp(lanes, bounded)
    w = lanes.mul(e, lanes.add(e, 2.0))
    result = lanes.narrow(lanes.div(lanes.mul(bounded, w), lanes.add(w, 2.0)))
    return lanes.select(lanes.compare("<", x, 20.0), result, x)


def sin(lanes: Lanes, x: Value) -> Value:
    """The sine for |x| <= 3.1455, a cubic around pi beyond: see SIN_LIMIT in ``nki.isa.tables.activations``."""
    magnitude = lanes.abs(x)
    wide = lanes.widen(magnitude)
    mirrored = lanes.add(lanes.sub(math.pi, wide), _PI_LOW)
    r = lanes.select(lanes.compare("<=", magnitude, math.pi / 2), wide, mirrored)
    positive = lanes.narrow(lanes.mul(r, lanes.polynomial(lanes.mul(r, r), polynomial("sin"))))

    def cubic() -> Value:
        past = lanes.sub(wide, math.pi)
        return lanes.narrow(lanes.mul(past, lanes.fma(lanes.mul(past, past), 1.0 / 6.0, -1.0)))

    result = lanes.mend(lanes.compare(">", magnitude, SIN_LIMIT), positive, cubic)
    b, sign = lanes.builder, lanes.bits(x)
    sign = b.and_(sign, lanes.integer(sign, 0x80000000))
    return lanes.from_bits(F32, b.xor(lanes.bits(result), sign))


def arctan(lanes: Lanes, x: Value) -> Value:
    """arctan(t) for t = |x| up to 1, pi / 2 - arctan(1 / |x|) above."""
    magnitude = lanes.abs(lanes.widen(x))
    above = lanes.compare(">", magnitude, 1.0)
    t = lanes.select(above, lanes.div(1.0, magnitude), magnitude)
    angle = lanes.mul(t, lanes.polynomial(lanes.mul(t, t), polynomial("arctan")))
    return lanes.copysign(lanes.narrow(lanes.select(above, lanes.sub(math.pi / 2, angle), angle)), x)


def power(lanes: Lanes, x: Value, y: Value) -> Value:
    """exp(y log |x|), with the sign of an odd power, and C's special values."""
    b, magnitude, exponent = lanes.builder, lanes.abs(lanes.widen(x)), lanes.widen(y)
    logarithm = _log(lanes, magnitude)
    logarithm = lanes.select(lanes.compare("==", magnitude, 0.0), -math.inf, logarithm)
    logarithm = lanes.select(lanes.compare("==", magnitude, math.inf), math.inf, logarithm)
    logarithm = lanes.select(lanes.is_nan(magnitude), math.nan, logarithm)
    product = lanes.clamp(lanes.mul(exponent, logarithm), -_BIG, _BIG)
    positive = lanes.narrow(_exp(lanes, product))
    integer, odd = _parity(lanes, y)
    negative = lanes.compare("<", lanes.copysign(1.0, x), 0.0)
    signed = lanes.select(b.and_(negative, odd), lanes.neg(positive), positive)
    no_power = b.and_(lanes.compare("<", x, 0.0), b.not_(integer))
    no_power = b.and_(no_power, lanes.compare("<", lanes.abs(x), math.inf))
    result = lanes.select(no_power, math.nan, signed)
    one = b.or_(lanes.compare("==", y, 0.0), lanes.compare("==", x, 1.0))
    unit = b.and_(lanes.compare("==", lanes.abs(x), 1.0), lanes.compare("==", lanes.abs(y), math.inf))
    return lanes.select(b.or_(one, unit), 1.0, result)


def _parity(lanes: Lanes, y: Value) -> tuple[Value, Value]:
    """(y is an integer or infinite, y is an odd integer) for floats; from 2^24 on every float is an even integer."""
    small = lanes.compare("<", lanes.abs(y), 2.0**24)
    bounded = lanes.select(small, y, 0.0)
    whole = lanes.builder.fptosi(bounded, lanes.type_of(I32))
    exact = lanes.compare("==", lanes.builder.sitofp(whole, lanes.type_of(F32)), bounded)
    last = lanes.builder.and_(whole, lanes.integer(whole, 1))
    odd = lanes.builder.icmp_signed("!=", last, lanes.integer(whole, 0))
    return exact, lanes.builder.and_(exact, odd)
