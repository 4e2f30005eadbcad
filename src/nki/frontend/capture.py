"""From a Python function to its source: syntax tree, names that it can see, and the positions of both.

The whole file is parsed once and the function is looked up in that tree, so every node keeps the line and column
that it has in the user's file.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nki.base.source import Span
from nki.frontend.bytecode import FunctionNode, compiled
from nki.frontend.errors import AsyncError, GeneratorError, NoSourceError, NotAFunctionError, SourceChangedError
from nki.frontend.place import node_span

EMPTY = object()  # what a closure variable holds before its assignment has run

_STARTED = time.time()  # a file older than this cannot have changed since Python read it


@dataclass(frozen=True, slots=True)
class Captured:
    """A function with everything that decides what it means.

    ``node`` is shared by all captures of the file and must not be changed. ``globals`` is the module's own dictionary
    and ``cells`` are the function's own closure cells, so both always show the present values.
    """

    name: str
    qualname: str
    file: str
    node: ast.FunctionDef | ast.Lambda
    class_name: str  # of the class around the definition: names like ``__x`` are mangled with it
    code: types.CodeType
    globals: dict[str, Any]
    cells: Mapping[str, types.CellType]
    defaults: tuple[Any, ...] | None
    kwdefaults: dict[str, Any] | None

    def closure(self, name: str) -> Any:
        """The value of closure variable ``name``; ``EMPTY`` as long as it has none."""
        try:
            return self.cells[name].cell_contents
        except ValueError:
            return EMPTY

    def span(self, node: ast.AST) -> Span:
        return node_span(self.file, node, self.qualname)


def unwrap(fn: object) -> object:
    """The plain function inside jit objects and bound methods; anything else comes back as it is."""
    while True:
        if isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif is_api(type(fn)) and not isinstance(fn, types.FunctionType) and callable(getattr(fn, "func", None)):
            fn = getattr(fn, "func")  # noqa: B009
        else:
            return fn


def is_api(value: object) -> bool:
    """Whether ``value`` belongs to NKI itself: a module of ours, or something that one of them defines."""
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(home, str) and (home == "nki" or home.startswith("nki."))


def capture(fn: Callable[..., Any]) -> Captured:
    """The source and surroundings of ``fn``: a function, method, lambda or ``nki.jit`` object.

    Raises ``NoSourceError``, ``SourceChangedError``, ``NotAFunctionError``, ``GeneratorError`` or ``AsyncError``.
    """
    function = _plain_function(fn)
    code = function.__code__
    node, class_name = _definition(function)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    return Captured(
        name=function.__name__,
        qualname=function.__qualname__,
        file=code.co_filename,
        node=node,
        class_name=class_name,
        code=code,
        globals=function.__globals__,
        cells=cells,
        defaults=function.__defaults__,
        kwdefaults=function.__kwdefaults__,
    )


def _plain_function(fn: object) -> types.FunctionType:
    function = unwrap(fn)
    if isinstance(function, type):
        raise NotAFunctionError(
            f"`{function.__qualname__}` is a class, not a function",
            fix="pass a function; call the class inside it",
            span=None,
        )
    if isinstance(function, functools.partial):
        raise NotAFunctionError(
            "a functools.partial object is no kernel", fix="define a function that makes the call with these arguments"
        )
    if not isinstance(function, types.FunctionType):
        shown = getattr(function, "__qualname__", None) or repr(function)
        raise NotAFunctionError(
            f"`{shown}` is {_kind(function)}, which has no Python source",
            fix="pass a function that is written in Python",
        )
    return function


def _kind(value: object) -> str:
    if isinstance(value, types.BuiltinFunctionType):
        return "a built-in function"
    return f"an object of type `{type(value).__qualname__}`"


def _definition(function: types.FunctionType) -> tuple[ast.FunctionDef | ast.Lambda, str]:
    code = function.__code__
    name = function.__name__
    lines = source_lines(code.co_filename, function.__globals__)
    if not lines:
        raise NoSourceError(
            f"kernel `{name}` has no source: {_why_no_source(code.co_filename)}",
            fix="put the kernel into a file and import it from there",
        )
    found = _find(_parsed(code.co_filename, tuple(lines)), code)
    if found is None or _edited(code, found, name):
        raise SourceChangedError(
            f"`{code.co_filename}` has changed since Python read it: line {code.co_firstlineno} no longer starts "
            f"the function `{name}` that is running",
            fix="restart Python, or reload the module",
        )
    node, class_name = found
    span = node_span(code.co_filename, node, function.__qualname__)
    if isinstance(node, ast.AsyncFunctionDef):
        raise AsyncError(f"`{name}` is asynchronous", fix="drop `async`: a kernel runs from start to end", span=span)
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_COROUTINE):
        raise GeneratorError(f"`{name}` is a generator", fix="build a list and return it", span=span)
    return node, class_name


def source_lines(file: str, module_globals: dict[str, Any] | None = None) -> list[str]:
    """The present lines of ``file``, from disk or from what a notebook or importer has registered for it."""
    if os.path.isfile(file):
        linecache.checkcache(file)
    return linecache.getlines(file, module_globals)


def _why_no_source(file: str) -> str:
    if file == "<stdin>":
        return "it was typed at the Python prompt"
    if file == "<string>":
        return "it was made by `exec` or given with `python -c`"
    return f"there is no file `{file}`"


@functools.lru_cache(maxsize=64)
def _parsed(file: str, lines: tuple[str, ...]) -> dict[int, list[tuple[FunctionNode, str]]]:
    """All functions of a file by the line on which they start (the first decorator's), with the class around them."""
    functions: dict[int, list[tuple[FunctionNode, str]]] = {}

    def visit(node: ast.AST, class_name: str) -> None:
        if isinstance(node, FunctionNode):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            functions.setdefault(min([node.lineno, *(d.lineno for d in decorators)]), []).append((node, class_name))
        inner = node.name if isinstance(node, ast.ClassDef) else class_name
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    try:
        visit(ast.parse("".join(lines), filename=file), "")
    except SyntaxError:
        return {}  # nothing is found in it, and the caller says that the file has changed
    return functions


def _find(
    functions: dict[int, list[tuple[FunctionNode, str]]], code: types.CodeType
) -> tuple[FunctionNode, str] | None:
    """The definition that ``code`` was compiled from; lambdas on one line are told apart by their columns."""
    candidates = functions.get(code.co_firstlineno, [])
    if code.co_name != "<lambda>":
        named = [c for c in candidates if not isinstance(c[0], ast.Lambda) and c[0].name == code.co_name]
        return named[0] if named and _parameters(named[0][0]) == _arguments(code) else None
    lambdas = [c for c in candidates if isinstance(c[0], ast.Lambda) and _parameters(c[0]) == _arguments(code)]
    if len(lambdas) > 1:
        positions = list(code.co_positions())
        lambdas = [c for c in lambdas if list(compiled(c[0], c[1], code).co_positions()) == positions]
    return lambdas[0] if len(lambdas) == 1 else None


def _parameters(node: FunctionNode) -> tuple[str, ...]:
    a = node.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return tuple(arg.arg for arg in named)


def _arguments(code: types.CodeType) -> tuple[str, ...]:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def _edited(code: types.CodeType, found: tuple[FunctionNode, str], name: str) -> bool:
    """Whether the body differs from the running code; only asked of files written after this process began.

    Import hooks that rewrite code (coverage, assertion rewriting) make the two differ as well, hence the date.
    """
    try:
        if os.stat(code.co_filename).st_mtime <= _STARTED:
            return False
    except OSError:
        return False
    if any(n.startswith("@py") for n in (*code.co_names, *code.co_varnames)):
        return False  # pytest has rewritten the assertions of this module
    return _fingerprint(code) != _fingerprint(compiled(found[0], found[1], code))


def _fingerprint(code: types.CodeType) -> tuple[object, ...]:
    consts = tuple(_fingerprint(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts)
    return (code.co_code, code.co_names, consts, code.co_freevars)
