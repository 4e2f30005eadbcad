"""Methods of an instruction declaration that are made of its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, cast

from nki.ir.declaration.fields import Field
from nki.ir.types import Access, AccessForm


def accesses_of(inst: Any, names: tuple[str, ...]) -> list[Access]:
    """The accesses in the operands ``names`` of ``inst``, without those that are left out or of a wrong kind."""
    values = inst.__dict__
    accesses: list[Access] = []
    for name in names:
        value = values[name]
        if isinstance(value, Access):
            accesses.append(value)
        elif isinstance(value, tuple):
            accesses.extend(cast("tuple[Access, ...]", value))
    return accesses


@cache
def _lister(parts: tuple[str, ...]) -> Callable[[Any], list[Any]]:
    return eval(f"lambda self: [{', '.join(parts)}]")  # our own text: field names only


def lister_of(fields: Iterable[Field], names: tuple[str, ...]) -> Callable[[Any], list[Access]] | None:
    """A method that does what :func:`accesses_of` does with ``names``, several times as fast; None if one of these
    operands may be left out, or be something else than one tile.
    """
    simple = {f.name for f in fields if f.role is not None and not (f.immediate or f.optional or f.several)}
    return _lister(tuple([f"self.{name}" for name in names])) if simple.issuperset(names) else None


def form_lister(
    inst: Any, names: tuple[str, ...], kinds: type[Any] | tuple[type[Any], ...]
) -> Callable[[Any], list[Any]]:
    """A function that lists, of each instruction of the form of ``inst``, the operands ``names`` that are of ``kinds``.

    Items of tuples are listed one by one.
    """
    values = inst.__dict__
    parts: list[str] = []
    for name in names:
        value = values[name]
        if isinstance(value, tuple):
            parts.append(f"*self.{name}")
        elif isinstance(value, kinds):
            parts.append(f"self.{name}")
    return _lister(tuple(parts))


def form_uses_lister(
    inst: Any, names: tuple[str, ...], read: tuple[str, ...], written: tuple[str, ...]
) -> Callable[[Any], Sequence[tuple[Access, bool, bool]]]:
    """:func:`uses_lister` of the operands that instructions of the form of ``inst`` have."""
    values = inst.__dict__
    present = tuple(name for name in names if isinstance(values[name], Access | tuple))
    several = tuple(name for name in present if isinstance(values[name], tuple))
    return uses_lister(present, read, written, several)


@cache
def uses_lister(
    names: tuple[str, ...], read: tuple[str, ...], written: tuple[str, ...], several: tuple[str, ...] = ()
) -> Callable[[Any], tuple[tuple[Access, bool, bool], ...]]:
    """A method that gives the operands ``names``, each with whether it is in ``read`` and in ``written``.

    The operands ``several`` are tuples of tiles.
    """
    uses = ""
    for name in names:
        roles = f"{name in read}, {name in written}"
        uses += f"*[(a, {roles}) for a in self.{name}], " if name in several else f"(self.{name}, {roles}), "
    return eval(f"lambda self: ({uses})")  # our own text: field names only


def share_attributes(cls: type[Any], later: Iterable[str]) -> None:
    """Let the instances of ``cls`` share one table of attribute names, those in ``later`` included.

    Python shares the names that the first instances of a class have. An instance that gets another one later has a
    table of its own, which takes five times the memory, and the time to fill it.
    """
    first: Any = object.__new__(cls)
    for name in (*(f.name for f in cls.fields), *later):
        setattr(first, name, None)


def _part(value: Any) -> Any:
    """A number stands for every number; a value of another type for its type, so that it cannot pass as a number."""
    kind = cast("type[Any]", type(value))
    if kind is float or kind is int:  # asked first: most are numbers
        return "#"
    return value.form if isinstance(value, Access) else None if value is None else kind


def _integer(value: Any) -> Any:
    kind = cast("type[Any]", type(value))
    return "#" if kind is int else value.form if isinstance(value, Access) else kind


def _exact(value: Any) -> Any:
    """Distinguish 2, 2.0 and True, which Python takes for equal."""
    return (type(value), value)


def _signature(part: Any) -> Any:
    """The part of a signature that a part of :meth:`Inst.form_parts` stands for."""
    return part.signature if part.__class__ is AccessForm else part


def form_scope(cls: type[Any]) -> dict[str, Any]:
    """The names that :func:`form_text` uses."""
    return {"part": _part, "whole": _integer, "exact": _exact, "mnemonic": cls.mnemonic}


def form_text(cls: type[Any], owner: str) -> str:
    """The expression for :meth:`Inst.form_parts`; the field ``f`` is written ``{owner}f``."""
    # A label changes neither rules nor code.
    return f"(mnemonic, {''.join(_form_part(f, owner) + ', ' for f in cls.fields if f.name != 'name')})"


def methods_of(cls: type[Any]) -> tuple[Callable[..., Any], ...]:
    """The constructor, ``signature`` and ``form_parts`` of ``cls``.

    Built as source text, since they run for many instructions; as one text, since compiling texts is most of what it
    costs to import an instruction.
    """
    scope = form_scope(cls) | {f"default_{f.name}": f.default for f in cls.fields} | {"signature_of": _signature}
    taken = [f.name if f.default is inspect.Parameter.empty else f"{f.name}=default_{f.name}" for f in cls.fields]
    stores = "".join(f"    self.{f.name} = {f.name}\n" for f in cls.fields)
    signature = "".join(_signature_part(f) + ", " for f in cls.fields if f.name != "name")
    text = (
        f"def __init__(self, {', '.join(taken)}):\n{stores}"  # our own text: field names only
        f"def signature(self):\n    return (mnemonic, {signature})\n"
        f"def form_parts(self):\n    return {form_text(cls, 'self.')}\n"
    )
    exec(text, scope)
    return scope["__init__"], scope["signature"], scope["form_parts"]


def _signature_part(f: Field) -> str:
    if f.several:
        return f"tuple([tile.signature for tile in self.{f.name}])"
    if f.role is not None and not f.immediate and not f.optional:
        return f"self.{f.name}.signature"
    part = _form_part(f, "self.")
    return part if f.role is None else f"signature_of({part})"


def _form_part(f: Field, owner: str) -> str:
    name = owner + f.name
    if f.several:
        return f"tuple([tile.form for tile in {name}])"
    if f.role is not None and not f.immediate and not f.optional:
        return f"({name}._form or {name}.form)"  # most have one, and a call takes several times as long
    if f.role is not None or f.immediate:
        part = f"{'part' if float in f.types or not f.immediate else 'whole'}({name})"
    elif int in f.types:
        part = f"exact({name})"
    else:
        return name
    return f"None if {name} is None else {part}" if f.optional else part
