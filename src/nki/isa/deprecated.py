"""What the functions of ``nki.isa`` took in older NKI: such calls run, with a warning that says what to write.

An instruction lists the parameters that its function had in ``older``, and an order that its arguments had in
``reordered``. Source: the migration guides and the release notes of NKI 0.2 to 0.6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from nki.base.warning import NkiDeprecationWarning, warn_here

ABSENT: Final = object()
"""Stands for an argument that a call does not pass."""

Arguments = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Older:
    """A parameter that a function had until NKI ``since``.

    ``fix`` says what to write. ``into`` changes the arguments of a call to what its value means today, and returns the
    name of another function where that one takes them. ``replaces``: the required parameter whose place it takes.
    """

    parameter: str
    since: str
    fix: str
    into: Callable[[Arguments, Any], str | None]
    replaces: str = ""

    def warn(self, function: str) -> None:
        """Say that ``function``, as kernels call it, no longer takes it."""
        warn_here(f"`{function}` takes no `{self.parameter}` since NKI {self.since}: {self.fix}", NkiDeprecationWarning)


@dataclass(frozen=True, slots=True)
class Reordered:
    """An order that arguments had until NKI ``since``: it shows where ``parameter`` holds a ``kind``."""

    parameter: str
    kind: type[Any]
    order: tuple[str, ...]
    since: str
    fix: str

    def turned(self, given: Arguments) -> Arguments:
        """``given``, by today's names in today's order, by the names whose places they stood in."""
        return dict(zip(self.order, given.values(), strict=False))


def renamed(parameter: str, now: str, since: str) -> Older:
    """``parameter`` is called ``now``."""

    def into(arguments: Arguments, value: Any) -> None:
        arguments[now] = value

    return Older(parameter, since, f"it is called `{now}`", into, now)


def dropped(parameter: str, since: str, fix: str) -> Older:
    """``parameter`` changes nothing any more."""
    return Older(parameter, since, fix, lambda arguments, value: None)


def renewed(
    function: str, forms: Mapping[str, Older], order: Reordered | None, given: Arguments, old: Arguments
) -> tuple[str, Arguments]:
    """The call of ``function`` with the arguments ``given`` and, by older names, ``old``, in today's form: the name of
    the function of the same module to call, and its arguments.

    Warns for each older form. Raises TypeError, as Python does, for names that there never were.
    """
    given = {name: value for name, value in given.items() if value is not ABSENT}
    if order is not None and isinstance(given.get(order.parameter), order.kind):
        given = order.turned(given)
        message = f"`nisa.{function}` takes its arguments in another order since NKI {order.since}: {order.fix}"
        warn_here(message, NkiDeprecationWarning)
    target = function
    for name, value in old.items():
        form = forms.get(name)
        if form is None:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        form.warn(f"nisa.{function}")
        target = form.into(given, value) or target
    return target, given


def taking(form: Older, written: str) -> Callable[[F], F]:
    """Decorator of a function, which kernels call ``written``, that had the parameter ``form``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            if form.parameter in kwargs:
                form.warn(written)
                form.into(kwargs, kwargs.pop(form.parameter))
            return function(*args, **kwargs)

        made.older = {form.parameter: form.replaces}  # type: ignore[attr-defined]  # for the check of calls
        return cast("F", made)

    return decorate


__all__ = ["ABSENT", "Older", "Reordered", "dropped", "renamed", "renewed", "taking"]
