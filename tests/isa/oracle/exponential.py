"""nki.isa.exponential (Vector Engine, NeuronCore-v4).

Chosen where the reference is silent: the sum is over the float32 results; after ``idle`` ("accumulator state
unknown") the registers are taken to hold NaN, which is what ``reduce_res`` then gets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import functions, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows

TOLERANCE = "the exponential function as in functions.py; sums n * 2**-24 * sum |x|"


def _results(src: Array, max_value: Any) -> tuple[Array, Array]:
    values = numerics.read(rows(src))
    with np.errstate(all="ignore"):
        x = numerics.round32(values - broadcast(max_value, values))
    y = functions.evaluate("exp", x)
    return y, functions.error("exp", x, y)


def _begin(reduce_cmd: str, reduce_regs: Array | None, reduce_init: Any, partitions: int) -> Array:
    if reduce_cmd == "idle":
        return np.full(partitions, np.nan)
    return running.start(reduce_cmd, "add", reduce_regs, reduce_init, partitions)


def oracle(
    dst: Array,
    *,
    src: Array,
    max_value: Any = 0.0,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
    reduce_init: Any = 0.0,
    reduce_regs: Array | None = None,
    **_: Any,
) -> Array | tuple[Array, Array]:
    """``exp(src - max_value)`` and the sum of it. Reference: nki.isa.exponential."""
    y = numerics.round32(_results(src, max_value)[0])
    result = numerics.write(y, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    total = running.states("add", y, _begin(reduce_cmd, reduce_regs, reduce_init, len(y)))[:, -1]
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


def bounds(
    dst: Array,
    *,
    src: Array,
    max_value: Any = 0.0,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
    reduce_init: Any = 0.0,
    reduce_regs: Array | None = None,
    **_: Any,
) -> Any:
    y, reach = _results(src, max_value)
    elements = verdict.around(y, reach, dst)
    if reduce_res is None:
        return elements
    begin = _begin(reduce_cmd, reduce_regs, reduce_init, len(y))
    off, free = (array[:, -1] for array in running.slack("add", y, reach, begin))
    with np.errstate(all="ignore"):
        total = begin + np.sum(y, axis=1)
    return elements, verdict.around(total, off, reduce_res, free & ~np.isnan(total))


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


_e = 2.7182817
_x, _res = _f(1, 2, -np.inf), np.zeros((1, 1), np.float32)
_base = {"dst": np.zeros((1, 3), np.float32), "src": _x, "max_value": 1.0}
_y = _f(1, _e, 0)
VECTORS = [
    (_base, _y),
    ({**_base, "max_value": _f(2)}, _f(1 / _e, 1, 0)),
    ({**_base, "reduce_res": _res, "reduce_cmd": "reset_reduce", "reduce_regs": _f(7)}, (_y, _f(1 + _e))),
    ({**_base, "reduce_res": _res, "reduce_cmd": "reduce", "reduce_regs": _f(7)}, (_y, _f(8 + _e))),
    (
        {**_base, "reduce_res": _res, "reduce_cmd": "load_reduce", "reduce_init": 2.0, "reduce_regs": _f(7)},
        (_y, _f(3 + _e)),
    ),
    (
        {**_base, "reduce_res": _res, "reduce_cmd": "load_reduce", "reduce_init": _f(4), "reduce_regs": _f(7)},
        (_y, _f(5 + _e)),
    ),
    ({**_base, "reduce_res": _res, "reduce_regs": _f(7)}, (_y, _f(np.nan))),
    ({"dst": np.zeros((1, 2), np.int8), "src": np.array([[0, 1]], np.int8)}, np.array([[1, 3]], np.int8)),
]
