"""Upgrades of calls in the form of an older NKI: such calls run, with a warning that says what to write.

A declaration lists the older forms of its function as ``deprecated`` (:mod:`nki.ir.deprecation`). Source: the migration
guides and the release notes of NKI 0.2 to 0.6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from nki.base.warning import NkiDeprecationWarning, warn_here
from nki.ir.deprecation import Arguments, DeprecatedForms, DeprecatedParameter, DeprecatedValue
from nki.ir.types import Access, access_of

ABSENT: Final = object()
"""Stands for an argument that a call does not pass."""

F = TypeVar("F", bound=Callable[..., Any])


def renamed(parameter: str, now: str, since: str) -> DeprecatedParameter:
    """``parameter`` is called ``now``."""

    def convert(arguments: Arguments, value: Any) -> None:
        arguments[now] = value

    return DeprecatedParameter(parameter, since, f"it is called `{now}`", convert, now, is_plain=True)


def dropped(parameter: str, since: str, fix: str) -> DeprecatedParameter:
    """``parameter`` changes nothing any more."""
    return DeprecatedParameter(parameter, since, fix, lambda arguments, value: None, is_plain=True)


def first_partitions(parameter: str, of: str) -> DeprecatedValue:
    """``parameter`` may have more partitions than ``of``: the instruction reads as many, from the first one on.

    NKI 0.2 had no semantic checks (release notes of Neuron 2.27, known issues), and the public libraries of Neuron 2.27
    and 2.28 pass whole columns for tiles of fewer partitions.
    """

    def convert(value: Any, other: Any) -> Any:
        column, tile = access_of(value), access_of(other)
        if not isinstance(column, Access) or not isinstance(tile, Access) or value is column:
            return value
        return value[0 : tile.partitions] if column.partitions > tile.partitions else value

    return DeprecatedValue(parameter, of, "0.3", convert)


def upgrade(function: str, forms: DeprecatedForms, arguments: Arguments, old: Arguments) -> tuple[str, Arguments]:
    """The call of ``function`` with ``arguments`` and, by older names, ``old``, in today's form: the name of the
    function of the same module to call, and its arguments.

    Warns for each older form. Raises TypeError, as Python does, for names that there never were.
    """
    arguments = {name: value for name, value in arguments.items() if value is not ABSENT}
    order = forms.order
    if order is not None and isinstance(access_of(arguments.get(order.parameter)), order.kind):
        arguments = order.reorder(arguments)
        message = f"`nisa.{function}` takes its arguments in another order since NKI {order.since}: {order.fix}"
        warn_here(message, NkiDeprecationWarning, since=order.since)
    parameters = {form.parameter: form for form in forms.parameters}
    target = function
    for name, value in old.items():
        form = parameters.get(name)
        if form is None:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        form.warn(f"nisa.{function}")
        target = form.convert(arguments, value) or target
    return target, arguments


def accepting(form: DeprecatedParameter, written: str) -> Callable[[F], F]:
    """Decorator of a function, which kernels call ``written``, that had the parameter ``form``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if form.parameter in kwargs:
                form.warn(written)
                form.convert(kwargs, kwargs.pop(form.parameter))
            return function(*args, **kwargs)

        wrapper.deprecated_parameters = {form.parameter: form}  # type: ignore[attr-defined]  # for the check of calls
        return cast("F", wrapper)

    return decorate


__all__ = ["ABSENT", "accepting", "dropped", "first_partitions", "renamed", "upgrade"]
