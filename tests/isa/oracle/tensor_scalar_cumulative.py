"""nki.isa.tensor_scalar_cumulative (Vector Engine).

Chosen where the reference is silent: the register stays float32, whatever ``dst`` is; ``imm1`` means nothing except
under ``load_reduce``. The pseudo code's ``reverse0`` is no argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import alu, numerics, running, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import by_position, f32, i8

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur, and what follows later; everything else exact"


def _fold(asked: Mapping[str, Any]) -> tuple[list[Array], Array]:
    """What is folded, with all that is as good as the first of these candidates; and what the fold begins with."""
    value = numerics.read(rows(asked["src"]))
    command = asked.get("reduce_cmd", "reset_reduce")
    begin = running.start(command, asked["op1"], asked.get("reduce_regs"), asked.get("imm1"), len(value))
    return alu.outcomes(asked["op0"], [value], broadcast(asked["imm0"], value)), begin


def oracle(dst: Array, **asked: Any) -> Array:
    """``reg = op1(op0(src[i], imm0), reg)`` for one element after the other, each written to ``dst``.

    Reference: nki.isa.tensor_scalar_cumulative.
    """
    values, begin = _fold(asked)
    return numerics.write(running.states(asked["op1"], values[0], begin), dst.dtype).reshape(dst.shape)


def bounds(dst: Array, **asked: Any) -> verdict.Bounds | None:
    if asked["op0"] not in alu.ULPS:
        return None
    values, begin = _fold(asked)
    reach, free = running.slack(asked["op1"], values[0], running.spread(values), begin)
    return verdict.around(running.states(asked["op1"], values[0], begin), reach, dst, free)


_vector = by_position("src", "op0", "op1", "imm0")
_ones = np.ones((3, 4), np.float32)
_column = f32([1], [2], [3])
VECTORS = [
    # As in the reference's tests, with other sizes: running sums, products and extremes of ones.
    _vector(np.array([[1, 2, 3, 4]] * 3, np.float32), _ones, "add", "add", 0.0),
    _vector(_ones, _ones, "add", "multiply", 0.0),
    _vector((_column + 1) * np.float32([1, 2, 3, 4]), _ones, "add", "add", _column),
    _vector((_column + 1) ** np.float32([1, 2, 3, 4]), _ones, "add", "multiply", _column),
    _vector(f32(5, 6, 7), f32(1, 1, 1), "add", "add", 0.0, imm1=4.0, reduce_cmd="load_reduce"),
    _vector(f32(0, 0, 0), f32(2, 2, 2), "add", "minimum", 1.0, imm1=0.0, reduce_cmd="load_reduce"),
    _vector(f32(65, 66), f32(1, 1), "add", "add", 0.0, imm1=1.0, reduce_cmd="reduce", reduce_regs=f32(64)),
    # The element is on the left of subtract: 5 - 0, 3 - 5, 4 - -2.
    _vector(f32(5, -2, 6), f32(5, 3, 4), "add", "subtract", 0.0),
    _vector(f32(3, 3, 8, 8), f32(3, -1, 8, 2), "multiply", "maximum", 1.0),
    # 0.4, 0.8, 1.2: rounded only on the way out.
    _vector(i8(0, 1, 1), f32(0.4, 0.4, 0.4), "multiply", "add", 1.0),
    _vector(f32(2, 5), f32(4, 9), "power", "add", 0.5),
]
