"""The operators of the ALU table on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.numerics import numpy_entry

Array = NDArray[Any]


def first(op: str, array: Array) -> Array:
    """A fold over one element keeps it; the logical operators turn it into 1.0 or 0.0 all the same."""
    return truth(array != 0) if op.startswith("logical") else array


def truth(condition: Array) -> Array:
    """1.0 where ``condition`` holds, else 0.0."""
    return condition.astype(np.float32)


def _maximum(x: Array, y: Array) -> Array:
    """NumPy leaves open which zero it returns; the sum of two zeros is -0 only if both are."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def _minimum(x: Array, y: Array) -> Array:
    return np.where((x == 0) & (y == 0), -((-x) + (-y)), np.minimum(x, y))


def _mod(x: Array, y: Array) -> Array:
    rest = np.fmod(x, y)
    return np.where(rest == 0, np.copysign(rest, y), np.where((rest < 0) != (y < 0), rest + y, rest))


def _rsqrt(x: Array) -> Array:
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float32)


UNARY: Final[Mapping[str, Callable[[Array], Array]]] = {
    "bypass": lambda x: x,
    "logical_not": lambda x: truth(x == 0),
    "abs": np.abs,
    "square": lambda x: x * x,
    "relu": lambda x: _maximum(x, np.zeros_like(x)),
    "rsqrt": _rsqrt,
    "reciprocal": lambda x: np.float32(1.0) / x,
}

BINARY: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": _maximum,
    "minimum": _minimum,
    "abs_max": lambda x, y: np.where(np.abs(x) > np.abs(y), x, y),
    "abs_min": lambda x, y: np.where(np.abs(x) < np.abs(y), x, y),
    "power": numpy_entry.power,
    "fmod": np.fmod,
    "mod": _mod,
    "equal": lambda x, y: truth(x == y),
    "not_equal": lambda x, y: truth(x != y),
    "greater_equal": lambda x, y: truth(x >= y),
    "greater": lambda x, y: truth(x > y),
    "less_equal": lambda x, y: truth(x <= y),
    "less": lambda x, y: truth(x < y),
    "logical_and": lambda x, y: truth((x != 0) & (y != 0)),
    "logical_or": lambda x, y: truth((x != 0) | (y != 0)),
    "logical_xor": lambda x, y: truth((x != 0) ^ (y != 0)),
}

# NumPy's running sums go strictly from left to right in float32, unlike its pairwise ``sum``.
ACCUMULATE: Final[Mapping[str, Callable[..., Array]]] = {
    "add": np.add.accumulate,
    "subtract": np.subtract.accumulate,
    "multiply": np.multiply.accumulate,
}


def on_bits(op: str, x: Array, y: Array | None) -> Array:
    """A bit operator on the patterns of ``x``; the result has its dtype."""
    plain = np.dtype(f"u{x.dtype.itemsize}")
    a = np.ascontiguousarray(x).view(plain)
    if y is None:
        return np.invert(a).view(x.dtype)
    b = np.ascontiguousarray(y).view(plain)
    if op in ("left_shift", "right_shift"):
        width = plain.type(8 * plain.itemsize)
        amount = np.minimum(b, width - plain.type(1))
        moved = np.left_shift(a, amount) if op == "left_shift" else np.right_shift(a, amount)
        cut: Array = np.where(b < width, moved, plain.type(0))
        return cut.view(x.dtype)
    return {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}[op](a, b).view(
        x.dtype
    )
