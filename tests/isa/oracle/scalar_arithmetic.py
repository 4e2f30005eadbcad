"""The arithmetic of nki.isa.NkiScalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .vectors import i32, i64, vector


def oracle(dst: Array, *, op: str, left: Any, right: Any, **_: Any) -> Array:
    """Exact, then wrapped to the width of the scalars. Reference: nki.isa.NkiScalar."""
    x, y = (int(side.item()) if isinstance(side, np.ndarray) else side for side in (left, right))
    exact = {"add": x + y, "subtract": x - y, "multiply": x * y}[op]
    half = 1 << (8 * dst.itemsize - 1)
    return np.array([[(exact + half) % (2 * half) - half]], dst.dtype)


def narrow(value: int) -> Array:
    return i32(value)


def wide(value: int) -> Array:
    return i64(value)


VECTORS = [  # the products and sums that wrap come from the reference
    vector(narrow(1410065408), dst=narrow(9), op="multiply", left=narrow(100000), right=narrow(100000)),
    vector(narrow(-(2**31)), dst=narrow(9), op="add", left=narrow(2**31 - 1), right=1),
    vector(narrow(-(2**31)), dst=narrow(9), op="subtract", left=0, right=narrow(-(2**31))),
    vector(narrow(-2), dst=narrow(9), op="subtract", left=5, right=narrow(7)),
    vector(wide(10**10), dst=wide(9), op="multiply", left=wide(100000), right=wide(100000)),
    vector(wide(-(2**63)), dst=wide(9), op="add", left=wide(2**63 - 1), right=1),
    vector(wide(2**31), dst=wide(9), op="multiply", left=wide(2**33 + 1), right=wide(2**31)),
    vector(wide(1 - 2**53), dst=wide(9), op="add", left=wide(1), right=-(2**53)),
]
