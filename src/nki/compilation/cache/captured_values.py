"""Compile-time inputs beside tensors: constants among the arguments, and values that the kernel's Python code reads."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, cast

import numpy as np

from nki.base.element_types import DType
from nki.base.errors import KernelArgumentError
from nki.base.float_text import exact_text
from nki.base.source import is_toolchain
from nki.frontend.capture import is_users
from nki.frontend.captured_state import ABSENT, Read

_DEEPEST: Final = 32
_SCALARS: Final = frozenset({type(None), bool, int, str, bytes, complex, DType})
_FROZEN: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    property,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    staticmethod,
    classmethod,
    inspect.Signature,  # which nki.language.NKIObject keeps in its classes
)
"""Entries of a class that do not change without becoming another object, or with changes that are not followed."""


def constant_key(name: str, value: Any) -> Any:
    """A hashable key of the compile-time argument ``name``, equal only for arguments that compile alike.

    Raises :class:`KernelArgumentError` for what cannot be compiled in.
    """
    kind = cast("type[Any]", type(value))
    if kind in _SCALARS:
        return kind, value
    if kind is float:
        return kind, exact_text(value)
    try:
        return _Content().of(value, 0)
    except _TooDeep:
        raise KernelArgumentError(
            f"argument '{name}' holds containers more than {_DEEPEST} deep, or itself", fix="pass flatter constants"
        ) from None
    except _Opaque as opaque:
        wrong = cast("type[Any]", type(opaque.value))
        lends = opaque.depth == 0 and hasattr(wrong, "__dlpack__")
        shown = wrong.__name__ if wrong.__module__ == "builtins" else f"{wrong.__module__}.{wrong.__name__}"
        raise KernelArgumentError(
            f"argument '{name}' {'is' if opaque.depth == 0 else 'holds a value'} of type {shown}, which can neither be "
            "a tensor of the call's framework nor a constant to compile in",
            fix=f"pass tensors all of one framework; numpy.from_dlpack({name}), torch.from_dlpack({name}) and "
            f"jax.dlpack.from_dlpack({name}) convert without a copy"
            if lends
            else "pass each tensor as an argument of its own, all of one framework; constants are numbers, strings, "
            "lists, tuples, dicts and plain objects of them",
        ) from None


class Same:
    """Equal only for the very same object, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _Opaque(Exception):
    """A value with a content that cannot be compared."""

    def __init__(self, value: Any, depth: int) -> None:
        self.value = value
        self.depth = depth


class _TooDeep(Exception):
    """Containers in containers beyond the limit."""


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


