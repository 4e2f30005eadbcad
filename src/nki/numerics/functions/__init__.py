"""The activation functions as LLVM IR: the one implementation that every executor runs.

:func:`emit` works on ``float`` and on ``<N x float>`` and gives the same bits for both. Errors and special values are
those of the rows of ``nki.isa.tables.activations``.

Formulas go through float64 (``float64.py``), where a plain one leaves little but the result's rounding. Functions that
networks spend their time in are faster in float32, within their bounds: piecewise polynomials (``piecewise.py``),
exponentials (``exponential.py``) and double-float arithmetic (``double_float.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from llvmlite import ir

from nki.numerics.functions import double_float, exponential, float64
from nki.numerics.functions.piecewise import evaluate
from nki.numerics.simd import Lanes, Value

Formula = Callable[..., Value]
"""Of ``Lanes`` and a number, or of two for ``prelu``."""


def _copy(_lanes: Lanes, x: Value) -> Value:
    return x


def _square(lanes: Lanes, x: Value) -> Value:
    return lanes.mul(x, x)


def _relu(lanes: Lanes, x: Value) -> Value:
    return lanes.select(lanes.compare("<=", x, 0.0), 0.0, x)


def _prelu(lanes: Lanes, x: Value, slope: Value) -> Value:
    return lanes.select(lanes.compare("<", x, 0.0), lanes.mul(x, slope), x)


def _sign(lanes: Lanes, x: Value) -> Value:
    nonzero = lanes.select(lanes.is_nan(x), x, lanes.copysign(1.0, x))
    return lanes.select(lanes.compare("==", x, 0.0), 0.0, nonzero)


def _reciprocal(lanes: Lanes, x: Value) -> Value:
    return lanes.div(1.0, x)


def _sqrt(lanes: Lanes, x: Value) -> Value:
    """LLVM (22) takes "NaN if isnan(sqrt(x)) else sqrt(x)" for "sqrt(x)", whatever the NaN that a processor gives."""
    return lanes.sqrt(lanes.select(lanes.compare(">=", x, 0.0), x, math.nan))


def _piecewise(name: str, tail: Formula | None = None) -> Formula:
    return partial(evaluate, name=name, tail=tail)


class Normal(NamedTuple):
    """A shorter formula with the same bits, for numbers that ``holds`` accepts: results are normal numbers."""

    holds: Callable[[Lanes, Sequence[Value]], Value]
    formula: Formula


class Function(NamedTuple):
    """A function; ``operations`` is its cost, in the unit of ``cost.py``."""

    formula: Formula
    operations: int
    normal: Normal | None = None


FUNCTIONS: Final = {
    "copy": Function(_copy, 0),
    "square": Function(_square, 1),
    "abs": Function(Lanes.abs, 1),
    "relu": Function(_relu, 2),
    "prelu": Function(_prelu, 3),
    "sign": Function(_sign, 5),
    "reciprocal": Function(_reciprocal, 8),
    "sqrt": Function(_sqrt, 10),
    "rsqrt": Function(double_float.rsqrt, 24),
    "log": Function(double_float.log, 28),
    "exp": Function(exponential.exp, 20, Normal(exponential.has_normal_exp, exponential.normal_exp)),
    "erf": Function(_piecewise("erf"), 20),
    "tanh": Function(_piecewise("tanh"), 20),
    "sigmoid": Function(_piecewise("sigmoid", exponential.sigmoid_tail), 22),
    "silu": Function(_piecewise("silu", exponential.silu_tail), 25),
    "gelu_apprx_sigmoid": Function(_piecewise("gelu_apprx_sigmoid", exponential.gelu_apprx_sigmoid_tail), 25),
    "gelu": Function(_piecewise("gelu", exponential.gelu_tail), 27),
    "gelu_dx": Function(_piecewise("gelu_dx", float64.gelu_dx_tail), 35),
    "sin": Function(float64.sin, 32),
    "erf_dx": Function(float64.erf_dx, 41),
    "arctan": Function(float64.arctan, 61),
    "softplus": Function(float64.softplus, 78),
    "mish": Function(float64.mish, 62),
    "silu_dx": Function(float64.silu_dx, 72),
    "gelu_apprx_sigmoid_dx": Function(float64.gelu_apprx_sigmoid_dx, 74),
    "gelu_apprx_tanh": Function(float64.gelu_apprx_tanh, 67),
}


def emit(builder: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
    """The activation function ``name`` of ``float`` or ``<N x float>`` operands; the result has their type.

    ``prelu`` takes its slope as well, all others one operand. Raises ``KeyError`` for a name that is not in the table.
    """
    return FUNCTIONS[name].formula(Lanes(builder, operands[0]), *operands)


def emit_power(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """``x`` to the power ``y``, element by element, for ``float`` or ``<N x float>``; within 1 ulp.

    Special values are those of C and NumPy: anything to the power 0, and 1 to any power, is 1; a negative number has
    integer powers only (NaN otherwise); an odd integer power keeps the sign, also of zero and infinity.
    """
    return float64.power(Lanes(builder, x), x, y)
