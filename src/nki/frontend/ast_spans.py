"""Positions of syntax tree nodes."""

from __future__ import annotations

import ast
import linecache

from nki.base.source import Span, parsed, span_of


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
