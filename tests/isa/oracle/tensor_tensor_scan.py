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

TOLERANCE = "exact up to the first result of power, which is within 2 ulp of float32; after that, anything"


def _step(op: str, left: Array, right: Array, reverse: bool) -> Array:
    return alu.arithmetic(op, right, left) if reverse else alu.arithmetic(op, left, right)


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
        last = _step(op1, _step(op0, one[:, i], last, reverse0), two[:, i], reverse1)
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


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


def _vector(want: Array, data0: Array, data1: Array, initial: Any, op0: str, op1: str, **more: Any) -> Any:
    names = {"data0": data0, "data1": data1, "initial": initial, "op0": op0, "op1": op1}
    return {"dst": np.zeros_like(want), **names, **more}, want


VECTORS = [
    # A linear recurrence, y = a y + b, and a cumulative sum as nki-library makes it: multiply by one, add.
    _vector(_f(1, 5, 18), _f(2, 3, 3), _f(1, 2, 3), 0.0, "multiply", "add"),
    _vector(_f(11, 13, 16), _f(1, 1, 1), _f(1, 2, 3), 10.0, "multiply", "add"),
    _vector(
        np.array([[3, 8], [5, 14]], np.float32),
        np.array([[2, 2], [2, 2]], np.float32),
        np.array([[1, 2], [1, 4]], np.float32),
        np.array([[1], [2]], np.float32),
        "multiply",
        "add",
    ),
    # Sides: 5 - 1 = 4, 4 - 3 = 1; then 6 - 1 = 5, 5 - 1 = 4. Reversed: 1 - 5 = -4, 3 - -4 = 7; 7 - 6 = 1, 1 - 1 = 0.
    _vector(_f(1, 4), _f(5, 6), _f(3, 1), 1.0, "subtract", "subtract"),
    _vector(_f(7, 0), _f(5, 6), _f(3, 1), 1.0, "subtract", "subtract", reverse0=True, reverse1=True),
    # The state is not rounded to dst: 0.75, 1.5, 2.25 give 1, 2, 2.
    _vector(np.array([[1, 2, 2]], np.int8), _f(1, 1, 1), _f(0.75, 0.75, 0.75), 0.0, "multiply", "add"),
    _vector(_f(4, 4, 7), _f(1, 4, 7), _f(4, 2, 0), -np.inf, "maximum", "maximum"),
    # int32 passes through float32, where 2**24 + 1 is a tie.
    _vector(_f(2**24), np.array([[1]], np.int32), np.array([[2**24 + 1]], np.int32), 0.0, "multiply", "add"),
    _vector(_f(10), _f(2), _f(1), 3.0, "power", "add", reverse0=True),
]