class _Content:
    """Hashable contents of values; two are equal only if kernels compile alike with them.

    An object counts with its attributes, in ``__dict__`` or in slots, and with its class's; a function with its
    code, defaults and attributes. With ``captured``, arrays count by their elements, an object that is met again by the
    number of its first meeting, and any other value by identity; without, these raise :class:`_Opaque` or
    :class:`_TooDeep`.
    """

    def __init__(self, *, captured: bool = False) -> None:
        self.captured = captured
        self.met: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any, depth: int) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _SCALARS:
            return kind, value
        if kind is float:
            return kind, exact_text(value)
        if isinstance(value, np.generic):
            return kind, cast("np.generic", value).dtype.str, cast("np.generic", value).tobytes()
        if isinstance(value, np.dtype):
            return np.dtype, repr(cast("Any", value))
        if isinstance(value, Enum):
            return kind, value.name
        if self.captured:
            before = self.met.get(id(value))
            if before is not None:
                return Same, before[0]
            self.met[id(value)] = len(self.met), value  # kept alive: nothing else gets its id
        if depth > _DEEPEST:
            if self.captured:
                return Same(value)
            raise _TooDeep
        return self.compound(value, kind, depth + 1)

    def compound(self, value: Any, kind: type[Any], depth: int) -> Any:
        if isinstance(value, list | tuple):
            items = [self.of(item, depth) for item in cast("tuple[Any, ...]", value)]
            return kind, tuple(items), self.attributes(value, kind, depth)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            parts = [(self.of(key, depth), self.of(item, depth)) for key, item in pairs]
            return kind, tuple(parts), self.attributes(value, kind, depth)
        if isinstance(value, types.MethodType):
            return kind, self.of(value.__func__, depth), self.of(value.__self__, depth)
        if isinstance(value, types.FunctionType):
            return self.function(value, depth)
        if isinstance(value, functools.partial):
            whole = cast("functools.partial[Any]", value)
            return kind, self.of(whole.func, depth), self.of(whole.args, depth), self.of(whole.keywords, depth)
        if isinstance(value, type) or is_toolchain(kind) or not is_users(kind):
            return self.foreign(value, kind, depth)
        if _is_array(value):
            return self.opaque(value, depth)
        scalar = repr(value) if isinstance(value, int | float | str) else None
        return kind, scalar, self.attributes(value, kind, depth)

    def foreign(self, value: Any, kind: type[Any], depth: int) -> Any:
        """The content of a class, or of an object of a type that is not the user's."""
        if _is_followed(value):
            class_ = _Class.of(value)
            return class_, tuple(self.in_captured(part, depth) for _, part in class_.variable)
        if self.captured and kind is np.ndarray:
            array = cast("np.ndarray[Any, Any]", value)
            return array.dtype.str, array.shape, Same(value) if array.dtype.hasobject else array.tobytes()
        if self.captured and isinstance(value, set | frozenset):
            return kind, frozenset(self.of(item, depth) for item in cast("set[Any]", value))
        if isinstance(value, types.SimpleNamespace):
            return kind, self.of(vars(value), depth)
        if callable(value) or (is_toolchain(kind) and not _is_array(value)):
            return Same(value)
        if hasattr(value, "__dict__") and not _is_array(value):
            return kind, self.of(vars(value), depth)
        return self.opaque(value, depth)

    def opaque(self, value: Any, depth: int) -> Any:
        if self.captured:
            return Same(value), getattr(value, "_version", None)  # PyTorch counts changes of a tensor's elements
        raise _Opaque(value, depth - 1)

    def function(self, fn: types.FunctionType, depth: int) -> Any:
        if not is_users(fn):
            return Same(fn)
        variable = fn.__defaults__, fn.__kwdefaults__, fn.__dict__ or None
        return (Same(fn), fn.__code__, *[self.in_captured(part, depth) if part else None for part in variable])

    def attributes(self, value: Any, kind: type[Any], depth: int) -> Any:
        """The content of an object's attributes, in ``__dict__`` and slots, and of its class's."""
        if kind in (list, tuple, dict):
            return None
        class_ = _Class.of(kind)
        own = cast("dict[str, Any]", getattr(value, "__dict__", _NONE))
        fields = [(name, self.of(field, depth)) for name, field in own.items()] if own else ()
        slots = [self.of(getattr(value, name, ABSENT), depth) for name in class_.slots]
        shared = [self.in_captured(part, depth) for name, part in class_.variable if name not in own]
        return tuple(fields), tuple(slots), class_, tuple(shared)

    def in_captured(self, part: Any, depth: int) -> Any:
        """The content of a value that belongs to the surroundings of an argument, not to the argument itself."""
        before, self.captured = self.captured, True
        try:
            return self.of(part, depth)
        finally:
            self.captured = before


_NONE: Final[dict[str, Any]] = {}


