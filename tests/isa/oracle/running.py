"""Folds into an engine's reduction registers, one element after the other, and how far they may be off.

Sources: NKI reference, the "Accumulator behavior" sections and pseudo codes of the instructions with a ``reduce_cmd``.
What they fold are the float32 results: only range_select's note on stability says so, and no page says otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import alu, numerics
from .numerics import Array
from .tile import column

RESETS = {
    "add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf,
    "abs_max": 0.0, "abs_min": math.inf,
}  # fmt: skip


def start(command: str, op: str, registers: Array | None, loaded: Any, partitions: int) -> Array:
    """What a fold begins with, one number per partition."""
    if command in ("reset", "reset_reduce"):
        return np.full(partitions, RESETS[op])
    if command == "load_reduce":
        return column(loaded, partitions)
    assert registers is not None
    return numerics.read(registers).reshape(-1)[:partitions]


def folds(command: str) -> bool:
    return command in ("reduce", "reset_reduce", "load_reduce")


def states(op: str, values: Array, begin: Array) -> Array:
    """The register after each element: ``value <op> register``; the order matters for subtract only."""
    result = np.empty(values.shape)
    held = begin
    for i in range(values.shape[1]):
        held = alu.arithmetic(op, values[:, i], held) if op == "subtract" else alu.arithmetic(op, held, values[:, i])
        result[:, i] = held
    return result


def spread(values: list[Array]) -> Array:
    """How far numbers lie from the first of several candidates; 0 where that is infinite."""
    with np.errstate(all="ignore"):
        errors = np.max([np.abs(v - values[0]) for v in values], axis=0)
    return np.where(np.isfinite(errors), errors, 0.0)


def slack(op: str, values: Array, errors: Array, begin: Array) -> tuple[Array, Array]:
    """How far the register may be off after each element if the elements are off by ``errors``; where anything goes."""
    with np.errstate(all="ignore"):
        sizes = np.abs(np.where(np.isfinite(values), values, 0.0))
        steps = 2.0**-24 * np.arange(1, values.shape[1] + 1)
        if op in ("add", "subtract"):
            size = np.cumsum(sizes, axis=1) + np.abs(np.where(np.isfinite(begin), begin, 0.0))[:, None]
            return np.cumsum(errors, axis=1) + 2.0 * steps * size, size > 3.4e38
        if op == "multiply":
            product = np.multiply.accumulate(np.concatenate([begin[:, None], values], axis=1), axis=1)
            tame = (np.abs(product) > 1e-30) & (np.abs(product) < 1e30)
            relative = np.cumsum(np.where(sizes > 0, errors / sizes, 0.0), axis=1)
            off = 2.0 * np.abs(product[:, 1:]) * (relative + 2.0 * steps)
            return off, ~np.logical_and.accumulate(tame, axis=1)[:, 1:]
        reach = np.maximum.accumulate(errors, axis=1)
        if op in ("maximum", "minimum"):
            return reach, np.zeros(values.shape, bool)
        # Of two elements about as large but of opposite sign, either may be the one that stays.
        held = states(op, values, begin)
        far = np.zeros(values.shape, bool)
        for p, i in np.ndindex(values.shape):
            far[p, i] = _rivals(np.append(values[p, : i + 1], begin[p]), held[p, i], reach[p, i])
        return reach, far


def _rivals(values: Array, held: float, reach: float) -> bool:
    near = np.abs(np.abs(values) - abs(held)) <= 2 * reach
    return bool(np.any(near & (np.signbit(values) != np.signbit(held))))
