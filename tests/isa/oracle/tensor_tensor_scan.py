"""nki.isa.tensor_tensor_scan (Vector Engine).

Chosen where the reference is silent: the running result is float32 (its NumPy code keeps it in the dtype of ``data0``,
its text says that the float32 results are cast to ``dst``), rounded after each of the two operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import column, rows
from .vectors import by_position, f32, i8, i32

TOLERANCE = "exact up to the first result of power, which is within 2 ulp of float32; after that, anything"


def oracle(
    dst: Array,
    *,
    data0: Array,
    data1: Array,
    initial: Any,
    op0: str,
    op1: str,
    reverse0: bool = False,
    reverse1: bool = False,
    **_: Any,
) -> Array:
    """``(data0[i] op0 last) op1 data1[i]`` along each partition. Reference: nki.isa.tensor_tensor_scan."""
    one, two = (numerics.read(rows(data)) for data in (data0, data1))
    last = column(initial, len(one))
    result = np.empty(one.shape)
    for i in range(one.shape[1]):
        last = alu.arithmetic(op0, one[:, i], last, reverse0)
        last = alu.arithmetic(op1, last, two[:, i], reverse1)
        result[:, i] = last
    return numerics.write(result, dst.dtype).reshape(dst.shape)


def bounds(dst: Array, *, op0: str, op1: str, **more: Any) -> verdict.Bounds | None:
    if "power" not in (op0, op1):
        return None
    one, two = (numerics.read(rows(more[name])) for name in ("data0", "data1"))
    first = alu.outcomes(op0, [column(more["initial"], len(one))], one[:, 0], not more.get("reverse0", False))
    first = alu.outcomes(op1, first, two[:, 0], more.get("reverse1", False))
    candidates = [np.concatenate([values[:, None], np.zeros((len(one), one.shape[1] - 1))], axis=1) for values in first]
    free = np.zeros(one.shape, bool)
    free[:, 1:] = True
    return verdict.span(candidates, dst, free)


_vector = by_position("data0", "data1", "initial", "op0", "op1")
VECTORS = [
    # A linear recurrence, y = a y + b, and a cumulative sum as nki-library makes it: multiply by one, add.
    _vector(f32(1, 5, 18), f32(2, 3, 3), f32(1, 2, 3), 0.0, "multiply", "add"),
    _vector(f32(11, 13, 16), f32(1, 1, 1), f32(1, 2, 3), 10.0, "multiply", "add"),
    _vector(f32([3, 8], [5, 14]), f32([2, 2], [2, 2]), f32([1, 2], [1, 4]), f32([1], [2]), "multiply", "add"),
    # Sides: 5 - 1 = 4, 4 - 3 = 1; then 6 - 1 = 5, 5 - 1 = 4. Reversed: 1 - 5 = -4, 3 - -4 = 7; 7 - 6 = 1, 1 - 1 = 0.
    _vector(f32(1, 4), f32(5, 6), f32(3, 1), 1.0, "subtract", "subtract"),
    _vector(f32(7, 0), f32(5, 6), f32(3, 1), 1.0, "subtract", "subtract", reverse0=True, reverse1=True),
    # The state is not rounded to dst: 0.75, 1.5, 2.25 give 1, 2, 2.
    _vector(i8(1, 2, 2), f32(1, 1, 1), f32(0.75, 0.75, 0.75), 0.0, "multiply", "add"),
    _vector(f32(4, 4, 7), f32(1, 4, 7), f32(4, 2, 0), -np.inf, "maximum", "maximum"),
    # int32 passes through float32, where 2**24 + 1 is a tie.
    _vector(f32(2**24), i32(1), i32(2**24 + 1), 0.0, "multiply", "add"),
    _vector(f32(10), f32(2), f32(1), 3.0, "power", "add", reverse0=True),
]
