"""Functions of libraries that the file of a kernel has put its own in place of, while it was imported here."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, Final, cast

import numpy as np

_JUDGES: Final = frozenset({"builtins", "jax", "ml_dtypes", "nki", "numpy", "scipy", "torch"})
"""Packages that references and this one compute with."""


def replaced(file: str) -> list[str]:
    """The names of functions in modules of :data:`_JUDGES` that are defined in ``file``, and of NumPy's own functions
    under another one's name.
    """
    names = [f"{owner}.{name}" for owner, name, value in _members() if _file_of(value) == file]
    own: Any = sys.modules.get("numpy._core.umath") or sys.modules.get("numpy.core.umath")
    functions: dict[str, Any] = {} if own is None else dict(own.__dict__)
    for name, value in functions.items():
        there = getattr(np, name, value)
        if isinstance(value, np.ufunc) and isinstance(there, np.ufunc) and there is not value:
            names.append(f"numpy.{name}")
    return list(dict.fromkeys(names))


def _members() -> Iterator[tuple[str, str, Any]]:
    modules: list[tuple[str, Any]] = list(sys.modules.items())
    for owner, module in modules:
        if owner.partition(".")[0] not in _JUDGES:
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            yield owner, name, value
            if type(value) is type and value.__module__ == owner and owner.startswith("nki."):
                yield from ((f"{owner}.{name}", member, each) for member, each in list(vars(value).items()))


def _file_of(value: Any) -> str:
    """The file of a function's code; empty for anything else."""
    kind = cast("object", type(value))  # isinstance would ask the value itself
    if kind is functools.partial:
        value = value.func
    elif kind is MethodType:
        value = value.__func__
    elif kind is property:
        value = value.fget
    return value.__code__.co_filename if type(value) is FunctionType else ""
