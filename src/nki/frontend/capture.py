"""From a Python function to its source: syntax tree, names that it can see, and the positions of both.

The whole file is parsed once and the function is looked up in that tree, so every node keeps the line and column
that it has in the user's file.

Host functions (:func:`is_host`) have no capture: kernels call them as they are.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nki.base.errors import NkiError
from nki.base.source import Span, is_toolchain, is_toolchain_module, node_span, note_file, parsed
from nki.base.warning import Warned
from nki.frontend.code_objects import FunctionNode, without_source
from nki.frontend.dialect import Dialect, default_dialect, dialect_of
from nki.frontend.frontend_errors import AsyncError, NoSourceError, NotAFunctionError, SourceChangedError
from nki.frontend.syntax_tree import children, walk

EMPTY = object()  # what a closure variable holds before its assignment has run

# Packages of Python functions that are tools for compile time (shapes, constants), never parts of a kernel.
HOST_PACKAGES = frozenset({"jax", "jaxlib", "ml_dtypes", "numpy", "scipy", "torch"})
_STDLIB = os.path.dirname(os.__file__)

_STARTED = time.time()  # a file older than this cannot have changed since Python read it


@dataclass(frozen=True, slots=True)
class Captured:
    """A function with everything that decides what it means.

    ``node`` is shared by all captures of the file and must not be changed. ``globals`` is the module's own dictionary
    and ``cells`` are the function's own closure cells, so both always show the present values. ``deferred`` holds the
    errors of code that may not be reached, by the node that is not of the language; it raises where it is reached.
    ``warned`` holds the warnings about such code in the same way. ``unread`` says why there is no source text: then
    ``node`` has the parameters and the names of the function alone, and Python runs its code as it is.
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
    dialect: Dialect
    deferred: Mapping[ast.AST, NkiError] | None = None
    warned: Mapping[ast.AST, Sequence[Warned]] | None = None
    unread: NkiError | None = None

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
        elif is_toolchain(type(fn)) and not isinstance(fn, types.FunctionType) and callable(getattr(fn, "func", None)):
            fn = getattr(fn, "func")  # noqa: B009
        else:
            return fn


def capture(fn: Callable[..., Any], dialect: Dialect | None = None) -> Captured:
    """The source and surroundings of ``fn``: a function, method, lambda or ``nki.jit`` object.

    It is read under ``dialect``, by default under that assigned to the function.

    Raises ``NoSourceError``, ``SourceChangedError`` (unless the dialect runs functions without source text),
    ``NotAFunctionError`` or ``AsyncError``.
    """
    function = _plain_function(fn)
    code = function.__code__
    dialect = dialect or dialect_of(function)
    unread: NkiError | None = None
    try:
        node, class_name = _definition(function)
    except (NoSourceError, SourceChangedError) as error:
        if type(error) not in dialect.python.accepted:
            raise
        node, class_name, unread = without_source(code), "", error
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise AsyncError(f"`{function.__name__}` is asynchronous", fix="drop `async`") from None
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
        dialect=dialect,
        unread=unread,
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
    text = "".join(lines)
    candidates = _functions(code.co_filename, text).get(code.co_firstlineno, [])
    matches = [c for c in candidates if _parameters(c[0]) == _arguments(code) and _named(c[0], code.co_name)]
    if len(matches) > 1:
        matches = _tell_apart(matches, code)
    if len(matches) > 1:
        raise NoSourceError(
            f"line {code.co_firstlineno} of `{code.co_filename}` has several functions that look alike",
            fix="give each a line of its own",
        )
    if not matches or _edited(code, text):
        raise SourceChangedError(
            f"`{code.co_filename}` has changed since Python read it: the function `{name}` of line "
            f"{code.co_firstlineno} is not the one that is running",
            fix="restart Python, or reload the module",
        )
    node, class_name = matches[0]
    if isinstance(node, ast.AsyncFunctionDef):
        span = node_span(code.co_filename, node, function.__qualname__)
        raise AsyncError(f"`{name}` is asynchronous", fix="drop `async`: a kernel runs from start to end", span=span)
    return node, class_name


