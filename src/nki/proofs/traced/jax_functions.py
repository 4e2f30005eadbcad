"""Functions written in JAX: traced to a jaxpr, which is interpreted on symbols."""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from nki.base.proof_errors import UnknownOperatorError
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols, UndecidedError
from nki.proofs.traced import elements, folds
from nki.proofs.traced.elements import Value, listed

_MOST_TRIPS: Final = 1 << 16
"""Trips of a ``while`` after which it counts as one that never ends."""


def evaluate(
    function: Callable[..., Any], values: Sequence[Value | Any], dtypes: Sequence[Any], reals: Reals
) -> list[Value]:
    """The outputs of ``function``; ``dtypes``: NumPy's dtype of each array, None for what is no array."""
    is_array = [dtype is not None for dtype in dtypes]
    examples = [
        jax.ShapeDtypeStruct(value.shape, dtype)
        for value, dtype in zip(values, dtypes, strict=True)
        if dtype is not None
    ]

    def of_arrays(*traced: Any) -> Any:
        rest = iter(traced)
        return function(*(next(rest) if is_one else each for each, is_one in zip(values, is_array, strict=True)))

    try:
        closed = jax.make_jaxpr(of_arrays)(*examples)
    except jax.errors.ConcretizationTypeError as error:
        raise UndecidedError(
            "what an `if`, a loop or an index of the function decides depends on the inputs"
        ) from error
    given = [each for each, is_one in zip(values, is_array, strict=True) if is_one]
    found = _Interpreter(reals).run(closed, given)
    return [each if isinstance(each, Symbols) else np.asarray(each) for each in found]


