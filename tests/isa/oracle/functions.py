"""The activation functions of the Scalar Engine, in float64.

Source: NKI reference, "Supported Activation Functions for NKI ISA": names and valid input ranges. Outside its range a
function "will generate invalid output results", so any value is accepted there, with one exception: for ``sin`` the
reference says that the engine extrapolates a cubic and that sin(9.0) comes out as about 27.65. The cubic Taylor
polynomial of the sine around pi gives 27.653 at 9.0; that it is this cubic is inferred from that one number.

The formulas of functions that the reference only names are the usual ones: gelu x * Phi(x); its tanh form with
0.044715; its sigmoid form x * sigmoid(1.702 x); silu x * sigmoid(x); mish x * tanh(softplus(x)); erf_dx
2/sqrt(pi) * exp(-x**2). At an infinite argument the limit counts; the sign of NaN is NaN. ``prelu`` needs a slope,
which ``activation`` has no argument for: not modelled.

The error bounds are ours (the reference gives none): what a careful float32 evaluation keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from . import alu
from .numerics import Array, spacing32

SQRT2: Final = math.sqrt(2.0)
GELU_TANH: Final = math.sqrt(2.0 / math.pi)


@dataclass(frozen=True)
class Function:
    """One activation function: its float64 formula, valid range, and the error a float32 result may have.

    The error is ``ulps`` float32 units of the result plus ``absolute`` times max(1, |x|).
    """

    formula: Callable[[float], float]
    valid: Callable[[float], bool] = lambda x: True
    ulps: float = 4.0
    absolute: float = 0.0


def exp(x: float) -> float:
    return math.inf if x > 700.0 else math.exp(x)


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x)) if x >= 0 else exp(x) / (1.0 + exp(x)) if x < 0 else math.nan


def normal(x: float) -> float:
    """The normal distribution function, without cancellation in the left tail."""
    return 0.5 * math.erfc(-x / SQRT2)


def density(x: float) -> float:
    return exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def softplus(x: float) -> float:
    return maximum0(x) + math.log1p(exp(-abs(x)))


def maximum0(x: float) -> float:
    return alu.maximum(x, 0.0)


def times(x: float, gate: float) -> float:
    """x * gate where a closed gate stops even an infinite x."""
    return 0.0 if gate == 0.0 and math.isinf(x) else x * gate


def sin(x: float) -> float:
    if math.isinf(x) or abs(x) <= float(np.float32(math.pi)):
        return math.nan if math.isinf(x) else math.sin(x)
    past = abs(x) - math.pi
    return math.copysign(1.0, x) * (past**3 / 6.0 - past) if not math.isnan(x) else x


def gelu_apprx_tanh(x: float) -> float:
    return times(x, sigmoid(2.0 * GELU_TANH * (x + 0.044715 * x**3)) if abs(x) < 1e10 else float(x > 0))


def sigmoid_gelu_dx(x: float, slope: float) -> float:
    gate = sigmoid(slope * x)
    return gate + times(slope * x, gate * sigmoid(-slope * x))


def _within(low: float, high: float) -> Callable[[float], bool]:
    return lambda x: low <= x <= high


_ROUNDED: Final = 2.0**-22  # what cancellation leaves of a float32 evaluation near a zero, or in a vanishing tail
FUNCTIONS: Final = {
    "copy": Function(lambda x: x, ulps=0.0),
    "square": Function(lambda x: x * x, ulps=0.0),
    "relu": Function(maximum0, ulps=0.0),
    "abs": Function(abs, ulps=0.0),
    "sign": Function(lambda x: math.nan if math.isnan(x) else float((x > 0) - (x < 0)), ulps=0.0),
    "sigmoid": Function(sigmoid),
    "tanh": Function(math.tanh),
    "erf": Function(math.erf),
    "erf_dx": Function(lambda x: 2.0 / math.sqrt(math.pi) * exp(-x * x), absolute=2.0**-24),
    "exp": Function(exp),
    "softplus": Function(softplus, absolute=2.0**-24),
    "silu": Function(lambda x: times(x, sigmoid(x))),
    "silu_dx": Function(lambda x: sigmoid_gelu_dx(x, 1.0), absolute=_ROUNDED),
    "mish": Function(lambda x: times(x, math.tanh(softplus(x))), absolute=_ROUNDED),
    "gelu": Function(lambda x: times(x, normal(x)), absolute=_ROUNDED),
    "gelu_dx": Function(lambda x: normal(x) + times(x, density(x)), absolute=_ROUNDED),
    "gelu_apprx_tanh": Function(gelu_apprx_tanh, absolute=_ROUNDED),
    "gelu_apprx_sigmoid": Function(lambda x: times(x, sigmoid(1.702 * x)), absolute=_ROUNDED),
    "gelu_apprx_sigmoid_dx": Function(lambda x: sigmoid_gelu_dx(x, 1.702), absolute=_ROUNDED),
    "log": Function(lambda x: math.log(x) if x > 0 else math.nan, _within(2.0**-64, 2.0**64)),
    "sin": Function(sin, lambda x: not math.isinf(x), absolute=_ROUNDED),
    "arctan": Function(math.atan, _within(-math.pi / 2, math.pi / 2)),
    "sqrt": Function(lambda x: math.sqrt(x) if x >= 0 else math.nan, _within(2.0**-116, 2.0**118)),
    "rsqrt": Function(alu.rsqrt, _within(2.0**-87, 2.0**97)),
    "reciprocal": Function(lambda x: alu.divide(1.0, x), lambda x: 2.0**-42 <= abs(x) <= 2.0**42),
}


def evaluate(op: str, x: Array) -> Array:
    """The function of every element, in float64."""
    return _evaluate(op, np.asarray(x, np.float64).tobytes()).reshape(x.shape)


@lru_cache(maxsize=8)  # an oracle and its bounds ask for the same
def _evaluate(op: str, numbers: bytes) -> Array:
    formula = FUNCTIONS[op].formula
    values = np.array([formula(v) for v in np.frombuffer(numbers, np.float64).tolist()], np.float64)
    values.setflags(write=False)
    return values


def error(op: str, x: Array, y: Array) -> Array:
    """How far a float32 result may lie from the real value ``y`` at ``x``; 0 where the bits are promised.

    Results below the smallest normal number may be flushed to zero. Past pi, ``sin`` is only known from one number with
    four digits, so one part in 4096 is accepted.
    """
    row = FUNCTIONS[op]
    if row.ulps == 0.0:
        return spacing32(y) / 2 if op == "square" else np.zeros(x.shape)
    with np.errstate(all="ignore"):
        bound = row.ulps * spacing32(y) + row.absolute * np.maximum(1.0, np.abs(x)) + 2.0**-126
        if op == "sin":
            bound = np.where(np.abs(x) > math.pi, bound + np.abs(y) / 4096, bound)
    return np.where(np.isfinite(bound), bound, 0.0)


def open_inputs(op: str, x: Array) -> Any:
    """Which elements lie outside the valid range of the function (NaN is inside: it gives NaN)."""
    valid = FUNCTIONS[op].valid
    flat = [not (valid(v) or math.isnan(v)) for v in x.ravel().tolist()]
    return np.array(flat, bool).reshape(x.shape)
