"""nki.isa.affine_select (GpSimd Engine).

Chosen where the reference is silent: the affine value wraps in 32 bits, like ``iota``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import iota, numerics
from .numerics import Array
from .tile import rows
from .vectors import f32, i8, u32, vector

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater_equal": operator.ge,
    "greater": operator.gt,
    "less_equal": operator.le,
    "less": operator.lt,
}


def copies_bits(dst: Array, *, on_true_tile: Array, on_false_value: float, **_: Any) -> bool:
    return on_true_tile.dtype == dst.dtype and not math.isnan(on_false_value)


def oracle(
    dst: Array,
    *,
    pattern: Any,
    channel_multiplier: int,
    on_true_tile: Array,
    on_false_value: float,
    cmp_op: str = "equal",
    offset: Any = 0,
    **_: Any,
) -> Array:
    """The tile where the affine value compares true with 0, elsewhere the constant (float32, cast to ``dst``).

    Reference: nki.isa.affine_select.
    """
    values = iota.affine(dst.shape[0], pattern, offset, channel_multiplier)
    chosen = rows(numerics.bits(numerics.convert(on_true_tile, dst.dtype)))
    constant = numerics.bits(numerics.write(np.array([on_false_value], np.float64), dst.dtype))[0]
    result = np.empty_like(chosen)
    for p in range(values.shape[0]):
        for i in range(values.shape[1]):
            result[p, i] = chosen[p, i] if _COMPARE[cmp_op](int(values[p, i]), 0) else constant
    return result.view(dst.dtype).reshape(dst.shape)


_lowest = float(np.finfo(np.float32).min)
_tile = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
VECTORS = [
    # The worked example: keep what is strictly below the diagonal (partition - i > 0); the rest is the lowest number.
    vector(
        f32([_lowest] * 3, [4, _lowest, _lowest], [7, 8, _lowest]),
        pattern=[[-1, 3]],
        channel_multiplier=1,
        on_true_tile=_tile,
        on_false_value=_lowest,
        cmp_op="greater",
    ),
    vector(
        i8([[1, 2, 127], [-2, 2, 6]]),
        pattern=[[3, 2], [1, 3]],
        channel_multiplier=0,
        on_true_tile=f32(1, 2, 300, 4, 2.5, 6),
        on_false_value=-1.5,
        cmp_op="not_equal",
        offset=-3,
    ),
    # Same type: bits pass, NaN payloads included.
    vector(
        u32(0x7F800001).view(np.float32),
        pattern=[[1, 1]],
        channel_multiplier=0,
        on_true_tile=u32(0x7F800001).view(np.float32),
        on_false_value=0.0,
    ),
]
