"""Code that may not be reached: branches that a compile-time condition chooses, and what follows an early end.

A kernel may hold Python that the language does not have, such as ``raise``, as long as it does not get there. Errors
about such code are deferred: they are raised where it is reached.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, cast

from nki.frontend.syntax_tree import children

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_ENDS: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_WHOLE: Final = (ast.Global, ast.Nonlocal)
"""Statements that mean the whole function, wherever they stand."""


_Entry = tuple[ast.AST, bool, ast.AST]
"""A node, whether it may not be reached, and the node that Python runs there."""


def unreached(function: ast.FunctionDef | ast.Lambda, nodes: list[ast.AST]) -> dict[ast.AST, ast.AST]:
    """Of ``nodes`` in ``function`` those that may not be reached, each with the node that Python would run there:
    itself if it is an expression that is read, or a statement; else the one that it belongs to.
    """
    wanted = set(nodes)
    result: dict[ast.AST, ast.AST] = {}
    body = function.body
    todo: list[_Entry] = [*_statements(body, False)] if isinstance(body, list) else [(body, False, body)]
    while todo:
        node, uncertain, runs = todo.pop()
        if isinstance(node, ast.stmt) or (isinstance(node, ast.expr) and _is_read(node)):
            runs = node
        if node in wanted and uncertain and not isinstance(node, _WHOLE):
            result[node] = runs
        for field, value in ast.iter_fields(node):
            inside = uncertain or _chooses(node, field)
            parts = [part for part in _list(value) if isinstance(part, ast.AST)]
            if parts and isinstance(parts[0], ast.stmt):
                todo += _statements([part for part in parts if isinstance(part, ast.stmt)], inside)
            else:
                skips = isinstance(node, ast.BoolOp)
                todo += [(part, inside or (skips and index > 0), runs) for index, part in enumerate(parts)]
    return result


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _is_read(node: ast.expr) -> bool:
    """True for an expression that gives a value that is used: no target of an assignment, and no part of one."""
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not isinstance(node, ast.Starred | ast.Slice)


def _chooses(node: ast.AST, field: str) -> bool:
    """True if the part ``field`` of ``node`` may not run even where the node does."""
    if field == "body":
        return isinstance(node, (ast.If, ast.IfExp, ast.While, ast.ExceptHandler, ast.match_case, *_FUNCTIONS))
    if field == "orelse":
        return isinstance(node, (ast.If, ast.IfExp, ast.Try, *_LOOPS))
    return field in ("elt", "key", "value", "ifs") and isinstance(node, _COMPREHENSIONS)


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension)


def _statements(body: list[ast.stmt], uncertain: bool) -> Iterator[_Entry]:
    """The statements of a block; those behind one that may leave the block may not be reached."""
    for statement in body:
        yield statement, uncertain, statement
        uncertain = uncertain or _leaves(statement)


def _leaves(statement: ast.stmt) -> bool:
    """True if ``statement`` may end the block that it stands in."""
    todo: list[tuple[ast.AST, bool]] = [(statement, False)]
    for node, in_loop in todo:  # which grows; a recursion would not come down all that Python can parse
        if isinstance(node, _ENDS) and not (in_loop and isinstance(node, ast.Break | ast.Continue)):
            return True
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            inside = in_loop or isinstance(node, _LOOPS)
            todo += [(part, inside) for part in children(node)]
    return False


__all__ = ["unreached"]
