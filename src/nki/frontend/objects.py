"""``NKIObject``: the base of the classes that kernels use for configurations; and copies of constants, for purity."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import types
from collections.abc import Iterable, Iterator
from enum import Enum
from reprlib import recursive_repr
from typing import Any, cast, dataclass_transform

import numpy as np

from nki.base.source import is_toolchain
from nki.frontend.capture import HOST_PACKAGES
from nki.frontend.frontend_errors import DictKeyError
from nki.ir.types import Access, access_of


@dataclass_transform(eq_default=True)
class NKIObject:
    """Base class of classes for kernels; ``@dataclass`` on top of it is optional.

    A class without an ``__init__`` of its own is initialised from its annotations: one parameter each, in their order,
    fields of base classes first. The default is the class attribute of that name (each object gets a copy of its own),
    None where there is none. ``__post_init__`` is called afterwards. Objects are equal if they are of one class and
    their attributes are equal. Source: NKI Language Guide, "Class Support".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        signature = _signature(cls)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as misfit:
            takes = ", ".join(signature.parameters) or "nothing"
            raise TypeError(f"{cls.__name__}: {misfit}; it takes {takes}") from None
        passed = frozenset(bound.arguments)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value if name in passed else _fresh(value))
        self.__post_init__()

    def __post_init__(self) -> None:
        """Called by the initialiser that is made from annotations; a class may define it."""

    def __eq__(self, other: object) -> bool:
        """True if ``other`` is of the same class and holds equal values; tensors are equal to themselves only."""
        if type(self) is not type(other):
            return NotImplemented
        return _equal(vars(self), vars(other))

    __hash__ = None  # type: ignore[assignment]  # what compares by content, and changes, has no hash

    @recursive_repr()
    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__qualname__}({shown})"


def _signature(cls: type[NKIObject]) -> inspect.Signature:
    """The parameters that the annotations of ``cls`` and its bases make; worked out once for each class."""
    signature = cls.__dict__.get("_nki_signature")
    if signature is None:
        fields = {name: _default(cls, name) for name in _fields(cls)}
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind, default=value) for name, value in fields.items()])
        setattr(cls, "_nki_signature", signature)  # noqa: B010
    return signature


def _fields(cls: type[NKIObject]) -> Iterator[str]:
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            if "ClassVar" not in str(annotation):
                yield name


def _default(cls: type[NKIObject], name: str) -> Any:
    value = getattr(cls, name, None)
    return None if isinstance(value, types.MemberDescriptorType) else value


