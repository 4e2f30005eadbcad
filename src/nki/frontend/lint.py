"""Lint: mistakes of the kernels of a file, and of all functions that they reach, found before anything runs."""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nki.base.errors import NkiError
from nki.base.source import is_toolchain, is_toolchain_module
from nki.base.warning import NkiWarning, Warned, collecting
from nki.frontend.capture import Captured, capture, is_host, unwrap
from nki.frontend.dialect import assigned_dialect, default_dialect
from nki.frontend.scopes import resolve
from nki.frontend.syntax_rules import examine


@dataclass(slots=True)
class Survey:
    """Findings so far, and the functions that were examined; a function is examined once, whoever reaches it."""

    findings: list[NkiError | Warned] = field(default_factory=list[NkiError | Warned])
    functions: set[tuple[str, int, str]] = field(default_factory=set[tuple[str, int, str]])
    kernels: int = 0

    def file(
        self, module: types.ModuleType, own: Iterable[Captured], file: str, *, everything: bool = False
    ) -> list[Captured]:
        """Check the kernels that ``file`` defines, and what they reach; the kernels.

        ``own`` are the functions of the file. All of them are checked if ``everything`` is wanted; if there is no
        kernel, those that call instructions, for others are host code.
        """
        kernels = self.kernels_of(own, module, file)
        for captured in kernels:
            self.kernel(captured)
        if everything or not kernels:
            for captured in own:
                if "<locals>" in captured.qualname:  # a part of a function
                    continue
                if everything or names_instructions(captured.code, captured.globals):
                    self.examine_reachable(captured, kernel=False)
        return kernels

    def kernel(self, captured: Captured) -> None:
        """Check one kernel, and what it reaches."""
        self.kernels += 1
        self.examine_reachable(captured, kernel=True)

    def kernels_of(self, own: Iterable[Captured], module: types.ModuleType, file: str) -> list[Captured]:
        """The functions of the file that ``nki.jit`` was applied to, in their order. Those that exist know their
        closures; of those that only come to be when a function is called, the source has to do.
        """
        kernels: dict[int, Captured] = {}
        for value in vars(module).values():
            function = unwrap(value)
            if function is value or not isinstance(function, types.FunctionType):
                continue
            if function.__code__.co_filename == file and function.__code__.co_firstlineno not in kernels:
                try:
                    kernels[function.__code__.co_firstlineno] = capture(function)
                except NkiError as error:
                    self.findings.append(error)
        for one in own:
            if any(_is_jit(resolve(_called(d), one, frozenset())) for d in _decorators(one.node)):
                kernels.setdefault(one.code.co_firstlineno, one)
        return [kernels[line] for line in sorted(kernels)]

    def examine_reachable(self, captured: Captured, *, kernel: bool) -> None:
        """Check a function, and the functions that it and they name; a kernel has narrower rules for its parameters."""
        todo = [captured] if self.is_new(captured.code) else []
        for one in todo:
            with collecting(aside=True) as warned:
                result = examine(one, kernel=kernel and one is captured)
                errors, deferred = result.judged()
            reached = [each for several in result.warned_when_reached.values() for each in several]
            self.findings += [*errors, *warned, *reached, *map(_if_reached, deferred.values())]
            for value in map(unwrap, result.referenced.values()):
                if isinstance(value, types.FunctionType) and not is_host(value) and self.is_new(value.__code__):
                    with contextlib.suppress(NkiError):  # it is of no file: where the kernel calls it, it will say so
                        todo.append(capture(value, assigned_dialect(value) or one.dialect))

    def is_new(self, code: types.CodeType) -> bool:
        """Mark the function as examined; True if it was not before."""
        key = (code.co_filename, code.co_firstlineno, code.co_name)
        before = len(self.functions)
        self.functions.add(key)
        return len(self.functions) > before


def _if_reached(error: NkiError) -> NkiError | Warned:
    """A finding about code that may not be reached."""
    if error.span is None:
        return error
    return Warned(error.span, f"{error.message}, which is an error if this line is reached: {error.fix}", NkiWarning)


def names_instructions(code: types.CodeType, namespace: Mapping[str, Any]) -> bool:
    """True if the code, with its lambdas and comprehensions, names a function of the language: it is for the device.

    ``namespace`` are the globals of the code.
    """
    names = set(code.co_names)
    todo: list[object] = [namespace[name] for name in names if name in namespace]
    for value in todo:
        if isinstance(value, types.ModuleType) and is_toolchain(value):
            todo += [vars(value)[name] for name in names if name in vars(value) and vars(value)[name] is not value]
        elif isinstance(value, types.FunctionType) and value in _language():
            return True
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType) and part.co_name.startswith("<")]
    return any(names_instructions(part, namespace) for part in inner)


@functools.cache
def _language() -> frozenset[types.FunctionType]:
    """The functions of the language: of the modules that kernels customarily import."""
    dialect = default_dialect()
    modules = {statement.split()[1] for statement in dialect.imports.values()}
    values = [
        value
        for module in modules - set(dialect.namespaces)
        if is_toolchain_module(module)
        for name, value in vars(sys.modules[module]).items()
        if name[0] != "_"
    ]
    return frozenset(value for value in values if isinstance(value, types.FunctionType) and is_toolchain(value))


def _decorators(node: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    return [] if isinstance(node, ast.Lambda) else node.decorator_list


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_jit(value: object) -> bool:
    inner: Any = value.func if isinstance(value, functools.partial) else value  # pyright: ignore[reportUnknownMemberType]
    return is_toolchain(inner) and getattr(inner, "__name__", "") in ("jit", "_decorate")


__all__ = ["Survey", "names_instructions"]
