"""nki.isa.scalar_tensor_tensor (Vector Engine).

Chosen where the reference is silent: the intermediate result is rounded to float32 (it is described as two operations
back to back), and 32-bit integers go through float32 (the engine is Vector).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import broadcast, rows

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur; everything else exact"


def _step(op: str, value: Array, other: Array, reverse: bool) -> Array:
    return alu.arithmetic(op, other, value) if reverse and op not in alu.UNARY else alu.arithmetic(op, value, other)


def oracle(
    dst: Array,
    *,
    data: Array,
    op0: str,
    operand0: Any,
    op1: str,
    operand1: Array,
    reverse0: bool = False,
    reverse1: bool = False,
    **_: Any,
) -> Array:
    """``(data op0 operand0) op1 operand1``: a number per partition first, then a whole tile.

    Reference: nki.isa.scalar_tensor_tensor.
    """
    value = numerics.read(rows(data))
    value = _step(op0, value, broadcast(operand0, value), reverse0)
    value = _step(op1, value, numerics.read(rows(operand1)), reverse1)
    return numerics.write(value, dst.dtype).reshape(dst.shape)


def bounds(
    dst: Array,
    *,
    data: Array,
    op0: str,
    operand0: Any,
    op1: str,
    operand1: Array,
    reverse0: bool = False,
    reverse1: bool = False,
    **_: Any,
) -> verdict.Bounds | None:
    if op0 not in alu.ULPS and op1 not in alu.ULPS:
        return None
    values = [numerics.read(rows(data))]
    values = alu.outcomes(op0, values, broadcast(operand0, values[0]), reverse0)
    return verdict.span(alu.outcomes(op1, values, numerics.read(rows(operand1)), reverse1), dst)


_data = np.array([[1, 2], [3, 4]], np.float32)
_tile = np.array([[10, 20], [30, 40]], np.float32)
_mean = np.array([[1], [3]], np.float32)
VECTORS = [
    (
        {
            "dst": np.zeros((2, 2), np.float32),
            "data": _data,
            "op0": "subtract",
            "operand0": _mean,
            "op1": "multiply",
            "operand1": _tile,
        },
        np.array([[0, 20], [0, 40]], np.float32),
    ),
    (
        {
            "dst": np.zeros((2, 2), ml_dtypes.bfloat16),
            "data": _data,
            "op0": "subtract",
            "operand0": 1.0,
            "op1": "subtract",
            "operand1": _tile,
            "reverse0": True,
            "reverse1": True,
        },
        np.array([[10, 21], [32, 43]], ml_dtypes.bfloat16),
    ),
    (
        {
            "dst": np.zeros((1, 1), np.float32),
            "data": np.array([[1 + 2**-12]], np.float32),
            "op0": "multiply",
            "operand0": 1 + 2**-12,
            "op1": "subtract",
            "operand1": np.array([[1 + 2**-11]], np.float32),
        },
        np.zeros((1, 1), np.float32),
    ),
]