class _Class:
    """A class with its bases at one time, where they are the user's; equal for the same attributes.

    ``slots`` are the names of the slots of its objects, ``variable`` the attributes with contents that can change.
    """

    __slots__ = ("bases", "kept", "kind", "slots", "state", "variable")

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.bases = tuple(base for base in kind.__mro__ if is_users(base))
        entries = [entry for base in self.bases for entry in vars(base).items()]
        self.kept = [part for _, part in entries]  # so that no other object gets the id of one of them
        self.state = _state(self.bases)
        self.slots = tuple(name for name, part in entries if type(part) is types.MemberDescriptorType)
        self.variable = tuple(
            (name, part)
            for name, part in entries
            if not (isinstance(part, _FROZEN) or _fixed(part) or name.startswith("__") or name == "_abc_impl")
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Class) and self.kind is other.kind and self.state == other.state)

    def __hash__(self) -> int:
        return hash(self.kind)

    def is_present(self) -> bool:
        """True if the class has the same attributes now."""
        return self.state == _state(self.bases)

    @staticmethod
    def of(kind: type[Any]) -> _Class:
        """The present state of the class."""
        known = _classes.get(kind)
        if known is None or not known.is_present():
            if len(_classes) >= _MOST_CLASSES:
                _classes.clear()
            known = _classes[kind] = _Class(kind)
        return known


_classes: dict[type[Any], _Class] = {}
_MOST_CLASSES: Final = 1024
"""Limit on the remembered classes, since programs can make any number of them."""


def _state(bases: tuple[type[Any], ...]) -> list[Any]:
    """The names and the identities of everything in the dictionaries of classes."""
    state: list[Any] = []
    for base in bases:
        entries = base.__dict__
        state += entries
        state += map(id, entries.values())
    return state


@dataclass(frozen=True, slots=True)
class Seen:
    """A value from outside that a kernel was compiled with: a way to read it again, and the content then."""

    read: Callable[[], Any]
    value: Any
    key: Any
    """None for a number, a string and the like, which change only by becoming another object."""


def seen(reads: Iterable[Read]) -> tuple[Seen, ...]:
    """The present value of each of ``reads``."""
    return tuple(Seen(read, value := read(), _key(value)) for read in reads)


def _key(value: Any) -> Any:
    if _fixed(value):
        return None
    if _is_followed(value):
        return _WholeClass(_Class.of(value))
    if type(value) is types.FunctionType:
        function = _PlainFunction(value.__code__, value.__defaults__)
        if function.describes(value) and all(map(_fixed, value.__defaults__ or ())):
            return function
    return _content(value)


def _is_followed(value: Any) -> bool:
    """True for a class of the user's: kernels read its attributes, by its name or from objects that they make.

    The members of an enumeration do not change.
    """
    return isinstance(value, type) and not issubclass(value, Enum) and is_users(value)


class _WholeClass:
    """A class with the content of its attributes, for tests at each launch."""

    __slots__ = ("class_", "shared")

    def __init__(self, class_: _Class) -> None:
        self.class_ = class_
        self.shared = self._content()

    def describes(self, value: Any) -> bool:
        class_ = self.class_
        return value is class_.kind and class_.is_present() and (not self.shared or self.shared == self._content())

    def _content(self) -> tuple[Any, ...]:
        return tuple(_content(part) for _, part in self.class_.variable)


class _PlainFunction(NamedTuple):
    """A function with attributes and defaults that cannot change, unless it gets others."""

    code: types.CodeType
    defaults: tuple[Any, ...] | None

    def describes(self, fn: types.FunctionType) -> bool:
        same = fn.__code__ is self.code and fn.__defaults__ is self.defaults
        return same and fn.__kwdefaults__ is None and not fn.__dict__


def unchanged(values: tuple[Seen, ...]) -> bool:
    """True if every value is still the one that the kernel was compiled with."""
    for one in values:  # each launch asks, so the kinds that most kernels have come without a call
        now, key = one.read(), one.key
        if key is None:
            if now is one.value or (_fixed(now) and _content(now) == _content(one.value)):
                continue
        elif type(key) is _PlainFunction:
            code, defaults = key
            same = now is one.value and now.__code__ is code and now.__defaults__ is defaults
            if same and now.__kwdefaults__ is None and not now.__dict__:
                continue
        elif key.describes(now) if type(key) is _WholeClass else _content(now) == key:
            continue
        return False
    return True


def _fixed(value: Any) -> bool:
    return value is ABSENT or type(value) in _SCALARS or type(value) is float


def _content(value: Any) -> Any:
    return _Content(captured=True).of(value, 0)
