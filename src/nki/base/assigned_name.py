"""The name that a user gives to the result of a call: the name of the variable, entry or parameter that receives it.

The call is found in the syntax tree of its file by its position. From there its result is followed outwards: through
literals, views and conditions to an assignment, and through ``return`` to the call in the caller. What cannot be
followed for certain has no name. A name is an identifier: ``q`` for ``self.q = ...`` and ``tiles["q"] = ...``, and
``tiles`` for every item of a list, which are told apart like other tensors of one name.
"""

from __future__ import annotations

import ast
import bisect
import functools
import keyword
import linecache
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple, cast

from nki.base.source import CodePosition, Where, code_position, parsed

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Names of code that runs in a frame of its own although it is part of a function."""
_FILLING = ("append", "appendleft", "extend", "extendleft", "insert")
"""Methods that put their last argument, or its items, into a container."""
_COLLECTING = ("deque", "dict", "iter", "list", "reversed", "set", "sorted", "tuple")
"""Functions that return the items of their argument."""
_VIEWING = ("expand_dims",)
"""Functions that return a view of their first argument."""
_BLANK = ("empty_like", "ndarray")
"""Functions that return a tile without contents: a call that takes it computes nothing from it, it hands it on."""
_ROLES = ("data", "data1", "data2", "dst", "moving", "src", "stationary", "value", "x", "y")
"""Parameters that say how a call uses a tile and not which tile it is: ``x_tile`` tells more than ``src``."""
_RETURNED = "return"
"""The mark of a value that leaves its function; as a keyword it is no name."""

_Item = tuple[int, int] | None
"""The place of a value among the items of a list or tuple, and their number; None: not known."""


class _Way(NamedTuple):
    """The way of the result of a call inside one function."""

    name: str = ""
    """The receiver, or :data:`_RETURNED` if the result leaves the function."""
    items: tuple[_Item, ...] = ()
    """The place of the result in the lists and tuples that leave the function, the innermost first."""
    blank: bool = False
    variable: str = ""
    """The variable of the function that it is directly assigned to."""


def assigned_name(where: Where, otherwise: str) -> str:
    """The name of what the result of the user's current call fills, or ``otherwise`` when it has none."""
    name = where.assigned
    if name is None:
        name = where.assigned = _assigned(where)
    return name or otherwise


def assigned_variable(where: Where) -> str:
    """The variable of the running function to which the result of the user's current call is assigned, or ``""``."""
    return _known(*where.frames[0], (), False).variable if where.frames else ""


def _assigned(where: Where) -> str:
    frames, at = where.frames, 0
    way = _Way()
    while at < len(frames):
        way = _known(*frames[at], way.items, way.blank)
        if way.name != _RETURNED:
            return way.name
        while frames[at][0].co_name in _COMPREHENSIONS:  # the function around is the one that returns
            inner = frames[at][0]
            at = next((n for n in range(at + 1, len(frames)) if _has(frames[n][0], inner)), len(frames) - 1)
            if not _has(frames[at][0], inner):
                return ""
        at += 1
    return ""


def _has(code: CodeType, inner: CodeType) -> bool:
    return any(part is inner for part in code.co_consts)


def _known(code: CodeType, offset: int, items: tuple[_Item, ...], blank: bool) -> _Way:
    """The way of the result of the call at ``offset`` of ``code``, or of what is inside that result at ``items``."""
    key = id(code), offset, items, blank
    known = _ways.get(key)
    if known is None:
        if len(_ways) >= _MOST_WAYS:
            _ways.clear()
            _trees.clear()
        tree = _trees.get(id(code))
        if tree is None:
            tree = _trees[id(code)] = code, _tree(code.co_filename)
        path = _path(tree[1], code_position(code, offset))
        known = _ways[key] = code, _way(path, items, blank)
    return known[1]


_ways: dict[tuple[int, int, tuple[_Item, ...], bool], tuple[CodeType, _Way]] = {}
"""Results of :func:`_known` by the id of the code, which stays alive: its hash takes as long as the rest."""
_trees: dict[int, tuple[CodeType, ast.Module | None]] = {}
"""The syntax trees of the files of codes, by the id of the code."""
_MOST_WAYS = 1 << 14


