"""nki.isa.tensor_scalar_reduce (Vector Engine).

Chosen where the reference is silent: the fold goes on from the registers element by element, in float32, with the
results before they are cast to ``dst``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur, and what follows for the fold; the rest exact"


def _candidates(data: Array, op0: str, operand0: Any) -> list[Array]:
    value = numerics.read(rows(data))
    return alu.outcomes(op0, [value], broadcast(0.0 if operand0 is None else operand0, value))


def oracle(
    dst: Array,
    *,
    data: Array,
    op0: str,
    operand0: Any,
    reduce_op: str,
    reduce_res: Array | None = None,
    reduce_cmd: str = "reset_reduce",
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    reduce_regs: Array | None = None,
    **_: Any,
) -> Array | tuple[Array, Array]:
    """``data op0 operand0``, and the registers after these results were folded into them.

    ``reduce_regs`` is what the registers hold before. Reference: nki.isa.tensor_scalar_reduce.
    """
    value = _candidates(data, op0, operand0)[0]
    result = numerics.write(value, dst.dtype).reshape(dst.shape)
    if reduce_res is None:
        return result
    begin = running.start(reduce_cmd, reduce_op, reduce_regs, reduce_init, len(value))
    total = running.states(reduce_op, value, begin)[:, -1] * (-1.0 if reduce_res_negate else 1.0)
    return result, numerics.write(total, reduce_res.dtype).reshape(reduce_res.shape)


def bounds(
    dst: Array,
    *,
    data: Array,
    op0: str,
    operand0: Any,
    reduce_op: str,
    reduce_res: Array | None = None,
    reduce_cmd: str = "reset_reduce",
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    reduce_regs: Array | None = None,
    **_: Any,
) -> Any:
    if op0 not in alu.ULPS:
        return None
    values = _candidates(data, op0, operand0)
    elements = verdict.span(values, dst)
    if reduce_res is None:
        return elements
    begin = running.start(reduce_cmd, reduce_op, reduce_regs, reduce_init, len(values[0]))
    with np.errstate(all="ignore"):
        errors = np.max([np.abs(v - values[0]) for v in values], axis=0)
    errors = np.where(np.isfinite(errors), errors, 0.0)
    reach, free = (array[:, -1] for array in running.slack(reduce_op, values[0], errors, begin))
    total = running.states(reduce_op, values[0], begin)[:, -1] * (-1.0 if reduce_res_negate else 1.0)
    return elements, verdict.around(total, reach, reduce_res, free)


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


_x, _res = _f(1, -2, 3), np.zeros((1, 1), np.float32)


def _vector(want: tuple[Array, Array] | Array, **more: Any) -> tuple[dict[str, Any], Any]:
    dst = want[0] if isinstance(want, tuple) else want
    arguments = {"dst": np.zeros_like(dst), "data": _x, "op0": "multiply", "operand0": 2.0, "reduce_op": "add"}
    if isinstance(want, tuple):
        arguments["reduce_res"] = np.zeros_like(want[1])
    return {**arguments, **more}, want


VECTORS = [
    _vector((_f(2, -4, 6), _f(4))),
    _vector((_f(2, -4, 6), _f(-4)), reduce_res_negate=True),
    _vector((_f(2, -4, 6), _f(-48)), reduce_op="multiply"),
    _vector((_f(2, -4, 6), _f(6)), reduce_op="maximum"),
    _vector((_f(2, -4, 6), _f(-4)), reduce_op="minimum"),
    _vector((_f(2, -4, 6), _f(14)), reduce_cmd="reduce", reduce_regs=_f(10)),
    _vector((_f(2, -4, 6), _f(9)), reduce_op="maximum", reduce_cmd="reduce", reduce_regs=_f(9)),
    _vector((_f(2, -4, 6), _f(5)), reduce_cmd="load_reduce", reduce_init=1.0, reduce_regs=_f(10)),
    _vector((_f(2, -4, 6), _f(7)), reduce_cmd="load_reduce", reduce_init=_f(3), reduce_regs=_f(10)),
    # Left to right from the register on: 2**24 swallows each 1, which 1 + 1 would not have been.
    _vector((_f(1, 1), _f(2**24)), data=_f(1, 1), operand0=1.0, reduce_cmd="reduce", reduce_regs=_f(2**24)),
    # The largest magnitude of a row, as quantisation looks for it.
    _vector((_f(1, 2, 3), _f(3)), op0="abs", operand0=0.0, reduce_op="maximum"),
    _vector((_f(1, 2, 3), _f(1)), op0="abs", operand0=None, reduce_op="minimum"),
    # What is folded has not been rounded to dst: 0.4 three times is more than 0.
    _vector(
        (np.zeros((1, 3), np.int8), np.array([[1.2]], np.float32)), data=np.full((1, 3), 0.4, np.float32), operand0=1.0
    ),
    _vector(_f(2, -4, 6), reduce_regs=_f(10)),
    _vector((np.array([[4, 3]], np.float16), np.array([[7]], np.int32)), data=_f(16, 9), op0="power", operand0=0.5),
]
