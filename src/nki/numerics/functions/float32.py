"""Functions of float32 numbers computed in float32, within 1.5 ulp, faster than in float64.

*Exponentials*, within 0.9 ulp. One is kept as (1 + p) 2^n as long as possible, so that its rounding error enters a
result once. Arguments are clamped first, to a range beyond which the result is 0 or infinite; clamping keeps NaN. Where
a result is 0 no arithmetic leads there: processors take 200 cycles for a vector with a result that is too small for a
normal number. What masks hide is such: scores of -30000, or -infinity. Functions that networks apply to numbers of any
size make such results with integers: :meth:`Lanes.scale_low`.

*Piecewise polynomials*. Each lane looks up the coefficients of its polynomial: one of 32 for an interval of |x|. Far
below zero, relative errors need an exponential, or float64. Such a tail has code of its own, which runs if a lane of
the vector is there; no lane's bits depend on that.

*Double-float arithmetic*, within 0.51 ulp and without a division. The last sum is of two floats, the second one small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from nki.numerics.functions.coefficients import Piecewise, piecewise_row, polynomial, table
from nki.numerics.simd import F32, LIFT, SUBNORMAL_LIFT, Lanes, Value, rounded

_LOG2_E = math.log2(math.e)
_LN2_HIGH = 0.693359375  # 9 significant bits: n * _LN2_HIGH is exact
_LN2_LOW = math.log(2.0) - _LN2_HIGH
_ZERO_BELOW = -104.0  # e^-104 rounds to 0
_INFINITE_ABOVE = 89.0  # e^89 rounds to infinity
_ZERO_ABOVE = 110.0  # e^-110 rounds to 0, also times 110
_NORMAL = 87.0  # e^x is a normal number from -87 to 87

MILLS_END: Final = 14.5
"""z Phi(-z) is below half the smallest float32 from z = 14.3 on."""
MILLS_SHIFT: Final = 2.78515625
"""Makes what the polynomial of Phi(-z) approximates flat, and its constant term a float32 to within 1e-10."""

_RSQRT_SEED: Final = 0x5F3759DF
"""This less half of a representation is an inverse square root to 3.5 %: representations are much like logarithms."""
_ROUNDING = 1.5 * 2.0**23  # added to a number below 2^22, it leaves the nearest integer in the last bits

_Exponent = tuple[Value, Value]
"""A power of two, as a floating-point number and as an integer; of a NaN they are unlike, and mean nothing."""


def _exp_parts(lanes: Lanes, x: Value, low: Value | None = None) -> tuple[Value, _Exponent]:
    """(p, n) with e^(x + low) = (1 + p) 2^n, |p| < 0.42; ``low`` is what rounding took from x."""
    n, whole = lanes.round(x, _LOG2_E)
    return _exp_rest(lanes, x, n, low), (n, whole)


def _exp_rest(lanes: Lanes, x: Value, n: Value, low: Value | None = None) -> Value:
    """p of :func:`_exp_parts`, given n."""
    high = lanes.fma(n, -_LN2_HIGH, x)
    if low is None:
        r = lanes.fma(n, -_LN2_LOW, high)
        rest = lanes.fma(n, -_LN2_LOW, lanes.sub(high, r))  # what rounding took from r
    else:
        small = lanes.fma(n, -_LN2_LOW, low)
        r = lanes.add(high, small)
        rest = lanes.sub(small, lanes.sub(r, high))
    return lanes.add(r, lanes.fma(lanes.mul(r, r), lanes.polynomial(r, polynomial("exp_rest")), rest))


def exp(lanes: Lanes, x: Value) -> Value:
    """(1 + p) 2^n; 0 where x is too small. Both choices cost nothing with masks of AVX-512."""
    is_there = lanes.not_below(x, _ZERO_BELOW)
    p, n = _exp_parts(lanes, lanes.select(is_there, lanes.at_most(x, _INFINITE_ABOVE), 0.0))
    return lanes.scale(lanes.add(p, 1.0), *n, is_there)


def has_normal_exp(lanes: Lanes, numbers: Sequence[Value]) -> Value:
    """True only where e^x of each of ``numbers`` is a normal number; surely so if their squares add up to 87^2."""
    squares = lanes.mul(numbers[0], numbers[0])
    for x in numbers[1:]:
        squares = lanes.fma(x, x, squares)
    return lanes.compare("<=", squares, _NORMAL**2)


def normal_exp(lanes: Lanes, x: Value) -> Value:
    """The bits of :func:`exp` where the result is a normal number, in fewer operations.

    There scaling does not round, so that a fused step rounds 1 + p as the sum does. No x but 0 lies halfway between two
    exponents: the odd 24-bit integer that stands for log2(e) divides no half of an odd number below 256.
    """
    n, power = lanes.round_to_power(x, _LOG2_E)
    return lanes.fma(_exp_rest(lanes, x, n), power, power)


def _times_exp(lanes: Lanes, factor: Value, parts: tuple[Value, _Exponent]) -> Value:
    """factor (1 + p) 2^n for the ``parts`` (p, n) and a factor that is not negative."""
    p, (n, whole) = parts
    return _scaled(lanes, lanes.fma(factor, p, factor), (n, whole))


def _scaled(lanes: Lanes, x: Value, exponent: _Exponent) -> Value:
    """x 2^exponent, x not negative, without arithmetic that has subnormal results."""
    number, whole = exponent
    return lanes.scale_low(x, lanes.add(number, float(LIFT)), lanes.builder.add(whole, lanes.integer(whole, LIFT)))


def sigmoid_tail(lanes: Lanes, x: Value) -> Value:
    """sigmoid(x) = e^x, to a part of 2^-25, below -17.33."""
    return _times_exp(lanes, lanes.constant(F32, 1.0), _exp_parts(lanes, lanes.at_least(x, -_ZERO_ABOVE)))


def silu_tail(lanes: Lanes, x: Value) -> Value:
    """x sigmoid(x) = -z e^-z with z = -x, as above."""
    z = lanes.at_most(lanes.neg(x), _ZERO_ABOVE)
    return lanes.neg(_times_exp(lanes, z, _exp_parts(lanes, lanes.neg(z))))


def gelu_apprx_sigmoid_tail(lanes: Lanes, x: Value) -> Value:
    """x sigmoid(1.702 x) = -z e^(-1.702 z), as above; the product needs more digits than float32 has."""
    z = lanes.at_most(lanes.neg(x), 65.0)
    y = lanes.mul(z, -1.702)
    low = lanes.neg(lanes.fma(z, 1.702, y))
    low = lanes.fma(z, rounded(F32, 1.702) - 1.702, low)
    return lanes.neg(_times_exp(lanes, z, _exp_parts(lanes, y, low)))


def gelu_tail(lanes: Lanes, x: Value) -> Value:
    """-z Phi(-z) with z = -x.

    Phi(-z) is e^(-z^2 / 2) / (z + k) times a polynomial of t = (z - k) / (z + k); k makes that last factor flat.
    """
    z = lanes.at_most(lanes.neg(x), MILLS_END)
    half = lanes.mul(z, -0.5)
    exponent = lanes.mul(z, half)
    p, n = _exp_parts(lanes, exponent, lanes.fma(z, half, lanes.neg(exponent)))
    share = _share(lanes, z, MILLS_SHIFT)
    t = lanes.fma(share, 2.0, -1.0)
    first, *others = polynomial("gelu_tail")
    slope = lanes.polynomial(t, others)
    mills = lanes.fma(t, slope, first)
    mills_low = lanes.fma(t, slope, lanes.sub(first, mills))
    tail = lanes.mul(share, mills)
    rest = lanes.fma(share, mills_low, lanes.fma(share, mills, lanes.neg(tail)))
    return lanes.neg(_scaled(lanes, lanes.add(tail, lanes.fma(tail, p, rest)), n))


def _share(lanes: Lanes, z: Value, k: float) -> Value:
    """z / (z + k), with the rounding of sum, reciprocal and product put right."""
    below = lanes.add(z, k)
    low = lanes.sub(z, lanes.sub(below, k))
    inverse = lanes.div(1.0, below)
    quotient = lanes.mul(z, inverse)
    opposite = lanes.neg(quotient)
    rest = lanes.fma(opposite, low, lanes.fma(opposite, below, z))
    return lanes.fma(rest, inverse, quotient)


def piecewise(lanes: Lanes, x: Value, name: str, tail: Callable[[Lanes, Value], Value] | None = None) -> Value:
    """The function ``name``, by its row; ``tail`` is the function below ``row.tail``."""
    row = piecewise_row(name)
    value = _polynomials(lanes, lanes.at_most(lanes.abs(x), row.end), row)
    match row.symmetry:
        case "f(-x) = -f(x)":
            usual = lanes.copysign(value, x)
        case "f(-x) = 1 - f(x)":
            usual = lanes.select(lanes.compare("<", x, 0.0), value, lanes.sub(1.0, value))
        case "f(-x) = f(x) - x":
            positive = lanes.select(lanes.compare("<", x, 0.0), 0.0, x)
            usual = lanes.copysign(lanes.sub(positive, value), x)
    if tail is None:
        return usual
    return lanes.mend(lanes.compare("<", x, row.tail), usual, lambda: tail(lanes, x))


def _polynomials(lanes: Lanes, z: Value, row: Piecewise) -> Value:
    """The function that ``row`` approximates, of z from 0 to its end."""
    shifted = lanes.fma(z, 1.0 / row.step, _ROUNDING)  # the last bits are the nearest integer's
    index = lanes.bits(shifted)
    n = lanes.sub(shifted, _ROUNDING)
    first, *others = (lanes.lookup(numbers, index) for numbers in row.coefficients)
    if row.zero:
        return _around_zero(lanes, z, n, [first, *others], row)
    distance = lanes.fma(n, -row.step, z)
    if row.starts_as_z:
        first = lanes.select(lanes.compare("==", n, 0.0), distance, first)
    return lanes.polynomial(distance, [first, *others])


def _around_zero(lanes: Lanes, z: Value, n: Value, coefficients: Sequence[Value], row: Piecewise) -> Value:
    """The polynomials of multiple ``n``; near the zero the linear coefficient, which alone counts, is two floats."""
    first, linear, *others = coefficients
    near = lanes.compare("<", lanes.abs(lanes.sub(n, float(row.zero))), 1.5)
    distance = lanes.fma(lanes.select(near, float(row.zero), n), -row.step, z)
    rest = lanes.polynomial(distance, others)
    slope = lanes.fma(rest, distance, linear)
    low = lanes.add(lanes.fma(rest, distance, lanes.sub(linear, slope)), row.low)
    return lanes.fma(slope, distance, lanes.select(near, lanes.fma(low, distance, first), first))


def rsqrt(lanes: Lanes, x: Value) -> Value:
    """A step with a polynomial and one of Newton's method; its 1 - x y^2 is exact but for a last rounding."""
    small, x_normal = lanes.lifted(x)
    bits, b = lanes.bits(x_normal), lanes.builder
    seed = lanes.from_bits(F32, b.sub(lanes.integer(bits, _RSQRT_SEED), b.lshr(bits, lanes.integer(bits, 1))))
    error = lanes.fma(lanes.neg(lanes.mul(x_normal, seed)), seed, 1.0)
    y = lanes.fma(lanes.mul(seed, error), lanes.polynomial(error, polynomial("rsqrt_step")), seed)
    root = lanes.mul(x_normal, y)
    low = lanes.fma(x_normal, y, lanes.neg(root))
    error = lanes.fma(lanes.neg(low), y, lanes.fma(lanes.neg(root), y, 1.0))
    result = lanes.fma(lanes.mul(y, 0.5), error, y)
    result = lanes.select(small, lanes.mul(result, 2.0 ** (SUBNORMAL_LIFT / 2)), result)
    return lanes.of_positive(x, result, math.inf, 0.0)


