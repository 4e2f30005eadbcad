"""The activation functions as LLVM IR: the one implementation that every executor runs.

:func:`emit` works on ``float`` and on ``<N x float>`` and gives the same bits for both. Errors and special values are
those of the rows of ``nki.isa.tables.activations``.

Formulas go through float64 (``float64.py``), where a plain one leaves little but the result's rounding. Functions that
networks spend their time in are faster in float32, within their bounds (``float32.py``).

:func:`operations` is the cost of a function or an operator: rules that weigh time against memory, or threads, ask for
it. Its unit is an operation on a vector of 16 float32 numbers; one on float64 counts twice, a division or a root eight
times. Counted is code for AVX-512, without what runs for few numbers only. On an EPYC 9005 a function in cache takes
0.16 ns for each number, and 0.004 to 0.008 ns more for each operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from llvmlite import ir

from nki.numerics.functions import float32, float64
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
    return partial(float32.piecewise, name=name, tail=tail)


class Normal(NamedTuple):
    """A shorter formula with the same bits, for numbers that ``holds`` accepts: results are normal numbers."""

    holds: Callable[[Lanes, Sequence[Value]], Value]
    formula: Formula


class Function(NamedTuple):
    """A function; ``operations`` is its cost."""

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
    "rsqrt": Function(float32.rsqrt, 24),
    "log": Function(float32.log, 28),
    "exp": Function(float32.exp, 20, Normal(float32.has_normal_exp, float32.normal_exp)),
    "erf": Function(_piecewise("erf"), 20),
    "tanh": Function(_piecewise("tanh"), 20),
    "sigmoid": Function(_piecewise("sigmoid", float32.sigmoid_tail), 22),
    "silu": Function(_piecewise("silu", float32.silu_tail), 25),
    "gelu_apprx_sigmoid": Function(_piecewise("gelu_apprx_sigmoid", float32.gelu_apprx_sigmoid_tail), 25),
    "gelu": Function(_piecewise("gelu", float32.gelu_tail), 27),
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

_OPERATORS: Final = {
    0: ("bypass",),
    1: ("add", "subtract", "multiply", "abs", "square", "invert", "bitwise_and", "bitwise_or", "bitwise_xor"),
    2: ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less", "logical_not"),
    4: ("abs_max", "abs_min", "logical_and", "logical_or", "logical_xor", "left_shift", "right_shift"),
    6: ("maximum", "minimum", "relu"),
    8: ("divide", "reciprocal"),
    36: ("rsqrt",),
    139: ("power",),
    1000: ("fmod",),
    1008: ("mod",),
}
"""ALU operators by their cost; a library computes the rest of a quotient, one number at a time."""

_OF_OPERATOR: Final = {name: cost for cost, names in _OPERATORS.items() for name in names}


def operations(kind: str, name: str) -> int:
    """The cost of a function (``kind`` "act") or an ALU operator ("alu")."""
    return FUNCTIONS[name].operations if kind == "act" else _OF_OPERATOR[name]


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
