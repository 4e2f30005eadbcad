"""A release of a kernel language, as what it changes of the release before it, and all releases of one in order."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Final, Self

from nki.base.errors import NkiError
from nki.base.warning import number_of
from nki.frontend.frontend_errors import NewerApiError, RemovedApiError

HookFactory = Callable[[Any], Callable[..., Any]]
"""Makes the function that rewritten code calls, from the dialect's :class:`nki.frontend.inlining.Inliner`."""

DECORATED: Final = "decorated"
"""The warning, with "{0}" for its name, about a kernel with a decorator of its own that a kernel calls."""
LIST_ARGUMENT: Final = "list"
"""The warning, with "{0}" for its name, about an argument of a kernel that is a list."""


def full_names(names: Mapping[str, str]) -> tuple[str, ...]:
    """Full names, from a text of names for each module, class or function that they belong to."""
    return tuple(f"{home}.{name}" for home, text in names.items() for name in text.split())


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Release:
    """One release, by its changes of the release before it; the first one changes a language without rules of its own.

    ``traced``: CPython runs its kernels, else a parser reads them and refuses what it does not know.
    ``names`` and ``parameters`` are the full names that it adds, ``instead`` what older releases have for some of them,
    as the beginning of a sentence; ``operators`` are functions among them that older releases have as operators, which
    are not called. ``removed`` are names that it has no longer, ``removed_parameters`` parameters, and ``deprecated``
    names that it warns of, each with what to write; the packages keep all of them for older releases. ``undocumented``
    are names that its documents no longer have and that may be used all the same.
    ``accepts`` and ``refuses`` are errors of :mod:`nki.frontend.frontend_errors` about Python that it no longer raises,
    and that it raises again. ``hooks`` are hooks of :class:`nki.frontend.dialect.Dialect` that it adds or, with None,
    drops; ``warnings`` the texts of :data:`DECORATED` and :data:`LIST_ARGUMENT`, "" for none.
    ``compiler_frontends``: the values of ``NKI_COMPILER_FRONTEND`` that mean its rules. ``returns_results``: calls of
    instructions return their results, and take no destination.
    """

    version: str
    traced: bool
    names: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    operators: frozenset[str] = frozenset()
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    removed_parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    deprecated: Mapping[str, str] = field(default_factory=dict[str, str])
    undocumented: tuple[str, ...] = ()
    accepts: tuple[type[NkiError], ...] = ()
    refuses: tuple[type[NkiError], ...] = ()
    hooks: Mapping[str, HookFactory | None] = field(default_factory=dict[str, HookFactory | None])
    warnings: Mapping[str, str] = field(default_factory=dict[str, str])
    compiler_frontends: tuple[str, ...] = ()
    returns_results: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Availability:
    """The names and parameters that the packages have, and a dialect lacks or warns of, by full name.

    ``not_yet``: the first release with the name; ``instead`` and ``operators`` as in :class:`Release`. ``gone``: what
    to write, for names that ``release`` has no longer. ``deprecated``: the release that ended the name, and what to
    write.
    """

    release: str = ""
    not_yet: Mapping[str, str] = field(default_factory=dict[str, str])
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    operators: frozenset[str] = frozenset()
    gone: Mapping[str, str] = field(default_factory=dict[str, str])
    deprecated: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    def lacks(self, full: str) -> bool:
        """True if the release lacks the name ``full``; it may have an operator of that name."""
        return full in self.gone or full in self.not_yet

    @functools.cached_property
    def last_parts(self) -> frozenset[str]:
        """The last parts of all names here."""
        return frozenset(full.rpartition(".")[2] for full in (*self.not_yet, *self.gone, *self.deprecated))

    @functools.cached_property
    def values(self) -> Mapping[object, str]:
        """The full names by the id of the function, class or constant, or by the id of the function and the
        parameter.
        """
        values: dict[object, str] = {}
        for full in (*self.not_yet, *self.gone, *self.deprecated):
            module, _, name = full.rpartition(".")
            owner, _, attribute = module.rpartition(".")
            home = sys.modules.get(module) or getattr(sys.modules.get(owner), attribute, None)
            if isinstance(home, FunctionType):
                values[id(home), name] = full
            elif isinstance(home, ModuleType | type) and name in vars(home):
                values[id(vars(home)[name])] = full
        return values

    def error(self, full: str, written: str) -> NkiError:
        """The error about ``written``, which is the name ``full`` that the release lacks."""
        if full in self.gone:
            return RemovedApiError(f"NKI {self.release} no longer has `{written}`", fix=self.gone[full])
        first = self.not_yet[full]
        choose = f"choose a release that has it: NKI_VERSION={first}, nki.jit(nki_version={first!r})"
        fix = f"{self.instead[full]}; or {choose}" if full in self.instead else choose
        return NewerApiError(f"`{written}` came with NKI {first}; NKI {self.release} does not have it", fix=fix)

    def warning(self, full: str, written: str) -> str:
        """The warning about ``written``, which is the deprecated name ``full``."""
        since, fix = self.deprecated[full]
        return f"`{written}` is deprecated since NKI {since}: {fix}"


