"""Names of a function of NumPy: those that create arrays make such that can hold symbols."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from nki.proofs.reals import Reals
from nki.proofs.symbols import Array
from nki.proofs.traced import numpy_functions as _  # noqa: F401  # fills the table of functions
from nki.proofs.traced.elements import Value
from nki.proofs.traced.traced_array import TracedArray, has_symbols, plain_all, traced, value_of


class _Creation(types.ModuleType):
    """NumPy, with creation functions of arrays that can be filled with what depends on the inputs."""

    def __init__(self, reals: Reals) -> None:
        super().__init__("numpy")
        self._reals = reals

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in ("zeros", "ones", "empty", "full"):
            return functools.partial(self._created, found)
        if name in ("zeros_like", "ones_like", "empty_like", "full_like"):
            return functools.partial(self._created_like, found)
        if name in ("array", "asarray", "ascontiguousarray", "asanyarray", "copy"):
            return functools.partial(self._array, found)
        return found

    def _created(self, function: Callable[..., Array], *args: Any, **kwargs: Any) -> Any:
        """Arrays of floats only: integers and truths choose places, and stay known."""
        array = function(*args, **kwargs)
        return TracedArray(array, array.dtype, self._reals) if array.dtype.kind not in "iub" else array

    def _created_like(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return traced(function(*args, **kwargs), self._reals)

    def _array(self, function: Callable[..., Any], item: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_symbols(item):
            return function(plain_all(item), *args, **kwargs)
        dtype = args[0] if args else kwargs.get("dtype")
        whole = traced(item, self._reals)
        copied = whole.copy() if function in (np.array, np.copy) else whole
        return copied if dtype is None or np.dtype(dtype) == copied.dtype else copied.astype(dtype)


def with_fillable_arrays(function: Callable[..., Any], reals: Reals) -> Callable[..., Any]:
    """``function`` with other names in its module: NumPy, and functions of that module that are called from it."""
    if not isinstance(function, types.FunctionType):
        return function
    creation = _Creation(reals)
    names = dict(function.__globals__)
    for name, item in function.__globals__.items():
        if item is np:
            names[name] = creation
        elif isinstance(item, types.FunctionType) and item.__globals__ is function.__globals__:
            names[name] = _rebound(item, names)
    return _rebound(function, names)


def _rebound(function: types.FunctionType, names: dict[str, Any]) -> types.FunctionType:
    bound = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound


def evaluate(function: Callable[..., Any], arguments: Sequence[Any], reals: Reals) -> list[Value]:
    """The outputs of ``function``; of ``arguments``, arrays are traced arrays."""
    found = with_fillable_arrays(function, reals)(*arguments)
    listed = cast("Sequence[Any]", found) if isinstance(found, (list, tuple)) else [found]
    return [value_of(each) for each in listed]


__all__ = ["evaluate", "with_fillable_arrays"]
