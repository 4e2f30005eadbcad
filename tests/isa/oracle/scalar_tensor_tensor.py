"""nki.isa.scalar_tensor_tensor (Vector Engine).

Chosen where the reference is silent: the intermediate result is rounded to float32 (it is described as two operations
back to back), and 32-bit integers go through float32 (the engine is Vector).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import bf16, f32, vector

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur; everything else exact"


def _steps(value: Array, asked: Mapping[str, Any]) -> list[tuple[str, Array, bool]]:
    """Both operators, their operands for the elements of ``value``, and which are reversed."""
    others = (broadcast(asked["operand0"], value), numerics.read(rows(asked["operand1"])))
    return [(asked[f"op{n}"], other, asked.get(f"reverse{n}", False)) for n, other in enumerate(others)]


def oracle(dst: Array, *, data: Array, **asked: Any) -> Array:
    """``(data op0 operand0) op1 operand1``: a number per partition first, then a whole tile.

    Reference: nki.isa.scalar_tensor_tensor.
    """
    value = numerics.read(rows(data))
    for op, other, reverse in _steps(value, asked):
        value = alu.arithmetic(op, value, other, reverse)
    return numerics.write(value, dst.dtype).reshape(dst.shape)


def bounds(dst: Array, *, data: Array, **asked: Any) -> verdict.Bounds | None:
    if not {asked["op0"], asked["op1"]} & alu.ULPS.keys():
        return None
    values = [numerics.read(rows(data))]
    for step in _steps(values[0], asked):
        values = alu.outcomes(step[0], values, *step[1:])
    return verdict.span(values, dst)


_data = f32([1, 2], [3, 4])
_tile = f32([10, 20], [30, 40])
_mean = f32([1], [3])
VECTORS = [
    vector(f32([0, 20], [0, 40]), data=_data, op0="subtract", operand0=_mean, op1="multiply", operand1=_tile),
    vector(
        bf16([10, 21], [32, 43]),
        data=_data,
        op0="subtract",
        operand0=1.0,
        op1="subtract",
        operand1=_tile,
        reverse0=True,
        reverse1=True,
    ),
    vector(
        np.zeros((1, 1), np.float32),
        data=f32(1 + 2**-12),
        op0="multiply",
        operand0=1 + 2**-12,
        op1="subtract",
        operand1=f32(1 + 2**-11),
    ),
]
