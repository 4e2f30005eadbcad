"""nki.isa.tensor_scalar_cumulative (Vector Engine).

Chosen where the reference is silent: the register stays float32, whatever ``dst`` is; ``imm1`` means nothing except
under ``load_reduce``. The pseudo code's ``reverse0`` is no argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur, and what follows later; everything else exact"


def _candidates(src: Array, op0: str, imm0: Any) -> list[Array]:
    value = numerics.read(rows(src))
    return alu.outcomes(op0, [value], broadcast(imm0, value))


def oracle(
    dst: Array,
    *,
    src: Array,
    op0: str,
    op1: str,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: str = "reset_reduce",
    reduce_regs: Array | None = None,
    **_: Any,
) -> Array:
    """``reg = op1(op0(src[i], imm0), reg)`` for one element after the other, each written to ``dst``.

    Reference: nki.isa.tensor_scalar_cumulative.
    """
    value = _candidates(src, op0, imm0)[0]
    begin = running.start(reduce_cmd, op1, reduce_regs, imm1, len(value))
    return numerics.write(running.states(op1, value, begin), dst.dtype).reshape(dst.shape)


def bounds(
    dst: Array,
    *,
    src: Array,
    op0: str,
    op1: str,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: str = "reset_reduce",
    reduce_regs: Array | None = None,
    **_: Any,
) -> verdict.Bounds | None:
    if op0 not in alu.ULPS:
        return None
    values = _candidates(src, op0, imm0)
    begin = running.start(reduce_cmd, op1, reduce_regs, imm1, len(values[0]))
    with np.errstate(all="ignore"):
        errors = np.max([np.abs(v - values[0]) for v in values], axis=0)
    reach, free = running.slack(op1, values[0], np.where(np.isfinite(errors), errors, 0.0), begin)
    return verdict.around(running.states(op1, values[0], begin), reach, dst, free)


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


def _vector(want: Array, src: Array, op0: str, op1: str, imm0: Any, **more: Any) -> tuple[dict[str, Any], Array]:
    return {"dst": np.zeros_like(want), "src": src, "op0": op0, "op1": op1, "imm0": imm0, **more}, want


_ones = np.ones((3, 4), np.float32)
_column = np.array([[1], [2], [3]], np.float32)
VECTORS = [
    # As in the reference's tests, with other sizes: running sums, products and extremes of ones.
    _vector(np.array([[1, 2, 3, 4]] * 3, np.float32), _ones, "add", "add", 0.0),
    _vector(_ones, _ones, "add", "multiply", 0.0),
    _vector((_column + 1) * np.float32([1, 2, 3, 4]), _ones, "add", "add", _column),
    _vector((_column + 1) ** np.float32([1, 2, 3, 4]), _ones, "add", "multiply", _column),
    _vector(_f(5, 6, 7), _f(1, 1, 1), "add", "add", 0.0, imm1=4.0, reduce_cmd="load_reduce"),
    _vector(_f(0, 0, 0), _f(2, 2, 2), "add", "minimum", 1.0, imm1=0.0, reduce_cmd="load_reduce"),
    _vector(_f(65, 66), _f(1, 1), "add", "add", 0.0, imm1=1.0, reduce_cmd="reduce", reduce_regs=_f(64)),
    # The element is on the left of subtract: 5 - 0, 3 - 5, 4 - -2.
    _vector(_f(5, -2, 6), _f(5, 3, 4), "add", "subtract", 0.0),
    _vector(_f(3, 3, 8, 8), _f(3, -1, 8, 2), "multiply", "maximum", 1.0),
    # 0.4, 0.8, 1.2: rounded only on the way out.
    _vector(np.array([[0, 1, 1]], np.int8), _f(0.4, 0.4, 0.4), "multiply", "add", 1.0),
    _vector(_f(2, 5), _f(4, 9), "power", "add", 0.5),
]
