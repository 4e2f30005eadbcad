"""The few places of a kernel's syntax tree that mean something else than Python says: calls, ``while`` loops, and the
blocks that could swallow an error of the compiler.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from nki.base.errors import NkiError
from nki.base.source import is_toolchain
from nki.base.warning import Warned
from nki.frontend.capture import Captured, is_host
from nki.frontend.name_checks import leftover
from nki.frontend.objects import is_dictionary, is_object
from nki.frontend.python.float_loads import CALL_WITH_FLOATS, OPERATE, SETTLE, SIGNS, FloatLoads
from nki.frontend.scopes import COMPREHENSIONS, FUNCTIONS, UNKNOWN, bound_names, dictionaries, resolve
from nki.frontend.syntax_tree import fields_of

CALL = "__nki_call__"
WHILE = "__nki_while__"
REFUSE = "__nki_refuse__"
KEY = "__nki_key__"
NESTED = "__nki_nested__"
"""The hook of a dialect that has no slices of slices: it takes what is sliced again, and two texts: of
that and of the second index."""
IN = "__nki_in__"
WARN = "__nki_warn__"
WITH = "__nki_with__"
UNCAUGHT = "__nki_error__"
ONCE = "__nki_once__"
"""The hook of a dialect that traces loops once: the numbers that a body changes begin each round anew."""
ANNOTATED = "__nki_annotated__"
"""The hook of a dialect that gives annotations of variables a meaning: it takes the value and a function that gives
the annotation.
"""
LISTED = "__nki_listed__"
"""The hook of a dialect in which a list equals a tuple of the same items: it takes a list that is compared."""
LEFT = "__nki_left__"
"""The hook of a dialect that allows masks before ``and``: it takes each value but the last of an ``and``."""

_REGISTERS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""Conditions of ``while`` that may turn out to be a register."""

_SCOPES = (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)
_KEYED = (ast.Dict, ast.DictComp, ast.Subscript)
"""Nodes with keys of dictionaries, or slices of slices."""

_Node = TypeVar("_Node", bound=ast.AST)


def rewrite(captured: Captured, floats: FloatLoads | None = None) -> ast.FunctionDef | ast.Lambda:
    """The syntax tree of ``captured`` with ``f(x)`` turned into ``__nki_call__(f, x)``, and ``while x:`` into
    ``for __nki_round__ in __nki_while__(lambda: x):``. Code with a deferred error raises it instead; dictionary keys
    that are no literals are looked at, also those that calls of ``dict`` bring, and ``in`` finds tensors by identity.
    Newer Python that may not be reached warns where it is; the managers of ``with`` blocks are called like functions,
    and an ``except`` catches NKI's errors only by their name.

    A call stays as it is where its callee is settled as NKI's own, a built-in or another host function, except that an
    instruction loses a ``dtype`` that it no longer takes; a loop stays where its condition cannot be a register.
    ``floats`` are the reads of variables that may hold run-time floats (:mod:`nki.frontend.python.float_loads`).
    Positions are kept; nodes that do not change are shared with the file's tree.
    """
    return _Rewriting(captured, floats).changed(captured.node, frozenset())


