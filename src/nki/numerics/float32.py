"""The functions that networks spend most time in, computed in float32: within 1.5 ulp, faster than in float64.

Each takes and returns float32 values, scalar or vector. Most are polynomials, of which each lane looks up its own: one
of 32 for an interval of |x|. Tails that need an exponential, because their relative error counts, have code of their
own, which runs if a lane of the vector is there; no lane's bits depend on that.

An exponential is kept as (1 + p) 2^n as long as possible, so that its rounding error enters a result once. Arguments
are clamped first, to a range beyond which the result is 0, infinite or constant; clamping keeps NaN. Where a result
is 0 no arithmetic leads there: processors take 200 cycles for a vector with a result that is too small for a normal
number. What masks hide is such: scores of -30000, or -infinity. Functions that networks apply to numbers of any size
make such results with integers: :meth:`Lanes.scale_low`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nki.numerics import float64
from nki.numerics import polynomials as table
from nki.numerics.pieces import ERF, GELU, GELU_APPRX_SIGMOID, GELU_DX, SIGMOID, SILU, TANH, Pieces
from nki.numerics.simd import F32, LIFT, Lanes, Value, rounded

_LOG2_E = math.log2(math.e)
_LN2 = math.log(2.0)
_LN2_HIGH = 0.693359375  # 9 significant bits: n * _LN2_HIGH is exact
_LN2_LOW = _LN2 - _LN2_HIGH
_ZERO_BELOW = -104.0  # e^-104 rounds to 0
_ONE_ABOVE = 20.0  # sigmoid(20) rounds to 1
_INFINITE_ABOVE = 89.0  # e^89 rounds to infinity
_LOWEST = -110.0  # e^-110 rounds to 0, also times 110
_NO_SHARE = 2.0**-60  # 1 + t rounds to 1, and t * t is a normal number
_LIFTED = 2.0**LIFT
_ROUNDING = 1.5 * 2.0**23  # added to a number below 2^22, it leaves the nearest integer in the last bits
_LAST_HALF = 0.49  # of a step: the last piece ends a little less than that beyond its multiple
_GELU_DX_LOWEST = -3.75  # further below, relative errors of the pieces exceed 1 ulp
_NORMAL = 87.0  # e^x is a normal number from -87 to 87


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
    return lanes.add(r, lanes.fma(lanes.mul(r, r), lanes.polynomial(r, table.EXP_REST_SINGLE), rest))


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


def _by_pieces(lanes: Lanes, z: Value, pieces: Pieces) -> Value:
    """The function in ``pieces`` of z from 0 to 31 steps."""
    shifted = lanes.fma(z, 1.0 / pieces.step, _ROUNDING)  # the last bits are the nearest integer's
    index = lanes.bits(shifted)
    n = lanes.sub(shifted, _ROUNDING)
    first, *others = (lanes.lookup(row, index) for row in pieces.rows)
    if pieces.zero:
        return _around_zero(lanes, z, n, [first, *others], pieces)
    distance = lanes.fma(n, -pieces.step, z)
    if pieces.starts_as_z:
        first = lanes.select(lanes.compare("==", n, 0.0), distance, first)
    return lanes.polynomial(distance, [first, *others])


def _around_zero(lanes: Lanes, z: Value, n: Value, coefficients: Sequence[Value], pieces: Pieces) -> Value:
    """The polynomials of multiple ``n``; near the zero the linear coefficient, which alone counts, is two floats."""
    first, linear, *others = coefficients
    near = lanes.compare("<", lanes.abs(lanes.sub(n, float(pieces.zero))), 1.5)
    distance = lanes.fma(lanes.select(near, float(pieces.zero), n), -pieces.step, z)
    rest = lanes.polynomial(distance, others)
    slope = lanes.fma(rest, distance, linear)
    low = lanes.add(lanes.fma(rest, distance, lanes.sub(linear, slope)), pieces.low)
    return lanes.fma(slope, distance, lanes.select(near, lanes.fma(low, distance, first), first))


def _end(pieces: Pieces) -> float:
    return (len(pieces.rows[0]) - 1) * pieces.step


def tanh(lanes: Lanes, x: Value) -> Value:
    """By pieces; 1 from where they end."""
    return lanes.copysign(_by_pieces(lanes, lanes.at_most(lanes.abs(x), _end(TANH)), TANH), x)


def _quotient(lanes: Lanes, above: Value, below: Value, low: Value, inverse: Value) -> Value:
    """above / (below + low) given the rounded 1 / below, with the rounding of reciprocal and product put right."""
    quotient = lanes.mul(above, inverse)
    opposite = lanes.neg(quotient)
    rest = lanes.fma(opposite, low, lanes.fma(opposite, below, above))
    return lanes.fma(rest, inverse, quotient)


def _over_one_plus(lanes: Lanes, above: Value, t: Value) -> Value:
    """above / (1 + t) for t from 0 to 1."""
    below = lanes.add(t, 1.0)
    low = lanes.add(lanes.sub(1.0, below), t)
    return _quotient(lanes, above, below, low, lanes.div(1.0, below))


def _lifted(lanes: Lanes, exponent: _Exponent) -> _Exponent:
    """``exponent`` as :meth:`Lanes.scale_low` takes it."""
    number, whole = exponent
    return lanes.add(number, float(LIFT)), lanes.builder.add(whole, lanes.integer(whole, LIFT))


def sigmoid(lanes: Lanes, x: Value) -> Value:
    """By pieces, unless x is a large negative number."""
    below = _by_pieces(lanes, lanes.at_most(lanes.abs(x), _end(SIGMOID)), SIGMOID)
    near = lanes.select(lanes.compare("<", x, 0.0), below, lanes.sub(1.0, below))
    return lanes.mend(lanes.compare("<", x, -_end(SIGMOID)), near, lambda: _sigmoid(lanes, x))


def _sigmoid(lanes: Lanes, x: Value) -> Value:
    """t / (1 + t) with t = e^x for negative x, 1 / (1 + t) with t = e^-x for others; below -41 it is t."""
    p, n = _exp_parts(lanes, lanes.at_least(lanes.neg(lanes.abs(x)), _LOWEST))
    t = lanes.scale_low(lanes.fma(p, _LIFTED, _LIFTED), *n)
    bounded = lanes.at_least(t, _NO_SHARE)
    result = _over_one_plus(lanes, lanes.select(lanes.compare("<", x, 0.0), bounded, 1.0), bounded)
    return lanes.select(lanes.compare("<", x, -41.0), t, result)


def _times_sigmoid(lanes: Lanes, x: Value, negative: Value, parts: tuple[Value, _Exponent]) -> Value:
    """x sigmoid(y) with ``parts`` (p, n), (1 + p) 2^n = e^-|y|, and the truth of y < 0."""
    p, (n, whole) = parts
    t = lanes.scale(lanes.add(p, 1.0), lanes.at_least(n, -60.0), lanes.integer_at_least(whole, -60))
    above = lanes.select(negative, lanes.fma(x, p, x), x)
    up, whole_up = _lifted(lanes, (n, whole))
    exponent = lanes.select(negative, up, float(LIFT)), lanes.select(negative, whole_up, lanes.integer(whole, LIFT))
    result = lanes.scale_low(lanes.abs(_over_one_plus(lanes, above, t)), *exponent)
    return lanes.select(lanes.compare("<", x, _ONE_ABOVE), lanes.copysign(result, x), x)  # also NaN and infinity


def _less_tail(lanes: Lanes, x: Value, pieces: Pieces, rest: Callable[[Lanes, Value], Value]) -> Value:
    """max(x, 0) less a function of |x|, by pieces; ``rest`` is for large negative numbers."""
    tail = _by_pieces(lanes, lanes.at_most(lanes.abs(x), _end(pieces)), pieces)
    near = lanes.copysign(lanes.sub(lanes.select(lanes.compare("<", x, 0.0), 0.0, x), tail), x)
    return lanes.mend(lanes.compare("<", x, -_end(pieces)), near, lambda: rest(lanes, x))


def silu(lanes: Lanes, x: Value) -> Value:
    """x sigmoid(x) = max(x, 0) - |x| sigmoid(-|x|)."""
    return _less_tail(lanes, x, SILU, _silu)


def _silu(lanes: Lanes, x: Value) -> Value:
    parts = _exp_parts(lanes, lanes.at_least(lanes.neg(lanes.abs(x)), _LOWEST))
    return _times_sigmoid(lanes, lanes.at_least(x, _LOWEST), lanes.compare("<", x, 0.0), parts)


def gelu_apprx_sigmoid(lanes: Lanes, x: Value) -> Value:
    """x sigmoid(1.702 x) = max(x, 0) - |x| sigmoid(-1.702 |x|)."""
    return _less_tail(lanes, x, GELU_APPRX_SIGMOID, _gelu_apprx_sigmoid)


def _gelu_apprx_sigmoid(lanes: Lanes, x: Value) -> Value:
    """The product needs more digits than float32 has."""
    bounded = lanes.at_least(x, -65.0)
    magnitude = lanes.at_most(lanes.abs(bounded), 65.0)
    y = lanes.mul(magnitude, -1.702)
    low = lanes.neg(lanes.fma(magnitude, 1.702, y))
    low = lanes.fma(magnitude, rounded(F32, 1.702) - 1.702, low)
    return _times_sigmoid(lanes, bounded, lanes.compare("<", x, 0.0), _exp_parts(lanes, y, low))


def gelu(lanes: Lanes, x: Value) -> Value:
    """max(x, 0) - z Phi(-z) with z = |x|."""
    return _less_tail(lanes, x, GELU, _gelu)


def _gelu(lanes: Lanes, x: Value) -> Value:
    """max(x, 0) - z Phi(-z) with z = |x|.

    Phi(-z) is e^(-z^2 / 2) / (z + k) times a polynomial of t = (z - k) / (z + k); k makes that last factor flat.
    """
    z = lanes.at_most(lanes.abs(x), table.MILLS_END)
    half = lanes.mul(z, -0.5)
    exponent = lanes.mul(z, half)
    p, n = _exp_parts(lanes, exponent, lanes.fma(z, half, lanes.neg(exponent)))
    below = lanes.add(z, table.MILLS_SHIFT)
    low = lanes.sub(z, lanes.sub(below, table.MILLS_SHIFT))
    share = _quotient(lanes, z, below, low, lanes.div(1.0, below))
    t = lanes.fma(share, 2.0, -1.0)
    slope = lanes.polynomial(t, table.MILLS_SINGLE[1:])
    mills = lanes.fma(t, slope, table.MILLS_SINGLE[0])
    mills_low = lanes.fma(t, slope, lanes.sub(table.MILLS_SINGLE[0], mills))
    tail = lanes.mul(share, mills)
    rest = lanes.fma(share, mills_low, lanes.fma(share, mills, lanes.neg(tail)))
    tail = lanes.scale_low(lanes.add(tail, lanes.fma(tail, p, rest)), *_lifted(lanes, n))
    positive = lanes.select(lanes.compare("<", x, 0.0), 0.0, x)
    return lanes.copysign(lanes.sub(positive, tail), x)


def gelu_dx(lanes: Lanes, x: Value) -> Value:
    """Phi(-z) - z phi(z) at z = |x|, by pieces; for positive x, 1 less that, which is 1 from where they end."""
    z = lanes.at_most(lanes.abs(x), _end(GELU_DX) + _LAST_HALF * GELU_DX.step)
    below = _by_pieces(lanes, z, GELU_DX)
    near = lanes.select(lanes.compare("<", x, 0.0), below, lanes.sub(1.0, below))
    return lanes.mend(lanes.compare("<", x, _GELU_DX_LOWEST), near, lambda: float64.gelu_dx(lanes, x))


def erf(lanes: Lanes, x: Value) -> Value:
    """By pieces; 1 from where they end."""
    return lanes.copysign(_by_pieces(lanes, lanes.at_most(lanes.abs(x), _end(ERF)), ERF), x)
