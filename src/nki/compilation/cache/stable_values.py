"""Contents of values and code, in terms that another process can compare; see ``compiler.cache.fingerprint``."""

from __future__ import annotations

import collections
import functools
import hashlib
import types
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np

from nki import isa, language
from nki.base.element_types import DType
from nki.base.source import is_toolchain
from nki.frontend.capture import home, is_users, source_lines
from nki.isa.tables.operators import Op

PURE: Final = frozenset(
    {
        "__future__", "_abc", "_collections", "_collections_abc", "_functools", "_operator", "_typing", "abc",
        "bisect", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "decimal", "enum",
        "fractions", "functools", "heapq", "itertools", "math", "ml_dtypes", "nki", "numbers", "numpy", "operator",
        "re", "reprlib", "statistics", "string", "textwrap", "types", "typing",
    }
)  # fmt: skip
"""Packages with functions that give the same result for the same arguments, until they are updated."""


class Unportable(Exception):
    """A value that another process cannot find again or cannot compare."""


def is_pure(value: Any) -> bool:
    """True if the results of ``value``, which is not the user's, depend on nothing but its arguments."""
    return home(value).partition(".")[0] in PURE and not home(value).startswith("numpy.random")


def code_content(code: types.CodeType, names: set[str]) -> object:
    """Everything that running ``code`` depends on, positions included; ``names`` gets those that it looks up."""
    names.update(code.co_names)
    constants = [_constant(value, names) for value in code.co_consts]
    variables = (code.co_varnames, code.co_cellvars, code.co_freevars, code.co_names)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    tables = (code.co_code, code.co_exceptiontable, code.co_linetable)
    return (code.co_qualname, code.co_firstlineno, counts, variables, tables, constants)


def _constant(value: Any, names: set[str]) -> object:
    if isinstance(value, types.CodeType):
        return code_content(value, names)
    if isinstance(value, frozenset):
        return "frozenset", sorted(map(repr, cast("frozenset[Any]", value)))
    return type(value).__name__, repr(value)


def source_text(fn: types.FunctionType) -> str:
    """The lines of ``fn``, for code that can never run is in no bytecode, yet is checked; empty without a source."""
    lines = source_lines(fn.__code__.co_filename, fn.__globals__)
    first = fn.__code__.co_firstlineno - 1
    last = max((line or first for _, line, _, _ in fn.__code__.co_positions()), default=first)
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > _indent(lines[first])):
        last += 1
    return "".join(lines[first:last]).rstrip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def value_content(value: Any) -> tuple[object, list[Any]]:
    """The content of ``value`` itself, and the values that it holds. Raises :class:`Unportable`."""
    kind = cast("type[Any]", type(value))
    name = kind.__qualname__
    if is_toolchain(kind):
        return (name, _api_name(value)), []
    if (items := _items(value, kind)) is not None:
        return name, items
    if isinstance(value, np.ndarray | np.generic | np.dtype):
        return _of_numpy(value), []  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, types.BuiltinFunctionType | np.ufunc | types.MethodDescriptorType):
        return _native(value)
    if kind.__module__ == "typing" or kind in (types.GenericAlias, types.UnionType, range, slice):
        return (name, repr(value)), []
    if kind.__module__ == "dataclasses" or value is NotImplemented:
        return name, []
    if is_users(kind):
        return _instance(value, kind)
    raise Unportable


def _api_name(value: Any) -> str:
    """The public name of an object of NKI."""
    if isinstance(value, DType | Op):
        return value.name
    for module in (language, isa):
        for name, known in vars(module).items():
            if known is value:
                return name
    raise Unportable


def _items(value: Any, kind: type[Any]) -> list[Any] | None:
    """The items of a value of exactly this type; None for types without known items."""
    if kind in (list, tuple):
        return list(value)
    if kind in (dict, types.MappingProxyType, collections.OrderedDict, collections.Counter):
        return _pairs(cast("Mapping[Any, Any]", value))
    if kind is bytearray:
        return [bytes(value)]
    if kind is collections.defaultdict:
        return [value.default_factory, *_pairs(cast("Mapping[Any, Any]", value))]
    if kind is collections.deque:
        return [value.maxlen, *value]
    if kind is types.SimpleNamespace:
        return _pairs(cast("dict[str, Any]", vars(value)))
    if kind is types.MethodType:
        return [value.__func__, value.__self__]
    if kind is functools.partial:
        return [value.func, value.args, value.keywords]
    if kind is type(_KEPT):
        return [value.__wrapped__]
    if kind is type(_FIELD):
        return list(value.__reduce__()[1])  # its number and its text
    return None


_KEPT: Final = functools.cache(len)


class _Named(NamedTuple):
    field: int


_FIELD: Final = vars(_Named)["field"]


def _pairs(value: Mapping[Any, Any]) -> list[Any]:
    return [part for pair in value.items() for part in pair]


def _of_numpy(value: Any) -> object:
    if isinstance(value, np.dtype):
        return "dtype", repr(cast("Any", value))
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise Unportable
    return type(value).__name__, repr(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()


def _native(value: Any) -> tuple[object, list[Any]]:
    owner = getattr(value, "__self__", None)
    bound = owner is not None and not isinstance(owner, types.ModuleType)
    if not bound and not isinstance(value, np.ufunc) and not is_pure(value):
        raise Unportable
    return (home(value), getattr(value, "__qualname__", value.__name__)), [owner] if bound else []


def _instance(value: Any, kind: type[Any]) -> tuple[object, list[Any]]:
    """An object of the user's: its class, its attributes, and its items if it is a container."""
    held: list[Any] = [kind, vars(value) if hasattr(value, "__dict__") else None]
    for base in kind.__mro__:
        if base in _CONTAINERS:
            held.append(base(value))
        elif not (base is object or is_users(base) or is_toolchain(base)):
            raise Unportable
        slots = [name for name, part in vars(base).items() if isinstance(part, types.MemberDescriptorType)]
        held += [getattr(value, name, None) for name in slots]
    return "object", held


_CONTAINERS: Final[frozenset[type[Any]]] = frozenset({list, tuple, dict, bytearray, int, float, str})


__all__ = ["Unportable", "code_content", "is_pure", "source_text", "value_content"]
