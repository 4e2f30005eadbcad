"""Functions as piecewise polynomials in float32: within 1.5 ulp, faster than in float64.

Each lane looks up the coefficients of its polynomial: one of 32 for an interval of |x|. Far below zero, relative errors
need an exponential there, or float64. Such a tail has code of its own, which runs if a lane of the vector is there; no
lane's bits depend on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nki.numerics.functions.coefficients import Piecewise, piecewise
from nki.numerics.simd import Lanes, Value

_ROUNDING = 1.5 * 2.0**23  # added to a number below 2^22, it leaves the nearest integer in the last bits


def evaluate(lanes: Lanes, x: Value, name: str, tail: Callable[[Lanes, Value], Value] | None = None) -> Value:
    """The function ``name``, by its row; ``tail`` is the function below ``row.tail``."""
    row = piecewise(name)
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