class _Interpreter:
    """Runs jaxprs: an equation with known operands by JAX, any other one by a rule for its primitive."""

    def __init__(self, reals: Reals) -> None:
        self.reals = reals

    def run(self, closed: Any, inputs: Sequence[Any]) -> list[Any]:
        jaxpr, constants = (closed.jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else (closed, [])
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))

        def read(atom: Any) -> Any:
            return np.asarray(atom.val, cast("Any", atom.aval).dtype) if isinstance(atom, Literal) else values[atom]

        natural = set[Any]()  # variables that are not negative
        for equation in jaxpr.eqns:
            name = equation.primitive.name
            if name in _NATURAL or (name in _STAYS_NATURAL and all(atom in natural for atom in _variables(equation))):
                natural.update(equation.outvars)
            inputs = [read(atom) for atom in equation.invars]
            is_itself = name == "abs" and _variables(equation)[0] in natural
            found = inputs if is_itself else self._equation(equation, inputs)
            values.update(zip(equation.outvars, found, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, inputs: list[Any]) -> Sequence[Any]:
        name, params = equation.primitive.name, equation.params
        if name in _CONTROL:
            return _CONTROL[name](self, params, inputs)
        if (inner := _inner(params)) is not None and name in _CALLS:
            return self.run(inner, inputs)
        if name.startswith("random_") or name in ("threefry2x32", "rng_bit_generator"):
            raise UndecidedError(f"jax's {name} draws random numbers")
        if not any(isinstance(each, Symbols) for each in inputs):
            found = equation.primitive.bind(*inputs, **params)
            return found if equation.primitive.multiple_results else [found]
        found = self._found(equation, name, params, inputs)
        return found if isinstance(found, (list, tuple)) else [found]

    def _found(self, equation: Any, name: str, params: Any, inputs: list[Any]) -> Any:
        values: list[Value] = [each if isinstance(each, Symbols) else np.asarray(each) for each in inputs]
        if name in _DIRECT:
            return elements.moved(values[0], partial(_DIRECT[name], params=params))
        if name in MOVES:
            return self._rearranged(equation, values, MOVES[name])
        if name in RULES:
            return RULES[name](self.reals, equation, *values)
        dtype = equation.outvars[0].aval.dtype
        if name == "div" and dtype.kind in "iu":
            return elements.apply(self.reals, "trunc", elements.apply(self.reals, "divide", *values))
        named = elements.named(_POINTWISE.get(name, name), dtype == np.bool_)
        if elements.is_known_function(named):
            return elements.apply(self.reals, named, *values)
        raise UnknownOperatorError.of("JAX", name)

    def _rearranged(self, equation: Any, values: list[Value], indices: slice) -> Any:
        places = list(range(len(values)))[indices]
        if any(isinstance(values[place], Symbols) for place in places):
            what = equation.primitive.name
            raise UndecidedError(f"jax's {what} reads or writes at places that depend on the inputs")
        data = [place for place in range(len(values)) if place not in places]

        def operator(*numbers: np.ndarray[Any, Any]) -> Any:
            operands: list[Any] = list(values)
            for place, each in zip(data, numbers, strict=True):
                operands[place] = each.astype(np.int32)
            # Places beyond the end are filled with -1, which is no place.
            params = equation.params | ({"fill_value": -1} if "fill_value" in equation.params else {})
            found = equation.primitive.bind(*operands, **params)
            return [np.asarray(each) for each in found] if equation.primitive.multiple_results else np.asarray(found)

        return elements.rearranged(self.reals, operator, *(values[place] for place in data))


_CALLS: Final = frozenset(
    listed(
        "jit pjit closed_call core_call remat remat2 checkpoint custom_jvp_call custom_vjp_call "
        "custom_vjp_call_jaxpr custom_lin run_state"
    )
)


_NATURAL: Final = frozenset(("exp", "exp2", "logistic", "abs", "square"))
_STAYS_NATURAL: Final = frozenset(
    listed("reduce_sum reduce_max broadcast_in_dim reshape squeeze expand_dims transpose slice add mul sqrt copy")
)
"""Primitives with results that are not negative; the latter if their operands are not. JAX takes log of abs."""


def _variables(equation: Any) -> list[Any]:
    """The operands; a literal stands for itself, and nothing is known of it."""
    return [None if isinstance(atom, Literal) else atom for atom in equation.invars]


def _inner(params: Any) -> Any:
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if key in params:
            return params[key]
    return None


# -- control flow


def _scan(run: _Interpreter, params: Any, inputs: list[Any]) -> list[Any]:
    consts, carried = params["num_consts"], params["num_carry"]
    fixed, state, rows = inputs[:consts], inputs[consts : consts + carried], inputs[consts + carried :]
    length, results = params["length"], list[list[Any]]()
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for trip in order:
        slices = [elements.moved(_value(row), lambda part, trip=trip: np.asarray(part[trip])) for row in rows]
        found = run.run(params["jaxpr"], [*fixed, *state, *slices])
        state = found[:carried]
        results.append(found[carried:])
    if params["reverse"]:
        results.reverse()
    return [*state, *(_stacked(run.reals, list(column)) for column in zip(*results, strict=True))]


def _stacked(reals: Reals, column: list[Any]) -> Value:
    if not any(isinstance(each, Symbols) for each in column):
        return np.stack([np.asarray(each) for each in column])
    return reals.joined([elements.lifted(_value(each), reals) for each in column], np.stack)


def _while(run: _Interpreter, params: Any, inputs: list[Any]) -> list[Any]:
    split = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    tests, fixed, state = inputs[: split[0]], inputs[split[0] : split[1]], inputs[split[1] :]
    for _ in range(_MOST_TRIPS):
        (goes_on,) = run.run(params["cond_jaxpr"], [*tests, *state])
        if isinstance(goes_on, Symbols):
            raise UndecidedError("how often a `while` loop runs depends on the inputs")
        if not bool(goes_on):
            return list(state)
        state = run.run(params["body_jaxpr"], [*fixed, *state])
    raise UndecidedError(f"a `while` loop runs more than {_MOST_TRIPS} times")


def _cond(run: _Interpreter, params: Any, inputs: list[Any]) -> list[Any]:
    which, *operands = inputs
    if isinstance(which, Symbols):
        raise UndecidedError("which branch of a `cond` runs depends on the inputs")
    branches = params["branches"]
    return run.run(branches[min(max(int(which), 0), len(branches) - 1)], operands)


_CONTROL: Final[dict[str, Callable[[_Interpreter, Any, list[Any]], list[Any]]]] = {
    "scan": _scan, "while": _while, "cond": _cond,
}  # fmt: skip


# -- places


def _value(item: Any) -> Value:
    return item if isinstance(item, Symbols) else np.asarray(item)


def _broadcast(part: Any, params: Any) -> Any:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], part.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(part.reshape(shape), params["shape"])


