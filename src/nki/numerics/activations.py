"""The activation functions as LLVM IR: the one implementation that every executor runs.

:func:`emit` works on ``float`` and on ``<N x float>`` and gives the same bits for both. Errors and special values are
those of the rows of ``nki.isa.tables.activations``.

Functions that networks spend their time in have float32 formulas where those are faster and hold the bound
(``float32.py``, ``pairs.py``). The others go through float64 (``float64.py``), where a plain formula leaves little but
the result's rounding.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from nki.numerics import float32, float64, pairs
from nki.numerics.simd import Lanes, Value


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


_EMITTERS: dict[str, Callable[[Lanes, Value], Value]] = {
    "copy": _copy,
    "square": _square,
    "sigmoid": float32.sigmoid,
    "relu": _relu,
    "gelu": float32.gelu,
    "gelu_dx": float32.gelu_dx,
    "gelu_apprx_tanh": float64.gelu_apprx_tanh,
    "gelu_apprx_sigmoid": float32.gelu_apprx_sigmoid,
    "gelu_apprx_sigmoid_dx": float64.gelu_apprx_sigmoid_dx,
    "silu": float32.silu,
    "silu_dx": float64.silu_dx,
    "tanh": float32.tanh,
    "softplus": float64.softplus,
    "mish": float64.mish,
    "erf": float32.erf,
    "erf_dx": float64.erf_dx,
    "exp": float32.exp,
    "log": pairs.log,
    "sin": float64.sin,
    "arctan": float64.arctan,
    "sqrt": pairs.sqrt,
    "rsqrt": pairs.rsqrt,
    "reciprocal": _reciprocal,
    "sign": _sign,
    "abs": Lanes.abs,
}


def emit(builder: ir.IRBuilder, name: str, x: ir.Value, parameter: ir.Value | None = None) -> ir.Value:
    """The activation function ``name`` of ``x``, a ``float`` or ``<N x float>``; the result has the type of ``x``.

    ``parameter`` has the type of ``x`` too: the slope of ``prelu``, nothing for all others. Raises ``KeyError`` for a
    name that is not in the table and ``TypeError`` for a parameter that is missing or too much.
    """
    lanes = Lanes(builder, x)
    if name == "prelu":
        if parameter is None:
            raise TypeError("prelu needs its slope")
        return _prelu(lanes, x, parameter)
    if parameter is not None:
        raise TypeError(f"{name} has no parameter")
    return _EMITTERS[name](lanes, x)


def emit_power(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """``x`` to the power ``y``, element by element, for ``float`` or ``<N x float>``; within 1 ulp.

    Special values are those of C and NumPy: anything to the power 0, and 1 to any power, is 1; a negative number has
    integer powers only (NaN otherwise); an odd integer power keeps the sign, also of zero and infinity.
    """
    return float64.power(Lanes(builder, x), x, y)
