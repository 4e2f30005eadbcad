"""Site: the user's code at which an exception left it, as syntax tree and values; advice is written from both."""

from __future__ import annotations

import ast
import itertools
import linecache
import types
from collections.abc import Mapping
from typing import Any, Final

from nki.base.source import parsed
from nki.frontend.scopes import UNKNOWN

_PURE: Final = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Constant, ast.BinOp, ast.UnaryOp),
    *(ast.operator, ast.unaryop, ast.expr_context),
)
"""Nodes that record no instruction when they are evaluated."""


class Site:
    """The expression (or statement) ``node`` that was being evaluated, and the ``statement`` that holds it.

    ``variables`` are the names that the code saw, with their values: its globals, closure variables and locals.
    """

    def __init__(self, node: ast.AST, statement: ast.stmt, variables: Mapping[str, Any], file: str) -> None:
        self.node = node
        self.statement = statement
        self.variables = variables
        self.file = file

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression that only reads: names, attributes, items, arithmetic; else ``UNKNOWN``."""
        if node is None or not all(isinstance(part, _PURE) for part in ast.walk(node)):
            return UNKNOWN
        try:
            expression = ast.fix_missing_locations(ast.Expression(_loaded(node)))
            return eval(compile(expression, self.file, "eval"), {}, dict(self.variables))
        except Exception:  # it may be the very expression that failed
            return UNKNOWN

    def module(self, name: str, customary: str) -> str:
        """The name under which the code knows the module ``name``; ``customary`` where it does not."""
        for alias, value in self.variables.items():
            if isinstance(value, types.ModuleType) and value.__name__ == name:
                return alias
        return customary

    def in_loop(self) -> bool:
        """True if the statement is part of a loop, so that its next run may be about other values."""
        line = self.statement.lineno
        return any(
            isinstance(node, ast.For | ast.While) and node.lineno <= line <= (node.end_lineno or node.lineno)
            for node in _nodes(self.file)
        )

    def functions(self) -> list[ast.FunctionDef]:
        """The functions that hold the statement, from the outermost on."""
        line = self.statement.lineno
        return [
            node
            for node in _nodes(self.file)  # breadth first
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]

    def assignment(self, line: int, name: str) -> ast.Assign | None:
        """The statement on ``line`` that assigns to ``name`` alone."""
        for node in _nodes(self.file):
            if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno):
                match node.targets:
                    case [ast.Name(id=target)] if target == name:
                        return node
                    case _:
                        pass
        return None


def keys_of(node: ast.Subscript) -> list[ast.expr]:
    """The keys of a subscript."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def site_of(frame: types.TracebackType) -> Site | None:
    """The site of an entry of a traceback; None where the source is not what the code was compiled from."""
    code = frame.tb_frame.f_code
    position = next(itertools.islice(code.co_positions(), max(frame.tb_lasti, 0) // 2, None))
    statement: ast.stmt | None = None
    exact: ast.AST | None = None
    for node in _nodes(code.co_filename):  # breadth first: what comes later is further inside
        if _holds(node, position):
            if isinstance(node, ast.stmt):
                statement = node
            if _position(node) == position and (exact is None or isinstance(node, ast.expr)):
                exact = node
    if statement is None:
        return None
    variables = {**frame.tb_frame.f_globals, **frame.tb_frame.f_locals}
    return Site(exact or statement, statement, variables, code.co_filename)


def _nodes(file: str) -> list[ast.AST]:
    try:
        return list(ast.walk(parsed("".join(linecache.getlines(file)), file)))
    except SyntaxError:
        return []


_Position = tuple[int | None, int | None, int | None, int | None]


def _position(node: ast.AST) -> _Position:
    line: int | None = getattr(node, "lineno", None)
    return (
        line,
        getattr(node, "end_lineno", None),
        getattr(node, "col_offset", None),
        getattr(node, "end_col_offset", None),
    )


def _holds(node: ast.AST, position: _Position) -> bool:
    line, end_line, column, end_column = _position(node)
    if line is None or position[0] is None:
        return False
    start, end = (line, column or 0), (end_line or line, end_column or 0)
    return start <= (position[0], position[2] or 0) and (position[1] or position[0], position[3] or 0) <= end


def _loaded(node: ast.AST) -> Any:
    """A copy of an expression, to be read also where the original is assigned to."""
    return ast.parse(ast.unparse(node), mode="eval").body


__all__ = ["Site", "keys_of", "site_of"]
