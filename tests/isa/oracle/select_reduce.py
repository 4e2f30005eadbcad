"""nki.isa.select_reduce (Vector Engine).

Chosen where the reference is silent: ``predicate`` is true wherever it is not zero; the maximum is over the float32
values. After ``idle``, which "may still modify" the registers, they are taken to hold NaN, which is what ``reduce_res``
then gets; a later reset helps.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics, running
from .numerics import Array
from .tile import broadcast, rows

TOLERANCE = None


def oracle(
    dst: Array,
    *,
    predicate: Array,
    on_true: Array,
    on_false: Any,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
    reverse_pred: bool = False,
    reduce_regs: Array | None = None,
    **_: Any,
) -> Array | tuple[Array, Array]:
    """``np.where(predicate, on_true, on_false)`` and its row-wise maximum. Reference: nki.isa.select_reduce."""
    yes = numerics.read(rows(on_true))
    no = broadcast(on_false, yes)
    value = np.array([
        [y if bool(p) != reverse_pred else n for y, n, p in zip(*three, strict=True)]
        for three in zip(yes, no, rows(predicate).tolist(), strict=True)
    ])  # fmt: skip
    result = numerics.write(value, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    total = np.full(len(value), np.nan)
    if reduce_cmd != "idle":
        total = running.states("maximum", value, running.start(reduce_cmd, "maximum", reduce_regs, None, len(value)))
        total = total[:, -1]
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


_lowest = float(np.finfo(np.float32).min)
_p = np.array([[1, 0, 2, 0]], np.uint8)
_x, _res = _f(1, 2, 3, 4), np.zeros((1, 1), np.float32)
_base = {"dst": np.zeros((1, 4), np.float32), "predicate": _p, "on_true": _x, "on_false": _lowest}
_reset = {"reduce_res": _res, "reduce_cmd": "reset_reduce"}
VECTORS = [
    (_base, _f(1, _lowest, 3, _lowest)),
    ({**_base, "reverse_pred": True}, _f(_lowest, 2, _lowest, 4)),
    ({**_base, **_reset}, (_f(1, _lowest, 3, _lowest), _f(3))),
    ({**_base, **_reset, "on_false": _f(9)}, (_f(1, 9, 3, 9), _f(9))),
    ({**_base, "reduce_res": _res, "reduce_cmd": "reduce", "reduce_regs": _f(7)}, (_f(1, _lowest, 3, _lowest), _f(7))),
    ({**_base, "reduce_res": _res, "reduce_regs": _f(7)}, (_f(1, _lowest, 3, _lowest), _f(np.nan))),
    # Ranks differ, elements agree (a fix of the vendor's simulator): predicate and dst have two free dimensions.
    (
        {**_base, "dst": np.zeros((1, 2, 2), np.float32), "predicate": _p.reshape(1, 2, 2), "on_false": 0.0},
        np.array([[[1, 0], [3, 0]]], np.float32),
    ),
    # The fill value overflows bfloat16, its maximum in float32 does not.
    (
        {**_base, **_reset, "dst": np.zeros((1, 4), ml_dtypes.bfloat16), "predicate": np.zeros((1, 4), np.int16)},
        (np.full((1, 4), -np.inf, ml_dtypes.bfloat16), _f(_lowest)),
    ),
    (
        {**_base, "predicate": np.array([[True, False, True, False]]), "on_true": np.array([[1, 2, 3, 4]], np.int8)},
        _f(1, _lowest, 3, _lowest),
    ),
]