def log(lanes: Lanes, x: Value) -> Value:
    """n ln 2 - log(c) + log(1 + r) with x = m 2^n and r = m c - 1, c of few bits: r is exact, and at most 1/16."""
    inverse, logarithm, logarithm_low = table("log")  # -log(c); the last c is 1/2
    n, mantissa = lanes.split(x)
    bits = lanes.bits(mantissa)
    index = lanes.builder.lshr(bits, lanes.integer(bits, 19))
    r = lanes.fma(mantissa, lanes.lookup(inverse, index), -1.0)
    start = lanes.fma(n, logarithm[15], lanes.lookup(logarithm, index))  # exact
    square = lanes.mul(r, r)
    square_low = lanes.fma(r, r, lanes.neg(square))
    head = lanes.fma(square, -0.5, r)
    head_low = lanes.fma(square, -0.5, lanes.sub(r, head))
    total = lanes.add(start, head)
    total_low = lanes.sub(head, lanes.sub(total, start))
    low = lanes.fma(n, logarithm_low[15], lanes.lookup(logarithm_low, index))
    low = lanes.add(lanes.fma(square_low, -0.5, low), lanes.add(head_low, total_low))
    low = lanes.fma(lanes.mul(square, r), lanes.polynomial(r, polynomial("log_rest")), low)
    return lanes.of_positive(x, lanes.add(total, low), -math.inf, math.inf)
