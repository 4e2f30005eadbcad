"""Compile-time inputs beside tensors: constants among the arguments, and values that the kernel's Python code reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MethodType
from typing import Any, cast

import numpy as np

from nki.base.dtype import DType
from nki.base.errors import KernelArgumentError
from nki.base.toolchain import is_toolchain
from nki.frontend.captured_state import ABSENT, Read
from nki.frontend.objects import is_structure

_DEEPEST = 32


def constant_key(name: str, value: Any, depth: int = 0) -> Any:
    """A hashable stand-in for the compile-time argument ``name``, equal only for arguments that compile alike.

    Raises :class:`KernelArgumentError` for what cannot be compiled in.
    """
    if depth > _DEEPEST:
        raise KernelArgumentError(
            f"argument '{name}' holds containers more than {_DEEPEST} deep, or itself", fix="pass flatter constants"
        )
    depth += 1
    if value is None or isinstance(value, bool | int | float | str | Enum | DType):
        return type(value), repr(value) if isinstance(value, float) else value
    if isinstance(value, list | tuple):
        items = cast("tuple[Any, ...]", value)
        return type(items), tuple([constant_key(name, v, depth) for v in items])
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return type(pairs), tuple(
            [(constant_key(name, k, depth), constant_key(name, v, depth)) for k, v in pairs.items()]
        )
    if isinstance(value, np.generic):
        number = cast("Any", value)
        return type(number), number.item()
    if isinstance(value, MethodType) and is_structure(value.__self__):
        return Same(value.__func__), constant_key(name, value.__self__, depth)
    if callable(value) and not is_structure(value):
        return Same(value)
    if hasattr(value, "__reduce__") and is_toolchain(type(value)):
        return Same(value)
    fields = getattr(value, "__dict__", None)
    if fields is not None and not hasattr(value, "__array__"):
        return type(value), constant_key(name, fields, depth)
    kind = cast("type[Any]", type(value))
    shown = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise KernelArgumentError(
        f"argument '{name}' {'is' if depth == 1 else 'holds a value'} of type {shown}, which can neither be a tensor "
        "of the call's framework nor a constant to compile in",
        fix="pass each tensor as an argument of its own, all of one framework; constants are numbers, strings, lists, "
        "tuples, dicts and plain objects of them",
    )


class Same:
    """Equal only for the very same object, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class Seen:
    """A value from outside that a kernel was compiled with: a way to read it again, and the value then."""

    read: Callable[[], Any]
    value: Any
    key: Any
    """None for what cannot change without becoming another object."""


def seen(reads: Iterable[Read]) -> tuple[Seen, ...]:
    """The present value of each of ``reads``."""
    return tuple(Seen(read, value := read(), None if _fixed(value) else _content(value)) for read in reads)


def unchanged(values: tuple[Seen, ...]) -> bool:
    """True if every value is still the one that the kernel was compiled with."""
    return all(_unchanged(one, one.read()) for one in values)


def _unchanged(one: Seen, now: Any) -> bool:
    if one.key is None:
        return now is one.value or (_fixed(now) and _content(now) == _content(one.value))
    return _content(now) == one.key


def _fixed(value: Any) -> bool:
    return (
        value is ABSENT
        or value is None
        or callable(value)
        or isinstance(value, bool | int | float | str | Enum | DType)
    )


def _content(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array.dtype.str, array.shape, array.tobytes()
    try:
        return constant_key("", value)
    except KernelArgumentError:
        return Same(value)