def _tree(file: str) -> ast.Module | None:
    """The syntax tree of ``file``, as the compiler knows it; None without source."""
    text = "".join(linecache.getlines(file))
    try:
        return parsed(text, file) if text else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _path(tree: ast.Module | None, position: CodePosition) -> list[ast.AST]:
    """The nodes from ``tree`` down to the expression at ``position``; none if there is no such expression."""
    line, end_line, column, end_column = position
    if tree is None:
        return []
    if end_line is None or column is None or end_column is None:  # Python was told not to keep columns
        calls: list[Any] = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == line]
        if len(calls) != 1:
            return []
        end_line, column, end_column = calls[0].end_lineno, calls[0].col_offset, calls[0].end_col_offset
    start, end = (line, column), (end_line, end_column)
    path: list[ast.AST] = []
    inner: list[ast.AST] = [tree]
    while inner:
        path += inner
        inner = _holding(path[-1], start, end)
    # The start may differ: a call of a method on a line of its own has the start of that line.
    if path[-1] is tree or _end(path[-1]) != end:
        return []
    match path[-1]:
        case ast.expr() | ast.AugAssign():
            return path
        case ast.For(iter=values):  # Python 3.11 has no position of its own for the next item, and none for entering
            return [*path, values]
        case ast.With(items=[item]):
            return [*path, item, item.context_expr]
        case _:
            return []


