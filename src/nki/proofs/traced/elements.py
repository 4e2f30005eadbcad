"""Arrays of a traced function, and what is computed element by element with them.

A value is :class:`Symbols`, or a NumPy array where nothing depends on the inputs. What has known operands only is left
to the framework that the function is written in; here one operand at least depends on the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from nki.isa.tables.alu_operators import BITS
from nki.proofs.executor import BINARY, UNARY
from nki.proofs.reals import ACTIVATIONS, Reals
from nki.proofs.symbols import Array, Symbols, UndecidedError

Value: TypeAlias = Symbols | Array


def listed(names: str) -> list[str]:
    """Names with spaces between them."""
    return names.split()


def moved(value: Value, move: Callable[[Array], Array]) -> Value:
    """The elements in other places."""
    return value.moved(move) if isinstance(value, Symbols) else move(value)


def lifted(value: Value, reals: Reals) -> Symbols:
    """``value`` as symbols."""
    if isinstance(value, Symbols):
        return value
    if value.dtype.kind == "c":
        raise UndecidedError("complex numbers are computed with")
    if value.dtype.kind in "iub":
        return reals.constant(value)
    with np.errstate(over="ignore"):  # the lowest float64 is minus infinity, as a mask means it
        return reals.constant(value.astype(np.float32))


def spread(values: Sequence[Value], reals: Reals) -> list[Symbols]:
    """All as symbols of one shape."""
    shape = np.broadcast_shapes(*(value.shape for value in values))
    return [lifted(value, reals).moved(lambda part: np.broadcast_to(part, shape)) for value in values]


def apply(reals: Reals, name: str, *values: Value) -> Value:
    """The function ``name`` of NumPy, element by element. Raises KeyError if there is none of that name."""
    if name in ("add", "subtract", "multiply") and all(_is_whole(value) for value in values):
        reals.assumptions.add("sums and products of integer inputs stay within their dtypes")
    if name in _EXTENDED:
        return _EXTENDED[name](reals, *values)
    symbols = [lifted(value, reals) for value in values]
    return POINTWISE[name](reals, *symbols)


def is_known_function(name: str) -> bool:
    """True if :func:`apply` has the function."""
    return name in _EXTENDED or name in POINTWISE


def _is_whole(value: Value) -> bool:
    return value.is_whole if isinstance(value, Symbols) else value.dtype.kind in "iu"


# -- what looks at known operands, or at infinities


def _multiply(reals: Reals, left: Value, right: Value) -> Symbols:
    for this, other in ((left, right), (right, left)):
        if isinstance(this, Symbols) and not isinstance(other, Symbols):
            return reals.scaled(this, other if other.dtype.kind in "iub" else other.astype(np.float32))
    return reals.multiply(lifted(left, reals), lifted(right, reals))


def _divide(reals: Reals, left: Value, right: Value) -> Symbols:
    if isinstance(left, Symbols) and not (left.is_finite and left.levels is None) and not isinstance(right, Symbols):
        return reals.scale(left, 1 / right.astype(np.float32))
    return reals.divide(lifted(left, reals), lifted(right, reals))


def _power(reals: Reals, base: Value, exponent: Value) -> Symbols:
    if isinstance(exponent, Symbols):
        if isinstance(base, Symbols):
            return reals.exp(reals.multiply(exponent, reals.log(base)))
        if (base <= 0).any():
            raise UndecidedError("a number that is not positive is raised to a power that depends on the inputs")
        return reals.exp(reals.multiply(exponent, lifted(np.log(base.astype(np.float64)), reals)))
    shape = np.broadcast_shapes(base.shape, exponent.shape)
    symbols, powers = spread([base], reals)[0], np.broadcast_to(exponent, shape)
    symbols = symbols.moved(lambda part: np.broadcast_to(part, shape))
    result: Symbols | None = None
    for each in np.unique(powers):
        found = reals.power(symbols, float(each))
        result = found if result is None else reals.choose(powers == each, found, result)
    assert result is not None
    return result


def _infinities(values: Sequence[Value], reals: Reals) -> tuple[list[Symbols], list[Array]] | None:
    """Both operands in one shape, with the signs of their infinities; None if both are finite everywhere."""
    symbols = spread(values, reals)
    if all(each.infinities is None for each in symbols):
        return None
    return symbols, [each.signs for each in symbols]


def _compared(reals: Reals, left: Value, right: Value, name: str) -> Value:
    """A comparison by ``name``: known where one side is infinite."""
    inner: Callable[[Symbols, Symbols], Symbols] = getattr(reals, name)
    if (found := _infinities([left, right], reals)) is None:
        return inner(lifted(left, reals), lifted(right, reals))
    symbols, signs = found
    is_known = (signs[0] != 0) | (signs[1] != 0)
    answer = signs[0] == signs[1] if name == "equal" else signs[0] > signs[1]
    if is_known.all():
        return answer
    finite = inner(*(each.finite() for each in symbols))
    return reals.choose(is_known, reals.constant(answer), finite)


def _equal(reals: Reals, left: Value, right: Value) -> Value:
    return _compared(reals, left, right, "equal")


def _greater(reals: Reals, left: Value, right: Value) -> Value:
    return _compared(reals, left, right, "greater")


def _not(reals: Reals, value: Value) -> Value:
    return UNARY["logical_not"](reals, value) if isinstance(value, Symbols) else np.asarray(value == 0)


def _maximum(reals: Reals, left: Value, right: Value) -> Symbols:
    for this, other in ((left, right), (right, left)):
        if (
            not isinstance(this, Symbols)
            and this.dtype.kind not in "iub"
            and np.isneginf(this.astype(np.float32)).all()
        ):
            return spread([other, this], reals)[0]  # a clip without this bound
    return reals.maximum(*spread([left, right], reals))


def _minimum(reals: Reals, left: Value, right: Value) -> Symbols:
    for this, other in ((left, right), (right, left)):
        if (
            not isinstance(this, Symbols)
            and this.dtype.kind not in "iub"
            and np.isposinf(this.astype(np.float32)).all()
        ):
            return spread([other, this], reals)[0]
    return reals.minimum(*spread([left, right], reals))


def _where_chosen(side: Value, chosen: Array) -> Value:
    return side if isinstance(side, Symbols) else np.where(chosen, side, np.zeros((), side.dtype))


def select(reals: Reals, condition: Value, yes: Value, no: Value) -> Symbols:
    """``yes`` where ``condition`` is not 0, else ``no``."""
    if isinstance(condition, Symbols):
        return reals.select(*spread([condition, yes, no], reals))
    shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
    # A side may be NaN where it is not chosen.
    yes, no = (_where_chosen(side, chosen) for side, chosen in ((yes, condition != 0), (no, condition == 0)))
    sides = [side.moved(lambda part: np.broadcast_to(part, shape)) for side in spread([yes, no], reals)]
    return reals.choose(np.broadcast_to(condition != 0, shape), *sides)


def _is_finite(reals: Reals, value: Value) -> Array:
    symbols = lifted(value, reals)
    if symbols.kept is not None:
        raise UndecidedError("which numbers are infinite depends on the inputs")
    return symbols.signs == 0


def _is_infinite(reals: Reals, value: Value) -> Value:
    return np.asarray(~_is_finite(reals, value))


def _is_nan(_: Reals, value: Value) -> Value:
    return np.zeros(value.shape, np.bool_)  # a NaN never becomes a symbol


_Unary = Callable[[Reals, Symbols], Symbols]
_Binary = Callable[[Reals, Symbols, Symbols], Symbols]
_BinaryOfValues = Callable[[Reals, Value, Value], Value]

_COMPARISONS: Final[dict[str, _BinaryOfValues]] = {
    "equal": _equal,
    "not_equal": lambda m, x, y: _not(m, _equal(m, x, y)),
    "greater": _greater,
    "less": lambda m, x, y: _greater(m, y, x),
    "greater_equal": lambda m, x, y: _not(m, _greater(m, y, x)),
    "less_equal": lambda m, x, y: _not(m, _greater(m, x, y)),
}
_EXTENDED: Final[dict[str, Callable[..., Value]]] = {
    **_COMPARISONS,
    "multiply": _multiply,
    "divide": _divide,
    "true_divide": _divide,
    "power": _power,
    "float_power": _power,
    "maximum": _maximum,
    "fmax": _maximum,
    "minimum": _minimum,
    "fmin": _minimum,
    "isfinite": _is_finite,
    "isinf": _is_infinite,
    "isnan": _is_nan,
    "select": select,
}
_OF_TRUTHS: Final = {
    "add": "logical_or",
    "maximum": "logical_or",
    "multiply": "logical_and",
    "minimum": "logical_and",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
}


def named(name: str, is_truth: bool) -> str:
    """The name of the function that ``name`` is for truth values."""
    return _OF_TRUTHS.get(name, name) if is_truth else name


# -- formulas on symbols

_LN_2: Final = math.log(2)


def _whole(name: str) -> _Unary:
    """A rounding to integers: the number itself if it is one, else an unknown function."""

    def found(m: Reals, x: Symbols) -> Symbols:
        if x.is_whole:
            return x
        rounded = m.unknown_function(name, x)
        return replace(rounded, is_whole=True)

    return found


NEAREST: Final = "rounding to an integer"
"""As the executor names the casts of the hardware, which round to the nearest."""
TRUNCATED: Final = "truncation to an integer"


def _cos(m: Reals, x: Symbols) -> Symbols:
    """sin(x + pi / 2), as kernels compute it."""
    return m.odd("sin", m.add(x, m.number(math.pi / 2)))


def _odd(name: str) -> _Unary:
    def found(m: Reals, x: Symbols) -> Symbols:
        return m.odd(name, x)

    return found


def _half_sum(sign: int) -> _Unary:
    """cosh and sinh."""

    def found(m: Reals, x: Symbols) -> Symbols:
        up, down = m.exp(x), m.exp(m.negative(x))
        return m.times(m.add(up, down) if sign > 0 else m.subtract(up, down), 0.5)

    return found


def _unknown(name: str) -> Callable[..., Symbols]:
    def found(m: Reals, *values: Symbols) -> Symbols:
        return m.unknown_function(name, *values)

    return found


_UNARY: Final[dict[str, _Unary]] = {
    **ACTIVATIONS,
    "logical_not": UNARY["logical_not"],
    "negative": Reals.negative,
    "positive": ACTIVATIONS["copy"],
    "absolute": ACTIVATIONS["abs"],
    "fabs": ACTIVATIONS["abs"],
    "exp2": lambda m, x: m.exp(m.times(x, _LN_2)),
    "expm1": lambda m, x: m.subtract(m.exp(x), m.number(1)),
    "log1p": lambda m, x: m.log(m.add(x, m.number(1))),
    "log2": lambda m, x: m.divide(m.log(x), m.number(_LN_2)),
    "log10": lambda m, x: m.divide(m.log(x), m.number(math.log(10))),
    "erfc": lambda m, x: m.subtract(m.number(1), m.odd("erf", x)),
    "cos": _cos,
    "tan": lambda m, x: m.divide(m.odd("sin", x), _cos(m, x)),
    "sinh": _half_sum(-1),
    "cosh": _half_sum(1),
    **{name: _odd(name) for name in ("arcsin", "arcsinh", "arctanh", "cbrt", "erfinv")},
    **{name: _whole(name) for name in ("floor", "ceil")},
    "rint": _whole(NEAREST),
    "trunc": _whole(TRUNCATED),
}
_BINARY: Final[dict[str, _Binary]] = {
    **{name: BINARY[name] for name in ("add", "subtract", "logical_and", "logical_or", "logical_xor")},
    "logaddexp": lambda m, x, y: m.log(m.add(m.exp(x), m.exp(y))),
    "hypot": lambda m, x, y: m.sqrt(m.add(m.multiply(x, x), m.multiply(y, y))),
    "floor_divide": lambda m, x, y: _whole("floor")(m, m.divide(x, y)),
}
POINTWISE: Final[dict[str, Callable[..., Symbols]]] = {
    **{name: _unknown(f"bits: {name}") for name in BITS},
    **{name: _unknown(name) for name in ("mod", "fmod", "arccos", "arccosh", "arctan2", "lgamma", "copysign")},
    "remainder": _unknown("mod"),
    **_UNARY,
    **_BINARY,
}


def cast(reals: Reals, value: Symbols, kind: str) -> Symbols:
    """``value`` in a dtype of this NumPy kind: floats are real numbers, integers truncate, truths are 0 and 1."""
    if kind == "b":
        return reals.truth(value)
    if kind in "iu":
        return POINTWISE["trunc"](reals, value)
    if kind == "c":
        raise UndecidedError("complex numbers are computed with")
    return value


# -- places


def rearranged(reals: Reals, operator: Callable[..., Any], *values: Value) -> Any:
    """The result of ``operator`` of a framework, which only moves elements, for ``values``.

    It is called with their places instead, numbered through all of them from 1; where it puts a 0 of its own, the
    number 0 is. A list or tuple of results stays one.
    """
    places: list[Array] = []
    start = 1
    for value in values:
        count = math.prod(value.shape)
        places.append(np.arange(start, start + count, dtype=np.int64).reshape(value.shape))
        start += count
    flat = [lifted(value, reals).moved(lambda part: part.reshape(-1)) for value in values]
    found = operator(*places)
    if isinstance(found, (list, tuple)):
        return [_taken(reals, flat, np.asarray(each), start) for each in found]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return _taken(reals, flat, np.asarray(found), start)


def _taken(reals: Reals, flat: list[Symbols], places: Array, end: int) -> Symbols:
    places = places.astype(np.int64)
    if ((places < 0) | (places >= end)).any():
        raise UndecidedError("an element beyond the end of an array is read")
    if len(flat) == 1 and places.all():
        return flat[0].moved(lambda part: part[places - 1])
    zero = reals.constant(np.zeros(1, np.int32))
    whole = reals.joined([zero, *flat], np.concatenate)
    return whole.moved(lambda part: part[places])


__all__ = [
    "POINTWISE",
    "Value",
    "apply",
    "cast",
    "is_known_function",
    "lifted",
    "listed",
    "moved",
    "named",
    "rearranged",
    "select",
    "spread",
]
