"""The activation functions of the Scalar engine: one row each.

The public documentation names the functions and their valid input ranges ("Supported Activation Functions for NKI ISA"
in the shared tables of the NKI API reference) but neither formulas nor accuracy: those, and the behaviour on NaN,
infinity and signed zero, are ours. The device evaluates piecewise polynomials, so it may differ from these rows in the
last bits; a row states the mathematical function, and every executor computes it within ``ulp`` units in the last place
of float32.

``reference`` is the judge of the executors, written in float64 from the formula alone; it is never what a kernel runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki.target.activation_sets import SETS

Array = NDArray[np.float64]
Range = tuple[float, float]

EVERYWHERE: tuple[Range, ...] = ((-math.inf, math.inf),)

SIN_LIMIT = 3.1455
"""Largest |x| for which ``sin`` is the sine; beyond it comes a cubic.

The device reduces no argument: outside [-pi, pi] it extrapolates a cubic, and the documentation gives sin(9.0) as about
27.65, which is what the third-order Taylor polynomial around pi gives (27.653); so that is the cubic here. The limit
lies a little beyond pi, where the cubic and the sine agree to 1e-14.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Activation:
    """One activation function of one float32 number (and of a parameter, if the row has one).

    ``valid``      closed intervals of inputs for which the device is documented to be right. Outside them we compute
                   the mathematical function all the same, except where ``special`` says otherwise.
    ``formula``    the function in words.
    ``reference``  the function in float64, for float64 arrays of any shape; (x, parameter) if there is a parameter.
    ``ulp``        bound on the error of our executors, in units in the last place of the float32 result (spacing
                   2^-149 for subnormal results); 0.5 means correctly rounded, 0 exact.
    ``floor``      absolute error that is allowed in place of ``ulp`` where it is the larger of the two and the input
                   is in ``floor_range``: around a zero of the function, relative errors cannot be bounded.
    ``special``    NaN, infinity, signed zero. Everywhere, a NaN input gives a NaN.
    ``cores``      NeuronCore versions with an ``activation`` or ``activate2`` that accepts the function.
    ``parameter``  name of the second operand; empty if there is none.
    ``source``     where the row comes from.
    """

    name: str
    formula: str
    reference: Callable[..., Array]
    ulp: float
    special: str
    floor: float = 0.0
    floor_range: Range = (0.0, 0.0)
    valid: tuple[Range, ...] = EVERYWHERE
    cores: tuple[int, ...] = (2, 3, 4)
    parameter: str = ""
    source: str = "names and ranges: NKI API reference, Supported Activation Functions for NKI ISA; the rest: ours"

    @property
    def table(self) -> str:
        """Name of the table that the Scalar engine has to load for the function; empty if it needs none.

        A guess beyond :data:`nki.target.activation_sets.SETS`: piecewise linear functions and the square need none
        here, and a function shares its table with its derivative and its approximations.
        """
        function = self.name.partition("_")[0]
        return "" if self.name in _WITHOUT_TABLE else SETS.get(function, function)


_WITHOUT_TABLE = {"copy", "square", "relu", "prelu", "lrelu", "sign", "abs"}

_SQRT_HALF = math.sqrt(0.5)
_SQRT_TWO_PI = math.sqrt(2 * math.pi)


def _copy(x: Array) -> Array:
    return x


def _square(x: Array) -> Array:
    return x * x


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _erf_dx(x: Array) -> Array:
    return 2.0 / math.sqrt(math.pi) * np.exp(-x * x)


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _normal(x: Array) -> Array:
    """Distribution function of the normal law."""
    return 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-_SQRT_HALF * x)


def _times(x: Array, factor: Array) -> Array:
    """x * factor, and its limit -0 where x is -inf and the factor has become 0."""
    finite = np.where(np.isneginf(x), -1.0, x)
    return np.where(np.isneginf(x), -0.0, finite * factor)


def _relu(x: Array) -> Array:
    return np.where(x > 0, x, np.where(np.isnan(x), x, 0.0))


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


def _gelu(x: Array) -> Array:
    return _times(x, _normal(x))


def _gelu_dx(x: Array) -> Array:
    bounded = np.clip(x, -1e3, 1e3)
    return _normal(x) + bounded * np.exp(-0.5 * bounded * bounded) / _SQRT_TWO_PI