class _Rewriting:
    def __init__(self, captured: Captured, floats: FloatLoads | None) -> None:
        self.captured = captured
        self.floats = floats
        self.call_hook = CALL if floats is None else CALL_WITH_FLOATS
        self.dialect = captured.dialect
        self.dictionaries = dictionaries(captured.node)

    def changed(self, node: _Node, outer: frozenset[str]) -> _Node:
        """``node`` itself if nothing in it changes, else a copy. ``outer``: the names that scopes around it bind."""
        error = self.captured.deferred.get(node) if self.captured.deferred else None
        if error is not None:
            return cast("_Node", _refusal(node, error))
        warned = self.captured.warned.get(node) if self.captured.warned else None
        new = self._changed(node, outer) if self.floats is None else self._with_floats(node, outer, self.floats)
        return cast("_Node", _warning(new, warned)) if warned else new

    def _with_floats(self, node: _Node, outer: frozenset[str], floats: FloatLoads) -> _Node:
        """:meth:`_changed`, with what variables that may hold run-time floats need."""
        if node in floats.settled:
            return cast("_Node", _called(SETTLE, node, [cast("ast.expr", node)]))
        new = self._changed(node, outer)
        if isinstance(new, ast.BinOp) and node in floats.operated:
            operator = ast.copy_location(ast.Constant(SIGNS[type(new.op)]), node)
            return cast("_Node", _called(OPERATE, node, [operator, new.left, new.right]))
        return new

    def _changed(self, node: _Node, outer: frozenset[str]) -> _Node:
        if isinstance(node, _SCOPES):
            outer = outer | bound_names(node)
        fields: dict[str, Any] = {}
        values: dict[str, Any] = node.__dict__
        for name in fields_of(node):
            value = values.get(name)
            new = value if name in ("annotation", "returns") else self._value(value, outer)
            if new is not value:
                fields[name] = new
        if isinstance(node, _KEYED):
            now = dict(ast.iter_fields(node)) | fields
            fields |= self._dictionary_keys(node, now) | self._sliced_again(node, now)
        if fields:
            node = ast.copy_location(type(node)(**dict(ast.iter_fields(node)) | fields), node)
        callee = self._callee(node, outer) if isinstance(node, ast.Call) else UNKNOWN
        if isinstance(node, ast.Call) and callee is not UNKNOWN and self._stays(callee):
            ignored = leftover(node, callee, self.dialect.instructions)
            if ignored is None:
                return node
            keywords = [keyword for keyword in node.keywords if keyword is not ignored]
            return ast.copy_location(type(node)(func=node.func, args=node.args, keywords=keywords), node)
        if isinstance(node, ast.Call) and CALL in self.dialect.hooks:
            hook = ast.copy_location(ast.Name(self.call_hook, ast.Load()), node.func)
            return ast.copy_location(type(node)(func=hook, args=[node.func, *node.args], keywords=node.keywords), node)
        if isinstance(node, ast.While) and isinstance(node.test, _REGISTERS) and WHILE in self.dialect.hooks:
            return cast("_Node", _while(node))
        if isinstance(node, ast.For) and ONCE in self.dialect.hooks:
            return cast("_Node", _once(_returning_behind(node)))
        if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Subscript):
            return cast("_Node", self._annotated(node))
        if isinstance(node, ast.Compare):
            return cast("_Node", _membership(_listed(node) if LISTED in self.dialect.hooks else node))
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and LEFT in self.dialect.hooks:
            left = [_called(LEFT, value, [value]) for value in node.values[:-1]]
            return ast.copy_location(type(node)(node.op, [*left, node.values[-1]]), node)
        if isinstance(node, ast.Try):
            return cast("_Node", self._try(node, outer))
        if isinstance(node, ast.withitem) and self.dialect.python.traced:
            return cast("_Node", self._managed(node, outer))
        return node

    def _annotated(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if node.value is None or ANNOTATED not in self.dialect.hooks:
            return node
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        late = ast.copy_location(ast.Lambda(nothing, node.annotation), node.annotation)
        value = _called(ANNOTATED, node.value, [node.value, late])
        return ast.copy_location(ast.AnnAssign(node.target, node.annotation, value, node.simple), node)

    def _try(self, node: ast.Try, outer: frozenset[str]) -> ast.Try:
        """``node`` with a first clause that raises NKI's errors on; clauses that name such errors stay before it."""
        place = next((i for i, clause in enumerate(node.handlers) if not self._names_error(clause.type, outer)), None)
        if place is None:
            return node
        kind = ast.copy_location(ast.Name(UNCAUGHT, ast.Load()), node.handlers[place])
        again = ast.copy_location(ast.Raise(None, None), node.handlers[place])
        passing = ast.copy_location(ast.ExceptHandler(kind, None, [again]), node.handlers[place])
        clauses = [*node.handlers[:place], passing, *node.handlers[place:]]
        return ast.copy_location(ast.Try(node.body, clauses, node.orelse, node.finalbody), node)

    def _names_error(self, kind: ast.expr | None, outer: frozenset[str]) -> bool:
        parts = kind.elts if isinstance(kind, ast.Tuple) else [kind] if kind is not None else []
        values = [resolve(part, self.captured, outer, closures=False) for part in parts]
        return any(isinstance(value, type) and issubclass(value, NkiError) for value in values)

    def _managed(self, item: ast.withitem, outer: frozenset[str]) -> ast.withitem:
        made = item.context_expr
        callee = resolve(made.func, self.captured, outer, closures=False) if isinstance(made, ast.Call) else UNKNOWN
        if callee is not UNKNOWN and is_toolchain(callee):
            return item
        hook = ast.copy_location(ast.Name(WITH, ast.Load()), made)
        return ast.withitem(ast.copy_location(ast.Call(hook, [made], []), made), item.optional_vars)

    def _dictionary_keys(self, node: ast.AST, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a dictionary with keys that are to be looked at when they are known."""
        if self.dialect.python.silent:
            return {}
        if isinstance(node, ast.Dict):
            keys = [key if key is None or _is_text(key) else _key(key) for key in fields["keys"]]
            return {"keys": keys} if any(a is not b for a, b in zip(keys, fields["keys"], strict=True)) else {}
        if isinstance(node, ast.DictComp) and not _is_text(node.key):
            return {"key": _key(fields["key"])}
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=key, ctx=ast.Store()) if name in self.dictionaries:
                return {} if _is_text(key) else {"slice": _key(fields["slice"])}
            case ast.Subscript(value=owner, slice=key, ctx=ast.Store()) if _is_path(owner) and not _has_slices(key):
                text = isinstance(key, ast.JoinedStr) or (isinstance(key, ast.Constant) and isinstance(key.value, str))
                return {} if text else {"slice": _key(fields["slice"], fields["value"])}
            case _:
                return {}

    def _sliced_again(self, node: ast.AST, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a slice of a slice, ``t[0:64][0:32]``, in dialects that look at it."""
        match node:
            case ast.Subscript(value=ast.Subscript(slice=first)) as node if (
                NESTED in self.dialect.hooks and _has_slices(first)
            ):
                part = ast.unparse(node.value)
                texts = part, ast.unparse(node).removeprefix(part)
                written = [ast.copy_location(ast.Constant(text), node) for text in texts]
                return {"value": _called(NESTED, node, [fields["value"], *written])}
            case _:
                return {}

    def _value(self, value: object, outer: frozenset[str]) -> object:
        if isinstance(value, ast.AST):
            return self.changed(value, outer)
        if isinstance(value, list):
            items: list[object] = [self.changed(v, outer) if isinstance(v, ast.AST) else v for v in value]  # pyright: ignore[reportUnknownVariableType]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return value

    def _stays(self, callee: object) -> bool:
        """True if calls of ``callee`` stay as they are."""
        watched = is_object(callee) or (is_dictionary(callee) and not self.dialect.python.silent)
        return is_host(callee) and not watched

    def _callee(self, call: ast.Call, outer: frozenset[str]) -> object:
        # Closure variables may hold another function next time, and the rewritten code is shared between closures.
        return resolve(call.func, self.captured, outer, closures=False)


def _refusal(node: ast.AST, error: NkiError) -> ast.AST:
    """The call that raises ``error`` where ``node`` would have run."""
    arguments = [ast.Constant(text) for text in (error.code, error.message, error.fix)]
    place = node if isinstance(node, ast.stmt | ast.expr) else ast.Pass()
    hook = ast.copy_location(ast.Name(REFUSE, ast.Load()), place)
    parts: list[ast.expr] = [ast.copy_location(part, place) for part in arguments]
    if isinstance(node, ast.Raise) and node.exc is not None:
        parts.append(node.exc)
    call = ast.copy_location(ast.Call(hook, parts, []), place)
    return ast.copy_location(ast.Expr(call), place) if isinstance(node, ast.stmt) else call


def _warning(node: ast.AST, warned: Sequence[Warned]) -> ast.AST:
    """``node`` behind the warnings that are due where it runs."""
    test: ast.expr | None = None
    for one in warned:
        span = one.span
        fields = (one.message, span.file, span.line, span.column, span.end_column, span.function)
        call = ast.Call(ast.Name(WARN, ast.Load()), [ast.Constant(value) for value in fields], [])
        test = call if test is None else ast.BoolOp(ast.And(), [test, call])
    assert test is not None
    for part in ast.walk(test):
        ast.copy_location(part, node)
    if isinstance(node, ast.stmt):
        return ast.copy_location(ast.If(test, [node], []), node)
    if isinstance(node, ast.expr):
        return ast.copy_location(ast.IfExp(test, node, ast.copy_location(ast.Constant(None), node)), node)
    return node


def _called(hook: str, node: ast.AST, arguments: list[ast.expr]) -> ast.Call:
    """A call of ``hook`` instead of ``node``."""
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(hook, ast.Load()), node), arguments, []), node)


