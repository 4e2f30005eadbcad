"""Source locations: spans, carets, and the chain of user frames of the running code.

:func:`is_toolchain` tells the toolchain's own code: of this distribution and of the packages of registered
dialects, from the user's.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import os
import sys
import threading
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Annotated, Any, Final, TypedDict, TypeVar, cast

from nki.base.locks import held_at_fork


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source file: lines and columns as Python's ``ast`` counts them (lines from 1, columns from 0).

    ``end_column`` is exclusive and refers to ``line``; 0 means "unknown, underline what stands there".
    """

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{_cell(self.file) or self.file}:{self.line}"

    @property
    def place(self) -> Place:
        """File and line, for JSON."""
        return {"file": self.file, "line": self.line}


class Place(TypedDict):
    """A line of a source file."""

    file: Annotated[str, "the path"]
    line: Annotated[int, "from 1"]


@dataclass(frozen=True, slots=True)
class Repeated(Span):
    """A place that follows itself ``times`` times in a stack of calls, as of a function that calls itself."""

    times: int = 1

    def __str__(self) -> str:
        times = self.times if self.times < 100 else "more than 99"  # where Python gives up depends on how it was called
        return f"{Span.__str__(self)} ({times} times)"


def folded(stack: Sequence[Span]) -> tuple[Span, ...]:
    """``stack`` with each run of one place as a single entry."""
    entries: list[Span] = []
    for place, run in itertools.groupby(stack):
        times = len(list(run))
        fields = (place.file, place.line, place.column, place.end_column, place.function)
        entries.append(place if times == 1 else Repeated(*fields, times))
    return tuple(entries)


def _cell(file: str) -> str | None:
    """The cell of a notebook that ``file`` stands for, as the notebook numbers it: ``In[3]``."""
    notebook: Any = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = named(file) if named is not None else None
    return label[1] if label is not None else None


@functools.lru_cache(maxsize=64)
def parsed(text: str, file: str) -> ast.Module:
    """The syntax tree of ``text``, shared and never changed. Raises SyntaxError."""
    with _PARSER:
        return ast.parse(text, filename=file)


_PARSER = held_at_fork()
"""CPython 3.11 counts how deep the tree is that it hands over, once for all threads: two at a time are mixed up."""

_own: set[str] = set()
"""The files that reports may quote."""


def note_file(file: str) -> None:
    """Let reports show lines of ``file``: its code runs in this process, or its user has named the file."""
    _own.add(file)


def is_own(file: str) -> bool:
    """True if reports may show lines of ``file``. A file that only an artifact or a text names is never opened."""
    return file in _own


def source_line(file: str, line: int) -> str:
    """That line of ``file``, with its end; empty when the file may not be shown or cannot be read."""
    return linecache.getline(file, line) if is_own(file) else ""


def caret(span: Span) -> str:
    """The source line of ``span`` with carets under the part that it names; empty when there is no line to show."""
    text = source_line(span.file, span.line).rstrip("\n")
    if not text.strip():
        return ""
    start = span.column or len(text) - len(text.lstrip())
    end = span.end_column if span.end_column > start else len(text)
    gutter = f"{span.line:>5} | "
    return f"{gutter}{text}\n{' ' * (len(gutter) - 2)}| {' ' * start}{'^' * max(1, end - start)}"


CodePosition = tuple[int, int | None, int | None, int | None]
"""First and last line, first and last column, as Python gives them: its columns count the bytes of UTF-8."""


def span_of(file: str, position: CodePosition, function: str) -> Span:
    """The position of running or captured code in characters, as a caret counts; of several lines only the first."""
    line, end_line, column, end_column = position
    note_file(file)
    text = linecache.getline(file, line)
    start = _characters(text, column or 0)
    end = _characters(text, end_column) if end_line == line and end_column else 0
    return Span(file, line, start, end, function)


def _characters(text: str, byte: int) -> int:
    return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))