def _gelu_apprx_tanh(x: Array) -> Array:
    return _times(x, _sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_apprx_sigmoid(x: Array) -> Array:
    return _times(x, _sigmoid(1.702 * x))


def _silu(x: Array) -> Array:
    return _times(x, _sigmoid(x))


def _silu_dx(x: Array) -> Array:
    bounded = np.clip(x, -1e4, 1e4)
    return _sigmoid(x) * (1.0 + bounded * _sigmoid(-bounded))


def _gelu_apprx_sigmoid_dx(x: Array) -> Array:
    return _silu_dx(1.702 * x)


def _mish(x: Array) -> Array:
    return _times(x, np.tanh(np.logaddexp(0.0, x)))


def _sin(x: Array) -> Array:
    past = np.abs(x) - math.pi
    cubic = np.where(x < 0, -1.0, 1.0) * (past * (past * past / 6.0 - 1.0))
    return np.where(np.abs(x) > SIN_LIMIT, cubic, np.sin(np.clip(x, -SIN_LIMIT, SIN_LIMIT)))


def _sign(x: Array) -> Array:
    return np.where(x == 0, 0.0, np.sign(x))


_ROWS = (
    Activation("copy", "x", _copy, 0.0, "copy(-0) = -0"),
    Activation("square", "x^2", _square, 0.5, "square(-0) = +0; square(+-inf) = inf"),
    Activation("sigmoid", "1 / (1 + exp(-x))", _sigmoid, 1.4, "sigmoid(-inf) = 0; sigmoid(inf) = 1"),
    Activation("relu", "the larger of x and 0", _relu, 0.0, "relu(-0) = +0; relu(inf) = inf"),
    Activation(
        "prelu",
        "x where x >= 0, slope * x where x < 0",
        _prelu,
        0.5,
        "prelu(-0) = -0; prelu(-inf) = -inf * slope",
        cores=(4,),
        parameter="slope",
        source="names and ranges: NKI API reference, Supported Activation Functions for NKI ISA; the slope is "
        "relu_param of activate2, which needs NeuronCore-v4. activation has no operand for it and must refuse prelu",
    ),
    Activation("gelu", "x Phi(x), Phi the normal distribution function", _gelu, 1.5, "gelu(-inf) = -0, the limit"),
    Activation(
        "gelu_dx",
        "Phi(x) + x phi(x), the derivative of gelu; phi the normal density",
        _gelu_dx,
        1.0,
        "gelu_dx(-inf) = -0; gelu_dx(inf) = 1; zero near -0.7518, where the floor applies",
        floor=2.0**-33,
        floor_range=(-1.5, 0.0),
    ),
    Activation(
        "gelu_apprx_tanh",
        "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2",
        _gelu_apprx_tanh,
        0.51,
        "gelu_apprx_tanh(-inf) = -0, the limit",
    ),
    Activation(
        "gelu_apprx_sigmoid", "x sigmoid(1.702 x)", _gelu_apprx_sigmoid, 1.5, "gelu_apprx_sigmoid(-inf) = -0, the limit"
    ),
    Activation(
        "gelu_apprx_sigmoid_dx",
        "s (1 + y (1 - s)) with y = 1.702 x and s = sigmoid(y), the derivative of gelu_apprx_sigmoid",
        _gelu_apprx_sigmoid_dx,
        1.0,
        "gelu_apprx_sigmoid_dx(-inf) = -0; (inf) = 1; zero near -0.7511, where the floor applies",
        floor=2.0**-33,
        floor_range=(-1.5, 0.0),
    ),
    Activation("silu", "x sigmoid(x)", _silu, 1.4, "silu(-inf) = -0, the limit"),
    Activation(
        "silu_dx",
        "s (1 + x (1 - s)) with s = sigmoid(x), the derivative of silu",
        _silu_dx,
        1.0,
        "silu_dx(-inf) = -0; silu_dx(inf) = 1; zero near -1.2785, where the floor applies",
        floor=2.0**-33,
        floor_range=(-1.5, 0.0),
    ),
    Activation("tanh", "hyperbolic tangent", np.tanh, 1.1, "tanh(-0) = -0; tanh(+-inf) = +-1"),
    Activation("softplus", "log(1 + exp(x))", _softplus, 0.51, "softplus(-inf) = 0; softplus(inf) = inf"),
    Activation("mish", "x tanh(softplus(x))", _mish, 0.51, "mish(-inf) = -0, the limit"),
    Activation("erf", "error function", _erf, 1.1, "erf(-0) = -0; erf(+-inf) = +-1"),
    Activation(
        "erf_dx",
        "2 / sqrt(pi) exp(-x^2), the derivative of erf",
        _erf_dx,
        0.51,
        "erf_dx(+-inf) = 0",
    ),
    Activation("exp", "e^x", np.exp, 0.9, "exp(-inf) = 0; exp(inf) = inf"),
    Activation(
        "log",
        "natural logarithm",
        np.log,
        0.51,
        "log(+-0) = -inf; log(x < 0) = NaN; log(inf) = inf",
        valid=((2.0**-64, 2.0**64),),
    ),
    Activation(
        "sin",
        "sine of an angle in radians, without reduction of the argument",
        _sin,
        0.51,
        "sin(-0) = -0; beyond SIN_LIMIT the cubic that the documentation implies; sin(+-inf) = +-inf",
        valid=((-math.pi, math.pi),),
    ),
    Activation(
        "arctan",
        "inverse tangent",
        np.arctan,
        0.51,
        "arctan(-0) = -0; arctan(+-inf) = +-pi / 2",
        valid=((-math.pi / 2, math.pi / 2),),
    ),
    Activation(
        "sqrt",
        "square root",
        np.sqrt,
        0.5,
        "sqrt(-0) = -0; sqrt(x < 0) = NaN; sqrt(inf) = inf",
        valid=((2.0**-116, 2.0**118),),
    ),
    Activation(
        "rsqrt",
        "1 / sqrt(x)",
        _rsqrt,
        0.51,
        "rsqrt(+-0) = +-inf; rsqrt(x < 0) = NaN; rsqrt(inf) = 0",
        valid=((2.0**-87, 2.0**97),),
    ),
    Activation(
        "reciprocal",
        "1 / x",
        _reciprocal,
        0.5,
        "reciprocal(+-0) = +-inf; reciprocal(+-inf) = +-0",
        valid=((-(2.0**42), -(2.0**-42)), (2.0**-42, 2.0**42)),
    ),
    Activation("sign", "-1 where x < 0, 0 where x = 0, 1 where x > 0", _sign, 0.0, "sign(+-0) = +0"),
    Activation("abs", "|x|", np.abs, 0.0, "abs(-0) = +0"),
)

ACTIVATIONS: dict[str, Activation] = {row.name: row for row in _ROWS}
"""The rows by name."""
