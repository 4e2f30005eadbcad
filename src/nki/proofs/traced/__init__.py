"""Functions of NumPy, PyTorch or JAX over finite fields: traced through their own operators."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from nki.base import element_types
from nki.base.errors import NkiError
from nki.base.locks import imported
from nki.base.sweep_errors import BadReferenceError
from nki.proofs.field import UnluckyError
from nki.proofs.reals import Reals
from nki.proofs.symbols import Array, Symbols, UndecidedError
from nki.proofs.traced import numpy_names
from nki.proofs.traced.elements import Value, lifted
from nki.proofs.traced.traced_array import TracedArray
from nki.workload.reference import REFUSALS

_FRAMEWORKS: Final = ("torch", "jax")


def evaluate_function(
    function: Callable[..., Any], inputs: Sequence[Symbols | Array], specs: Sequence[Any], reals: Reals
) -> list[Symbols]:
    """The outputs of ``function``, each in its own shape.

    ``specs``: the arguments of ``function``: what has a shape and a dtype stands for the next one of ``inputs``, all
    others are constants. A framework takes the function if the function's names are from it; else NumPy does, and the
    others if the function refuses arrays. Raises :class:`UndecidedError` where the proof cannot follow, and
    :class:`UnknownOperatorError` for operators without a rule.
    """
    values = iter(inputs)
    arguments = [next(values) if is_tensor(spec) else spec for spec in specs]
    dtypes = [element_types.of(spec.dtype) if is_tensor(spec) else None for spec in specs]

    def in_numpy() -> list[Value]:
        arrays = [
            value if dtype is None else TracedArray(value, dtype.dtype, reals)
            for value, dtype in zip(arguments, dtypes, strict=True)
        ]
        return numpy_names.evaluate(function, arrays, reals)

    def in_torch() -> list[Value]:
        names = [None if dtype is None else dtype.name for dtype in dtypes]
        return imported("nki.proofs.traced.torch_functions").evaluate(function, arguments, names, reals)

    def in_jax() -> list[Value]:
        kinds = [None if dtype is None else dtype.dtype for dtype in dtypes]
        return imported("nki.proofs.traced.jax_functions").evaluate(function, arguments, kinds, reals)

    attempts = {"numpy": in_numpy, "torch": in_torch, "jax": in_jax}
    named = frameworks_of(function)
    chosen = named or ["numpy", *(name for name in _FRAMEWORKS if name in sys.modules)]
    try:
        for name in chosen[:-1]:
            with contextlib.suppress(*REFUSALS):
                return [lifted(value, reals) for value in attempts[name]()]
        return [lifted(value, reals) for value in attempts[chosen[-1]]()]
    except (NkiError, UndecidedError, UnluckyError):
        raise
    except Exception as error:  # whatever a user's function raises
        raise BadReferenceError(
            f"the reference {name_of(function)!r} raises {type(error).__name__}: {error}",
            fix="give it the tensors of the kernel in the same order, and let it return arrays",
        ) from error


def name_of(function: Callable[..., Any]) -> str:
    """The name of a reference in messages."""
    return str(getattr(function, "__name__", "") or type(function).__name__)


def is_tensor(spec: Any) -> bool:
    """True for what has a shape and a dtype, but for scalars of NumPy."""
    return hasattr(spec, "shape") and hasattr(spec, "dtype") and not isinstance(spec, np.generic)


def frameworks_of(function: Callable[..., Any]) -> list[str]:
    """PyTorch or JAX, if what the function's code names is from one of them."""
    tops = {_top(item) for item in _used(function)}
    return [name for name in _FRAMEWORKS if name in tops]


def _top(item: Any) -> str:
    """The package that a module, a function or the class of an object is from."""
    if isinstance(item, types.ModuleType):
        return item.__name__.partition(".")[0]
    tops = [str(getattr(item, "__module__", "")).partition(".")[0]]
    tops += [base.__module__.partition(".")[0] for base in type(item).__mro__]
    return next((top for top in tops if top in _FRAMEWORKS), "")


def _used(function: Callable[..., Any]) -> list[Any]:
    """The function, and what names of its code stand for; also in functions that it calls, but of frameworks."""
    found: list[Any] = []
    waiting: list[Any] = [function]
    while waiting:
        each = waiting.pop()
        if any(each is one for one in found):
            continue
        found.append(each)
        if isinstance(each, functools.partial):
            waiting.append(cast("Any", each).func)
        if isinstance(each, types.FunctionType) and _top(each) != "numpy" and _top(each) not in _FRAMEWORKS:
            named = _names(each.__code__)
            waiting += [each.__globals__[name] for name in named if name in each.__globals__]
            waiting += [cell.cell_contents for cell in each.__closure__ or ()]
    return found


def _names(code: types.CodeType) -> list[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*code.co_names, *(name for each in inner for name in _names(each))]


__all__ = ["evaluate_function", "frameworks_of", "is_tensor", "name_of"]
