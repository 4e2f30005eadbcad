"""Dialect: everything that distinguishes one kernel language from another, as one value that the frontend takes.

A dialect is an instance in a package of its own, above the frontend; ``nki.language.nki_dialects`` holds the present
one.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from nki.base import knobs
from nki.base.errors import NkiError
from nki.base.source import add_package, is_toolchain_module
from nki.base.warning import number_of
from nki.frontend.frontend_errors import NotAFunctionError, ReleaseError
from nki.frontend.release import Availability, HookFactory, Release
from nki.ir.types import Access, TensorHandle

T = TypeVar("T", bound=TensorHandle)

SyntaxRule = Callable[[Any, Any, frozenset[str]], bool]
"""Judges one node: takes the report of the function, the node, and the names bound around the node; reports mistakes
and returns True if the parts of the node are to be judged as well."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorType(Generic[T]):
    """The class of the tensors that a kernel holds: ``wrap`` makes one of an access, which it has from then on."""

    kind: type[T]
    wrap: Callable[[Access], T]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemovedNames:
    """Names that the language once had and its packages do not, each with the text that says what to write instead.

    ``names``: by full name; ``attributes``: of the toolchain's objects; ``keywords``: of all calls; ``parameters``: by
    full name of function and parameter; ``packages``: whole packages, by dotted name. ``misplaced``: for names that a
    later release kept where they change nothing, whether a node in the tree of a function is at another place.
    ``exact``: from a captured function and a node in it the rewrite of the statement with the user's own names, ""
    where only the text is known.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    misplaced: Mapping[str, Callable[[ast.AST, ast.expr], bool]] = field(
        default_factory=dict[str, Callable[[ast.AST, ast.expr], bool]]
    )
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
    with "{}" for the name of the function, is the general text about a call with a result that a statement uses all the
    same, "" where such calls are right. ``source_first``: functions, by full name, that once took the source before the
    destination. ``ignored``: a keyword that a call may still pass besides its destination. ``older_order``: the message
    about a call with arguments where an older release took them, from the call, the function's full name, its
    parameters, and the values of names; "" for other calls. ``reordered``: the call with its arguments in the order of
    the parameters, from the call, the function's full name and the values; None if unknown.
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
class PythonRules:
    """The Python that kernels may contain.

    ``syntax_rules`` has a rule per node class, ``unknown_syntax`` judges all others, and ``signature_rule`` the
    parameters of a kernel. ``traced``: CPython runs kernels, so that names and operators keep Python's meaning.
    ``accepted``: errors of these rules that are none in the dialect, so that what they report runs as Python runs it.
    ``warns``: each place of it that is sure to run, or is reached, gets a portability warning. ``portable_since``: by
    the error, the first release of the language that accepts it, for these warnings.
    """

    syntax_rules: Mapping[type[ast.AST], SyntaxRule]
    unknown_syntax: SyntaxRule
    signature_rule: Callable[[Any, ast.arguments], None] = lambda _report, _args: None
    traced: bool = False
    accepted: Collection[type[NkiError]] = frozenset()
    warns: bool = False
    portable_since: Mapping[type[NkiError], str] = field(default_factory=dict[type[NkiError], str])

    @property
    def silent(self) -> bool:
        """True if nothing is said about Python's own meaning: the kernel is meant for releases that trace it."""
        return self.traced and not self.warns


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForeignNames:
    """Names of other libraries, each with what to write instead.

    ``functions``: by bare name, or by full name where another module has the name; for a keyword, by
    ``function.keyword``. ``keywords``: the parameters that a keyword may stand for.
    """

    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    keywords: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dialect:
    """A kernel language: the names, Python and conventions under which the frontend reads a kernel.

    ``namespaces`` are the packages that hold the language: their functions are called as they are, and their names are
    checked before a kernel runs. ``hooks`` holds, by the name that rewritten code calls (:mod:`nki.frontend.rewrite`),
    the functions behind calls and loops; what has no hook keeps Python's meaning. ``imports`` are the customary names
    of modules and the statements that import them. ``advise`` makes a better error of an exception and the
    :class:`nki.frontend.site.Site` that raised it, or gives None. ``results`` takes the builder and what the kernel
    returned, when its Python has run, and gives what counts as returned.
    ``availability``: names that the packages have, and the releases of the dialect lack or warn of. ``warnings``: see
    :class:`nki.frontend.release.Release`. ``ignored_keywords``: keywords that functions with further options ignore in
    silence; they warn of others, except in dialects without such keywords. ``propagates_undefined``: undefined
    elements may be read (``Program.propagates_undefined``).
    """

    name: str
    releases: tuple[Release, ...]
    namespaces: tuple[str, ...]
    tensor: TensorType[Any]
    python: PythonRules
    hooks: Mapping[str, HookFactory] = field(default_factory=dict[str, HookFactory])
    instructions: InstructionStyle = field(default_factory=InstructionStyle)
    availability: Availability = field(default_factory=Availability)
    removed: RemovedNames = field(default_factory=RemovedNames)
    foreign: ForeignNames = field(default_factory=ForeignNames)
    ignored_keywords: frozenset[str] = frozenset()
    imports: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: Mapping[str, str] = field(default_factory=dict[str, str])
    advise: Callable[[Exception, Any], NkiError | None] | None = None
    results: Callable[[Any, Any], Any] | None = None
    propagates_undefined: bool = False

    def require(self, full: str, written: str) -> None:
        """Raise the error about ``written``, which is the name ``full``, if the release does not have it."""
        if self.availability.lacks(full):
            raise self.availability.error(full, written)

    def dropped(self, since: str) -> bool:
        """True if forms that ended with release ``since`` are errors: the dialect is of one release, not older."""
        return self.release is not None and number_of(self.release) >= number_of(since)

    @property
    def release(self) -> str | None:
        """The one release of the dialect; None if it is of several."""
        return self.releases[0].version if len(self.releases) == 1 else None

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(release.version for release in self.releases)


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
    chooses among the dialects of the same packages. Raises :class:`ReleaseError` for a release that none of them has.
    """
    return _chosen(knobs.version(), knobs.frontend())


@functools.lru_cache(maxsize=64)
def _chosen(version: bytes | None, frontend: bytes | None) -> Dialect:
    default = next(iter(_registered.values()))
    if version:
        text, source, words = version.decode(errors="replace"), "NKI_VERSION", default.versions
        dialect = _of_release(text)
    elif frontend:
        text, source = frontend.decode(errors="replace"), "NKI_COMPILER_FRONTEND"
        meant = {word: release.version for release in default.releases for word in release.compiler_frontends}
        words, dialect = tuple(meant), _of_release(meant.get(text.strip().lower(), ""))
    else:
        return default
    if dialect is None:
        fix = f"use one of {', '.join(words)}, or unset it"
        raise ReleaseError(f"{source}={text!r} names no release of NKI", fix=fix)
    return dialect


def _of_release(text: str) -> Dialect | None:
    """The dialect of one release, such as "0.6" or "0.6.0", of the same packages as the default."""
    version = ".".join(text.strip().split(".")[:2])
    default, *others = _registered.values()
    same = (dialect for dialect in others if dialect.namespaces == default.namespaces)
    return next((dialect for dialect in same if version in dialect.versions), None)


def release(version: object) -> Dialect:
    """The dialect of the release ``version``, such as "0.6" or "0.6.0". Raises :class:`ReleaseError` for others."""
    dialect = _of_release(version) if isinstance(version, str) else None
    if dialect is None:
        words = ", ".join(next(iter(_registered.values())).versions)
        raise ReleaseError(
            f"nki.jit(nki_version={version!r}) names no release of NKI", fix=f"use one of {words}, as text"
        )
    return dialect


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
            f"nki.jit(nki_version={dialect.versions[0]!r}) was given {function!r:.60}, which is no function of Python",
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
    "ForeignNames",
    "InstructionStyle",
    "PythonRules",
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
