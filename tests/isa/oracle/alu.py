"""The operators of the compute engines, one scalar at a time.

Arithmetic operators take and give float32 numbers (as Python floats); bitvec operators take and give bit patterns
(as non-negative Python integers); on GpSimd, 32-bit integers have exact arithmetic of their own.

Sources: NKI reference, "Supported Math Operators for NKI ISA" (the table, and which operators may reduce), and the
``nki.language`` page of each operator (``abs_max``/``abs_min``: keeps the sign, a tie gives the second operand;
``mod`` has the sign of the divisor, ``fmod`` of the dividend). Comparisons give 1.0 or 0.0; logical operators ask
whether an operand differs from zero, so NaN counts as true. Minimum and maximum propagate NaN and order -0 below +0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import numerics
from .numerics import Array

WORD: Final = 32
MASK: Final = (1 << WORD) - 1


def divide(x: float, y: float) -> float:
    """IEEE quotient: x/0 is an infinity with the product of the signs, 0/0 is NaN."""
    if y != 0.0 or math.isnan(x):
        return x / y if y != 0.0 else math.nan
    return math.nan if x == 0.0 else math.copysign(math.inf, math.copysign(1.0, x) * math.copysign(1.0, y))


def fmod(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0.0:
        return math.nan
    return math.fmod(x, y)


def mod(x: float, y: float) -> float:
    rest = fmod(x, y)
    if rest == 0.0:
        return math.copysign(0.0, y)
    return rest + y if (rest < 0.0) != (y < 0.0) and not math.isnan(rest) else rest


def power(x: float, y: float) -> float:
    """C's pow. NumPy's own takes the square root for y = 0.5, which is NaN for -inf where C has inf."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    except ValueError:  # of a negative number, or 1 / 0
        if x != 0.0:
            return math.nan
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf


def rsqrt(x: float) -> float:
    if math.isnan(x) or x < 0.0:
        return math.nan
    return divide(1.0, math.copysign(math.sqrt(abs(x)), x))


def maximum(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == y:
        return x if math.copysign(1.0, x) > 0 else y
    return max(x, y)


def minimum(x: float, y: float) -> float:
    return -maximum(-x, -y)


BINARY: Final[dict[str, Callable[[float, float], float]]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": divide,
    "mod": mod,
    "fmod": fmod,
    "power": power,
    "maximum": maximum,
    "minimum": minimum,
    "abs_max": lambda x, y: x if abs(x) > abs(y) else y,
    "abs_min": lambda x, y: x if abs(x) < abs(y) else y,
    "equal": lambda x, y: float(x == y),
    "not_equal": lambda x, y: float(x != y),
    "greater_equal": lambda x, y: float(x >= y),
    "greater": lambda x, y: float(x > y),
    "less_equal": lambda x, y: float(x <= y),
    "less": lambda x, y: float(x < y),
    "logical_and": lambda x, y: float(x != 0 and y != 0),
    "logical_or": lambda x, y: float(x != 0 or y != 0),
    "logical_xor": lambda x, y: float((x != 0) != (y != 0)),
}
UNARY: Final[dict[str, Callable[[float], float]]] = {
    "abs": abs,
    "square": lambda x: x * x,
    "relu": lambda x: maximum(x, 0.0),
    "rsqrt": rsqrt,
    "reciprocal": lambda x: divide(1.0, x),
    "negative": lambda x: -x,
    "logical_not": lambda x: float(x == 0),
    # "Passes data through unchanged": its operand, and which side it is on, do not matter.
    "bypass": lambda x: x,
}
BITVEC: Final[dict[str, Callable[[int, int], int]]] = {
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "invert": lambda x, y: x ^ MASK,
    "left_shift": lambda x, y: (x << y) & MASK if y < WORD else 0,
    "right_shift": lambda x, y: x >> y if y < WORD else 0,
}
REDUCTIONS: Final = frozenset(
    {"bitwise_and", "bitwise_or", "bitwise_xor", "add", "subtract", "multiply", "maximum", "minimum"}
    | {"logical_and", "logical_or", "logical_xor"}
)
# Operators with a bounded, not a promised, float32 result: units in the last place of float32.
ULPS: Final = {"power": 2, "rsqrt": 2}
INTEGER: Final = frozenset(BINARY) - {"divide", "mod", "fmod", "power"}


def ideal(op: str, x: Any, y: Any, reverse: bool = False) -> Array:
    """The operator element by element in float64, before rounding; with ``y`` on its left if ``reverse``.

    Unary operators ignore ``y`` and ``reverse``.
    """
    if reverse and op not in UNARY:
        x, y = y, x
    xs, ys = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    if op in UNARY:
        flat = [UNARY[op](v) for v in xs.ravel().tolist()]
    else:
        flat = [BINARY[op](v, w) for v, w in zip(xs.ravel().tolist(), ys.ravel().tolist(), strict=True)]
    return np.array(flat, np.float64).reshape(xs.shape)


def arithmetic(op: str, x: Any, y: Any, reverse: bool = False) -> Array:
    """The operator element by element, rounded to float32."""
    return numerics.round32(ideal(op, x, y, reverse))


def outcomes(op: str, firsts: list[Array], y: Any, reverse: bool = False) -> list[Array]:
    """Every result worth considering when the first operand is one of several and the operator has an error bound.

    The first of the list stays the best estimate.
    """
    results: list[Array] = []
    for x in firsts:
        middle = ideal(op, x, y, reverse)
        results.append(middle)
        if op in ULPS:
            reach = np.where(np.isinf(middle), 0.0, ULPS[op] * numerics.spacing32(middle))
            results += [middle - reach, middle + reach]
    return [numerics.round32(r) for r in results]


def pattern(array: Any) -> Array:
    """Integers as 32-bit patterns: the element's own bits, zeros above. A Python number is a 32-bit immediate."""
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
        return np.array([int(v) % (1 << 8 * array.itemsize) for v in array.ravel()], object).reshape(array.shape)
    return np.array(int(array) & MASK, object)


def bitvec(op: str, x: Any, y: Any) -> Array:
    """The operator on 32-bit patterns (object arrays of Python integers)."""
    xs, ys = np.broadcast_arrays(np.asarray(x, object), np.asarray(y, object))
    flat = [BITVEC[op](v, w) for v, w in zip(xs.ravel().tolist(), ys.ravel().tolist(), strict=True)]
    return np.array(flat, object).reshape(xs.shape)


def store_pattern(values: Array, dtype: Any) -> Array:
    """The low bits of each pattern, as many as ``dtype`` has (also: wrapping of exact integers)."""
    size = np.dtype(dtype).itemsize
    flat = [v % (1 << 8 * size) for v in values.ravel().tolist()]
    return np.array(flat, f"u{size}").view(dtype).reshape(values.shape)


def integer(op: str, x: Array, y: Array) -> Array:
    """GpSimd arithmetic on 32-bit integers: exact, to be wrapped on store. Object array of Python integers."""
    flat = [int(BINARY[op](v, w)) for v, w in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]
    return np.array(flat, object).reshape(x.shape)