def _sliced(part: Any, params: Any) -> Any:
    steps = params["strides"] or [1] * part.ndim
    return part[
        tuple(slice(*each) for each in zip(params["start_indices"], params["limit_indices"], steps, strict=True))
    ]


_DIRECT: Final[dict[str, Callable[..., Any]]] = {
    "reshape": lambda part, params: part.reshape(params["new_sizes"]),
    "transpose": lambda part, params: part.transpose(params["permutation"]),
    "squeeze": lambda part, params: part.squeeze(tuple(params["dimensions"])),
    "expand_dims": lambda part, params: np.expand_dims(part, tuple(params["dimensions"])),
    "rev": lambda part, params: np.flip(part, tuple(params["dimensions"])),
    "broadcast_in_dim": _broadcast,
    "slice": _sliced,
    **dict.fromkeys(
        ("copy", "copy_p", "stop_gradient", "reduce_precision", "sharding_constraint", "optimization_barrier"),
        lambda part, params: part,  # noqa: ARG005  # as the others
    ),
}
"""Primitives that move the elements of one array, as NumPy moves them: each of JAX's own would be compiled."""

_NONE: Final = slice(0, 0)
MOVES: Final = {
    "concatenate": _NONE, "split": _NONE, "dynamic_slice": slice(1, None), "dynamic_update_slice": slice(2, None),
    "gather": slice(1, 2), "scatter": slice(1, 2), "tile": _NONE, "stack": _NONE,
}  # fmt: skip
"""Primitives that only move elements, and which of their operands are places."""


# -- rules

_POINTWISE: Final = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "max": "maximum", "min": "minimum",
    "pow": "power", "logistic": "sigmoid", "rem": "fmod", "is_finite": "isfinite", "eq": "equal", "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "atan2": "arctan2", "erf_inv": "erfinv", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "shift_left": "left_shift", "shift_right_logical": "right_shift", "add_any": "add",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "invert",
}  # fmt: skip


def _fold(op: str) -> Callable[..., Any]:
    return lambda reals, equation, value: folds.fold(reals, value, equation.params["axes"], False, folds.FOLDS[op])


def _running(op: str) -> Callable[..., Any]:
    return lambda reals, equation, value: folds.accumulated(
        reals, op, value, equation.params["axis"], equation.params["reverse"]
    )


def _index(smallest: bool) -> Callable[..., Any]:
    def rule(reals: Reals, equation: Any, value: Symbols) -> Symbols:
        (axis,) = equation.params["axes"]
        rows = value.moved(lambda part: np.moveaxis(part, axis, -1))
        return folds.extreme_index(reals, rows, smallest)

    return rule


def _dot_general(reals: Reals, equation: Any, left: Value, right: Value) -> Symbols:
    contracted, batched = equation.params["dimension_numbers"]
    return folds.dot_general(reals, left, right, contracted, batched)


def _cast(reals: Reals, equation: Any, value: Symbols) -> Symbols:
    kind = np.dtype(equation.params["new_dtype"]).kind
    return elements.cast(reals, value, "f" if kind == "V" else kind)


def _select(reals: Reals, _: Any, which: Value, *cases: Value) -> Value:
    if len(cases) != 2:
        raise UnknownOperatorError.of("JAX", "select_n of more than two cases")
    return elements.select(reals, which, cases[1], cases[0])


def _clamp(reals: Reals, _: Any, low: Value, value: Value, high: Value) -> Value:
    return elements.apply(reals, "minimum", elements.apply(reals, "maximum", value, low), high)


