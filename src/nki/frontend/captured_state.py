"""Captured state: globals, closure variables, and constants of modules and classes that the code of a kernel reads.

A kernel is compiled with the values that these have, so whoever keeps compiled kernels must notice when they change.
"""

from __future__ import annotations

import ast
import dis
import functools
import os
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nki.base.source import is_toolchain
from nki.frontend.capture import is_users
from nki.frontend.syntax_tree import walk

ABSENT: Any = object()
"""The value that a name without a binding reads as."""
Read = Callable[[], Any]
Scope = tuple[ast.AST, types.CodeType, dict[str, Any], tuple[types.CellType, ...]]
"""A function as the user wrote it: syntax tree, code, globals, and the cells of its closure variables."""
Rewritten = tuple[types.FunctionType, object, object, object, types.FunctionType]
"""A function of the user's, who has rewritten it, its positional and keyword defaults then, and what runs instead."""


@dataclass(slots=True)
class Watched:
    """The state that kernels have reached: a way to read each thing from outside, and the code of each function."""

    reads: list[Read] = field(default_factory=list[Read])
    codes: list[types.CodeType] = field(default_factory=list[types.CodeType])
    files: bool = False
    """True if they read files: no other process can know them before it runs the kernels."""


class _Reached(threading.local):
    def __init__(self) -> None:
        self.scopes: dict[tuple[int, ...], Scope] | None = None
        self.functions: dict[int, Rewritten] | None = None
        self.files: dict[str, Read] = {}


_reached = _Reached()


class watching:  # noqa: N801  # used like a function
    """Context manager: gives a :class:`Watched`; after the block it holds what the kernels in the block reached."""

    def __init__(self) -> None:
        self.watched = Watched()
        self._outer: dict[tuple[int, ...], Scope] | None = None
        self._functions: dict[int, Rewritten] | None = None
        self._files: dict[str, Read] = {}

    def __enter__(self) -> Watched:
        self._outer, _reached.scopes = _reached.scopes, {}
        self._functions, _reached.functions = _reached.functions, {}
        self._files, _reached.files = _reached.files, {}
        return self.watched

    def __exit__(self, *exc: object) -> None:
        scopes, _reached.scopes = _reached.scopes or {}, self._outer
        _reached.functions = self._functions
        reads: dict[tuple[int, str], Read] = {}
        modules: dict[int, types.ModuleType] = {}
        names: set[str] = set()
        for node, code, module, cells in scopes.values():
            self.watched.codes.append(code)
            names |= attribute_names(code)
            variables = dict(zip(code.co_freevars, cells, strict=True))
            for key, read in _reads(node, code, module, variables):
                reads.setdefault(key, read)
            modules.update((id(found), found) for found in _handed_on(node, code, module, variables))
            if "globals" in global_names(code) and "globals" not in module:
                reads.update(_constants(module))
        for found in modules.values():
            reads.update(_attributes(found, names))
        self.watched.reads.extend([*reads.values(), *_reached.files.values()])
        self.watched.files = bool(_reached.files)
        _reached.files = self._files


def note(node: ast.AST, code: types.CodeType, module: dict[str, Any], cells: tuple[types.CellType, ...]) -> None:
    """A function of these surroundings runs as a part of this thread's kernel."""
    scopes = _reached.scopes
    if scopes is not None:
        scopes.setdefault((id(node), *map(id, cells)) if cells else (id(node),), (node, code, module, cells))


def rewritten_functions() -> dict[int, Rewritten] | None:
    """The functions that run in this thread's kernel so far, each noted, by the id of the code; None: none is watched.

    It goes with the watch, since a rewritten function holds the globals of the user's.
    """
    return _reached.functions


def note_file(path: str) -> None:
    """Note that this thread's kernel reads the file at ``path``; one that is gone later counts as unchanged."""

    def state(before: Any = ABSENT) -> Any:
        try:
            status = os.stat(path)
        except OSError:
            return before
        return status.st_mtime_ns, status.st_size, status.st_ino

    _reached.files[path] = functools.partial(state, state())