class History(tuple[Release, ...]):
    """The releases of a language, the oldest first. ``release`` is one of them, below."""

    __slots__ = ()

    def __new__(cls, releases: Iterable[Release]) -> Self:
        return super().__new__(cls, sorted(releases, key=lambda release: number_of(release.version)))

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(release.version for release in self)

    @property
    def last_parsed(self) -> Release:
        """The last release with a parser."""
        return next(release for release in reversed(self) if not release.traced)

    def until(self, release: Release) -> History:
        """The releases up to ``release``, which is the last one of them."""
        return History(self[: self.index(release) + 1])

    def find(self, version: str) -> Release:
        """The release ``version``. Raises ``KeyError``."""
        release = next((release for release in self if release.version == version), None)
        if release is None:
            raise KeyError(version)
        return release

    def first_with(self, full: str) -> str | None:
        """The release that added a name or parameter; None if the first one has it."""
        return next((one.version for one in self if full in one.names or full in one.parameters), None)

    def last_with(self, full: str) -> str | None:
        """The last release with a name or parameter; None if the newest one has it."""
        for before, release in itertools.pairwise(self):
            if any(full in ended for ended in (release.removed, release.removed_parameters, release.undocumented)):
                return before.version
        return None

    def have(self, full: str) -> tuple[bool, ...]:
        """For each release, whether it has the name or parameter ``full``."""
        first, last = self.first_with(full), self.last_with(full)
        begin = 0 if first is None else self.versions.index(first)
        end = len(self) if last is None else self.versions.index(last) + 1
        return tuple(begin <= place < end for place in range(len(self)))

    def accepted(self) -> frozenset[type[NkiError]]:
        """The errors about Python that the newest release does not raise."""
        accepted = set[type[NkiError]]()
        for release in self:
            accepted |= set(release.accepts)
            accepted -= set(release.refuses)
        return frozenset(accepted)

    def portable_since(self) -> dict[type[NkiError], str]:
        """The errors about Python that any release does not raise, each with the first one."""
        return {kind: one.version for one in reversed(self) for kind in one.accepts}

    def hooks(self) -> dict[str, HookFactory]:
        """The hooks of the newest release."""
        hooks = {name: hook for release in self for name, hook in release.hooks.items()}
        return {name: hook for name, hook in hooks.items() if hook is not None}

    def warnings(self) -> dict[str, str]:
        """The warnings of the newest release."""
        warnings = {kind: text for release in self for kind, text in release.warnings.items()}
        return {kind: text for kind, text in warnings.items() if text}

    def removed(self) -> dict[str, tuple[str, str]]:
        """The names and parameters that the newest release lacks and an older one had: which release ended each, and
        what to write.
        """
        return {
            full: (release.version, fix)
            for release in self
            for full, fix in (*release.removed.items(), *release.removed_parameters.items())
        }

    def availability(self, release: Release) -> Availability:
        """The names and parameters that ``release`` lacks or warns of."""
        own, later = self.until(release), self[self.index(release) + 1 :]
        gone = own.removed()
        deprecated = {full: (one.version, fix) for one in own for full, fix in one.deprecated.items()}
        return Availability(
            release.version,
            {full: one.version for one in later for full in (*one.names, *one.parameters)},
            {full: fix for one in later for full, fix in one.instead.items()},
            frozenset(full for one in later for full in one.operators),
            {full: fix for full, (_, fix) in gone.items()},
            {full: ended for full, ended in deprecated.items() if full not in gone},
        )

    def availability_in_any(self) -> Availability:
        """As :meth:`availability`, where names of all releases may be used: what any of them ended is deprecated."""
        deprecated = {full: (one.version, fix) for one in self for full, fix in one.deprecated.items()}
        return Availability(deprecated=self.removed() | deprecated)


__all__ = ["DECORATED", "LIST_ARGUMENT", "Availability", "History", "HookFactory", "Release", "full_names"]