def code_position(code: CodeType, offset: int) -> CodePosition:
    """The position of the instruction of ``code`` at byte ``offset``."""
    known = _positions.get(id(code))
    if known is None:
        if len(_positions) >= _MOST_POSITIONS:
            _positions.clear()
        known = _positions[id(code)] = code, list(code.co_positions())
    line, end_line, column, end_column = known[1][max(offset, 0) // 2]
    return line or code.co_firstlineno, end_line, column, end_column


_positions: dict[int, tuple[CodeType, list[tuple[int | None, int | None, int | None, int | None]]]] = {}
"""The positions of all instructions of codes, by the id of the code: Python counts to each from the first on."""
_MOST_POSITIONS = 16


def code_span(code: CodeType, offset: int, function: str) -> Span:
    """The first line of :func:`code_position`, in characters."""
    return span_of(code.co_filename, code_position(code, offset), function)


def _span(code: CodeType, offset: int) -> Span:
    known = _spans.get((id(code), offset))
    if known is None:
        known = _spans[id(code), offset] = code, code_span(code, offset, code.co_name)
    return known[1]


_spans: dict[tuple[int, int], tuple[CodeType, Span]] = {}
"""Spans by position: the id of the code, which stays alive, and the byte. Code of two files may be equal, and its hash
takes longer than all the rest.
"""


class Where:
    """The chain of user frames at a moment, innermost first, kept as code positions and turned into spans on demand.

    Equal chains of one run are one object: unrolled kernels record thousands of instructions at one place.
    """

    __slots__ = ("_span", "assigned", "frames")

    def __init__(self, frames: tuple[tuple[CodeType, int], ...]) -> None:
        self.frames = frames
        self._span: Span | None = None
        self.assigned: str | None = None
        """The variable that the call fills, or ``""``; None until :mod:`nki.base.assigned_name` has looked."""

    @property
    def span(self) -> Span | None:
        span = self._span
        if span is None and self.frames:
            span = self._span = _span(*self.frames[0])
        return span

    @property
    def stack(self) -> tuple[Span, ...]:
        """The callers, outermost first."""
        return tuple(_span(code, offset) for code, offset in reversed(self.frames[1:]))


class Noted(Where):
    """A position that was read from text instead of a running program."""

    __slots__ = ()

    def __init__(self, span: Span) -> None:
        super().__init__(())
        self._span = span


def node_span(file: str, node: ast.AST, function: str = "") -> Span:
    """The position of a syntax tree node; of one that spans several lines only the first."""
    line: int = getattr(node, "lineno", 0)
    column: int = getattr(node, "col_offset", 0)
    end_line: int | None = getattr(node, "end_lineno", None)
    end_column: int | None = getattr(node, "end_col_offset", None)
    return span_of(file, (line, end_line, column, end_column), function)


def asserted(file: str, line: int) -> ast.expr | None:
    """The condition of the ``assert`` statement that ``line`` is in."""
    try:
        tree = parsed("".join(linecache.getlines(file)), file)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return node.test
    return None


def definition_span(function: Callable[..., Any]) -> Span | None:
    """The line of a function's ``def``, below its decorators; None for what is not written in Python."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return None
    note_file(code.co_filename)
    lines = range(code.co_firstlineno, code.co_firstlineno + 50)
    start = (f"def {function.__name__}", "async def ")
    line = next((n for n in lines if linecache.getline(code.co_filename, n).lstrip().startswith(start)), None)
    return Span(code.co_filename, line or code.co_firstlineno, function=function.__qualname__)


_getframe = sys._getframe  # pyright: ignore[reportPrivateUsage]  # the interpreter's only way to see its frames
_boundaries: set[int] = set()
"""Ids of the code objects of the functions that call rewritten kernels; module-level functions, so these stay alive."""

F = TypeVar("F", bound=Callable[..., Any])


def user_frames_end(function: F) -> F:
    """Decorator of a function that calls the user's code: neither its frame nor its callers' frames are the user's."""
    _boundaries.add(id(cast(FunctionType, function).__code__))
    return function


def here(skipped: int = 1) -> Where:
    """The user frames that are running now, up to the function that called the user's code.

    Frames of the toolchain are left out, so a library function written in terms of another one reports its caller.
    ``skipped`` is the number of innermost frames that are known to be the toolchain's, this one included.
    """
    frame = innermost = _getframe(skipped)
    users, ours, rests = user_code, _own_code, _walked.rests
    path: list[int] = []
    rest: tuple[int, ...] | None = ()
    met: list[FrameType] = []
    while frame is not None:
        code = frame.f_code
        number = id(code)
        if number in users or (number not in ours and not _is_own(code)):
            path.append(number)
            path.append(frame.f_lasti)
            if rests is not None:
                rest = rests.get(frame)
                if rest is not None:
                    break
                met.append(frame)
        elif number in _boundaries:
            break
        frame = frame.f_back
    key = (*path, *rest) if rest else tuple(path)
    if met and rests is not None:
        _note_rests(rests, frame, met, key)
    return _wheres.get(key) or _new_where(innermost, key)


def _note_rests(
    rests: dict[FrameType, tuple[int, ...]], known: FrameType | None, met: list[FrameType], key: tuple[int, ...]
) -> None:
    """Keep the rests of the frames ``met`` on the way to ``known``, and none of frames that have returned."""
    while rests and next(reversed(rests)) is not known:
        rests.popitem()
    for depth in range(len(met), 0, -1):
        if not met[depth - 1].f_code.co_flags & _RESUMED:
            rests[met[depth - 1]] = key[2 * depth :]


class _Walked(threading.local):
    rests: dict[FrameType, tuple[int, ...]] | None = None
    """Of user frames that are running, from the outermost to the innermost, the path of the user frames around each.

    It stays the same until the frame returns. The frames are held, so that no other gets the identity of one.
    """


_walked = _Walked()
_RESUMED: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Marks of code with frames that others may call next time."""


@contextmanager
def keeping_frames() -> Generator[None]:
    """Let :func:`here` remember the frames around the one that it was last called from, until the block ends."""
    before, _walked.rests = _walked.rests, {}
    try:
        yield
    finally:
        _walked.rests = before


def _new_where(innermost: FrameType, path: tuple[int, ...]) -> Where:
    """The position of ``path``, which :func:`here` has met for the first time."""
    if len(_wheres) >= _MOST_WHERES:
        _wheres.clear()
    where = _wheres[path] = Where(_chain(innermost, path))
    return where


def _chain(frame: FrameType | None, path: Sequence[int]) -> tuple[tuple[CodeType, int], ...]:
    """The frames of ``path``, ids of codes and positions in turn, with the codes; ``frame`` is not further out."""
    codes: dict[int, CodeType] = {}
    while frame is not None:
        codes[id(frame.f_code)] = frame.f_code
        frame = frame.f_back
    return tuple([(codes[number], offset) for number, offset in zip(path[::2], path[1::2], strict=True)])


def _is_own(code: CodeType) -> bool:
    """True if ``code`` is the toolchain's; from now on known by its id."""
    own = is_toolchain(code)
    (_own_code if own else user_code)[id(code)] = code
    if len(user_code) > _MOST_WHERES:
        user_code.clear()
    return own


_own_code: dict[int, CodeType] = {}
"""Code of the toolchain that :func:`here` has met, by id; it stays alive, so that no other code gets the id."""
_wheres: dict[tuple[int, ...], Where] = {}
"""Positions by the ids of the codes of their frames, which they keep alive, and the offsets in these."""
_MOST_WHERES = 1 << 14
"""Positions, and codes of users, that are kept."""


_packages: tuple[str, ...] = ("nki",)
"""Names of packages, dotted where the package lies in another."""
_folders: tuple[str, ...] = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,)
"""Their folders, each with a separator at its end: a prefix of every file."""

user_code: dict[int, types.CodeType] = {}
"""Code of other files that was met, by id; it stays alive here, so that no other code gets the id."""


def add_package(name: str, folder: str) -> None:
    """Count the package ``name`` with its modules in ``folder`` as the toolchain's."""
    global _packages, _folders  # rebound and not changed: readers on other threads see all or nothing
    if name not in _packages:
        _packages = (*_packages, name)
        _folders = (*_folders, os.path.abspath(folder) + os.sep)
        user_code.clear()


def is_toolchain(value: Any) -> bool:
    """True for a code object of a file of ours, a module of ours, and everything that such a module defines."""
    if isinstance(value, types.CodeType):
        return value.co_filename.startswith(_folders)
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and is_toolchain_module(module)


def is_toolchain_module(name: str) -> bool:
    """True for the name of a module of ours, imported or not."""
    return any(name == package or name.startswith(package + ".") for package in _packages)