def functions_of(module: types.ModuleType, code: types.CodeType) -> list[Captured]:
    """The functions that the file of ``module`` defines, in order and without lambdas; ``code`` is the module's own.

    Nothing is run. Closure variables hold nothing yet, as before the function around has run.
    """
    file, around, dialect = code.co_filename, vars(module), default_dialect()
    codes = _by_place(code)
    captures: list[Captured] = []
    for line, functions in sorted(_functions(file, "".join(source_lines(file, around))).items()):
        for node, class_name in functions:
            if not isinstance(node, ast.FunctionDef):
                continue
            for own in codes.get((line, node.name), ()):
                cells = {name: types.CellType() for name in own.co_freevars}
                about = (own.co_name, own.co_qualname, file, node, class_name, own, around, cells, None, None, dialect)
                captures.append(Captured(*about))
    return captures


def source_lines(file: str, module_globals: dict[str, Any] | None = None) -> list[str]:
    """The present lines of ``file``, from disk or from what a notebook or importer has registered for it."""
    note_file(file)
    if Path(file).is_file():
        linecache.checkcache(file)
    return linecache.getlines(file, module_globals)


def _why_no_source(file: str) -> str:
    if file == "<stdin>":
        return "it was typed at the Python prompt"
    if file == "<string>":
        return "it was made by `exec` or given with `python -c`"
    return f"there is no file `{file}`"


def rebound(captured: Captured) -> frozenset[str]:
    """The globals of the function's file that some function of it assigns to."""
    return _globals_assigned(captured.file, "".join(source_lines(captured.file, captured.globals)))


@functools.lru_cache(maxsize=64)
def _globals_assigned(file: str, text: str) -> frozenset[str]:
    if not re.search(r"^\s+global\s", text, re.MULTILINE):  # as in most files; walking a tree takes long
        return frozenset()
    nodes = walk(parsed(text, file))
    return frozenset(name for node in nodes if isinstance(node, ast.Global) for name in node.names)


@functools.lru_cache(maxsize=64)
def _functions(file: str, text: str) -> dict[int, list[tuple[FunctionNode, str]]]:
    """All functions of a file by the line on which they start (the first decorator's), with the class around them."""
    functions: dict[int, list[tuple[FunctionNode, str]]] = {}

    try:
        waiting: list[tuple[ast.AST, str]] = [(parsed(text, file), "")]
    except SyntaxError:
        return {}  # nothing is found in it, and the caller says that the file has changed
    while waiting:  # no recursion: a chain of `elif` is nested as often as it is long
        node, class_name = waiting.pop()
        if isinstance(node, FunctionNode):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            functions.setdefault(min([node.lineno, *(d.lineno for d in decorators)]), []).append((node, class_name))
        inner = node.name if isinstance(node, ast.ClassDef) else class_name
        waiting += [(child, inner) for child in reversed(children(node))]
    return functions


def _named(node: FunctionNode, name: str) -> bool:
    return name == ("<lambda>" if isinstance(node, ast.Lambda) else node.name)


def _tell_apart(matches: list[tuple[FunctionNode, str]], code: types.CodeType) -> list[tuple[FunctionNode, str]]:
    """Of several functions on one line, the innermost that holds every position of ``code`` in its body."""
    inside = [p for p in code.co_positions() if p[2] is not None and p[2] != p[3]]
    starts = [(line or 0, column or 0) for line, _, column, _ in inside]
    ends = [(line or 0, column or 0) for _, line, _, column in inside]
    holding: list[tuple[tuple[int, int], tuple[FunctionNode, str]]] = []
    for node, class_name in matches:
        body = node.body if isinstance(node.body, list) else [node.body]
        start = (body[0].lineno, body[0].col_offset)
        end = (body[-1].end_lineno or 0, body[-1].end_col_offset or 0)
        if inside and start <= min(starts) and max(ends) <= end:
            holding.append((start, (node, class_name)))
    return [max(holding, key=lambda item: item[0])[1]] if holding else matches


def _parameters(node: FunctionNode) -> tuple[str, ...]:
    a = node.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return tuple(arg.arg for arg in named)


def _arguments(code: types.CodeType) -> tuple[str, ...]:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def _edited(code: types.CodeType, text: str) -> bool:
    """True if ``text`` no longer compiles to ``code``; only asked of files written after this process began.

    Import hooks that rewrite code (assertion rewriting, type checkers) make the two differ as well, hence the date.
    """
    try:
        if Path(code.co_filename).stat().st_mtime <= _STARTED:
            return False
    except OSError:
        return False
    if any(n.startswith("@py") for n in (*code.co_names, *code.co_varnames)):
        return False  # pytest has rewritten the assertions of this module
    wanted = _fingerprint(code)
    return all(_fingerprint(part) != wanted for part in _codes(code.co_filename, text).get(_place(code), ()))


