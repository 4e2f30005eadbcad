"""References of the cheats, in a file that no cheat can reach."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def row_means(x: Array) -> Array:
    return x.mean(1, keepdims=True)


def doubled(x: Array) -> Array:
    return 2 * x


def tanh(x: Array) -> Array:
    return np.tanh(x)


def clipped(x: Array) -> Array:
    return np.maximum(x, 0)


def biased(x: Array, bias: Array) -> Array:
    return x + 1e-7 * bias


def product(a: Array, b: Array) -> Array:
    return a.T @ b
