"""Functions in double-float arithmetic: within 0.51 ulp of float32, without float64 and without a division.

Each takes and returns float32 values, scalar or vector. The last sum is of two floats, the second one small.
"""

from __future__ import annotations

import math
from typing import Final

from nki.numerics.functions.coefficients import polynomial, table
from nki.numerics.simd import F32, SUBNORMAL_LIFT, Lanes, Value

_RSQRT_SEED: Final = 0x5F3759DF
"""This less half of a representation is an inverse square root to 3.5 %: representations are much like logarithms."""


def rsqrt(lanes: Lanes, x: Value) -> Value:
    """A step with a polynomial and one of Newton's method, whose 1 - x y^2 is exact but for a last rounding."""
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