def _is_text(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant | ast.JoinedStr)


def _listed(node: ast.Compare) -> ast.Compare:
    """``node`` with its lists in the hands of the hook, if it asks whether things are equal."""
    if not all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops):
        return node
    sides = [
        _called(LISTED, side, [side]) if isinstance(side, ast.List) else side for side in (node.left, *node.comparators)
    ]
    return ast.copy_location(ast.Compare(sides[0], node.ops, sides[1:]), node)


def _membership(node: ast.Compare) -> ast.expr:
    """``value in container`` as a call, where the value may be a tensor."""
    match node:
        case ast.Compare(left=value, ops=[ast.In() | ast.NotIn() as operator], comparators=[container]):
            literal = isinstance(container, ast.Tuple | ast.List | ast.Set) and all(map(_is_text, container.elts))
            if literal or _is_text(value) or _is_text(container):
                return node
            found = _called(IN, node, [value, container])
            return found if isinstance(operator, ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
        case _:
            return node


def _is_path(owner: ast.expr) -> bool:
    """True for names and their attributes, which may be read twice."""
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name)


def _has_slices(key: ast.expr) -> bool:
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    return any(isinstance(part, ast.Slice) or _name_of(part) in ("ds", "slice") for part in parts)


def _name_of(call: ast.expr) -> str:
    """The last name of the function that is called, "" for what is no call."""
    callee = call.func if isinstance(call, ast.Call) else None
    return callee.attr if isinstance(callee, ast.Attribute) else callee.id if isinstance(callee, ast.Name) else ""


