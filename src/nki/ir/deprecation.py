"""Call forms of older releases, as data of a declaration; ``nki.isa.deprecated`` upgrades such calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nki.base.warning import NkiDeprecationWarning, warn_here

Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class DeprecatedParameter:
    """A parameter that a function had until NKI ``since``.

    ``fix`` says what to write. ``convert`` changes the arguments of a call to what its value means today, and returns
    the name of another function where that one takes them. ``replaces``: the required parameter that it replaces.
    ``is_plain``: the value goes to ``replaces`` as it is, or to nothing if that is "".
    """

    parameter: str
    since: str
    fix: str
    convert: Callable[[Arguments, Any], str | None]
    replaces: str = ""
    is_plain: bool = False

    def warn(self, function: str) -> None:
        """Warn that ``function``, as kernels call it, no longer takes the parameter."""
        message = f"`{function}` takes no `{self.parameter}` since NKI {self.since}: {self.fix}"
        warn_here(message, NkiDeprecationWarning, since=self.since)


@dataclass(frozen=True, eq=False, repr=False)
class DeprecatedOrder:
    """An order that arguments had until NKI ``since``: it shows where ``parameter`` holds a ``kind``."""

    parameter: str
    kind: type[Any]
    order: tuple[str, ...]
    since: str
    fix: str

    def reorder(self, arguments: Arguments) -> Arguments:
        """``arguments``, by today's names in today's order, by the names that they had at their places."""
        return dict(zip(self.order, arguments.values(), strict=False))


@dataclass(frozen=True, eq=False, repr=False)
class DeprecatedValue:
    """Values of ``parameter`` that are errors since NKI ``since``: under one release before it, ``convert`` gives the
    value of today for such a value and the operand ``of``.
    """

    parameter: str
    of: str
    since: str
    convert: Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseValue:
    """A field that no caller passes: its default, and ``older`` under one release before ``since``, in which the
    instruction computed something else.
    """

    field: str
    since: str
    older: int


@dataclass(frozen=True, eq=False, repr=False)
class DeprecatedForms:
    """All older forms of one function, and older meanings of the same form.

    ``warning`` gives the warning for arguments that are legal here and not in NKI, or None; ``open_question`` the one
    for arguments about which NKI's documents disagree.
    """

    parameters: tuple[DeprecatedParameter, ...] = ()
    order: DeprecatedOrder | None = None
    values: tuple[DeprecatedValue, ...] = ()
    by_release: tuple[ReleaseValue, ...] = ()
    warning: Callable[[Any], str | None] | None = None
    open_question: Callable[[Any], str | None] | None = None


NONE = DeprecatedForms()
