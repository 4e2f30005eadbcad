"""Functions within 0.51 ulp of float32, without float64: their last sums are of two floats, the second one small.

Each takes and returns float32 values, scalar or vector. There is no division; only the square root has the processor's,
where that is not slower.
"""

from __future__ import annotations

import math
from typing import Final

from nki.numerics import polynomials as table
from nki.numerics.simd import F32, SUBNORMAL_LIFT, Lanes, Value

_LN2_HIGH: Final = table.LOG_HIGH[15]  # of so few bits that products with exponents are exact
_LN2_LOW: Final = table.LOG_LOW[15]
_RSQRT_SEED: Final = 0x5F3759DF
"""This less half of a representation is an inverse square root to 3.5 %: representations are much like logarithms."""


_TINY: Final = 2.0**-100
"""From here on the square of a root is exact to the last bit of its 48."""


def sqrt(lanes: Lanes, x: Value) -> Value:
    """The root of what has one, and NaN for all else.

    An estimate of 1 / sqrt(x) within 2^-14, Goldschmidt's step for root and half inverse, and a last step with the
    exact remainder give the rounded root, whatever the estimate: tried with all numbers from 1 to 4 and all estimates
    of each. So the bits are those of the processor's root, which takes longer where such vectors are.
    """
    if not lanes.estimates_roots:
        # LLVM (22) takes "NaN if isnan(sqrt(x)) else sqrt(x)" for "sqrt(x)", whatever the NaN that a processor gives.
        return lanes.sqrt(lanes.select(lanes.compare(">=", x, 0.0), x, math.nan))
    estimate = lanes.estimated_inverse_root(x)
    root, half = lanes.mul(x, estimate), lanes.mul(estimate, 0.5)
    rest = lanes.fma(lanes.neg(root), half, 0.5)
    root, half = lanes.fma(root, rest, root), lanes.fma(half, rest, half)
    usual = lanes.fma(lanes.fma(lanes.neg(root), root, x), half, root)
    bits, b = lanes.bits(x), lanes.builder
    code = b.sub(bits, lanes.integer(bits, 1))  # zeros and negative numbers are large
    tiny = b.icmp_unsigned("<", code, lanes.bits(lanes.constant(F32, _TINY)))
    return lanes.of_positive(x, lanes.mend(tiny, usual, lambda: lanes.sqrt(x)), None, math.inf)


def rsqrt(lanes: Lanes, x: Value) -> Value:
    """A step with a polynomial and one of Newton's method, whose 1 - x y^2 is exact but for a last rounding."""
    small, x_normal = lanes.lifted(x)
    bits, b = lanes.bits(x_normal), lanes.builder
    seed = lanes.from_bits(F32, b.sub(lanes.integer(bits, _RSQRT_SEED), b.lshr(bits, lanes.integer(bits, 1))))
    error = lanes.fma(lanes.neg(lanes.mul(x_normal, seed)), seed, 1.0)
    y = lanes.fma(lanes.mul(seed, error), lanes.polynomial(error, table.RSQRT_STEP_SINGLE), seed)
    root = lanes.mul(x_normal, y)
    low = lanes.fma(x_normal, y, lanes.neg(root))
    error = lanes.fma(lanes.neg(low), y, lanes.fma(lanes.neg(root), y, 1.0))
    result = lanes.fma(lanes.mul(y, 0.5), error, y)
    result = lanes.select(small, lanes.mul(result, 2.0 ** (SUBNORMAL_LIFT / 2)), result)
    return lanes.of_positive(x, result, math.inf, 0.0)


def log(lanes: Lanes, x: Value) -> Value:
    """n ln 2 - log(c) + log(1 + r) with x = m 2^n and r = m c - 1, c of few bits: r is exact, and at most 1/16."""
    n, mantissa = lanes.split(x)
    bits = lanes.bits(mantissa)
    index = lanes.builder.lshr(bits, lanes.integer(bits, 19))
    r = lanes.fma(mantissa, lanes.lookup(table.LOG_INVERSE, index), -1.0)
    start = lanes.fma(n, _LN2_HIGH, lanes.lookup(table.LOG_HIGH, index))  # exact
    square = lanes.mul(r, r)
    square_low = lanes.fma(r, r, lanes.neg(square))
    head = lanes.fma(square, -0.5, r)
    head_low = lanes.fma(square, -0.5, lanes.sub(r, head))
    total = lanes.add(start, head)
    total_low = lanes.sub(head, lanes.sub(total, start))
    low = lanes.fma(n, _LN2_LOW, lanes.lookup(table.LOG_LOW, index))
    low = lanes.add(lanes.fma(square_low, -0.5, low), lanes.add(head_low, total_low))
    low = lanes.fma(lanes.mul(square, r), lanes.polynomial(r, table.LOG_REST_SINGLE), low)
    return lanes.of_positive(x, lanes.add(total, low), -math.inf, math.inf)
