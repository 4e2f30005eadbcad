"""Dialect: everything that distinguishes one kernel language from another, as one value that the frontend takes.

A dialect is an instance in a package of its own, above the frontend; ``nki.language.dialect`` holds the present one.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from nki.base import knobs
from nki.base.errors import NkiError
from nki.base.source import add_package, is_toolchain_module
from nki.base.warning import number_of
from nki.frontend.errors import NewerApiError, NotAFunctionError, ReleaseError
from nki.ir.types import Access, TensorHandle

T = TypeVar("T", bound=TensorHandle)

SyntaxRule = Callable[[Any, Any, frozenset[str]], bool]
"""Judges one node: takes the report of the function, the node, and the names bound around the node; reports mistakes
and returns True if the parts of the node are to be judged as well."""

HookFactory = Callable[[Any], Callable[..., Any]]
"""Makes the function that rewritten code calls, from the dialect's :class:`nki.frontend.inlining.Inliner`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorType(Generic[T]):
    """The class of the tensors that a kernel holds: ``wrap`` makes one of an access, which it has from then on."""

    kind: type[T]
    wrap: Callable[[Access], T]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemovedNames:
    """Names that older releases had, each with the text that says what to write instead.

    ``names``: by full name; ``attributes``: of the toolchain's objects; ``keywords``: of all calls; ``parameters``: by
    full name of function and parameter; ``packages``: whole packages, by dotted name. ``since``: by full name, those
    that the package still has for older releases of the language. ``exact``: from a captured function and a node in it
    the rewrite of the statement with the user's own names, "" where only the text is known.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    since: Mapping[str, str] = field(default_factory=dict[str, str])
    exact: Callable[[Any, ast.AST], str] = lambda _captured, _node: ""

    def package_fix(self, module: str) -> str | None:
        """The text for a module of a removed package, else None."""
        for package, fix in self.packages.items():
            if module == package or module.startswith(package + "."):
                return fix
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InstructionStyle:
    """The way in which calls of instructions pass their results.

    ``destination``: the parameter that takes the destination, "" where instructions return tensors. ``result_fix``,
    with "{}" for the name of the function, is the general text about a call whose result a statement uses all the same,
    "" where such calls are right. ``source_first``: functions, by full name, that once took the
    source before the destination. ``ignored``: a keyword that a call may still pass besides its destination.
    ``older_order``: the message about a call whose arguments stand where an older release took them, from the call, the
    function's full name, its parameters, and the values of names; "" for other calls. ``reordered``: the call with its
    arguments in the order of the parameters, from the call, the function's full name and the values; None if unknown.
    """

    destination: str = ""
    result_fix: str = ""
    source_first: frozenset[str] = frozenset()
    ignored: str = ""
    older_order: Callable[[ast.Call, str, list[str], Callable[[ast.expr], object]], str] = (
        lambda _call, _full, _parameters, _value_of: ""
    )
    reordered: Callable[[ast.Call, str, Callable[[ast.expr], object]], ast.Call | None] = (
        lambda _call, _full, _value_of: None
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewerPython:
    """Python that runs as Python runs it, although older releases of the language refuse it.

    ``since``: by the error of the older releases, the first release that takes it. ``warns``: each place that is sure
    to run, or is reached, gets a portability warning.
    """

    since: Mapping[type[NkiError], str] = field(default_factory=dict[type[NkiError], str])
    warns: bool = False

    @property
    def silent(self) -> bool:
        """True if nothing is said about it: the kernel is meant for releases that take it."""
        return bool(self.since) and not self.warns


@dataclass(frozen=True, eq=False, repr=False)
class LaterNames:
    """Names that the packages have, and the releases of the dialect do not have yet.

    ``first``: by full name of a function, class, constant, method or parameter, the first release that has it.
    ``instead``: by full name, what older releases have in its place, as the beginning of a sentence. ``operators``: the
    functions that older releases have as well, as operators, which are not called.
    """

    first: Mapping[str, str] = field(default_factory=dict[str, str])
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    operators: frozenset[str] = frozenset()

    def are_missing(self, full: str | None, called: bool = False) -> bool:
        """True if the releases lack the name ``full``, where it is ``called`` or only named."""
        return full in self.first and (called == (full in self.operators))

    @functools.cached_property
    def values(self) -> Mapping[object, str]:
        """The full names by the id of the function, class or constant, or by that of the function and the parameter."""
        found: dict[object, str] = {}
        for full in self.first:
            module, _, name = full.rpartition(".")
            owner, _, attribute = module.rpartition(".")
            home = sys.modules.get(module) or getattr(sys.modules.get(owner), attribute, None)
            if isinstance(home, FunctionType):
                found[id(home), name] = full
            elif isinstance(home, ModuleType | type) and name in vars(home):
                found[id(vars(home)[name])] = full
        return found

    def message(self, full: str, written: str, release: str) -> tuple[str, str]:
        """The text and the fix of the error about ``written``, which is the name ``full``, under ``release``."""
        first = self.first[full]
        choose = f"choose a release that has it: NKI_VERSION={first}, nki.jit(nki_version={first!r})"
        fix = f"{self.instead[full]}; or {choose}" if full in self.instead else choose
        return f"`{written}` came with NKI {first}; NKI {release} does not have it", fix


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dialect:
    """A kernel language: the names, syntax and conventions under which the frontend reads a kernel.

    ``namespaces`` are the packages that hold the language: their functions are called as they are, and their names are
    checked before a kernel runs. ``syntax_rules`` has a rule per node class, ``unknown_syntax`` judges all others, and
    ``signature_rule`` the parameters of a kernel. ``hooks`` holds, by the name that rewritten code calls
    (:mod:`nki.frontend.rewrite`), the functions behind calls and loops; what has no hook keeps Python's meaning.
    ``imports`` are the customary names of modules and the statements that import them. ``advise`` makes a better error
    of an exception and the :class:`nki.frontend.site.Site` that raised it, or gives None. ``newer`` is the Python that
    runs though a syntax rule reports it, because a newer release of the language takes it; ``later`` are
    names that only newer releases have. ``others`` says what to write for functions of other libraries, by bare name,
    or by full name where another module has the name; for a keyword, by ``function.keyword``. ``keywords`` has, for
    keywords of other libraries, the parameters that they may stand for.
    ``spills``: kernels may hold more tiles than fit, as compilers of the language spill. ``results`` takes the builder
    and what the kernel returned, when its Python has run, and gives what counts as returned. ``decorated`` is the
    warning, with "{}" for the name, about a kernel with a decorator of its own that a kernel calls, "" where that is
    usual. ``hints``: keywords that functions with further options ignore in silence; they warn of others, except in
    dialects without hints. ``carries``: undefined elements may be read (``Program.carries``).
    """

    name: str
    releases: tuple[str, ...]
    namespaces: tuple[str, ...]
    tensor: TensorType[Any]
    syntax_rules: Mapping[type[ast.AST], SyntaxRule]
    unknown_syntax: SyntaxRule
    signature_rule: Callable[[Any, ast.arguments], None]
    hooks: Mapping[str, HookFactory] = field(default_factory=dict[str, HookFactory])
    instructions: InstructionStyle = field(default_factory=InstructionStyle)
    removed: RemovedNames = field(default_factory=RemovedNames)
    imports: Mapping[str, str] = field(default_factory=dict[str, str])
    advise: Callable[[Exception, Any], NkiError | None] | None = None
    newer: NewerPython = field(default_factory=NewerPython)
    later: LaterNames = field(default_factory=LaterNames)
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    keywords: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    results: Callable[[Any, Any], Any] | None = None
    decorated: str = ""
    hints: frozenset[str] = frozenset()
    carries: bool = False
    spills: bool = False

    def require(self, full: str, written: str) -> None:
        """Raise :class:`NewerApiError` if the release does not have the name ``full``; kernels write ``written``."""
        if full in self.later.first:
            message, fix = self.later.message(full, written, self.releases[-1])
            raise NewerApiError(message, fix=fix)

    def dropped(self, since: str) -> bool:
        """True if forms that ended with release ``since`` are errors: the dialect is of one release, not older."""
        return len(self.releases) == 1 and number_of(self.releases[0]) >= number_of(since)

    @property
    def release(self) -> str | None:
        """The one release of the dialect; None if it is of several."""
        return self.releases[0] if len(self.releases) == 1 else None


_registered: Final[dict[str, Dialect]] = {}


def register(dialect: Dialect) -> Dialect:
    """Make ``dialect`` known and count its packages, already imported, as the toolchain's; the first is the default."""
    for package in dialect.namespaces:
        if not is_toolchain_module(package):
            add_package(package, os.path.dirname(str(sys.modules[package].__file__)))
    _chosen.cache_clear()
    return _registered.setdefault(dialect.name, dialect)


