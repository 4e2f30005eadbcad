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

TOLERANCE = None
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


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


_x, _res = _f(5, 6, 7, 8), np.zeros((1, 1), np.float32)
_base = {
    "dst": np.zeros((1, 4), np.float32), "on_true_tile": _x, "comp_op0": "greater_equal", "comp_op1": "less",
    "bound0": _f(1), "bound1": _f(3), "reduce_res": _res,
}  # fmt: skip
_middle = _f(LOWEST, 6, 7, LOWEST)
VECTORS = [
    (_base, (_middle, _f(7))),
    ({**_base, "on_false_value": LOWEST}, (_middle, _f(7))),
    # The same number as people write it.
    ({**_base, "on_false_value": -3.4028235e38}, (_middle, _f(7))),
    ({**_base, "range_start": 2, "comp_op1": "less_equal"}, (_f(5, 6, LOWEST, LOWEST), _f(6))),
    ({**_base, "reduce_cmd": "reduce", "reduce_regs": _f(9)}, (_middle, _f(9))),
    ({**_base, "reduce_cmd": "idle", "reduce_regs": _f(9)}, (_middle, _f(9))),
    ({**_base, "reduce_cmd": "reset", "reduce_regs": _f(9)}, (_middle, _f(-np.inf))),
    ({**_base, "comp_op0": "equal", "comp_op1": "greater", "bound1": _f(-1)}, (_f(LOWEST, 6, LOWEST, LOWEST), _f(6))),
    # Numbers as bounds.
    ({**_base, "bound0": 1.0}, (_middle, _f(7))),
    ({**_base, "bound0": 1, "bound1": 3.0}, (_middle, _f(7))),
    # A row without any: -inf in a narrow dst, the lowest float32 in the maximum.
    (
        {**_base, "bound1": _f(0), "dst": np.zeros((1, 2, 2), ml_dtypes.bfloat16)},
        (np.full((1, 2, 2), -np.inf, ml_dtypes.bfloat16), _f(LOWEST)),
    ),
    # Causal masking: partition p sees the elements up to p.
    (
        {
            **_base,
            "dst": np.zeros((2, 2), np.float32),
            "on_true_tile": np.array([[1, 2], [3, 4]], np.float32),
            "bound0": np.zeros((2, 1), np.float32),
            "bound1": np.array([[1], [2]], np.float32),
            "reduce_res": np.zeros((2, 1), np.float32),
        },
        (np.array([[1, LOWEST], [3, 4]], np.float32), np.array([[1], [4]], np.float32)),
    ),
]
