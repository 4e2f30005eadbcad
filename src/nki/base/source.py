"""Positions in the user's source, and the caret that points at one."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


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


def caret(span: Span) -> str:
    """The source line of ``span`` with carets under the part that it names; empty when the file cannot be read."""
    text = linecache.getline(span.file, span.line).rstrip("\n")
    if not text.strip():
        return ""
    start = span.column or len(text) - len(text.lstrip())
    end = span.end_column if span.end_column > start else len(text)
    gutter = f"{span.line:>5} | "
    return f"{gutter}{text}\n{' ' * (len(gutter) - 2)}| {' ' * start}{'^' * max(1, end - start)}"