def _key(key: ast.expr, *owner: ast.expr) -> ast.Call:
    """The call of the hook around the key of a dictionary, or of ``owner``, which may be one."""
    return _called(KEY, key, [key, *owner])


def _once(loop: ast.For) -> ast.For:
    """The same loop with the variables that its body computes from themselves as further targets of each round."""
    names = _continued(loop)
    if not names:
        return loop
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    values = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
    hook = ast.Call(ast.Name(ONCE, ast.Load()), [loop.iter, ast.Lambda(nothing, values)], [])
    kept = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
    target = ast.Tuple([loop.target, kept], ast.Store())
    for part in (hook.func, *hook.args[1:], hook, target, kept):
        for inner in ast.walk(part):
            if not hasattr(inner, "lineno") and isinstance(inner, ast.expr):
                ast.copy_location(inner, loop.iter)
    return ast.copy_location(ast.For(target, hook, loop.body, loop.orelse), loop)


def _returning_behind(loop: ast.For) -> ast.For:
    """``loop`` with a ``return`` that ends its body behind the loop, if it is one of a device: such a body is traced
    once, for all rounds.
    """
    name = _name_of(loop.iter)
    if name not in ("affine_range", "sequential_range") or not isinstance(loop.body[-1], ast.Return) or loop.orelse:
        return loop
    body = loop.body[:-1] or [ast.copy_location(ast.Pass(), loop.body[-1])]
    return ast.copy_location(ast.For(loop.target, loop.iter, body, [loop.body[-1]]), loop)


def _continued(loop: ast.For) -> list[str]:
    """The variables that the body of ``loop`` computes from their own values."""
    names: dict[str, None] = {}
    todo: list[ast.AST] = list(loop.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)):
            continue
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                names[name] = None
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if any(
                isinstance(part, ast.Name) and part.id == name for part in ast.walk(value)
            ):
                names[name] = None
            case _:
                pass
        todo.extend(ast.iter_child_nodes(node))
    bound = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    return sorted(names.keys() - bound)


def _while(loop: ast.While) -> ast.For:
    """The same loop over the rounds that its hook grants: as many as Python would, or one that the device repeats."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    condition = ast.copy_location(ast.Lambda(nothing, loop.test), loop.test)
    hook = ast.copy_location(ast.Name(WHILE, ast.Load()), loop.test)
    rounds = ast.copy_location(ast.Call(hook, [condition], []), loop.test)
    turn = ast.copy_location(ast.Name("__nki_round__", ast.Store()), loop.test)
    return ast.copy_location(ast.For(turn, rounds, loop.body, loop.orelse), loop)
