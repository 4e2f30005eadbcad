"""Fields of an instruction declaration, read from its annotations."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from nki.ir.types import Immediate, Role


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field:
    """One argument of an instruction.

    ``role`` is set for tensor operands; ``immediate`` for numbers that may differ between uses of one compiled routine;
    ``symbol`` is the class with the method ``named`` that finds a value by name (operators, enums). ``several``: the
    operand is a tuple of tiles. ``items``: the types of what a sequence may hold, in sequences of it too.
    """

    name: str
    role: Role | None
    immediate: bool
    optional: bool
    symbol: type[Any] | None
    default: Any
    types: tuple[type[Any], ...]
    several: bool = False
    items: tuple[type[Any], ...] = ()


def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """One for each annotation of ``cls`` itself that is no ``ClassVar``."""
    declared = inspect.get_annotations(cls)
    texts = {n: hint for n, hint in declared.items() if isinstance(hint, str) and not hint.startswith("ClassVar")}
    # All in one go: a call of the compiler for each annotation, as typing.get_type_hints does it, would be a tenth of
    # `import nki`.
    evaluated = eval(f"({''.join(text + ', ' for text in texts.values())})", vars(sys.modules[cls.__module__]))
    hints = declared | dict(zip(texts, evaluated, strict=True))
    defaults = {n: cls.__dict__.get(n, inspect.Parameter.empty) for n in hints}
    return tuple(_field(n, defaults[n], hint) for n, hint in hints.items() if not isinstance(hint, str))


def _field(name: str, default: Any, hint: Any) -> Field:
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    role: Role | None = None
    immediate = optional = False
    symbol: type[Any] | None = None
    accepted: list[type[Any]] = []
    for part in parts:
        inner: tuple[Any, ...] = typing.get_args(part) if typing.get_origin(part) is typing.Annotated else (part,)
        base: Any = typing.get_origin(inner[0]) or inner[0]
        if base is type(None):
            optional = True
            continue
        role = next((e for e in inner if isinstance(e, Role)), role)
        immediate = immediate or Immediate in inner
        kind = cast(type[Any], base)
        if issubclass(kind, Enum) or hasattr(kind, "named"):
            symbol = kind
        accepted.append(kind)
        if kind is float:
            accepted.append(int)
    several = role is not None and tuple in accepted
    return Field(name, role, immediate, optional, symbol, default, tuple(accepted), several, _items(hint))


def _items(hint: Any) -> tuple[type[Any], ...]:
    """The element types of the innermost tuples of ``hint``."""
    arguments = [a for a in typing.get_args(hint) if isinstance(a, type) or typing.get_args(a)]
    if typing.get_origin(hint) is not tuple:
        return tuple(dict.fromkeys(kind for a in arguments for kind in _items(a)))
    inner = [kind for a in arguments for kind in (_items(a) or (a,))]
    return tuple(dict.fromkeys([*inner, int] if float in inner else inner))
