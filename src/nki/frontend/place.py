"""Where in the user's file something happened, and Python exceptions told as errors of the kernel.

Only frames whose code the frontend compiled count: the compiler's own frames never show.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import types

from nki.base.errors import NkiError
from nki.base.source import Span
from nki.frontend.bytecode import origin
from nki.frontend.errors import KernelAssertError, KernelPythonError


def node_span(file: str, node: ast.AST, function: str = "") -> Span:
    """The position of a syntax tree node; of a function or class only its first line."""
    line = getattr(node, "lineno", 0)
    return _span(file, line, getattr(node, "end_lineno", None), getattr(node, "col_offset", None),
                 getattr(node, "end_col_offset", None), function)  # fmt: skip


def here() -> tuple[Span | None, tuple[Span, ...]]:
    """The line of the kernel that is running now, and the calls that led to it, outermost first."""
    spans: list[Span] = []
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if (span := _frame_span(frame.f_code, frame.f_lasti)) is not None:
            spans.append(span)
        frame = frame.f_back
    return (spans[0], tuple(reversed(spans[1:]))) if spans else (None, ())


def place(exc: BaseException) -> tuple[Span | None, tuple[Span, ...]]:
    """Where in the kernel ``exc`` was raised, and the calls that led there, outermost first."""
    spans = [
        span
        for tb in _traceback(exc)
        if (span := _frame_span(tb.tb_frame.f_code, tb.tb_lasti)) is not None
    ]  # fmt: skip
    return (spans[-1], _shortened(spans[:-1])) if spans else (None, ())


def explain(exc: Exception) -> NkiError:
    """``exc`` as an error of the kernel, to be raised in its place.

    An ``NkiError`` comes back itself, placed if it had no place. Anything else is wrapped, with ``exc`` as its cause,
    whose traceback keeps only the user's frames. Raise the result as it is, without ``from``.
    """
    span, stack = place(exc)
    if isinstance(exc, NkiError):
        if exc.span is not None and not exc.stack and span is not None and span != exc.span:
            exc.stack = (*stack, span)  # it points into a function that did not come to run: we were about to call it
        return exc.at(span, stack)
    if isinstance(exc, AssertionError):
        error: NkiError = KernelAssertError(_assert_text(exc, span), span=span, stack=stack)
    else:
        error = KernelPythonError(_python_text(exc), span=span, stack=stack)
    error.__cause__ = exc.with_traceback(_kernel_frames(exc))
    return error


def _frame_span(code: types.CodeType, lasti: int) -> Span | None:
    mark = origin(code)
    if mark is None:
        return None
    span = mark.spans.get(lasti)
    if span is None:
        line, end_line, column, end_column = next(itertools.islice(code.co_positions(), max(lasti, 0) // 2, None))
        span = _span(code.co_filename, line or code.co_firstlineno, end_line, column, end_column, mark.function)
        mark.spans[lasti] = span
    return span


def _span(
    file: str, line: int, end_line: int | None, column: int | None, end_column: int | None, function: str
) -> Span:
    """A Span in characters: Python's own columns count the bytes of UTF-8, and a caret line counts characters."""
    text = linecache.getline(file, line)
    start = _characters(text, column or 0)
    end = _characters(text, end_column) if end_line == line and end_column else 0
    return Span(file, line, start, end, function)


def _characters(text: str, byte: int) -> int:
    return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))


def _shortened(stack: list[Span]) -> tuple[Span, ...]:
    """Both ends of a deep stack: endless recursion would fill pages with the same two lines."""
    return tuple(stack if len(stack) <= 2 * _SHOWN else [*stack[:_SHOWN], *stack[-_SHOWN:]])


_SHOWN = 8


def _traceback(exc: BaseException) -> list[types.TracebackType]:
    found: list[types.TracebackType] = []
    tb = exc.__traceback__
    while tb is not None:
        found.append(tb)
        tb = tb.tb_next
    return found


def _kernel_frames(exc: BaseException) -> types.TracebackType | None:
    """The traceback of ``exc`` without the frames of the compiler; whole if there are no others."""
    chain: types.TracebackType | None = None
    for tb in reversed(_traceback(exc)):
        if origin(tb.tb_frame.f_code) is not None:
            chain = types.TracebackType(chain, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return chain or exc.__traceback__


def _assert_text(exc: AssertionError, span: Span | None) -> str:
    text = str(exc)
    if text:
        return text
    line = linecache.getline(span.file, span.line).strip() if span is not None else ""
    return f"this does not hold: {line}" if line else "an assertion does not hold"


def _python_text(exc: Exception) -> str:
    if isinstance(exc, RecursionError):  # whose text depends on what Python was doing at the limit
        return "RecursionError: the calls nest too deep, or without end"
    text = str(exc)
    if isinstance(exc, KeyError):
        text = f"key {text} is not in the dictionary"
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