def _integer_power(reals: Reals, equation: Any, value: Symbols) -> Symbols:
    return reals.power(value, equation.params["y"])


def _round(reals: Reals, equation: Any, value: Symbols) -> Value:
    to_even = int(equation.params["rounding_method"]) == 1
    return elements.apply(reals, "rint" if to_even else "round half away", value)


def _pad(reals: Reals, equation: Any, value: Value, filler: Value) -> Symbols:
    low, high, inner = zip(*equation.params["padding_config"], strict=True)
    if any(inner):
        whole = elements.lifted(value, reals)
        sizes = [size + max(size - 1, 0) * apart for size, apart in zip(value.shape, inner, strict=True)]
        index = tuple(slice(None, None, apart + 1) for apart in inner)
        outside = np.ones(sizes, np.bool_)
        outside[index] = False

        def spaced(part: Any) -> Any:
            wide = np.zeros(sizes, part.dtype)
            wide[index] = part
            return wide

        value = reals.choose(outside, *elements.spread([filler, whole.moved(spaced)], reals))
    return folds.padded(reals, value, low, high, filler)


def _top_k(reals: Reals, equation: Any, value: Symbols) -> list[Symbols]:
    return list(folds.largest(reals, value, equation.params["k"]))


def _sort(reals: Reals, equation: Any, *values: Value) -> list[Symbols]:
    if len(values) == 2 and not isinstance(values[1], Symbols):  # a sort with indices is argsort
        axis = equation.params["dimension"]
        rows = elements.lifted(values[0], reals).moved(lambda part: np.moveaxis(part, axis, -1))
        return [each.moved(lambda part: np.moveaxis(part, -1, axis)) for each in folds.ordered(reals, rows, False)]
    if len(values) == 1:
        axis = equation.params["dimension"]
        rows = elements.lifted(values[0], reals).moved(lambda part: np.moveaxis(part, axis, -1))
        return [folds.ordered(reals, rows, False)[0].moved(lambda part: np.moveaxis(part, -1, axis))]
    raise UndecidedError("several arrays are sorted together")


def _convolution(reals: Reals, equation: Any, x: Value, w: Value) -> Symbols:
    params = equation.params
    numbers = params["dimension_numbers"]
    if params["batch_group_count"] != 1 or any(each != 1 for each in params["lhs_dilation"]):
        raise UnknownOperatorError.of("JAX", "conv_general_dilated with lhs_dilation or batch groups")
    value, kernel = (
        elements.moved(each, lambda part, spec=spec: part.transpose(spec))
        for each, spec in ((x, numbers.lhs_spec), (w, numbers.rhs_spec))
    )
    low, high = zip(*((0, 0), (0, 0), *params["padding"]), strict=True)
    wide = folds.padded(reals, value, low, high, np.zeros((), np.int32))
    found = folds.convolution(
        reals, wide, kernel, params["window_strides"], params["rhs_dilation"], params["feature_group_count"]
    )
    return found.moved(lambda part: part.transpose(np.argsort(numbers.out_spec)))


RULES: Final[dict[str, Callable[..., Any]]] = {
    "reduce_sum": _fold("add"), "reduce_max": _fold("maximum"), "reduce_min": _fold("minimum"),
    "reduce_prod": _fold("multiply"), "reduce_and": _fold("logical_and"), "reduce_or": _fold("logical_or"),
    "argmax": _index(False), "argmin": _index(True), "cumsum": _running("add"), "cumprod": _running("multiply"),
    "cummax": _running("maximum"), "cummin": _running("minimum"), "dot_general": _dot_general,
    "convert_element_type": _cast, "select_n": _select, "clamp": _clamp, "integer_pow": _integer_power,
    "round": _round, "pad": _pad, "top_k": _top_k, "sort": _sort, "conv_general_dilated": _convolution,
}  # fmt: skip
"""The rule of a primitive for symbols."""

__all__ = ["evaluate"]
