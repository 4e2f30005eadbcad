"""Positions of syntax tree nodes and of running code, counted in characters.

Python's own columns count the bytes of UTF-8; a caret under a line counts characters.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import types

from nki.base.source import Span


def node_span(file: str, node: ast.AST, function: str = "") -> Span:
    """The position of a syntax tree node; of one that spans several lines only the first."""
    line: int = getattr(node, "lineno", 0)
    column: int = getattr(node, "col_offset", 0)
    end_line: int | None = getattr(node, "end_lineno", None)
    end_column: int | None = getattr(node, "end_col_offset", None)
    return _span(file, (line, end_line, column, end_column), function)


def code_span(code: types.CodeType, offset: int, function: str) -> Span:
    """The position of the instruction of ``code`` at byte ``offset``."""
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), max(offset, 0) // 2, None))
    return _span(code.co_filename, (line or code.co_firstlineno, end_line, column, end_column), function)


def asserted(file: str, line: int) -> ast.expr | None:
    """The condition of the ``assert`` statement that ``line`` is in."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return node.test
    return None


def _span(file: str, extent: tuple[int, int | None, int | None, int | None], function: str) -> Span:
    line, end_line, column, end_column = extent
    text = linecache.getline(file, line)
    start = _characters(text, column or 0)
    end = _characters(text, end_column) if end_line == line and end_column else 0
    return Span(file, line, start, end, function)


def _characters(text: str, byte: int) -> int:
    return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))
