"""Warnings: code that runs, yet does not mean what it seems to, or will stop running."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from nki.base.source import Span, here, is_own
from nki.base.version import version


class NkiWarning(UserWarning):
    """Something in a kernel that is probably a mistake."""


class NkiDeprecationWarning(NkiWarning):
    """Something that newer versions of NKI no longer have; the message names its replacement.

    No ``DeprecationWarning``, which Python hides wherever a kernel is imported: its author is who should see this.
    """


class NkiPortabilityWarning(NkiWarning):
    """Something that Open NKI runs and the documents of NKI do not allow; the message names the restriction."""


class NkiSpillWarning(NkiWarning):
    """Tiles wait in another memory, because a kernel holds more than fits; the message names them and the traffic.

    ``warnings.simplefilter("error", nki.NkiSpillWarning)`` makes it an error.
    """


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning, and the place that it is about."""

    span: Span
    message: str
    category: type[NkiWarning]


_collectors: ContextVar[tuple[tuple[list[Warned], bool], ...]] = ContextVar("collectors", default=())
"""The collectors of this context; the threads of a launch's other cores have them, too."""

_given: dict[str, dict[Any, Any]] = {}
"""Warnings given about each file, as Python notes it in a module's ``__warningregistry__``."""


_release: ContextVar[tuple[int, ...] | None] = ContextVar("release", default=None)
"""The release of NKI that gives the rules for reading a kernel; None for all releases."""


@contextmanager
def under_release(release: str | None) -> Generator[None]:
    """Context manager: forms that ended after ``release`` are not warned of; None: all older forms are."""
    token = _release.set(number_of(release) if release is not None else None)
    try:
        yield
    finally:
        _release.reset(token)


def number_of(release: str) -> tuple[int, ...]:
    """A release such as "0.6" as numbers, which compare in the order of releases."""
    return tuple(map(int, release.split(".")))


def is_before(since: str) -> bool:
    """True under the rules of one release that is older than ``since``."""
    release = _release.get()
    return release is not None and release < number_of(since)


_first: dict[tuple[str, int, str], str] = {}
"""By file, line and text without the numbers of tensors' names: the first text that was given."""
_NUMBER: Final = re.compile(r"(?<=\w)\.\d+(?=')")


def warn_at(span: Span, message: str, category: type[NkiWarning] = NkiWarning, since: str = "") -> None:
    """Warn at a line of the user's file; Python's own filters and once-per-line rule apply to that line.

    ``since``: the release that ended or deprecated the form; under an older one nothing is said.
    """
    if since and is_before(since):
        return
    # Python's rule goes by the text, and each iteration of an unrolled loop has tensors of its own: `t`, `t.1`, `t.2`.
    message = _first.setdefault((span.file, span.line, _NUMBER.sub("", message)), message)
    aside = False
    for collected, takes in _collectors.get():
        collected.append(Warned(span, message, category))
        aside |= takes
    if not aside:
        # Python shows the line, except of names in angle brackets.
        file = span.file if is_own(span.file) else f"<{span.file}>"
        warnings.warn_explicit(stamped(message), category, file, span.line, registry=_given.setdefault(span.file, {}))


def stamped(message: str) -> str:
    """``message`` with the version of this package, as Python's filters and the user see it."""
    return f"{message} (open-nki {version()})"


def warn_here(message: str, category: type[NkiWarning] = NkiWarning, since: str = "") -> None:
    """:func:`warn_at` the line of the kernel that is being recorded; outside of one nothing happens."""
    span = here().span
    if span is not None:
        warn_at(span, message, category, since)


@contextmanager
def collecting(*, aside: bool = False) -> Generator[list[Warned]]:
    """A list of the warnings that are given inside, by cores on other threads too; ``aside``: Python's filters do not
    come to see them.
    """
    collected: list[Warned] = []
    token = _collectors.set((*_collectors.get(), (collected, aside)))
    try:
        yield collected
    finally:
        _collectors.reset(token)
