"""Generate the functions of ``nki.isa`` from the instruction declarations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, cast

import numpy as np

from nki.base.errors import ArgumentError
from nki.base.source import here
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, is_before, warn_here
from nki.ir.declaration.methods import form_scope, form_text
from nki.ir.floats.runtime_float import RuntimeFloat, receives_floats
from nki.ir.instruction import Field, Inst
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.recorder import current
from nki.ir.types import FORMS_BY_PARTS, Access, access_of
from nki.isa.deprecated import ABSENT, upgrade
from nki.isa.tables.enums import matmul_perf_mode
from nki.isa.tables.operators import Op

_FUNCTIONS: dict[str, Callable[..., NkiInstruction]] = {}
"""The public functions, by name."""


def function(cls: type[Inst]) -> Callable[..., NkiInstruction]:
    """The public function of ``cls``: its fields are the parameters, calling it records the instruction.

    Built as source text, because a call happens for every instruction of a kernel and the text has no loop. It makes
    the instruction and finds its form without further calls, as the constructor and ``Inst.form`` would do it.
    """
    fields = visible(cls)
    scope: dict[str, Any] = {
        "__name__": "nki.isa",
        "cls": cls,
        "new": object.__new__,
        "forms": FORMS_BY_PARTS,
        "freeze": freeze,
        "operator_of": operator_of,
        "member": member,
        "mode": mode,
        "Op": Op,
        "plain": plain,
        "number": number,
        "tiles": tiles,
        "current": current,
        "here": here,
    }
    scope |= form_scope(cls)
    required = inspect.Parameter.empty
    replaced = [form.replaces for form in cls.deprecated.parameters]  # by older names, so that these may be missing
    parameters: list[str] = []
    stores = "".join(f"    inst.{f.name} = default_{f.name}\n" for f in cls.fields if f not in fields)
    for value in cls.deprecated.by_release:
        scope |= {"is_before": is_before, f"since_{value.field}": value.since, f"older_{value.field}": value.older}
        stores += f"    inst.{value.field} = {value.field} = (\n"
        stores += f"        older_{value.field} if is_before(since_{value.field}) else default_{value.field})\n"
    for f in cls.fields:
        scope[f"default_{f.name}"] = ABSENT if f.default is required and f.name in replaced else f.default
    for f in fields:
        scope[f"kind_{f.name}"] = f.symbol
        without_default = f.default is required and f.name not in replaced
        parameters.append(f.name if without_default else f"{f.name}=default_{f.name}")
        stores += f"    inst.{f.name} = {f.name} = {_argument(f)}\n"
    upgrade_text = _upgrade_text(cls, scope)
    if upgrade_text:
        parameters.append("**old")
    head = f"def {cls.mnemonic}({', '.join(parameters)}):\n"
    text = f"{head}{upgrade_text}{_value_text(cls, scope)}    inst = new(cls)\n{stores}"
    text += f"{_record_text(cls, scope)}    return inst\n"
    exec(compile(text, __file__, "exec"), scope)  # our own text, made of field names
    public = scope[cls.mnemonic]
    if upgrade_text:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        public.__signature__ = inspect.Signature([inspect.Parameter(f.name, kind, default=f.default) for f in fields])
    receives_floats(public)
    public.deprecated_parameters = {form.parameter: form for form in cls.deprecated.parameters}
    _FUNCTIONS[cls.mnemonic] = public
    public.__doc__ = f"{inspect.getdoc(cls)}\n\nLimits:\n" + "\n".join(f"  {r.code}: {r.source}" for r in cls.rules)
    public.__module__ = "nki.isa"
    public.__qualname__ = cls.mnemonic
    return public


def _upgrade_text(cls: type[Inst], scope: dict[str, Any]) -> str:
    """The statements that upgrade a call of an older form (``nki.isa.deprecated``); none without such forms."""
    forms = cls.deprecated
    if not forms.parameters and forms.order is None:
        return ""
    names = [f.name for f in visible(cls)]
    defaults = {f.name: f.default for f in visible(cls)}

    def retry(values: tuple[Any, ...], old: dict[str, Any]) -> NkiInstruction:
        passed = {name: v for name, v in zip(names, values, strict=True) if v is not defaults[name]}
        target, arguments = upgrade(cls.mnemonic, forms, passed, old)
        missing = [n for n, default in defaults.items() if default is inspect.Parameter.empty and n not in arguments]
        if missing and target == cls.mnemonic:
            raise TypeError(f"{cls.mnemonic}() missing a required argument: '{missing[0]}'")
        return _FUNCTIONS[target](**arguments)

    scope |= {"retry": retry, "ABSENT": ABSENT}
    replaced = [form.replaces for form in forms.parameters if defaults.get(form.replaces) is inspect.Parameter.empty]
    signs = ["old", *(f"{name} is ABSENT" for name in replaced)]
    if forms.order is not None:
        scope |= {"access_of": access_of, "kind_of_older": forms.order.kind}
        signs.append(f"isinstance(access_of({forms.order.parameter}), kind_of_older)")
    return f"    if {' or '.join(signs)}:\n        return retry(({', '.join(names)},), old)\n"


def _value_text(cls: type[Inst], scope: dict[str, Any]) -> str:
    """The statements that give an argument the meaning that it had in an older release, under the rules of that one."""
    text = ""
    for place, value in enumerate(cls.deprecated.values):
        scope |= {"is_before": is_before, f"since_{place}": value.since, f"converted_{place}": value.convert}
        converted = f"{value.parameter} = converted_{place}({value.parameter}, {value.of})"
        text += f"    if is_before(since_{place}):\n        {converted}\n"
    return text


def visible(cls: type[Inst]) -> list[Field]:
    """The fields that a caller passes: all but the implicit operand, which the builder supplies, and the ones that a
    release sets.
    """
    implicit = cls.effects.implicit
    hidden = {value.field for value in cls.deprecated.by_release}
    return [f for f in cls.fields if f.name not in hidden and (implicit is None or f.name != implicit.name)]


def _argument(f: Field) -> str:
    if f.symbol is matmul_perf_mode:  # the reference gives its members texts as values, which kernels pass
        return f"mode({f.name}) if type({f.name}) is str else {f.name}"
    if f.symbol is Op:
        return f"{f.name} if type({f.name}) is Op and {f.name}.portability_note is None else operator_of({f.name})"
    if tuple in f.types:
        taken = f"{'tiles' if f.several else 'freeze'}({f.name})"
        return f"{f.name} if {f.name} is default_{f.name} else {taken}"
    if f.symbol is not None and issubclass(f.symbol, Enum):
        return f"member(kind_{f.name}, {f.name!r}, {f.name}) if type({f.name}) is int else {f.name}"
    value = f.name if f.role is None else f"getattr({f.name}, 'access', {f.name})"  # access_of, without the call
    if f.immediate and float in f.types:
        return f"{f.name} if {f.name} is None or type({f.name}) is float else number({value})"
    if f.immediate or int in f.types:
        return f"{f.name} if {f.name} is None or type({f.name}) is float else plain({value})"
    return value


def mode(value: str) -> Any:
    """The performance mode with this text as its value; any other text, unchanged: its type is then refused."""
    return next((member for member in matmul_perf_mode if member.value == value), value)


def operator_of(value: Any) -> Any:
    """The operator that a function of the language stands for: NKI's documents give ``nl.max`` as one, too.

    Warns of an operator that NKI's own instructions do not take.
    """
    if isinstance(value, Op) and value.portability_note is not None:
        warn_here(f"{value}: {value.portability_note}", NkiPortabilityWarning)
    return getattr(value, "operator", value)


def freeze(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if not isinstance(value, list | tuple):
        return plain(value)
    return tuple([freeze(v) for v in cast("list[Any]", value)]) if value else ()


def tiles(value: Any) -> Any:
    """A list of tensors as the tuple of their accesses; a list with anything else in it is for the types to refuse."""
    frozen = freeze(value)
    if not isinstance(frozen, tuple):
        return frozen
    items = cast("tuple[Any, ...]", frozen)
    accesses = tuple(map(access_of, items))
    return accesses if all(isinstance(access, Access) for access in accesses) else items


def member(kind: type[Enum], name: str, value: int) -> Any:
    """The member of ``kind`` with this value, with a warning: up to NKI 0.2 the members were plain integers."""
    meaning = next((m for m in kind if m.value == value), None)
    if meaning is None:
        return value
    message = f"{name}={value} is of an older NKI, which took integers: write `nisa.{kind.__name__}.{meaning.name}`"
    warn_here(message, NkiDeprecationWarning, since="0.3")
    return meaning


def number(value: Any) -> Any:
    """:func:`plain`, but run-time floats stay what they are: an immediate may be one."""
    return value if type(value) is RuntimeFloat else plain(value)


def plain(value: Any) -> Any:
    """NumPy scalars and run-time floats as Python numbers.

    Raises :class:`ArgumentError` for a whole number that no register holds.
    """
    if type(value) is RuntimeFloat:
        return value.plain()
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        raise ArgumentError(
            f"a whole number of {value.bit_length()} bits was passed; the largest has 64",
            fix="write it as a float",
        )
    return value


def _record_text(cls: type[Inst], scope: dict[str, Any]) -> str:
    """The statements that record ``inst`` and warn of it."""
    implicit, warning = cls.effects.implicit, cls.deprecated.warning
    text = f"    recorder = current('nisa.{cls.mnemonic}')\n"
    if implicit is not None:
        scope["supply"] = implicit.supply
        text += f"    inst.{implicit.name} = {implicit.name} = supply(inst, recorder.state)\n"
    # What has no form, such as an operand of a wrong kind, is for the recorder to refuse.
    text += f"    try:\n        inst._form = forms.get({form_text(cls, '')})\n"
    text += "    except (AttributeError, TypeError):\n        pass\n"
    text += "    recorder.emit(inst, here(2))\n"  # the function itself is the toolchain's
    if warning is not None:
        scope |= {"warning": warning, "warn": _warn}
        text += "    warn(warning(inst))\n"
    if cls.deprecated.open_question is not None:
        scope |= {"open_question": cls.deprecated.open_question, "warn_here": warn_here}
        scope["portability"] = NkiPortabilityWarning
        text += "    if (message := open_question(inst)) is not None:\n        warn_here(message, portability)\n"
    return text


def _warn(message: str | None) -> None:
    if message is not None:
        warn_here(message, NkiDeprecationWarning, since="0.3")


__all__ = ["freeze", "function", "member", "mode", "plain", "tiles", "visible"]
