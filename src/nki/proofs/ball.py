"""Numbers with a bound: a centre and a radius in float64 that enclose what an expression is over the real numbers.

A radius counts the rounding of float64 alone. Rounding to a narrower type changes nothing over the reals, so two balls
that do not meet prove that two expressions are different there, however much either executor rounds. A radius of
infinity says that nothing is known. An infinite centre is exact if its radius is 0: it comes from an infinite constant
or input, and not from an overflow.

The rules are the standard ones of ball arithmetic (J. van der Hoeven, "Ball arithmetic", 2009); ``docs/proofs.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.isa.tables.activations import ACTIVATIONS, SIN_LIMIT

F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

_UNIT: Final = 2.0**-52
"""Twice the relative error of one operation in float64; the radius itself is rounded too."""
_FUNCTION: Final = 2.0**-46
"""Relative error of a function of NumPy or of a formula in the table of activations: 64 units and fewer."""
_TINY: Final = 2.0**-500
"""Added where a result may be subnormal in float64. Products with radii are not, which are slow."""


class Ball:
    """``centre`` and ``radius``, arrays of one shape in float64."""

    __slots__ = ("centre", "radius")

    def __init__(self, centre: F64, radius: F64) -> None:
        self.centre = centre
        self.radius = radius

    @classmethod
    def exact(cls, numbers: NDArray[Any]) -> Ball:
        """These numbers; NaN is unknown."""
        centre = numbers.astype(np.float64)
        return cls(centre, np.where(np.isnan(centre), np.inf, 0.0))

    @property
    def is_exact(self) -> Mask:
        """The elements that are known exactly."""
        return self.radius == 0

    def map(self, change: Callable[[F64], F64]) -> Ball:
        """The ball with its elements moved about by ``change``."""
        return Ball(change(self.centre), change(self.radius))


def unknown(shape: tuple[int, ...]) -> Ball:
    """A ball that may be anything."""
    return Ball(np.zeros(shape), np.full(shape, np.inf))


def _made(centre: F64, radius: F64, limit: Mask | bool = False) -> Ball:
    """The ball; an infinite centre is one only where ``limit`` says that it is exact."""
    infinite = np.isinf(centre)
    radius = np.where(infinite, np.where(limit, 0.0, np.inf), radius)
    lost = np.isnan(centre) | np.isnan(radius)
    if lost.any():
        centre, radius = np.where(lost, 0.0, centre), np.where(lost, np.inf, radius)
    return Ball(centre, radius)


def _infinite(a: Ball) -> Mask:
    return np.isinf(a.centre) & (a.radius == 0)


def _sum_limit(a: Ball, b: Ball) -> Mask:
    return (_infinite(a) & np.isfinite(b.radius)) | (_infinite(b) & np.isfinite(a.radius))


def add(a: Ball, b: Ball) -> Ball:
    """The sum; its error in float64 is computed and not bounded (Knuth's TwoSum), so exact sums stay exact."""
    x, y = a.centre, b.centre
    total = x + y
    part = total - x
    error = np.abs((x - (total - part)) + (y - part))
    spread = a.radius + b.radius
    return _made(total, error + spread + _UNIT * spread, _sum_limit(a, b))


def negated(a: Ball) -> Ball:
    """-a."""
    return Ball(-a.centre, a.radius)


def subtract(a: Ball, b: Ball) -> Ball:
    """The difference."""
    return add(a, negated(b))


def _short(x: F64) -> Mask:
    """The numbers with at most 24 digits: the product of two of them is exact in float64."""
    return x.astype(np.float32) == x


def multiply(a: Ball, b: Ball) -> Ball:
    """The product; exact of numbers of 24 digits."""
    x, y = a.centre, b.centre
    product = x * y
    size = np.abs(product)
    exact = _short(x) & _short(y) & ((size > _TINY) | (x == 0) | (y == 0))
    spread = np.abs(x) * b.radius + a.radius * np.abs(y) + a.radius * b.radius
    # Nothing is known of 0 times something unknown, and NaN says so.
    limit = (_infinite(a) & (np.abs(y) > b.radius)) | (_infinite(b) & (np.abs(x) > a.radius))
    return _made(product, spread * (1 + 4 * _UNIT) + np.where(exact, 0.0, _UNIT * size + _TINY), limit)


def divide(a: Ball, b: Ball) -> Ball:
    """The quotient; unknown if the divisor may be 0."""
    x, y = a.centre, b.centre
    quotient = x / y
    least = np.abs(y) - b.radius
    exact = _short(quotient) & _short(y) & (quotient * y == x)
    spread = (a.radius + np.abs(quotient) * b.radius) / least
    radius = spread * (1 + 8 * _UNIT) + np.where(exact, 0.0, _UNIT * np.abs(quotient) + _TINY)
    certain = np.where(np.isinf(y), b.radius == 0, least > 0)
    return _made(quotient, np.where(certain, radius, np.inf), _infinite(a) & (least > 0))


def maximum(a: Ball, b: Ball) -> Ball:
    """The larger one: it moves by no more than its operands do."""
    above, below = a.centre - a.radius > b.centre + b.radius, b.centre - b.radius > a.centre + a.radius
    radius = np.where(above, a.radius, np.where(below, b.radius, np.maximum(a.radius, b.radius)))
    return Ball(np.maximum(a.centre, b.centre), radius)


def minimum(a: Ball, b: Ball) -> Ball:
    """The smaller one."""
    return negated(maximum(negated(a), negated(b)))


def hull(a: Ball, b: Ball) -> Ball:
    """A ball around both."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (a.centre + b.centre)
        radius = np.maximum(np.abs(a.centre - middle) + a.radius, np.abs(b.centre - middle) + b.radius)
    return _made(middle, radius * (1 + 4 * _UNIT) + np.where(radius == 0, 0.0, _UNIT * np.abs(middle)))


def select(condition: Ball, yes: Ball, no: Ball) -> Ball:
    """``yes`` where the condition is certainly not 0, ``no`` where it certainly is; around both elsewhere."""
    holds, fails = np.abs(condition.centre) > condition.radius, (condition.centre == 0) & (condition.radius == 0)
    either = hull(yes, no)
    centre = np.where(holds, yes.centre, np.where(fails, no.centre, either.centre))
    return Ball(centre, np.where(holds, yes.radius, np.where(fails, no.radius, either.radius)))


def _truth(yes: Mask, no: Mask) -> Ball:
    """1 where ``yes`` is certain, 0 where ``no`` is, between them elsewhere."""
    return Ball(np.where(yes, 1.0, np.where(no, 0.0, 0.5)), np.where(yes | no, 0.0, 0.5))


def _ordered(a: Ball, b: Ball) -> tuple[Mask, Mask, Mask]:
    """The places with a < b, a > b and a = b for certain."""
    below, above = a.centre + a.radius < b.centre - b.radius, a.centre - a.radius > b.centre + b.radius
    return below, above, (a.radius == 0) & (b.radius == 0) & (a.centre == b.centre)


def _compared(op: str, a: Ball, b: Ball) -> Ball:
    less, greater, same = _ordered(a, b)
    differ = less | greater
    return {
        "equal": lambda: _truth(same, differ),
        "not_equal": lambda: _truth(differ, same),
        "greater_equal": lambda: _truth(greater | same, less),
        "greater": lambda: _truth(greater, less | same),
        "less_equal": lambda: _truth(less | same, greater),
        "less": lambda: _truth(less, greater | same),
    }[op]()


def _logical(op: str, a: Ball, b: Ball) -> Ball:
    (yes, no), (yes2, no2) = _certain(a), _certain(b)
    if op == "logical_and":
        return _truth(yes & yes2, no | no2)
    if op == "logical_or":
        return _truth(yes | yes2, no & no2)
    return _truth((yes & no2) | (no & yes2), (yes & yes2) | (no & no2))


def _certain(a: Ball) -> tuple[Mask, Mask]:
    """The places with a certainly not 0, and with a certainly 0."""
    return np.abs(a.centre) > a.radius, (a.centre == 0) & (a.radius == 0)


def _power(a: Ball, b: Ball) -> Ball:
    """Over positive bases a power is monotone in each operand: the extremes are at the corners."""
    x, y = a.centre, b.centre
    middle = np.power(x, y)
    known = (a.radius == 0) & (b.radius == 0)
    spread = np.zeros_like(middle)
    for base in (x - a.radius, x + a.radius):
        for exponent in (y - b.radius, y + b.radius):
            spread = np.maximum(spread, np.abs(np.power(base, exponent) - middle))
    radius = np.where(known, 0.0, np.where(x - a.radius > 0, spread, np.inf))
    return _made(middle, radius + _FUNCTION * np.abs(middle) + _TINY)


def _remainder(op: str, a: Ball, b: Ball) -> Ball:
    x, y = a.centre, b.centre
    rest = np.fmod(x, y)
    known = (a.radius == 0) & (b.radius == 0)
    if op == "mod":
        rest = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    whole = (np.rint(rest) == rest) | (op == "fmod")
    return _made(rest, np.where(known, np.where(whole, 0.0, _UNIT * np.abs(y)), np.inf))


def binary(op: str, a: Ball, b: Ball) -> Ball:
    """A row of the ALU table that computes with numbers, of two balls that broadcast to one shape."""
    with np.errstate(all="ignore"):
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](a, b)
        if op.startswith("logical"):
            return _logical(op, a, b)
        if op in ("abs_max", "abs_min"):
            first, second = (unary("abs", each) for each in (a, b))
            return select(_compared("greater" if op == "abs_max" else "less", first, second), a, b)
        if op in ("fmod", "mod"):
            return _remainder(op, a, b)
        return _compared(op, a, b)


_ARITHMETIC: Final[Mapping[str, Callable[[Ball, Ball], Ball]]] = {
    "add": add, "subtract": subtract, "multiply": multiply, "divide": divide, "maximum": maximum, "minimum": minimum,
    "power": _power,
}  # fmt: skip


def unary(op: str, a: Ball) -> Ball:
    """A row of the ALU table of one operand that computes with numbers."""
    if op == "bypass":
        return a
    if op == "abs":
        return Ball(np.abs(a.centre), a.radius)
    with np.errstate(all="ignore"):
        if op == "logical_not":
            yes, no = _certain(a)
            return _truth(no, yes)
        if op == "square":
            return multiply(a, a)
        if op == "relu":
            return maximum(a, Ball(np.zeros_like(a.centre), np.zeros_like(a.centre)))
    return function(op, a)


_MONOTONE: Final = frozenset(("exp", "sqrt", "log", "relu", "sigmoid", "tanh", "erf", "softplus", "sign", "arctan"))
"""Functions that never fall, on the whole of their domain."""
_POSITIVE: Final = frozenset(("sqrt", "log", "rsqrt"))
_SMOOTH: Final = frozenset(
    (
        "gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "silu", "silu_dx", "mish",
        "erf_dx", "sin",
    )
)  # fmt: skip
"""Functions with a derivative of at most 2 in magnitude (of ``sin`` up to SIN_LIMIT)."""


def function(name: str, a: Ball, parameter: Ball | None = None) -> Ball:
    """A row of the table of activations. Of a row that is not known to be monotone or smooth exact numbers alone."""
    x, r = a.centre, a.radius
    with np.errstate(all="ignore"):
        if name == "copy":
            return a
        if name == "abs":
            return unary("abs", a)
        if name == "square":
            return multiply(a, a)
        if name == "reciprocal":
            return divide(Ball(np.ones_like(x), np.zeros_like(x)), a)
        if parameter is not None:
            if name in ("prelu", "lrelu"):
                zero = Ball(np.zeros_like(x), np.zeros_like(x))
                return select(_compared("less", a, zero), multiply(parameter, a), a)
            return unknown(np.broadcast_shapes(x.shape, parameter.centre.shape))
        middle = ACTIVATIONS[name].reference(x)
        if name in _MONOTONE or name == "rsqrt":
            wide = r + _UNIT * np.abs(x)  # ends that float64 would round back to the centre
            spread = np.maximum(*(np.abs(ACTIVATIONS[name].reference(end) - middle) for end in (x - wide, x + wide)))
            spread = np.where(r == 0, 0.0, spread)
            if name in _POSITIVE:
                spread = np.where(x - r > 0, spread, np.where((x == 0) & (r == 0) & (name == "sqrt"), 0.0, np.inf))
            exact = name in ("relu", "sign")
            noise = 0.0 if exact else _FUNCTION * np.abs(middle) + np.where(middle == 0, 0.0, _TINY)
            # The exponential of a very small number is no zero.
            noise = np.where((middle == 0) & np.isfinite(x), _TINY, noise) if name == "exp" else noise
            return _made(middle, spread + noise, _infinite(a))
        if name in _SMOOTH:
            spread = 2 * r if name != "sin" else np.where(np.abs(x) + r < SIN_LIMIT, 2 * r, np.inf)
            return _made(middle, spread + _FUNCTION * (1 + np.abs(middle)), _infinite(a))
        return _made(middle, np.where(r == 0, _FUNCTION * (1 + np.abs(middle)), np.inf))


def total(a: Ball, axis: int) -> Ball:
    """The sum along ``axis``. Whole numbers below 2^53 add up exactly."""
    with np.errstate(all="ignore"):
        x, count = a.centre, a.centre.shape[axis]
        middle, size = x.sum(axis), np.abs(x).sum(axis)
        whole = (np.rint(x) == x).all(axis) & (size < 2.0**53)
        noise = np.where(whole | (count == 1), 0.0, count * _UNIT * size)
        limit = (_infinite(a) | np.isfinite(x)).all(axis) & np.isfinite(a.radius).all(axis)
        limit = np.asarray(limit & _infinite(a).any(axis))
        return _made(middle, a.radius.sum(axis) * (1 + count * _UNIT) + noise, limit)


def extreme(a: Ball, axis: int, largest: bool) -> Ball:
    """The maximum or the minimum along ``axis``."""
    if not largest:
        return negated(extreme(negated(a), axis, True))
    top, least = a.centre.max(axis), (a.centre - a.radius).max(axis, keepdims=True)
    # An element that is certainly below another one has no part in it.
    radius = np.where(a.centre + a.radius < least, 0.0, a.radius).max(axis)
    return Ball(top, radius)


def product(left: Ball, right: Ball) -> Ball:
    """``left.T @ right``. Products of whole numbers that add up to less than 2^53 are exact."""
    with np.errstate(all="ignore"):
        x, y = left.centre.T, right.centre
        middle, depth = x @ y, len(y)
        size, large = np.abs(x), np.abs(y)
        # The error of float64 is at most depth units of the sum of magnitudes: as if right were off by that much.
        if (np.rint(x) == x).all() and (np.rint(y) == y).all():
            most = size @ large
            spread = np.where(most < 2.0**53, 0.0, depth * _UNIT * most)
            if right.radius.any():
                spread = spread + size @ right.radius
        else:
            spread = size @ (depth * _UNIT * large + right.radius) + _TINY
        if left.radius.any():
            spread = spread + left.radius.T @ (large + right.radius)
        return _made(middle, spread * (1 + 4 * depth * _UNIT))