def _reads(
    node: ast.AST, code: types.CodeType, module: dict[str, Any], cells: dict[str, types.CellType]
) -> Iterator[tuple[tuple[int, str], Read]]:
    for path in _paths(node):
        name, *rest = path
        if name in cells:
            key, read = (id(cells[name]), ""), functools.partial(of_cell, cells[name])
        elif name in module and name in global_names(code):
            key, read = (id(module), name), functools.partial(module.get, name, ABSENT)
        else:
            continue  # a local name, perhaps with a namesake in the module, or a built-in
        value = read()
        if not (isinstance(value, types.ModuleType) or is_toolchain(value)):
            yield key, read
        for name in rest:
            if not isinstance(value, types.ModuleType | type) or not is_users(value):
                break
            read = functools.partial(getattr, value, name, ABSENT)
            yield (id(value), name), read
            value = read()


def _handed_on(
    node: ast.AST, code: types.CodeType, module: dict[str, Any], cells: dict[str, types.CellType]
) -> Iterator[types.ModuleType]:
    """Modules of the user's that the code passes on, or gives another name: others may read their attributes."""
    for name in _bare_names(node):
        value = of_cell(cells[name]) if name in cells else module.get(name) if name in global_names(code) else None
        if isinstance(value, types.ModuleType) and is_users(value):
            yield value


def _attributes(module: types.ModuleType, names: set[str]) -> Iterator[tuple[tuple[int, str], Read]]:
    """Reads of the attributes that code with these ``names`` may read from ``module``: all, if it can compute names."""
    values = vars(module)
    for name, value in list(values.items()):  # another thread may define one
        if (name in names or names & BY_TEXT) and not (isinstance(value, types.ModuleType) or is_toolchain(value)):
            yield (id(module), name), functools.partial(values.get, name, ABSENT)


def _constants(module: dict[str, Any]) -> Iterator[tuple[tuple[int, str], Read]]:
    """Reads of the numbers, texts, functions and classes of a module; the code has its dictionary in hand."""
    for name, value in list(module.items()):  # another thread may define one
        if isinstance(value, bool | int | float | str | types.FunctionType | type) and not is_toolchain(value):
            yield (id(module), name), functools.partial(module.get, name, ABSENT)


@functools.lru_cache(maxsize=1024)
def attribute_names(code: types.CodeType) -> frozenset[str]:
    """The names that ``code``, and the functions defined in it, look up anywhere."""
    return frozenset(code.co_names).union(
        *[attribute_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    )


BY_TEXT = frozenset({"__dict__", "attrgetter", "dir", "getattr", "vars"})
"""Ways to a module's attributes that do not name them."""


@functools.lru_cache(maxsize=1024)
def _bare_names(node: ast.AST) -> frozenset[str]:
    """The names that the code below ``node`` reads for more than one of their attributes."""
    owners = {id(n.value) for n in walk(node) if isinstance(n, ast.Attribute)}
    return frozenset(n.id for n in walk(node) if isinstance(n, ast.Name) and id(n) not in owners)


@functools.lru_cache(maxsize=1024)
def global_names(code: types.CodeType) -> frozenset[str]:
    """The names that ``code``, and the functions defined in it, look up in their module or among the built-ins."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in _LOOKUPS}
    return frozenset(names).union(*[global_names(part) for part in code.co_consts if isinstance(part, types.CodeType)])


_LOOKUPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
"""Python's instructions that look a name up in the module."""


@functools.lru_cache(maxsize=1024)
def _paths(node: ast.AST) -> frozenset[tuple[str, ...]]:
    """The names, and the attributes behind them, that the code below ``node`` reads."""
    return frozenset(
        path for n in walk(node) if isinstance(n, ast.Name | ast.Attribute) and (path := _path(n))
    )  # fmt: skip


def _path(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (owner := _path(node.value)):
        return (*owner, node.attr)
    return ()


def of_cell(cell: types.CellType) -> Any:
    """The value of a closure variable, ABSENT as long as nothing was assigned to it."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


__all__ = [
    "ABSENT", "BY_TEXT", "Read", "Watched", "attribute_names", "global_names", "note", "note_file", "of_cell",
    "watching",
]  # fmt: skip
