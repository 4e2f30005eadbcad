"""nki.isa.exponential (Vector Engine, NeuronCore-v4).

Chosen where the reference is silent: the sum is over the float32 results; after ``idle`` ("accumulator state
unknown") the registers are taken to hold NaN, which is what ``reduce_res`` then gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import functions, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import f32, i8, vector

TOLERANCE = "the exponential function as in functions.py; sums n * 2**-24 * sum |x|"


def _results(src: Array, max_value: Any = 0.0, **_: Any) -> tuple[Array, Array]:
    values = numerics.read(rows(src))
    with np.errstate(all="ignore"):
        x = numerics.round32(values - broadcast(max_value, values))
    y = functions.evaluate("exp", x)
    return y, functions.error("exp", x, y)


def _begin(partitions: int, asked: Mapping[str, Any]) -> Array:
    if asked.get("reduce_cmd", "idle") == "idle":
        return np.full(partitions, np.nan)
    loaded = asked.get("reduce_init", 0.0)
    return running.start(asked["reduce_cmd"], "add", asked.get("reduce_regs"), loaded, partitions)


def oracle(dst: Array, *, reduce_res: Array | None = None, **asked: Any) -> Array | tuple[Array, Array]:
    """``exp(src - max_value)`` and the sum of it. Reference: nki.isa.exponential."""
    y = numerics.round32(_results(**asked)[0])
    result = numerics.write(y, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    total = running.states("add", y, _begin(len(y), asked))[:, -1]
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


def bounds(dst: Array, *, reduce_res: Array | None = None, **asked: Any) -> Any:
    y, reach = _results(**asked)
    elements = verdict.around(y, reach, dst)
    if reduce_res is None:
        return elements
    begin = _begin(len(y), asked)
    off, free = (array[:, -1] for array in running.slack("add", y, reach, begin))
    with np.errstate(all="ignore"):
        total = begin + np.sum(y, axis=1)
    return elements, verdict.around(total, off, reduce_res, free & ~np.isnan(total))


_e = 2.7182817
_x, _res = f32(1, 2, -np.inf), np.zeros((1, 1), np.float32)
_base = {"src": _x, "max_value": 1.0}
_y = f32(1, _e, 0)
VECTORS = [
    vector(_y, _base),
    vector(f32(1 / _e, 1, 0), _base, max_value=f32(2)),
    vector((_y, f32(1 + _e)), _base, reduce_res=_res, reduce_cmd="reset_reduce", reduce_regs=f32(7)),
    vector((_y, f32(8 + _e)), _base, reduce_res=_res, reduce_cmd="reduce", reduce_regs=f32(7)),
    vector((_y, f32(3 + _e)), _base, reduce_res=_res, reduce_cmd="load_reduce", reduce_init=2.0, reduce_regs=f32(7)),
    vector((_y, f32(5 + _e)), _base, reduce_res=_res, reduce_cmd="load_reduce", reduce_init=f32(4), reduce_regs=f32(7)),
    vector((_y, f32(np.nan)), _base, reduce_res=_res, reduce_regs=f32(7)),
    vector(i8(1, 3), src=i8(0, 1)),
]