def default_dialect() -> Dialect:
    """The dialect of kernels that name no other: the one that was registered first, or the one that the environment
    chooses among those of the same packages. Raises :class:`ReleaseError` for a release that none of them has.
    """
    return _chosen(knobs.version(), knobs.frontend())


@functools.lru_cache(maxsize=64)
def _chosen(version: bytes | None, frontend: bytes | None) -> Dialect:
    first = next(iter(_registered.values()))
    if version:
        text, source = version.decode(errors="replace"), "NKI_VERSION"
        found = _of_release(".".join(text.strip().split(".")[:2]))
    elif frontend:
        text, source = frontend.decode(errors="replace"), "NKI_COMPILER_FRONTEND"
        found = _of_release(_FRONTENDS.get(text.strip().lower(), ""))
    else:
        return first
    if found is not None:
        return found
    words = ", ".join(first.releases) if version else ", ".join(_FRONTENDS)
    raise ReleaseError(f"{source}={text!r} names no release of NKI", fix=f"use one of {words}, or unset it")


def _of_release(release: str) -> Dialect | None:
    """The dialect of one release, of the same packages as the default."""
    first, *others = _registered.values()
    same = (dialect for dialect in others if dialect.namespaces == first.namespaces)
    return next((dialect for dialect in same if release in dialect.releases), None)


