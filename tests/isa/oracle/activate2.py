"""nki.isa.activate2 (Scalar Engine, NeuronCore-v4).

Chosen where the reference is silent: each of the two operators rounds to float32; the fold takes the float32 results
before they are cast to ``dst``; PReLU multiplies negative numbers with ``relu_param``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, functions, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import bf16, f32, vector

TOLERANCE = "the function's bound in functions.py, and what follows for the fold: n * 2**-24 * sum |x| for sums"


def _results(asked: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Real results, how far float32 results may lie from them, and where anything goes."""
    x = numerics.read(rows(asked["data"]))
    for n in "01":
        op, immediate = asked[f"op{n}"], broadcast(asked[f"imm{n}"], x)
        if op != "bypass":
            x = alu.arithmetic(op, x, immediate, asked.get(f"reverse{n}", False))
    if asked["op"] == "prelu":
        slope = broadcast(asked.get("relu_param", 0.0), x)
        with np.errstate(all="ignore"):
            y = numerics.round32(np.where(x < 0, x * slope, x))
        return y, np.zeros(y.shape), np.zeros(y.shape, bool)
    y = functions.evaluate(asked["op"], x)
    return y, functions.error(asked["op"], x, y), functions.open_inputs(asked["op"], x)


def _begin(asked: dict[str, Any], partitions: int) -> Array:
    return running.start(asked["reduce_cmd"], asked["reduce_op"], asked.get("reduce_regs"), None, partitions)


def oracle(dst: Array, **asked: Any) -> Array | tuple[Array, Array]:
    """``op((data op0 imm0) op1 imm1)``, folded into the registers as ``reduce_cmd`` says.

    Reference: nki.isa.activate2.
    """
    y = numerics.round32(_results(asked)[0])
    result = numerics.write(y, dst.dtype).reshape(dst.shape)
    res = asked.get("reduce_res")
    if res is None:
        return result
    total = _begin(asked, len(y))
    if running.folds(asked["reduce_cmd"]):
        total = running.states(asked["reduce_op"], y, total)[:, -1]
    return result, numerics.write(total, res.dtype).reshape(res.shape)


def bounds(dst: Array, **asked: Any) -> Any:
    y, reach, open_ = _results(asked)
    elements = verdict.around(y, reach, dst, open_)
    res = asked.get("reduce_res")
    if res is None:
        return elements
    begin = _begin(asked, len(y))
    if not running.folds(asked["reduce_cmd"]):
        return elements, verdict.around(begin, np.zeros(begin.shape), res)
    total = running.states(asked["reduce_op"], numerics.round32(y), begin)[:, -1]
    off, free = (array[:, -1] for array in running.slack(asked["reduce_op"], y, reach + numerics.spacing32(y), begin))
    return elements, verdict.around(total, off, res, free | open_.any(axis=1))


_x, _res = f32(1, -2, 3), np.zeros((1, 1), np.float32)


def _vector(want: Any, **more: Any) -> tuple[dict[str, Any], Any]:
    asked = {"op": "copy", "data": _x, "imm0": 2.0, "imm1": 1.0, "op0": "multiply", "op1": "add"}
    if isinstance(want, tuple):
        asked |= {"reduce_res": np.zeros_like(want[1]), "reduce_op": "add", "reduce_cmd": "reset_reduce"}
    return vector(want, asked, **more)


_y = f32(3, -3, 7)
VECTORS = [
    _vector(_y),
    _vector(f32(1, -5, 5), op1="subtract"),
    _vector(f32(-1, 5, -5), op1="subtract", reverse1=True),
    _vector(f32(2, -4, 6), op1="bypass"),
    _vector(f32(3, 0, 5), op0="add", op1="bypass"),
    _vector(f32(-1, -4, 1), op0="subtract", op1="bypass"),
    _vector(f32(1, 4, -1), op0="subtract", op1="bypass", reverse0=True),
    _vector(_x, op0="bypass", op1="bypass"),
    _vector(f32(9, 9, 49), op="square"),
    _vector(f32(3, -0.75, 7), op="prelu", relu_param=0.25),
    _vector(f32(3, 6, 7), op="prelu", relu_param=f32(-2)),
    # Tabulated: the normal distribution at 1 times 1.
    _vector(f32(0.84134475), op="gelu", data=f32(0), imm1=1.0),
    _vector(bf16(121, 90624), op="square", data=f32(5, 150)),
    _vector((_y, f32(7))),
    _vector((_y, f32(7)), reduce_op="maximum"),
    _vector((_y, f32(-3)), reduce_op="minimum"),
    _vector((f32(-7, 4, 5), f32(-7)), data=f32(-4, 1.5, 2), reduce_op="abs_max"),
    _vector((f32(-7, 4, 5), f32(4)), data=f32(-4, 1.5, 2), reduce_op="abs_min"),
    _vector((_y, f32(17)), reduce_cmd="reduce", reduce_regs=f32(10)),
    _vector((_y, f32(-9)), reduce_op="abs_max", reduce_cmd="reduce", reduce_regs=f32(-9)),
    _vector((_y, f32(-np.inf)), reduce_op="maximum", reduce_cmd="reset", reduce_regs=f32(10)),
    _vector((_y, f32(10)), reduce_cmd="idle", reduce_regs=f32(10)),
]
