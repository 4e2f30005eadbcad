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
from .vectors import f32, vector

TOLERANCE = activation.TOLERANCE


def oracle(dst: Array, **asked: Any) -> Any:
    """``activation`` with the registers reset, reduced into, and read out. Reference: nki.isa.activation_reduce."""
    return activation.oracle(dst, **{**asked, "reduce_cmd": "reset_reduce", "reduce_regs": None})


def bounds(dst: Array, **asked: Any) -> verdict.Bounds | tuple[verdict.Bounds, verdict.Bounds]:
    return activation.bounds(dst, **{**asked, "reduce_cmd": "reset_reduce", "reduce_regs": None})


_data = f32([[1, 2], [3, 4]], [[-1, 0], [1, 5]])
VECTORS = [
    vector(
        (f32([4, 9, 16, 25], [4, 0, 4, 100]), f32([54], [108])),
        op="square",
        data=_data,
        reduce_op="add",
        reduce_res=np.zeros((2, 1), np.float32),
        bias=f32([1], [0]),
        scale=f32([1], [2]),
    )
]
