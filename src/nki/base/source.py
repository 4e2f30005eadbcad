"""Source locations: spans, carets, and the chain of user frames of the running code."""

from __future__ import annotations

import functools
import itertools
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from nki.base.toolchain import folders


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
        return f"{self.file}:{self.line}"


_own: set[str] = set()
"""The files whose lines reports may show."""


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


def code_span(code: CodeType, offset: int, function: str) -> Span:
    """The position of the instruction of ``code`` at byte ``offset``."""
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), max(offset, 0) // 2, None))
    return span_of(code.co_filename, (line or code.co_firstlineno, end_line, column, end_column), function)


@functools.cache
def _span(code: CodeType, offset: int) -> Span:
    return code_span(code, offset, code.co_name)


class Where:
    """The chain of user frames at a moment, innermost first, kept as code positions and turned into spans on demand."""

    __slots__ = ("frames",)

    def __init__(self, frames: tuple[tuple[CodeType, int], ...]) -> None:
        self.frames = frames

    @property
    def span(self) -> Span | None:
        return _span(*self.frames[0]) if self.frames else None

    @property
    def stack(self) -> tuple[Span, ...]:
        """The callers, outermost first."""
        return tuple(_span(*frame) for frame in reversed(self.frames[1:]))


class Noted(Where):
    """A position that was read from text instead of a running program."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        super().__init__(())
        self._span = span

    @property
    def span(self) -> Span | None:
        return self._span


_boundaries: set[int] = set()
"""Ids of the code objects of the functions that call rewritten kernels; module-level functions, so these stay alive."""

F = TypeVar("F", bound=Callable[..., Any])


def user_frames_end(function: F) -> F:
    """Decorator of a function that calls the user's code: neither its frame nor those of its callers are the user's."""
    _boundaries.add(id(cast(FunctionType, function).__code__))
    return function


def here() -> Where:
    """The user frames that are running now, up to the function that called the user's code.

    Frames of the toolchain are left out, so a library function written in terms of another one reports its caller.
    """
    frames: list[tuple[CodeType, int]] = []
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # the interpreter's only way to see its frames
    ours = folders()
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(ours):
            frames.append((code, frame.f_lasti))
        elif id(code) in _boundaries:
            break
        frame = frame.f_back
    return Where(tuple(frames))
