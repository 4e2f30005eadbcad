"""nki.isa.tensor_scalar_reduce (Vector Engine).

Chosen where the reference is silent: the fold goes on from the registers element by element, in float32, with the
results before they are cast to ``dst``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import alu, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import f16, f32, i32, vector

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur, and what follows for the fold; the rest exact"


def _candidates(data: Array, op0: str, operand0: Any) -> list[Array]:
    value = numerics.read(rows(data))
    return alu.outcomes(op0, [value], broadcast(0.0 if operand0 is None else operand0, value))


def _fold(value: Array, asked: Mapping[str, Any]) -> tuple[Array, Array]:
    """The registers before, and what is read out after ``value`` was folded into them."""
    op, command = asked["reduce_op"], asked.get("reduce_cmd", "reset_reduce")
    begin = running.start(command, op, asked.get("reduce_regs"), asked.get("reduce_init"), len(value))
    return begin, running.states(op, value, begin)[:, -1] * (-1.0 if asked.get("reduce_res_negate") else 1.0)


def oracle(
    dst: Array, *, data: Array, op0: str, operand0: Any, reduce_res: Array | None = None, **asked: Any
) -> Array | tuple[Array, Array]:
    """``data op0 operand0``, and the registers after these results were folded into them.

    ``reduce_regs`` is what the registers hold before. Reference: nki.isa.tensor_scalar_reduce.
    """
    value = _candidates(data, op0, operand0)[0]
    result = numerics.write(value, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    total = _fold(value, asked)[1]
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


def bounds(dst: Array, *, data: Array, op0: str, operand0: Any, reduce_res: Array | None = None, **asked: Any) -> Any:
    if op0 not in alu.ULPS:
        return None
    values = _candidates(data, op0, operand0)
    elements = verdict.span(values, dst)
    if reduce_res is None:
        return elements
    begin, total = _fold(values[0], asked)
    slack = running.slack(asked["reduce_op"], values[0], running.spread(values), begin)
    reach, free = (array[:, -1] for array in slack)
    return elements, verdict.around(total, reach, reduce_res, free)


_x, _res = f32(1, -2, 3), np.zeros((1, 1), np.float32)


def _vector(want: tuple[Array, Array] | Array, **more: Any) -> tuple[dict[str, Any], Any]:
    arguments = {"data": _x, "op0": "multiply", "operand0": 2.0, "reduce_op": "add"}
    if isinstance(want, tuple):
        arguments["reduce_res"] = np.zeros_like(want[1])
    return vector(want, arguments, **more)


VECTORS = [
    _vector((f32(2, -4, 6), f32(4))),
    _vector((f32(2, -4, 6), f32(-4)), reduce_res_negate=True),
    _vector((f32(2, -4, 6), f32(-48)), reduce_op="multiply"),
    _vector((f32(2, -4, 6), f32(6)), reduce_op="maximum"),
    _vector((f32(2, -4, 6), f32(-4)), reduce_op="minimum"),
    _vector((f32(2, -4, 6), f32(14)), reduce_cmd="reduce", reduce_regs=f32(10)),
    _vector((f32(2, -4, 6), f32(9)), reduce_op="maximum", reduce_cmd="reduce", reduce_regs=f32(9)),
    _vector((f32(2, -4, 6), f32(5)), reduce_cmd="load_reduce", reduce_init=1.0, reduce_regs=f32(10)),
    _vector((f32(2, -4, 6), f32(7)), reduce_cmd="load_reduce", reduce_init=f32(3), reduce_regs=f32(10)),
    # Left to right from the register on: 2**24 swallows each 1, which 1 + 1 would not have been.
    _vector((f32(1, 1), f32(2**24)), data=f32(1, 1), operand0=1.0, reduce_cmd="reduce", reduce_regs=f32(2**24)),
    # The largest magnitude of a row, as quantisation looks for it.
    _vector((f32(1, 2, 3), f32(3)), op0="abs", operand0=0.0, reduce_op="maximum"),
    _vector((f32(1, 2, 3), f32(1)), op0="abs", operand0=None, reduce_op="minimum"),
    # What is folded has not been rounded to dst: 0.4 three times is more than 0.
    _vector((np.zeros((1, 3), np.int8), f32(1.2)), data=np.full((1, 3), 0.4, np.float32), operand0=1.0),
    _vector(f32(2, -4, 6), reduce_regs=f32(10)),
    _vector((f16(4, 3), i32(7)), data=f32(16, 9), op0="power", operand0=0.5),
]
