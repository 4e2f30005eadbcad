"""Turn instruction declarations into the functions of ``nki.isa``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, cast

import numpy as np

from nki.base.dtype import float32
from nki.base.errors import ArgumentError
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, warn_here
from nki.ir.instruction import Field, Inst
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.recorder import current
from nki.ir.types import Access
from nki.isa.deprecated import ABSENT, Older, Reordered, renewed
from nki.isa.tables.enums import matmul_perf_mode
from nki.isa.tables.operators import Op

_MADE: dict[str, Callable[..., NkiInstruction]] = {}
"""The functions, by name."""


def function(cls: type[Inst]) -> Callable[..., NkiInstruction]:
    """The public function of ``cls``: its fields are the parameters, calling it records the instruction.

    Built as source text, because a call happens for every instruction of a kernel and the text has no loop.
    """
    shown = visible(cls)
    scope: dict[str, Any] = {
        "__name__": "nki.isa",
        "cls": cls,
        "freeze": freeze,
        "meant": meant,
        "member": member,
        "mode": mode,
        "Op": Op,
        "plain": plain,
        "record": _record(cls),
    }
    required = inspect.Parameter.empty
    replaced = [form.replaces for form in _older(cls).values()]  # by older names, so that their own may be missing
    parameters: list[str] = []
    arguments: list[str] = []
    for f in shown:
        scope[f"default_{f.name}"] = ABSENT if f.default is required and f.name in replaced else f.default
        scope[f"kind_{f.name}"] = f.symbol
        plainly = f.default is required and f.name not in replaced
        parameters.append(f.name if plainly else f"{f.name}=default_{f.name}")
        arguments.append(f"{f.name}={_argument(f)}")
    check = _check_for_older(cls, scope)
    if check:
        parameters.append("**old")
    text = f"def {cls.mnemonic}({', '.join(parameters)}):\n{check}    return record(cls({', '.join(arguments)}))\n"
    exec(compile(text, __file__, "exec"), scope)  # our own text, made of field names
    made = scope[cls.mnemonic]
    if check:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        made.__signature__ = inspect.Signature([inspect.Parameter(f.name, kind, default=f.default) for f in shown])
    made.older = {name: form.replaces for name, form in _older(cls).items()}
    _MADE[cls.mnemonic] = made
    made.__doc__ = f"{inspect.getdoc(cls)}\n\nLimits:\n" + "\n".join(f"  {r.code}: {r.source}" for r in cls.rules)
    made.__module__ = "nki.isa"
    made.__qualname__ = cls.mnemonic
    return made


def _older(cls: type[Inst]) -> dict[str, Older]:
    return {form.parameter: form for form in cast(tuple[Older, ...], getattr(cls, "older", ()))}


def _check_for_older(cls: type[Inst], scope: dict[str, Any]) -> str:
    """The statements that look for older forms of a call (``nki.isa.deprecated``); none where there never were any."""
    forms, order = _older(cls), cast(Reordered | None, getattr(cls, "reordered", None))
    if not forms and order is None:
        return ""
    names = [f.name for f in visible(cls)]
    defaults = {f.name: f.default for f in visible(cls)}

    def again(values: tuple[Any, ...], old: dict[str, Any]) -> NkiInstruction:
        given = {name: v for name, v in zip(names, values, strict=True) if v is not defaults[name]}
        target, arguments = renewed(cls.mnemonic, forms, order, given, old)
        missing = [n for n, default in defaults.items() if default is inspect.Parameter.empty and n not in arguments]
        if missing and target == cls.mnemonic:
            raise TypeError(f"{cls.mnemonic}() missing a required argument: '{missing[0]}'")
        return _MADE[target](**arguments)

    scope |= {"again": again, "ABSENT": ABSENT}
    replaced = [form.replaces for form in forms.values() if defaults.get(form.replaces) is inspect.Parameter.empty]
    found = ["old", *(f"{name} is ABSENT" for name in replaced)]
    if order is not None:
        scope["kind_of_older"] = order.kind
        found.append(f"isinstance({order.parameter}, kind_of_older)")
    return f"    if {' or '.join(found)}:\n        return again(({', '.join(names)},), old)\n"


def visible(cls: type[Inst]) -> list[Field]:
    """The fields that a caller passes: all but the engine state that the builder supplies."""
    hidden = _state(cls)[0]
    return [f for f in cls.fields if f.name != hidden]


def _state(cls: type[Inst]) -> tuple[str, str]:
    return cast(tuple[str, str], getattr(cls, "state", ("", "")))


def _argument(f: Field) -> str:
    if f.symbol is matmul_perf_mode:  # the reference gives its members texts as values, which kernels pass
        return f"mode({f.name}) if type({f.name}) is str else {f.name}"
    if f.symbol is Op:
        return f"{f.name} if type({f.name}) is Op and {f.name}.unlisted is None else meant({f.name})"
    if tuple in f.types:
        return f"freeze({f.name})"
    if f.symbol is not None and issubclass(f.symbol, Enum):
        return f"member(kind_{f.name}, {f.name!r}, {f.name}) if type({f.name}) is int else {f.name}"
    return f"plain({f.name})" if f.immediate or int in f.types else f.name


def mode(value: str) -> Any:
    """The performance mode whose value is this text; what is none stays, for its type to be refused."""
    return next((known for known in matmul_perf_mode if known.value == value), value)


def meant(value: Any) -> Any:
    """The operator that a function of the language stands for: NKI's documents give ``nl.max`` as one, too.

    Warns of an operator that NKI's own instructions do not take.
    """
    if isinstance(value, Op) and value.unlisted is not None:
        warn_here(f"{value}: {value.unlisted}", NkiPortabilityWarning)
    return getattr(value, "operator", value)


def freeze(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(freeze(v) for v in cast(list[Any], value)) if isinstance(value, list | tuple) else plain(value)


def member(kind: type[Enum], name: str, value: int) -> Any:
    """The member of ``kind`` with this value, with a warning: up to NKI 0.2 the members were plain integers."""
    found = next((m for m in kind if m.value == value), None)
    if found is not None:
        message = f"{name}={value} is of an older NKI, which took integers: write `nisa.{kind.__name__}.{found.name}`"
        warn_here(message, NkiDeprecationWarning)
    return value if found is None else found


def plain(value: Any) -> Any:
    """NumPy scalars as Python numbers. Raises :class:`ArgumentError` for a whole number that no register holds."""
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        raise ArgumentError(
            f"a whole number of {value.bit_length()} bits was passed; the largest has 64",
            fix="write it as a float",
        )
    return value


def _record(cls: type[Inst]) -> Callable[[Inst], Inst]:
    what = f"nisa.{cls.mnemonic}"
    field, register = _state(cls)

    def record(inst: Any) -> Inst:
        current(what).emit(inst)
        return inst

    def record_with_doubt(inst: Any) -> Inst:
        record(inst)
        if (doubt := inst.doubt()) is not None:
            warn_here(doubt, NkiDeprecationWarning)
        return inst

    def record_with_state(inst: Any) -> Inst:
        builder = current(what)
        if supplied := getattr(cls, "supplied", None):  # what depends on more than dst, the instruction says itself
            setattr(inst, field, supplied(inst, builder.state))
        elif inst.uses_state:
            lanes = inst.dst.partitions if isinstance(inst.dst, Access) else 1  # what else it is, verify says
            setattr(inst, field, builder.state(register, float32, min(lanes, builder.target.partitions)))
        builder.emit(inst)
        return inst

    return record_with_state if field else record_with_doubt if hasattr(cls, "doubt") else record


__all__ = ["freeze", "function", "member", "mode", "plain", "visible"]