def release(version: object) -> Dialect:
    """The dialect of the release ``version``, such as "0.6" or "0.6.0". Raises :class:`ReleaseError` for others."""
    text = version if isinstance(version, str) else ""
    found = _of_release(".".join(text.strip().split(".")[:2]))
    if found is None:
        words = ", ".join(next(iter(_registered.values())).releases)
        raise ReleaseError(
            f"nki.jit(nki_version={version!r}) names no release of NKI", fix=f"use one of {words}, as text"
        )
    return found


_FRONTENDS: Final = {"parser": "0.6", "custom": "0.6", "tracer": "0.7"}
"""The rules that each value of ``NKI_COMPILER_FRONTEND`` meant in the releases that had it (0.6 and 0.7)."""


_assigned: Final[WeakKeyDictionary[FunctionType, Dialect]] = WeakKeyDictionary()
_originals: Final[WeakKeyDictionary[FunctionType, FunctionType]] = WeakKeyDictionary()


def assign_dialect(function: FunctionType, dialect: Dialect) -> None:
    """Read the kernel ``function`` under ``dialect`` from now on; the ``jit`` of a dialect calls this."""
    _assigned[function] = dialect


def under_dialect(function: Callable[..., Any], dialect: Dialect) -> FunctionType:
    """A function of the same code, globals and closure that is read under ``dialect``; ``function`` stays as it is.

    Raises :class:`NotAFunctionError` for a callable that is no function of Python.
    """
    if not isinstance(function, FunctionType):
        raise NotAFunctionError(
            f"nki.jit(nki_version={dialect.releases[0]!r}) was given {function!r:.60}, which is no function of Python",
            fix="define a function that calls it",
        )
    if function in _originals:
        function = _originals[function]
    code, space, name = function.__code__, function.__globals__, function.__name__
    own = FunctionType(code, space, name, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    own.__dict__.update(function.__dict__)
    own.__qualname__, own.__module__, own.__doc__ = function.__qualname__, function.__module__, function.__doc__
    own.__annotations__ = function.__annotations__
    assign_dialect(own, dialect)
    _originals[own] = function
    return own


def original(function: Any) -> tuple[Any, str | None]:
    """The function that :func:`under_dialect` was given, and the dialect's name; any other as it is, and None."""
    if isinstance(function, FunctionType) and function in _originals:
        return _originals[function], _assigned[function].name
    return function, None


def registered(name: str) -> Dialect:
    """The dialect that :func:`register` has made known by this name."""
    return _registered[name]


def assigned_dialect(function: object) -> Dialect | None:
    """The dialect that was assigned to a function, if one was."""
    return _assigned.get(function) if isinstance(function, FunctionType) else None


def dialect_of(function: object) -> Dialect:
    """The dialect that was assigned to a function, else the default."""
    return assigned_dialect(function) or default_dialect()


__all__ = [
    "Dialect",
    "InstructionStyle",
    "LaterNames",
    "NewerPython",
    "RemovedNames",
    "SyntaxRule",
    "TensorType",
    "assign_dialect",
    "assigned_dialect",
    "default_dialect",
    "dialect_of",
    "original",
    "register",
    "registered",
    "release",
    "under_dialect",
]
