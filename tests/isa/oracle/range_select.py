"""nki.isa.range_select (Vector Engine, NeuronCore-v3 and later).

Chosen where the reference is silent: ``idle`` keeps the registers and ``reset`` leaves -inf in them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from . import numerics, running
from .numerics import Array
from .tile import column, rows
from .vectors import f32, vector

LOWEST: Final = float(np.finfo(np.float32).min)
_COMPARE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def oracle(
    dst: Array,
    *,
    on_true_tile: Array,
    comp_op0: str,
    comp_op1: str,
    bound0: Array | float,
    bound1: Array | float,
    reduce_res: Array | None = None,
    reduce_cmd: str = "reset_reduce",
    range_start: int = 0,
    reduce_regs: Array | None = None,
    **_: Any,
) -> Array | tuple[Array, Array]:
    """The tile where both comparisons of its indices hold, else the lowest float32; and the row-wise maximum.

    Reference: nki.isa.range_select.
    """
    tile = numerics.read(rows(on_true_tile))
    value = np.full(tile.shape, LOWEST)
    for i in range(tile.shape[1]):
        index = np.full(len(tile), float(range_start + i))
        inside = _COMPARE[comp_op0](index, column(bound0, len(tile)))
        inside &= _COMPARE[comp_op1](index, column(bound1, len(tile)))
        value[inside, i] = tile[inside, i]
    result = numerics.write(value, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    total = running.start(reduce_cmd, "maximum", reduce_regs, None, len(tile))
    if running.folds(reduce_cmd):
        total = running.states("maximum", value, total)[:, -1]
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


_x, _res = f32(5, 6, 7, 8), np.zeros((1, 1), np.float32)
_base = {
    "on_true_tile": _x, "comp_op0": "greater_equal", "comp_op1": "less", "bound0": f32(1), "bound1": f32(3),
    "reduce_res": _res,
}  # fmt: skip
_middle = f32(LOWEST, 6, 7, LOWEST)
VECTORS = [
    vector((_middle, f32(7)), _base),
    vector((_middle, f32(7)), _base, on_false_value=LOWEST),
    # The same number as people write it.
    vector((_middle, f32(7)), _base, on_false_value=-3.4028235e38),
    vector((f32(5, 6, LOWEST, LOWEST), f32(6)), _base, range_start=2, comp_op1="less_equal"),
    vector((_middle, f32(9)), _base, reduce_cmd="reduce", reduce_regs=f32(9)),
    vector((_middle, f32(9)), _base, reduce_cmd="idle", reduce_regs=f32(9)),
    vector((_middle, f32(-np.inf)), _base, reduce_cmd="reset", reduce_regs=f32(9)),
    vector((f32(LOWEST, 6, LOWEST, LOWEST), f32(6)), _base, comp_op0="equal", comp_op1="greater", bound1=f32(-1)),
    # Numbers as bounds.
    vector((_middle, f32(7)), _base, bound0=1.0),
    vector((_middle, f32(7)), _base, bound0=1, bound1=3.0),
    # A row without any: -inf in a narrow dst, the lowest float32 in the maximum.
    vector((np.full((1, 2, 2), -np.inf, ml_dtypes.bfloat16), f32(LOWEST)), _base, bound1=f32(0)),
    # Causal masking: partition p sees the elements up to p.
    vector(
        (f32([1, LOWEST], [3, 4]), f32([1], [4])),
        _base,
        on_true_tile=f32([1, 2], [3, 4]),
        bound0=np.zeros((2, 1), np.float32),
        bound1=f32([1], [2]),
        reduce_res=np.zeros((2, 1), np.float32),
    ),
]