def _fresh(default: Any) -> Any:
    """The value of a field that a call leaves out; ``dataclasses.field`` means the same with and without @dataclass."""
    if isinstance(default, dataclasses.Field):
        field = cast("dataclasses.Field[Any]", default)
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        return None if field.default is dataclasses.MISSING else field.default
    return copied(default)


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(access_of(one), Access) or isinstance(access_of(other), Access):
        return False  # the values of a tensor are not there to be compared
    if isinstance(one, dict) and isinstance(other, dict):
        a, b = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
        return a.keys() == b.keys() and all(_equal(value, b[key]) for key, value in a.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        x, y = cast("list[Any]", one), cast("list[Any]", other)
        same = isinstance(one, list) == isinstance(other, list)
        return same and len(x) == len(y) and all(map(_equal, x, y))
    return bool(np.all(one == other))  # arrays compare element by element


def is_object(callee: object) -> bool:
    """True if calling ``callee`` makes a :class:`NKIObject`."""
    return isinstance(callee, type) and issubclass(callee, NKIObject)


def is_dictionary(callee: object) -> bool:
    """True if calling ``callee`` makes a dictionary."""
    return isinstance(callee, type) and issubclass(callee, dict)


def with_keys(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Iterable[Any]]:
    """The result of a class of dictionaries, or of a dictionary's method, and the keys that the call has brought."""
    if is_dictionary(fn) or fn.__name__ == "fromkeys":
        made = fn(*args, **kwargs)
        return made, made
    if fn.__name__ == "update" and args:  # an iterator gives its pairs once
        args = (dict(args[0]), *args[1:])
        return fn(*args, **kwargs), args[0]
    return fn(*args, **kwargs), args[:1] if fn.__name__ in ("setdefault", "__setitem__") else ()


def brings_keys(fn: Any) -> bool:
    """True for classes of dictionaries and methods of dictionaries."""
    owner = getattr(fn, "__self__", None)
    return is_dictionary(fn) or isinstance(owner, dict) or is_dictionary(owner)


_GENERATED = (lambda: None).__code__
"""Stands for the code of an initialiser that is not written in Python."""


def construct(cls: type[NKIObject], args: tuple[Any, ...], kwargs: dict[str, Any]) -> NKIObject:
    """Construct a ``cls`` as a kernel does, also if ``@dataclass`` has given it its initialiser.

    Python's would ask for every field without a default, which is None in a kernel, and would not know the attributes
    of the class that have a value and no annotation.
    """
    if not dataclasses.is_dataclass(cls) or getattr(cls.__init__, "__code__", _GENERATED).co_filename != "<string>":
        return cls(*args, **kwargs)  # it has an initialiser of its own, or NKIObject's
    fields = [f for f in dataclasses.fields(cls) if f.init]
    passed = {f.name for f in fields[: len(args)] if not f.kw_only}
    needed = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    missing = [name for name in needed if name not in passed and name not in kwargs]
    names = {f.name for f in fields}
    others = {name: value for name, value in kwargs.items() if name not in names and hasattr(cls, name)}
    instance = cls(*args, **{n: v for n, v in kwargs.items() if n not in others}, **dict.fromkeys(missing))
    for name, value in others.items():
        object.__setattr__(instance, name, value)
    return instance


def copied(value: Any, name: str = "", memo: dict[int, Any] | None = None, keys: list[Any] | None = None) -> Any:
    """``value`` with lists, dictionaries, tuples, sets and objects of the user's classes made anew, all the way down.

    What was one object stays one object: whoever copies several values that may share parts passes one ``memo`` for
    all. Numbers, strings, functions, classes, enumeration members, dtypes, tensors and other objects of NKI and of the
    host's packages stay what they are. ``name``: the variable with this value. ``keys`` takes the dictionary keys that
    are no strings; without it, they raise :class:`DictKeyError`.
    """
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = _copied(value, name, memo, keys)
    return memo[id(value)]


def _copied(value: Any, name: str, memo: dict[int, Any], keys: list[Any] | None) -> Any:
    """A copy of ``value`` itself; what may hold itself enters ``memo`` before its parts are copied."""
    if isinstance(value, dict):
        return _dictionary(cast("dict[Any, Any]", value), name, memo, keys)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        duplicate = memo[id(items)] = copy.copy(items)
        duplicate[:] = [copied(item, name, memo, keys) for item in items]
        return duplicate
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        fresh = [copied(item, name, memo, keys) for item in parts]
        changed = any(new is not old for new, old in zip(fresh, parts, strict=True))
        if not changed:
            return parts
        return cast("Any", tuple).__new__(type(parts), fresh)  # a named tuple takes its fields one by one
    if isinstance(value, set):
        return copy.copy(cast("set[Any]", value))
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, copied(value.__self__, name, memo, keys))
    return _object(value, name, memo, keys) if is_structure(value) else value


def is_structure(value: object) -> bool:
    """True if ``value`` is an object of a user's class that stands for its attributes."""
    kind = type(value)
    if isinstance(value, Enum | type) or is_toolchain(kind) or not hasattr(value, "__dict__"):
        return False
    if kind.__module__.partition(".")[0] in HOST_PACKAGES:
        return False
    return isinstance(value, NKIObject) or not callable(value)


def _dictionary(value: dict[Any, Any], name: str, memo: dict[int, Any], keys: list[Any] | None) -> dict[Any, Any]:
    duplicate = memo[id(value)] = copy.copy(value)
    for key, item in value.items():
        if not isinstance(key, str) and keys is not None:
            keys.append(key)
        elif not isinstance(key, str):
            raise DictKeyError(
                f"argument '{name}' holds a dictionary with the key {key!r:.60}; NKI's dictionaries have string keys "
                "only",
                fix=f"use the key {str(key)!r:.60}, or a list",
            )
        duplicate[key] = copied(item, name, memo, keys)
    return duplicate


def _object(value: Any, name: str, memo: dict[int, Any], keys: list[Any] | None) -> Any:
    try:
        duplicate = object.__new__(cast("type[Any]", type(value)))
    except TypeError:
        return value  # of a class written in C, which holds more than attributes: a module, a number
    memo[id(value)] = duplicate
    state = cast("Any", object.__getstate__(value))
    slotted = cast("tuple[Any, ...]", state if isinstance(state, tuple) else (state,))
    for part in slotted:
        for key, item in cast("dict[str, Any]", part or {}).items():
            object.__setattr__(duplicate, key, copied(item, name, memo, keys))  # also where the class is frozen
    return duplicate


__all__ = ["NKIObject", "copied", "is_structure"]
