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
from .vectors import f32, i8, u8, vector


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


_lowest = float(np.finfo(np.float32).min)
_p = u8(1, 0, 2, 0)
_x, _res = f32(1, 2, 3, 4), np.zeros((1, 1), np.float32)
_base = {"predicate": _p, "on_true": _x, "on_false": _lowest}
_reset = {"reduce_res": _res, "reduce_cmd": "reset_reduce"}
VECTORS = [
    vector(f32(1, _lowest, 3, _lowest), _base),
    vector(f32(_lowest, 2, _lowest, 4), _base, reverse_pred=True),
    vector((f32(1, _lowest, 3, _lowest), f32(3)), _base, **_reset),
    vector((f32(1, 9, 3, 9), f32(9)), _base, **_reset, on_false=f32(9)),
    vector((f32(1, _lowest, 3, _lowest), f32(7)), _base, reduce_res=_res, reduce_cmd="reduce", reduce_regs=f32(7)),
    vector((f32(1, _lowest, 3, _lowest), f32(np.nan)), _base, reduce_res=_res, reduce_regs=f32(7)),
    # Ranks differ, elements agree (a fix of the vendor's simulator): predicate and dst have two free dimensions.
    vector(f32([[1, 0], [3, 0]]), _base, predicate=_p.reshape(1, 2, 2), on_false=0.0),
    # The fill value overflows bfloat16, its maximum in float32 does not.
    vector(
        (np.full((1, 4), -np.inf, ml_dtypes.bfloat16), f32(_lowest)),
        _base,
        **_reset,
        predicate=np.zeros((1, 4), np.int16),
    ),
    vector(
        f32(1, _lowest, 3, _lowest), _base, predicate=np.array([[True, False, True, False]]), on_true=i8(1, 2, 3, 4)
    ),
]
