"""The primitives of the algebra in float64, for the shadows: the same functions, from their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy import alu_operations
from nki.ir.algebra import Step
from nki.isa.tables.activations import ACTIVATIONS

Doubles = NDArray[np.float64]
_CANCELS: Final = 2.0**-20
"""A sum that is so small a part of the sum of magnitudes is added up exactly, which float64 alone would not do."""
_ONE_THREAD: Final = 2**18
"""Multiplications in a product up to which OpenBLAS starts no threads (its SMP_THRESHOLD_MIN 65536 times
GEMM_MULTITHREAD_THRESHOLD 4). Threads that wait for a processor made a product of 128 x 128 take 16 ms, not 0.2.
"""
_ROWS: Final = 64
SLOW: Final = frozenset({"erf", "gelu", "gelu_dx"})
"""Activations that the formula computes element by element."""

UNARY: Final[Mapping[str, Callable[[Doubles], Doubles]]] = {
    "bypass": lambda x: x,
    "abs": np.abs,
    "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0.0),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
}
BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs_max": alu_operations.BINARY["abs_max"],
    "abs_min": alu_operations.BINARY["abs_min"],
    "power": np.power,
    "fmod": np.fmod,
    "mod": alu_operations.BINARY["mod"],
}
"""The operators that are continuous nearly everywhere. Comparisons follow the real run: they choose what is done."""
FOLDS: Final = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})


def activation(function: str) -> Callable[..., Doubles]:
    """The row of the activation table in float64."""
    return ACTIVATIONS[function].reference


def total(x: Doubles, axis: int) -> Doubles:
    """Sums along ``axis``; those that cancel are added up without any rounding but the last."""
    result = np.asarray(x.sum(axis=axis))
    size = np.asarray(np.abs(x).sum(axis=axis))
    bad = (np.abs(result) < _CANCELS * size) & np.isfinite(size)
    if bad.any():
        rows = np.moveaxis(x, axis, -1)
        result = result.copy()
        result[bad] = [math.fsum(row.tolist()) for row in rows[bad]]
    return result


def product(stationary: Doubles, moving: Doubles) -> Doubles:
    """``stationary.T @ moving``, in blocks that are too small for threads."""
    depth, rows, columns = *stationary.shape, moving.shape[1]
    result, left = np.empty((rows, columns)), stationary.T
    step = max(1, _ONE_THREAD // (max(depth, 1) * min(rows, _ROWS)))
    for row in range(0, rows, _ROWS):
        for column in range(0, columns, step):
            block = result[row : row + _ROWS, column : column + step]
            np.matmul(left[row : row + _ROWS], moving[:, column : column + step], out=block)
    return result


def fold(op: str, x: Doubles, axis: int) -> Doubles:
    """All elements along ``axis`` joined by ``op``."""
    if op == "add":
        return total(x, axis)
    if op == "subtract":
        first = np.take(x, [0], axis)
        rest = -np.delete(x, 0, axis)
        return total(np.concatenate([first, rest], axis), axis)
    operators: dict[str, Any] = {"multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    return operators[op].reduce(x, axis=axis)


def scan(steps: tuple[Step, ...], values: Sequence[Doubles], start: Doubles) -> Doubles:
    """Every state of each row, from ``start``."""
    elements = np.broadcast_arrays(*values)
    rows, columns = elements[0].shape
    state: Any = np.broadcast_to(start[:, 0], (rows,))
    result = np.empty((rows, columns))
    for column in range(columns):
        for step, array in zip(steps, elements, strict=True):
            sides = (state, array[:, column])
            operator: Callable[[Any, Any], Any] = alu_operations.BINARY[step.op]
            if step.op in BINARY:
                operator = BINARY[step.op]
            state = operator(*(sides if step.state_first else sides[::-1]))
        result[:, column] = state
    return result
