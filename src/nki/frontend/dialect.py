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
from types import FunctionType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from nki.base import knobs
from nki.base.errors import NkiError
from nki.base.toolchain import add_package, is_toolchain_module
from nki.frontend.errors import ReleaseError
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
    that the package still has for older releases of the language.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    since: Mapping[str, str] = field(default_factory=dict[str, str])

    def package_fix(self, module: str) -> str | None:
        """The text for a module of a removed package, else None."""
        for package, fix in self.packages.items():
            if module == package or module.startswith(package + "."):
                return fix
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InstructionStyle:
    """The way in which calls of instructions pass their results.

    ``destination``: the parameter that takes the destination, "" where instructions return tensors. ``result_fix``
    explains a call whose result a statement uses all the same: from the call, the keywords that its function still
    takes, the statement, and the function's full name. ``source_first``: functions, by full name, that once took the
    source before the destination. ``ignored``: a keyword that a call may still pass besides its destination.
    """

    destination: str = ""
    result_fix: Callable[[ast.Call, list[ast.keyword], ast.stmt | None, str], str] | None = None
    source_first: frozenset[str] = frozenset()
    ignored: str = ""


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dialect:
    """A kernel language: the names, syntax and conventions under which the frontend reads a kernel.

    ``namespaces`` are the packages that hold the language: their functions are called as they are, and their names are
    checked before a kernel runs. ``syntax_rules`` has a rule per node class, ``unknown_syntax`` judges all others, and
    ``signature_rule`` the parameters of a kernel. ``hooks`` holds, by the name that rewritten code calls
    (:mod:`nki.frontend.rewrite`), the functions behind calls and loops; what has no hook keeps Python's meaning.
    ``imports`` are the customary names of modules and the statements that import them. ``advise`` makes a better error
    of an exception and the :class:`nki.frontend.site.Site` that raised it, or gives None. ``newer`` is the Python that
    runs though a syntax rule reports it, because a newer release of the language takes it.
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
    first, *others = _registered.values()
    if version:
        text, source = version.decode(errors="replace"), "NKI_VERSION"
        release = ".".join(text.strip().split(".")[:2])
    elif frontend:
        text, source = frontend.decode(errors="replace"), "NKI_COMPILER_FRONTEND"
        release = _FRONTENDS.get(text.strip().lower(), "")
    else:
        return first
    for dialect in others:
        if dialect.namespaces == first.namespaces and release in dialect.releases:
            return dialect
    words = ", ".join(first.releases) if version else ", ".join(_FRONTENDS)
    raise ReleaseError(f"{source}={text!r} names no release of NKI", fix=f"use one of {words}, or unset it")


_FRONTENDS: Final = {"parser": "0.6", "custom": "0.6", "tracer": "0.7"}
"""The rules that each value of ``NKI_COMPILER_FRONTEND`` meant in the releases that had it (0.6 and 0.7)."""


_assigned: Final[WeakKeyDictionary[FunctionType, Dialect]] = WeakKeyDictionary()


def assign_dialect(function: FunctionType, dialect: Dialect) -> None:
    """Read the kernel ``function`` under ``dialect`` from now on; the ``jit`` of a dialect calls this."""
    _assigned[function] = dialect


def dialect_of(function: object) -> Dialect:
    """The dialect that was assigned to a function, else the default."""
    dialect = _assigned.get(function) if isinstance(function, FunctionType) else None
    return dialect or default_dialect()


__all__ = [
    "Dialect",
    "InstructionStyle",
    "NewerPython",
    "RemovedNames",
    "SyntaxRule",
    "TensorType",
    "assign_dialect",
    "default_dialect",
    "dialect_of",
    "register",
]