def _holding(node: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> list[ast.AST]:
    """The child of ``node`` that holds the range, below what has no position and is in between."""
    for field in node._fields:
        value: Any = getattr(node, field)
        children = cast("list[ast.AST]", value) if isinstance(value, list) else [value]
        if len(children) > 8 and isinstance(children[0], ast.stmt):
            last = bisect.bisect_right(children, start, key=_start)
            children = children[max(last - 1, 0) : last]
        for child in children:
            if not isinstance(child, ast.AST):  # pyright: ignore[reportUnnecessaryIsInstance]  # names and numbers
                continue
            if not hasattr(child, "lineno"):
                inner = _holding(child, start, end)
                if inner:
                    return [child, *inner]
            elif _start(child) <= start and end <= _end(child):
                return [child]
    return []


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def _way(path: Sequence[ast.AST], items: tuple[_Item, ...], blank: bool) -> _Way:
    """The way outwards of the last expression of ``path``."""
    if not path:
        return _Way()
    call = path[-1]
    climb = _Climb(path, list(items), blank or (isinstance(call, ast.Call) and _called(call.func) in _BLANK))
    if isinstance(call, ast.AugAssign):  # its operator makes the result
        return _Way(climb.received(call.target, items), items)
    for depth in range(len(path) - 1, 0, -1):
        name = climb.step(path[depth - 1], path[depth])
        if name is not None:
            return _Way(name, tuple(climb.items), climb.blank, _variable(path[-2]))
    return _Way()


def _variable(statement: ast.AST) -> str:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.NamedExpr(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _called(function: ast.AST) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


class _Climb:
    """The steps of a value outwards, with its place in the lists and tuples around it."""

    def __init__(self, path: Sequence[ast.AST], items: list[_Item], blank: bool) -> None:
        self.path = path
        self.items = items
        self.blank = blank

    def step(self, around: ast.AST, part: ast.AST) -> str | None:
        """The receiver of the value if ``around``, which ``part`` is in, ends its way; None if the way goes on."""
        match around:
            case ast.Assign(targets=targets):
                return next(filter(None, (self.received(target, self.items) for target in targets)), "")
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                return self.received(target, self.items) if part is value else ""
            case ast.AugAssign(target=target):  # of what is added only the items of a list stay
                return self.received(target, self.items[:-1]) if self.items else ""
            case ast.withitem(optional_vars=target):
                return self.received(target, self.items)
            case ast.For(iter=values) | ast.AsyncFor(iter=values) | ast.comprehension(iter=values):
                return self._repeated(around.target) if part is values else ""
            case ast.Return() | ast.Lambda():
                return _RETURNED
            case ast.Yield():
                self.items.append(None)
                return _RETURNED
            case ast.YieldFrom():
                return _RETURNED
            case ast.keyword(arg=str(name)):
                call: Any = self.path[self.path.index(around) - 1]
                says_which = self.blank or name not in _ROLES or _called(call.func) == "dict"
                return name if says_which else ""
            case ast.Call():
                return self._passed(around, part)
            case ast.expr():
                return self._expression(around, part)
            case _:
                return ""

    def _repeated(self, target: ast.expr) -> str:
        """The variable of a loop over the value: over its items, or over all that it gives round by round."""
        if self.items:
            return self.received(target, self.items[:-1])
        return target.id if isinstance(target, ast.Name) else ""

    def _expression(self, around: ast.expr, part: ast.AST) -> str | None:
        match around:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                sure = not any(isinstance(one, ast.Starred) for one in parts)
                at = next(n for n, one in enumerate(parts) if one is part)
                self.items.append((at, len(parts)) if sure else None)
            case ast.Dict(keys=keys, values=values):
                at = next((n for n, one in enumerate(values) if one is part), None)
                if at is None:
                    return ""
                if keys[at] is not None:  # else the items of another dictionary
                    self.items.append(None)
                    return _key(keys[at]) or None
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.GeneratorExp(elt=item) | ast.DictComp(value=item):
                if part is not item:
                    return ""
                self.items.append(None)
            case ast.Starred():
                self.items[-1:] = []
            case ast.Subscript(value=value):
                self.items[-1:] = []
                return None if part is value else ""
            case ast.IfExp(test=test):
                return "" if part is test else None
            case ast.BoolOp() | ast.Attribute():
                return None
            case _:
                return ""
        return None

    def _passed(self, call: ast.Call, part: ast.AST) -> str | None:
        """The receiver of an argument of ``call``; None if it is the receiver of the result."""
        name = _called(call.func)
        if part is call.func:
            return None
        match call:
            case ast.Call(func=ast.Attribute(value=container, attr="setdefault"), args=[key, _]):
                return _key(key) or self.received(container, ())
            case ast.Call(func=ast.Attribute(value=container)) if name in _FILLING and part is call.args[-1]:
                return self.received(container, ())
            case _:
                pass
        if name == "next":
            self.items[-1:] = []
            return None
        shown = name in _COLLECTING or (name in _VIEWING and part is call.args[0])
        return None if shown or self.blank else ""

    def received(self, target: ast.AST | None, items: Sequence[_Item]) -> str:
        """The name of what the value fills in ``target``, which is assigned something that holds it at ``items``."""
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name if name != "_" else ""
            case ast.Starred(value=whole):
                return self.received(whole, ())
            case ast.Subscript(value=container, slice=key):
                return _key(key) or (self.received(container, ()) if self._is_container(container, key) else "")
            case ast.Tuple(elts=targets) | ast.List(elts=targets) if items and items[-1] is not None:
                at, count = items[-1]
                star = next((n for n, one in enumerate(targets) if isinstance(one, ast.Starred)), len(targets))
                if at >= star:
                    at = max(star, at - count + len(targets))
                return self.received(targets[at], items[:-1]) if at < len(targets) else ""
            case _:
                return ""

    def _is_container(self, target: ast.expr, key: ast.expr) -> bool:
        """True if ``target[key]`` holds tiles, and is no part of a tensor that gets their elements."""
        parts = key.elts if isinstance(key, ast.Tuple) else [key]
        if any(isinstance(one, ast.Slice) or (isinstance(one, ast.Constant) and one.value is ...) for one in parts):
            return False
        scope = next((node for node in reversed(self.path) if isinstance(node, _SCOPES)), self.path[0])
        return self.blank or (isinstance(target, ast.Name) and target.id in _containers(scope))


def _key(key: ast.expr | None) -> str:
    """The name that the key of an entry is."""
    text = key.value if isinstance(key, ast.Constant) else None
    return text if isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text) else ""


@functools.lru_cache(maxsize=256)
def _containers(scope: ast.AST) -> frozenset[str]:
    """The variables to which ``scope`` assigns a new list or dictionary."""
    names: set[str] = set()
    for node in ast.walk(scope):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ) if _is_display(value):
                names.add(name)
            case _:
                pass
    return frozenset(names)


def _is_display(value: ast.expr | None) -> bool:
    match value:
        case ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp():
            return True
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add(), right=right):  # [None] * count
            return _is_display(left) or _is_display(right)
        case ast.Call(func=function):
            return _called(function) in ("defaultdict", *_COLLECTING)
        case _:
            return False
