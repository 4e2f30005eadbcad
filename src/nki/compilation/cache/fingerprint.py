"""One digest of all that a compiled kernel depends on, which another process finds again for the same kernel.

It covers the code and the source text of the function and of everything of the user's that it can reach by name: other
functions, classes with their methods, constants, closure variables, default values, whatever modules they are in.
Nothing of it is run. What it reaches may be more than what a run reads, never less; where that cannot be told
(`getattr` on modules), or a value has no content that another process could compare (open files, random generators,
the environment, tensors of frameworks), or the code does what would not happen again (`print`), there is no digest.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from nki.base import knobs
from nki.base.float_text import exact_text
from nki.base.source import is_toolchain
from nki.base.version import build
from nki.compilation.cache.stable_values import Unportable, code_content, is_pure, source_text, value_content
from nki.frontend.capture import is_users, unwrap
from nki.frontend.captured_state import ABSENT, BY_TEXT, Read, global_names, of_cell
from nki.frontend.dialect import assigned_dialect, dialect_of
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.ordering import Pairs
from nki.ir.types import TensorSpec
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.compilation.vendor_options import Configs

_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})

_EFFECTS: Final = frozenset(
    {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input", "locals", "open", "print"}
)
"""Built-ins with an effect or result that differs from call to call."""
_MOST: Final = 100_000
"""Limit on described values: beyond it, compiling is faster."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """``digest`` names kernel, arguments, target and compiler; ``reads`` are the ways to all values from outside."""

    digest: str
    reads: tuple[Read, ...] = field(compare=False)
    codes: frozenset[types.CodeType] = field(compare=False)

    def for_values(self, values: Mapping[str, float]) -> str:
        """The digest for these values of some of the run-time floats; ``digest`` itself without any."""
        if not values:
            return self.digest
        words = repr((self.digest, sorted((name, exact_text(value)) for name, value in values.items())))
        return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()


def fingerprint(
    fn: Callable[..., Any],
    arguments: Mapping[str, Any],
    target: Target,
    grid: tuple[int, ...],
    edges: Pairs = (),
    configs: Configs | None = None,
) -> Fingerprint | None:
    """The fingerprint of ``fn`` for ``arguments`` (a TensorSpec for each tensor); None if something has no name.

    The values of run-time floats among the arguments are not in it. All else that a program depends on is: a new option
    of ``nki.jit``, of a configuration, of :func:`nki.compilation.pipeline.compile`, or in the environment belongs
    here.
    """
    walk = _Walk()
    walk.put(
        dialect_of(unwrap(fn)).name, build(), sys.implementation.cache_tag, np.__version__, target.name, grid, edges,
        configs, knobs.hazards(),
    )  # fmt: skip
    try:
        walk.put("kernel", walk.reference(unwrap(fn)))
        for name, value in arguments.items():
            at_run_time = type(value) is RuntimeFloat
            walk.put("argument", name, "run-time float" if at_run_time else walk.reference(value))
        walk.everything()
    except Unportable:
        return None
    return Fingerprint(walk.digest.hexdigest(), tuple(walk.reads.values()), frozenset(walk.codes))


class _Walk:
    """A walk over values in the order in which they are met: each is described once and referred to by its number."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.numbers: dict[int, int] = {}
        self.met: list[Any] = []  # kept, so that no two of them have one id
        self.names: set[str] = set()
        self.owners: list[types.ModuleType | type[Any]] = []  # of attributes that code can name
        self.attributes: set[tuple[int, str]] = set()
        self.reads: dict[tuple[int, str], Read] = {}
        self.codes: set[types.CodeType] = set()

    def put(self, *words: object) -> None:
        self.digest.update(repr(words).encode(errors="surrogatepass") + b"\n")

    def reference(self, value: Any) -> object:
        """The entry for ``value`` in a description: the value itself, or the number of its own description."""
        if type(value) is float:
            return "float", exact_text(value)
        if type(value) in _PLAIN:
            return type(value).__name__, value
        number = self.numbers.setdefault(id(value), len(self.met))
        if number == len(self.met):
            if number > _MOST:
                raise Unportable
            self.met.append(value)
        return number

    def references(self, values: Iterable[Any]) -> list[object]:
        return [self.reference(value) for value in values]

    def named(self, values: Mapping[Any, Any]) -> list[object]:
        return [(self.reference(name), self.reference(value)) for name, value in values.items()]

    def everything(self) -> None:
        """Describe all that was referred to, and all that this refers to."""
        done = 0
        while done < len(self.met):
            while done < len(self.met):
                self.describe(self.met[done])
                done += 1
            self.follow_attributes()

    def follow_attributes(self) -> None:
        """Describe the attributes that the code met so far can read from the modules and classes met so far."""
        if any(isinstance(owner, types.ModuleType) for owner in self.owners) and self.names & BY_TEXT:
            raise Unportable
        for number, owner in enumerate(self.owners):
            values = vars(owner)
            for name in sorted(self.names & values.keys()):
                if (number, name) not in self.attributes:
                    self.attributes.add((number, name))
                    self.note(id(values), name, functools.partial(values.get, name, ABSENT), values[name])
                    if isinstance(owner, types.ModuleType):  # a class is described as a whole
                        self.put("attribute", number, name, self.reference(values[name]))

    def note(self, owner: int, name: str, read: Read, value: Any) -> None:
        if not (isinstance(value, types.ModuleType) or is_toolchain(value)):
            self.reads.setdefault((owner, name), read)

    def describe(self, value: Any) -> None:
        kind = cast("type[Any]", type(value))
        if is_toolchain(kind):
            if (configs := getattr(value, "configs", None)) is not None:
                self.put("configs", configs)  # compared with the configs of the kernel that calls it
            value = unwrap(value)  # what nki.jit made
            if (own := assigned_dialect(value)) is not None:
                self.put("release", own.name)
        if isinstance(value, TensorSpec):
            self.put("tensor", value.name, value.shape, value.dtype.name)
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, types.ModuleType):
            self.module(value)
        elif isinstance(value, type):
            self.class_(cast("type[Any]", value))
        elif isinstance(value, Enum):
            self.put("member", self.reference(kind), value.name)
        elif isinstance(value, set | frozenset):
            items = cast("set[Any]", value)
            if not all(type(item) in _PLAIN for item in items):
                raise Unportable
            self.put(type(items).__name__, sorted(map(repr, items)))
        else:
            self.object(value)

    def function(self, fn: types.FunctionType) -> None:
        if not is_users(fn):
            if not is_pure(fn):
                raise Unportable
            # A decorator of the standard library may hold a function of the user's.
            self.put("function", fn.__module__, fn.__qualname__, self.references(map(of_cell, fn.__closure__ or ())))
            return
        code = fn.__code__
        self.codes.add(code)
        names: set[str] = set()
        content = code_content(code, names)
        self.names |= names
        self.put("function", fn.__module__, fn.__qualname__, code.co_filename, content, source_text(fn))
        self.put(self.references(fn.__defaults__ or ()), self.named(fn.__kwdefaults__ or {}), self.named(vars(fn)))
        for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
            value = of_cell(cell)
            self.note(id(cell), "", functools.partial(of_cell, cell), value)
            self.put("cell", name, None if value is ABSENT else self.reference(value))
        module = fn.__globals__
        looked_up = global_names(code)
        for name in sorted(names):
            if name in module and name in looked_up:
                self.note(id(module), name, functools.partial(module.get, name, ABSENT), module[name])
                self.put("global", name, self.reference(module[name]))
            elif name in _EFFECTS and hasattr(builtins, name):
                raise Unportable

    def module(self, module: types.ModuleType) -> None:
        self.put("module", module.__name__)
        if is_users(module):
            self.owners.append(module)
        elif not is_pure(module) or (module is np and "random" in self.names):
            raise Unportable

    def class_(self, cls: type[Any]) -> None:
        self.put("class", cls.__module__, cls.__qualname__)
        if not is_users(cls):
            if not is_pure(cls):
                raise Unportable
            return
        self.owners.append(cls)
        self.put(self.reference(type(cls)), self.references(cls.__bases__))
        if issubclass(cls, Enum):
            self.put([(name, self.reference(member.value)) for name, member in cls.__members__.items()])
        for name, value in vars(cls).items():
            for part in _parts_of_class(name, value, issubclass(cls, Enum)):
                self.put("in class", name, self.reference(part))

    def object(self, value: Any) -> None:
        kind, items = value_content(value)
        self.put(kind, self.references(items))


def _parts_of_class(name: str, value: Any, enum: bool) -> tuple[Any, ...]:
    """The values by which an entry of a class's dictionary affects code that uses the class."""
    match value:
        case staticmethod() | classmethod():
            return (value.__func__,)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        case property():
            return value.fget, value.fset, value.fdel
        case functools.cached_property():
            return (value.func,)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        case types.FunctionType():
            return (value,)
        case types.MemberDescriptorType() | types.GetSetDescriptorType():
            return (name,)
        case _ if type(value).__module__ == "_collections":  # a field of a named tuple
            return (name,)
        case _:
            return () if enum or name == "_abc_impl" or (name.startswith("__") and name.endswith("__")) else (value,)


__all__ = ["Fingerprint", "fingerprint"]
