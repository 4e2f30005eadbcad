"""nki.isa.activation_reduce (Scalar Engine).

Chosen where the reference is silent: only ``add`` is modelled. The page restricts other generations less than gen2, but
``activation``, which it says it equals, allows no other operator, and a maximum over registers that are first reset to
zero would not be the maximum of the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import activation, verdict
from .numerics import Array

TOLERANCE = activation.TOLERANCE


def oracle(
    dst: Array,
    *,
    op: str,
    data: Array,
    reduce_op: str,
    reduce_res: Array | None,
    bias: Any = None,
    scale: Any = 1.0,
    **_: Any,
) -> Any:
    """``activation`` with the registers reset, reduced into, and read out. Reference: nki.isa.activation_reduce."""
    return activation.oracle(
        dst,
        op=op,
        data=data,
        bias=bias,
        scale=scale,
        reduce_op=reduce_op,
        reduce_res=reduce_res,
        reduce_cmd="reset_reduce",
    )


def bounds(
    dst: Array, *, op: str, data: Array, reduce_res: Array | None, bias: Any = None, scale: Any = 1.0, **_: Any
) -> verdict.Bounds | tuple[verdict.Bounds, verdict.Bounds]:
    return activation.bounds(
        dst, op=op, data=data, bias=bias, scale=scale, reduce_res=reduce_res, reduce_cmd="reset_reduce"
    )


_data = np.array([[[1, 2], [3, 4]], [[-1, 0], [1, 5]]], np.float32)
VECTORS = [
    (
        {
            "dst": np.zeros((2, 4), np.float32),
            "op": "square",
            "data": _data,
            "reduce_op": "add",
            "reduce_res": np.zeros((2, 1), np.float32),
            "bias": np.array([[1], [0]], np.float32),
            "scale": np.array([[1], [2]], np.float32),
        },
        (np.array([[4, 9, 16, 25], [4, 0, 4, 100]], np.float32), np.array([[54], [108]], np.float32)),
    ),
]
