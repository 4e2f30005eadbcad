"""Functions written in PyTorch: traced to operators of ATen without side effects, which are interpreted on symbols."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx.node import map_arg

from nki.base.proof_errors import UnknownOperatorError
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols, UndecidedError
from nki.proofs.traced import elements, folds
from nki.proofs.traced.elements import Value, listed
from nki.proofs.traced.torch_graphs import traced_graph


def evaluate(
    function: Callable[..., Any], values: Sequence[Value | Any], dtypes: Sequence[str | None], reals: Reals
) -> list[Value]:
    """The outputs of ``function``; ``dtypes``: PyTorch's name of each tensor's dtype, None for what is no tensor."""
    tensors = [
        value if dtype is None else torch.empty(value.shape, dtype=getattr(torch, dtype))
        for value, dtype in zip(values, dtypes, strict=True)
    ]
    symbols = [value for value, dtype in zip(values, dtypes, strict=True) if dtype is not None]
    examples = [each for each, dtype in zip(tensors, dtypes, strict=True) if dtype is not None]

    def of_tensors(*traced: Any) -> Any:
        rest = iter(traced)
        return function(*(each if dtype is None else next(rest) for each, dtype in zip(tensors, dtypes, strict=True)))

    graph = traced_graph(of_tensors, examples)
    found = Interpreter(graph, reals).run(symbols)
    listed = found if isinstance(found, (list, tuple)) else [found]
    return [as_value(each) for each in listed]


def as_value(item: Any) -> Value:
    """Symbols, or the array of a tensor or number that is known."""
    if isinstance(item, Symbols):
        return item
    if isinstance(item, torch.Tensor):
        item = item.detach()
        return (item.float() if item.dtype.is_floating_point and item.dtype.itemsize < 4 else item).numpy()
    return np.asarray(item)


class Interpreter:
    """Runs a graph: an operator with known operands by PyTorch, any other one by a rule for it."""

    def __init__(self, graph: torch.fx.GraphModule, reals: Reals) -> None:
        self.graph, self.reals = graph, reals

    def run(self, inputs: Sequence[Value]) -> Any:
        values: dict[Any, Any] = {}
        rest = iter(inputs)
        for node in self.graph.graph.nodes:
            args, kwargs = (map_arg(each, values.__getitem__) for each in (node.args, node.kwargs))
            if node.op == "placeholder":
                given = next(rest)
                values[node] = given if isinstance(given, Symbols) else torch.from_numpy(np.ascontiguousarray(given))
            elif node.op == "get_attr":
                values[node] = getattr(self.graph, node.target)
            elif node.op == "output":
                return args[0]
            else:
                values[node] = self._call(node, args, kwargs)
        raise AssertionError("a graph has an output")

    def _call(self, node: Any, args: Any, kwargs: Any) -> Any:
        function = node.target
        if not has_symbols(args) and not has_symbols(tuple(kwargs.values())):
            if torch.Tag.nondeterministic_seeded in getattr(function, "tags", ()):
                raise UndecidedError(f"{function} draws random numbers")
            return function(*args, **kwargs)
        if not isinstance(function, OpOverload):
            return function(*args, **kwargs)  # getitem of several results
        name = _name_of(function)
        if torch.Tag.nondeterministic_seeded in function.tags:
            raise UndecidedError(f"torch.{name} draws random numbers")
        meta = node.meta.get("val")
        found = self._found(name, function, args, kwargs, meta)
        return _of_dtype(found, meta) if isinstance(found, np.ndarray) else found

    def _found(self, name: str, function: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        reals = self.reals
        if name in MOVES:
            return self._rearranged(function, args, kwargs, MOVES[name])
        if name in RULES:
            return RULES[name](Call(reals, function, meta), *args, **kwargs)
        named = elements.named(_POINTWISE.get(name, name), getattr(meta, "dtype", None) == torch.bool)
        if elements.is_known_function(named) and not kwargs:
            return elements.apply(reals, named, *(as_value(each) for each in args))
        raise UnknownOperatorError.of("PyTorch", str(function))

    def _rearranged(self, function: Any, args: Any, kwargs: Any, indices: tuple[int, ...]) -> Any:
        for place in indices:
            if place < len(args) and has_symbols(args[place]):
                return _symbolic_index(self.reals, function, args)
        kept = {place: args[place] for place in indices if place < len(args)}
        data = [None if place in kept else each for place, each in enumerate(args)]
        found: list[Value] = []
        _numbered(data, lambda each: found.append(as_value(each)))

        def operator(*places: np.ndarray[Any, Any]) -> Any:
            rest = iter(places)
            moved = _numbered(data, lambda _: torch.from_numpy(next(rest)))
            return function(*(kept.get(place, each) for place, each in enumerate(moved)), **kwargs)

        return elements.rearranged(self.reals, operator, *found)


class Call:
    """A call of a rule: all that it knows beside its operands."""

    def __init__(self, reals: Reals, function: Any, meta: Any) -> None:
        self.reals, self.function, self.meta = reals, function, meta


def has_symbols(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return any(has_symbols(each) for each in item)
    return isinstance(item, Symbols)


def _name_of(function: Any) -> str:
    return function._schema.name.rpartition("::")[2]


def _numbered(item: Any, number: Callable[[Any], Any]) -> Any:
    """``item`` with ``number`` of each tensor in it."""
    if isinstance(item, (list, tuple)):
        return [_numbered(each, number) for each in item]
    return number(item) if isinstance(item, (Symbols, torch.Tensor)) else item


def _of_dtype(array: np.ndarray[Any, Any], meta: Any) -> Any:
    found = torch.from_numpy(np.ascontiguousarray(array))
    return found.to(meta.dtype) if isinstance(meta, torch.Tensor) else found


def _symbolic_index(reals: Reals, function: Any, args: Any) -> Symbols:
    name = _name_of(function)
    value = as_value(args[0])
    if name == "embedding":
        return folds.picked(reals, value, args[1], 0)
    if name == "index_select":
        return folds.picked(reals, value, args[2], args[1] % len(value.shape))
    if name == "gather":
        axis = args[1] % len(value.shape)
        turned = [elements.moved(each, lambda part: np.moveaxis(part, axis, -1)) for each in (value, args[2])]
        rows = tuple(turned[1].shape[:-1])
        inside = elements.moved(turned[0], lambda part: part[tuple(slice(size) for size in rows)])
        return folds.gathered(reals, inside, turned[1]).moved(lambda part: np.moveaxis(part, -1, axis))  # pyright: ignore[reportArgumentType]
    if name == "index" and len(given := [each for each in enumerate(args[1]) if each[1] is not None]) == 1:
        axis, places = given[0]
        return folds.picked(reals, value, places, axis)
    raise UndecidedError(f"torch.{name} reads or writes at places that depend on the inputs")


# -- the operators

MOVES: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        listed(
            "view reshape _unsafe_view _reshape_alias permute transpose t expand slice select squeeze "
            "unsqueeze cat stack split split_with_sizes chunk unbind flip roll repeat tril triu "
            "slice_scatter select_scatter diagonal unfold as_strided alias clone detach lift_fresh "
            "lift_fresh_copy rot90 diag_embed diagonal_scatter pixel_shuffle channel_shuffle contiguous "
            "view_copy permute_copy transpose_copy expand_copy slice_copy select_copy squeeze_copy "
            "unsqueeze_copy alias_copy diagonal_copy unfold_copy split_copy split_with_sizes_copy "
            "unbind_copy as_strided_copy t_copy detach_copy copy as_strided_scatter reflection_pad1d "
            "reflection_pad2d replication_pad1d replication_pad2d narrow repeat_interleave"
        ),
        (),
    ),
    "index": (1,),
    "index_select": (2,),
    "gather": (2,),
    "embedding": (1,),
    "take": (1,),
    "index_put": (1,),
    "scatter": (2,),
    "_unsafe_index": (1,),
}
"""Operators that only move elements, and which of their arguments are places."""

_POINTWISE: Final = {
    "mul": "multiply",
    "neg": "negative",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "sigmoid": "sigmoid",
    "bitwise_not": "invert",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "where": "select",
    "clamp_min": "maximum",
    "clamp_max": "minimum",
    "pow": "power",
}


def _add(call: Call, left: Any, right: Any, *, alpha: float = 1) -> Value:
    scaled: Value = as_value(right)
    if alpha != 1:
        scaled = elements.apply(call.reals, "multiply", scaled, np.asarray(alpha))
    return elements.apply(call.reals, elements.named("add", call.meta.dtype == torch.bool), as_value(left), scaled)


def _sub(call: Call, left: Any, right: Any, *, alpha: float = 1) -> Value:
    return _add(call, left, right, alpha=-alpha)


def _div(call: Call, left: Any, right: Any, *, rounding_mode: str | None = None) -> Value:
    found = elements.apply(call.reals, "divide", as_value(left), as_value(right))
    return found if rounding_mode is None else elements.apply(call.reals, rounding_mode, found)


def _clamp(call: Call, value: Any, low: Any = None, high: Any = None) -> Value:
    found = as_value(value)
    if low is not None:
        found = elements.apply(call.reals, "maximum", found, as_value(low))
    return found if high is None else elements.apply(call.reals, "minimum", found, as_value(high))


def _cast(call: Call, value: Any, *_: Any, **__: Any) -> Symbols:
    dtype = call.meta.dtype
    kind = "b" if dtype == torch.bool else "f" if dtype.is_floating_point else "c" if dtype.is_complex else "i"
    return elements.cast(call.reals, value, kind)


def _folded(op: str) -> Callable[..., Any]:
    def rule(call: Call, value: Symbols, axes: Any = None, keepdim: bool = False, **_: Any) -> Symbols:
        return folds.fold(call.reals, value, None if axes == [] else axes, keepdim, folds.FOLDS[op])

    return rule


def _mean(call: Call, value: Symbols, axes: Any = None, keepdim: bool = False, **_: Any) -> Symbols:
    return folds.mean(call.reals, value, axes or None if isinstance(axes, list) else axes, keepdim)


def _variance(
    call: Call, value: Symbols, axes: Any = None, correction: Any = None, keepdim: bool = False, **_: Any
) -> Symbols:
    return folds.variance(call.reals, value, axes, keepdim, 1 if correction is None else correction)


def _variance_and_mean(call: Call, value: Symbols, *args: Any, **kwargs: Any) -> tuple[Symbols, Symbols]:
    axes = args[0] if args else kwargs.get("dim")
    return _variance(call, value, *args, **kwargs), folds.mean(call.reals, value, axes, kwargs.get("keepdim", False))


def _deviation(call: Call, value: Symbols, *args: Any, **kwargs: Any) -> Symbols:
    return call.reals.sqrt(_variance(call, value, *args, **kwargs))


def _extreme(smallest: bool) -> Callable[..., Any]:
    def rule(call: Call, value: Symbols, axis: Any = None, keepdim: bool = False) -> Any:
        op = "minimum" if smallest else "maximum"
        if isinstance(axis, Symbols | torch.Tensor):  # of two tensors
            return elements.apply(call.reals, op, value, as_value(axis))
        found = folds.fold(call.reals, value, axis, keepdim, folds.FOLDS[op])
        return found if axis is None else (found, _index(smallest)(call, value, axis, keepdim))

    return rule


def _index(smallest: bool) -> Callable[..., Symbols]:
    def rule(call: Call, value: Symbols, axis: int | None = None, keepdim: bool = False) -> Symbols:
        rows = value.moved(lambda part: part.reshape(-1) if axis is None else np.moveaxis(part, axis, -1))
        found = folds.extreme_index(call.reals, rows, smallest)
        return found.moved(lambda part: np.expand_dims(part, -1 if axis is None else axis)) if keepdim else found

    return rule


def _in_rows(value: Symbols, axis: int, found: Callable[[Symbols], tuple[Symbols, Symbols]]) -> list[Symbols]:
    rows = value.moved(lambda part: np.moveaxis(part, axis, -1))
    return [each.moved(lambda part: np.moveaxis(part, -1, axis)) for each in found(rows)]


def _topk(call: Call, value: Symbols, count: int, axis: int = -1, largest: bool = True, **_: Any) -> Any:
    if not largest:
        raise UnknownOperatorError.of("PyTorch", "topk of the smallest")
    return _in_rows(value, axis, lambda rows: folds.largest(call.reals, rows, count))


def _sort(call: Call, value: Symbols, axis: int = -1, descending: bool = False, **_: Any) -> Any:
    return _in_rows(value, axis, lambda rows: folds.ordered(call.reals, rows, descending))


def _running(op: str) -> Callable[..., Symbols]:
    return lambda call, value, axis, **_: folds.accumulated(call.reals, op, value, axis)


def _matmul(call: Call, left: Any, right: Any) -> Symbols:
    return folds.matmul(call.reals, as_value(left), as_value(right))


def _convolution(
    call: Call,
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    is_turned: bool,
    _: Any,
    groups: int,
) -> Value:
    if is_turned:
        raise UnknownOperatorError.of("PyTorch", "transposed convolution")
    rank = len(x.shape) - 2
    stride, padding, dilation = (list(each) * (rank if len(each) == 1 else 1) for each in (stride, padding, dilation))
    around = [0, 0, *padding]
    wide = folds.padded(call.reals, as_value(x), around, around, np.zeros((), np.int32))
    found = folds.convolution(call.reals, wide, as_value(w), stride, dilation, groups)
    if bias is None:
        return found
    column = elements.moved(as_value(bias), lambda part: part.reshape(-1, *[1] * rank))
    return elements.apply(call.reals, "add", found, column)


def _pooled(op: str) -> Callable[..., Any]:
    def rule(call: Call, x: Any, size: Any, stride: Any = (), padding: Any = (0, 0), *rest: Any) -> Any:
        size, stride, padding = (list(each) * (3 - len(each)) for each in (size, stride or size, padding))
        dilation = list(rest[0]) * (3 - len(rest[0])) if op == "maximum" and rest else [1, 1]
        if any(rest[1:] if op == "maximum" else rest[:1]):
            raise UnknownOperatorError.of("PyTorch", "pooling with ceil_mode")
        if len(rest) > 2 or (rest[1:2] == (False,) and op == "add" and any(padding)):
            raise UnknownOperatorError.of("PyTorch", "pooling that does not count what is padded")
        around = [*[0] * (len(x.shape) - 2), *padding]
        filler = np.asarray(-math.inf if op == "maximum" else 0.0)
        wide = folds.padded(call.reals, as_value(x), around, around, filler)
        windows = folds.windows(call.reals, wide, size, stride, dilation)
        found = folds.fold(call.reals, windows, -1, False, folds.FOLDS[op])
        if op == "maximum":
            return found, None  # the indices are of no use but to gradients
        return call.reals.divide(found, call.reals.number(math.prod(size)))

    return rule


def _padded(call: Call, value: Any, widths: Sequence[int], filler: float = 0) -> Symbols:
    rank = len(value.shape)
    low, high = [0] * rank, [0] * rank
    for place in range(len(widths) // 2):
        low[rank - 1 - place], high[rank - 1 - place] = widths[2 * place], widths[2 * place + 1]
    return folds.padded(call.reals, as_value(value), low, high, np.asarray(filler))


def _known_like(call: Call, value: Symbols, *args: Any, **kwargs: Any) -> Any:
    return call.function(torch.empty(value.shape, dtype=call.meta.dtype), *args, **kwargs)


def _data_dependent(_: Call, *__: Any, **___: Any) -> Any:
    raise UndecidedError("what an `if`, a loop or an index of the function decides depends on the inputs")


RULES: Final[dict[str, Callable[..., Any]]] = {
    "add": _add,
    "sub": _sub,
    "div": _div,
    "clamp": _clamp,
    "_to_copy": _cast,
    "convert_element_type": _cast,
    "view_dtype": _cast,
    "sum": _folded("add"),
    "amax": _folded("maximum"),
    "amin": _folded("minimum"),
    "prod": _folded("multiply"),
    "any": _folded("logical_or"),
    "all": _folded("logical_and"),
    "mean": _mean,
    "var": _variance,
    "std": _deviation,
    "var_mean": _variance_and_mean,
    "max": _extreme(False),
    "min": _extreme(True),
    "argmax": _index(False),
    "argmin": _index(True),
    "topk": _topk,
    "sort": _sort,
    "cumsum": _running("add"),
    "cumprod": _running("multiply"),
    "mm": _matmul,
    "bmm": _matmul,
    "matmul": _matmul,
    "mv": _matmul,
    "dot": _matmul,
    "argsort": lambda *args, **kwargs: _sort(*args, **kwargs)[1],
    "convolution": _convolution,
    "avg_pool2d": _pooled("add"),
    "max_pool2d_with_indices": _pooled("maximum"),
    "constant_pad_nd": _padded,
    "_local_scalar_dense": _data_dependent,
    "item": _data_dependent,
    "nonzero": _data_dependent,
    "masked_select": _data_dependent,
    "round": lambda call, x: elements.apply(call.reals, "rint", x),
    "masked_fill": lambda call, x, mask, filler: elements.select(
        call.reals, as_value(mask), as_value(filler), as_value(x)
    ),
    "fill": lambda call, x, number: call.function(torch.empty(x.shape, dtype=call.meta.dtype), number),
    **dict.fromkeys(
        listed("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty zero"), _known_like
    ),
}
"""The rule of an operator for symbols, by its name in ATen."""

__all__ = ["Interpreter", "evaluate"]