@functools.lru_cache(maxsize=4)
def _codes(file: str, text: str) -> dict[tuple[int, str], list[types.CodeType]]:
    """The code objects of ``text``, by first line and name; none if it does not compile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import has shown them
        try:
            return _by_place(compile(text, file, "exec", dont_inherit=True))
        except SyntaxError:
            return {}


def _by_place(code: types.CodeType) -> dict[tuple[int, str], list[types.CodeType]]:
    """``code`` and all code nested in it."""
    by_place: dict[tuple[int, str], list[types.CodeType]] = {}
    todo = [code]
    for part in todo:
        by_place.setdefault(_place(part), []).append(part)
        todo.extend(inner for inner in part.co_consts if isinstance(inner, types.CodeType))
    return by_place


def _place(code: types.CodeType) -> tuple[int, str]:
    return code.co_firstlineno, code.co_name


def _fingerprint(code: types.CodeType) -> tuple[object, ...]:
    consts = tuple(_fingerprint(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts)
    return (code.co_code, code.co_names, consts, code.co_freevars)


# Host functions, which are called as they are, and user functions, which are captured


def home(value: Any) -> str:
    """The name of the module that defines ``value``."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", ""))  # decorators copy ``__module__``
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else type(value).__module__


def is_users(value: Any) -> bool:
    """True if ``value`` is of a file that users edit: no part of Python, NumPy and the like."""
    name = home(value)
    package = name.partition(".")[0]
    if package in HOST_PACKAGES or is_toolchain_module(name):
        return False
    if package not in sys.stdlib_module_names:
        return True
    # By file as well: a user's module may be called `select` or `types`.
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return file is not None and (not file.startswith(_STDLIB) or "site-packages" in file)


def calls_back(fn: object) -> bool:
    """True if ``fn`` is a built-in that calls a function which it is given."""
    return type(fn) in (type, types.BuiltinFunctionType) and fn in _CALLS_BACK


# Declared Any: a type checker does not come to an end with the union of so many overloads.
_CALLS_BACK: tuple[Any, ...] = (map, filter, sorted, min, max, functools.reduce)


def is_host(fn: object) -> bool:
    """True if ``fn`` is called as it is: a class, a built-in, or a function of NKI, NumPy and the like."""
    if isinstance(fn, types.FunctionType):
        return _is_host_function(fn)
    if isinstance(fn, types.MethodType | functools.partial) or calls_back(fn):
        return False
    if not callable(fn) or unwrap(fn) is not fn or wraps_users(fn):
        return False
    return isinstance(fn, type) or not isinstance(type(fn).__call__, types.FunctionType) or is_toolchain(type(fn))


def wraps_users(fn: Any) -> bool:
    """True for what the standard library has put around a function of the user's: ``contextmanager``, ``lru_cache``."""
    inner = getattr(fn, "__wrapped__", None)
    return (
        isinstance(inner, types.FunctionType)
        and not isinstance(fn, type)
        and not is_host_code(inner.__code__, inner.__globals__)
    )


def _is_host_function(fn: types.FunctionType) -> bool:
    if not is_host_code(fn.__code__, fn.__globals__):
        return False
    return "__wrapped__" not in fn.__dict__ or is_toolchain(fn) or not wraps_users(fn)


def is_host_code(code: types.CodeType, around: dict[str, Any]) -> bool:
    """True for code of NKI, NumPy, Python and the like; ``around``: the globals that it runs with."""
    module = around.get("__name__")
    if not isinstance(module, str):
        module = ""
    package = module.partition(".")[0]
    if package in HOST_PACKAGES or is_toolchain_module(module):
        return True
    file = code.co_filename
    if package in sys.stdlib_module_names:  # by file as well: a user's module may be called `select` or `types`
        return file.startswith(("<frozen ", _STDLIB)) and "site-packages" not in file
    dunder = code.co_name.startswith("__") and code.co_name.endswith("__")
    return file == "<string>" and dunder  # written by dataclasses or namedtuple, which keep no source
