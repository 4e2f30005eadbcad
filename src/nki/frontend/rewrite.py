"""The few places of a kernel's syntax tree that mean something else than Python says: calls and ``while`` loops."""

from __future__ import annotations

import ast
from typing import Any, TypeVar, cast

from nki.frontend.capture import Captured
from nki.frontend.host_calls import is_host
from nki.frontend.name_checks import leftover
from nki.frontend.objects import is_object
from nki.frontend.scopes import COMPREHENSIONS, FUNCTIONS, UNKNOWN, bound_names, resolve

CALL = "__nki_call__"
WHILE = "__nki_while__"

_REGISTERS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""Conditions of ``while`` that may turn out to be a register."""

_Node = TypeVar("_Node", bound=ast.AST)


def rewrite(captured: Captured) -> ast.FunctionDef | ast.Lambda:
    """The syntax tree of ``captured`` with ``f(x)`` turned into ``__nki_call__(f, x)``, and ``while x:`` into
    ``for __nki_round__ in __nki_while__(lambda: x):``.

    A call stays as it is where its callee is settled as NKI's own, a built-in or another host function, except that an
    instruction loses a ``dtype`` that it no longer takes; a loop stays where its condition cannot be a register.
    Positions are kept; nodes that do not change are shared with the file's tree.
    """
    return _Rewriting(captured).changed(captured.node, frozenset())


class _Rewriting:
    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.dialect = captured.dialect

    def changed(self, node: _Node, outer: frozenset[str]) -> _Node:
        """``node`` itself if nothing in it changes, else a copy. ``outer``: the names that scopes around it bind."""
        if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
            outer = outer | bound_names(node)
        fields: dict[str, Any] = {}
        same = True
        for name, value in ast.iter_fields(node):
            new = value if name in ("annotation", "returns") else self._value(value, outer)
            same = same and new is value
            fields[name] = new
        if not same:
            node = ast.copy_location(type(node)(**fields), node)
        callee = self._callee(node, outer) if isinstance(node, ast.Call) else UNKNOWN
        if isinstance(node, ast.Call) and callee is not UNKNOWN and is_host(callee) and not is_object(callee):
            ignored = leftover(node, callee, self.dialect.instructions)
            if ignored is None:
                return node
            keywords = [keyword for keyword in node.keywords if keyword is not ignored]
            return ast.copy_location(type(node)(func=node.func, args=node.args, keywords=keywords), node)
        if isinstance(node, ast.Call) and CALL in self.dialect.hooks:
            hook = ast.copy_location(ast.Name(CALL, ast.Load()), node.func)
            return ast.copy_location(type(node)(func=hook, args=[node.func, *node.args], keywords=node.keywords), node)
        if isinstance(node, ast.While) and isinstance(node.test, _REGISTERS) and WHILE in self.dialect.hooks:
            return cast("_Node", _while(node))
        return node

    def _value(self, value: object, outer: frozenset[str]) -> object:
        if isinstance(value, ast.AST):
            return self.changed(value, outer)
        if isinstance(value, list):
            items: list[object] = [self.changed(v, outer) if isinstance(v, ast.AST) else v for v in value]  # pyright: ignore[reportUnknownVariableType]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return value

    def _callee(self, call: ast.Call, outer: frozenset[str]) -> object:
        # Closure variables may hold another function next time, and the rewritten code is shared between closures.
        return resolve(call.func, self.captured, outer, closures=False)


def _while(loop: ast.While) -> ast.For:
    """The same loop over the rounds that its hook grants: as many as Python would, or one that the device repeats."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    condition = ast.copy_location(ast.Lambda(nothing, loop.test), loop.test)
    hook = ast.copy_location(ast.Name(WHILE, ast.Load()), loop.test)
    rounds = ast.copy_location(ast.Call(hook, [condition], []), loop.test)
    turn = ast.copy_location(ast.Name("__nki_round__", ast.Store()), loop.test)
    return ast.copy_location(ast.For(turn, rounds, loop.body, loop.orelse), loop)
