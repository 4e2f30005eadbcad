"""Host functions followed statement by statement, for the calls of kernels in them."""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from nki.base.errors import NkiError
from nki.cli.host.host_expressions import Closure, Example, Expressions, Scope
from nki.frontend.capture import Captured, capture
from nki.frontend.lint import names_instructions
from nki.frontend.scopes import UNKNOWN, bound_names
from nki.jit import Kernel, jit

_BUDGET: Final = 200_000
"""Expressions of a file that are evaluated; loops and calls count each time."""
_DEPTH: Final = 8
_ROUNDS: Final = 16
"""Rounds of a loop that are followed, and cases of a parametrised test."""
_MAKERS: Final = {"jit", "simulate"}
"""Functions that make a kernel."""
_EXPECTING: Final = ("raises", "assertRaises", "assertRaisesRegex", "suppress", "warns")


@dataclass(frozen=True, slots=True)
class _Return:
    value: Any


_LEFT: Final = _Return(UNKNOWN)
"""The end of a block by ``break`` or ``continue``."""


def examples(module: types.ModuleType, tree: ast.Module, own: Iterable[Captured], file: str) -> list[Example]:
    """The calls of kernels in the host code of ``file``: ``tree`` its syntax tree, ``own`` its functions."""
    own = list(own)
    reader = _Statements(file, {(one.code.co_firstlineno, one.code.co_name): one.code for one in own})
    reader.module_level(tree, Scope(vars(module)))
    outer = [one for one in own if "<locals>" not in one.qualname and isinstance(one.node, ast.FunctionDef)]
    device = {one.name for one in outer if names_instructions(one.code, one.globals)}
    host = [one for one in outer if one.name not in device]
    names = {name for name, value in vars(module).items() if isinstance(value, Kernel)} | device | _MAKERS
    for one in _mentioning(host, names):
        reader.enter(Closure(cast("ast.FunctionDef", one.node), Scope(vars(module)), one.code, {}))
    return reader.examples


def _mentioning(functions: list[Captured], names: set[str]) -> list[Captured]:
    """The functions that use one of ``names``, or a function that does."""
    mentioning: list[Captured] = []
    while more := [one for one in functions if one not in mentioning and _mentions(one.code, names)]:
        mentioning += more
        names = names | {one.name for one in more}
    return sorted(mentioning, key=lambda one: one.code.co_firstlineno)


def _mentions(code: types.CodeType, names: set[str]) -> bool:
    """True if the code, or a function in it, uses one of ``names``."""
    if not names.isdisjoint(code.co_names):
        return True
    return any(_mentions(inner, names) for inner in code.co_consts if isinstance(inner, types.CodeType))


class _Statements(Expressions):
    """The host code of one file; ``codes`` are its functions' by first line and name."""

    def __init__(self, file: str, codes: Mapping[tuple[int, str], types.CodeType]) -> None:
        super().__init__(file, _BUDGET)
        self.codes = codes

    def module_level(self, tree: ast.Module, scope: Scope) -> None:
        """The statements outside of functions. The import has run them but for those under ``__main__``."""
        for statement in tree.body:
            if isinstance(statement, ast.If) and _is_main(statement.test):
                self.block(statement.body, scope)
            elif isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign) and statement.value is not None:
                self.value(statement.value, scope)

    def enter(self, closure: Closure) -> None:
        """Follow a function that something else calls: as a test, for each of its cases."""
        node = cast("ast.FunctionDef", closure.node)
        if any(self.value(_called(decorator), closure.scope) is jit for decorator in node.decorator_list):
            return
        defaults = self.defaults(node, closure.scope)
        for case in self._cases(node, closure.scope):
            names = {name: case.get(name, defaults.get(name, UNKNOWN)) for name in _parameters(node)}
            self.block(node.body, Scope(closure.scope.globals, names, closure.scope))

    def _cases(self, node: ast.FunctionDef, scope: Scope) -> Iterator[dict[str, Any]]:
        """The values of parameters that decorators ``pytest.mark.parametrize`` list."""
        axes: list[list[dict[str, Any]]] = []
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Attribute(attr="parametrize"), args=[names, values, *_]):
                    axes.append(_axis(self.value(names, scope), self.value(values, scope)))
                case _:
                    pass
        for combination in itertools.islice(itertools.product(*(axis for axis in axes if axis)), _ROUNDS):
            yield {name: value for part in combination for name, value in part.items()}

    def follow(self, function: Closure | types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.depth >= _DEPTH or self.budget < 0:
            return UNKNOWN
        if isinstance(function, Closure):
            node, scope, defaults = function.node, function.scope, dict(function.defaults)
        else:
            try:
                captured = capture(function)
            except NkiError:
                return UNKNOWN
            node = captured.node
            scope = Scope(captured.globals, {name: captured.closure(name) for name in captured.cells})
            positional = _positional(node)
            given = captured.defaults or ()
            defaults = dict(zip(positional[len(positional) - len(given) :], given, strict=True))
            defaults |= captured.kwdefaults or {}
        names = _bound(node, args, kwargs, defaults)
        if names is None:
            return UNKNOWN
        inner = Scope(scope.globals, names, scope)
        self.depth += 1
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, inner)
            if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node)):
                return UNKNOWN
            result = self.block(node.body, inner)
        finally:
            self.depth -= 1
        if "return" in inner.names:  # one that depends on something unknown
            return UNKNOWN
        return result.value if result is not None else None

    def block(self, statements: list[ast.stmt], scope: Scope) -> _Return | None:
        """Follow statements; where they end early, the value that they return."""
        for statement in statements:
            result = self._statement(statement, scope)
            if result is not None:
                return result
        return None

    def _statement(self, node: ast.stmt, scope: Scope) -> _Return | None:
        match node:
            case ast.Return(value=value):
                return _Return(self.value(value, scope) if value else None)
            case ast.Break() | ast.Continue() | ast.Raise():
                return _LEFT
            case ast.Assign(targets=targets, value=value):
                result = self.value(value, scope)
                for target in targets:
                    self.assign(target, result, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.value(value, scope), scope)
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                whole = ast.copy_location(ast.BinOp(ast.Name(target.id, ast.Load()), op, value), node)
                self.assign(target, self.value(whole, scope), scope)
            case ast.If(test=test, body=body, orelse=other):
                return self._branch(self.value(test, scope), body, other, scope)
            case ast.For(target=target, iter=iterated, body=body, orelse=other):
                return self._loop(target, self.value(iterated, scope), [*body], other, scope)
            case ast.While(test=test, body=body, orelse=other):
                self._forget(node, scope)
                self.value(test, scope)
                return self._loop(None, UNKNOWN, body, other, scope)
            case ast.With(items=items, body=body):
                return self._with(items, body, scope)
            case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=final):
                self.quiet += bool(handlers)
                result = self.block(body, scope)
                self.quiet -= bool(handlers)
                return result or self.block(other, scope) or self.block(final, scope)
            case ast.FunctionDef():
                self._define(node, scope)
            case ast.Import() | ast.ImportFrom():
                self._forget(node, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)
        return None

    def _branch(self, condition: Any, body: list[ast.stmt], other: list[ast.stmt], scope: Scope) -> _Return | None:
        if condition is not UNKNOWN and isinstance(condition, bool | int | str | type(None)):
            return self.block(body if condition else other, scope)
        results = [self.block(body, scope), self.block(other, scope)]
        for part in (*body, *other):
            self._forget(part, scope)
        if all(result is not None for result in results) and other:
            return _LEFT
        if any(result is not None and result is not _LEFT for result in results):
            scope.names["return"] = UNKNOWN
        return None

    def _loop(
        self, target: ast.expr | None, iterated: Any, body: list[ast.stmt], other: list[ast.stmt], scope: Scope
    ) -> _Return | None:
        known = cast("list[Any]", iterated) if isinstance(iterated, list | tuple | range) else None
        if known is None or len(known) > _ROUNDS:
            for part in body:
                self._forget(part, scope)
        for item in list(known[:_ROUNDS]) if known is not None else [UNKNOWN]:
            if target is not None:
                self.assign(target, item, scope)
            result = self.block(body, scope)
            if result is not None and result is not _LEFT:
                return result if known is not None else _LEFT
        if known is None or len(known) > _ROUNDS:
            for part in body:
                self._forget(part, scope)
        return self.block(other, scope)

    def _with(self, items: list[ast.withitem], body: list[ast.stmt], scope: Scope) -> _Return | None:
        expecting = 0
        for item in items:
            self.value(item.context_expr, scope)
            match item.context_expr:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _EXPECTING:
                    expecting += name != "warns"
                case _:
                    pass
            if item.optional_vars is not None:
                self.assign(item.optional_vars, UNKNOWN, scope)
        self.quiet += expecting
        result = self.block(body, scope)
        self.quiet -= expecting
        return result

    def _define(self, node: ast.FunctionDef, scope: Scope) -> None:
        """Bind the name of a definition to its kernel or function."""
        line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        closure = Closure(node, scope, self.codes.get((line, node.name)), self.defaults(node, scope))
        scope.names[node.name] = self._decorated(node, scope, closure)

    def _decorated(self, node: ast.FunctionDef, scope: Scope, closure: Closure) -> Any:
        """The function as its decorators leave it: itself, a kernel, or unknown."""
        value: Any = closure
        for decorator in reversed(node.decorator_list):
            called = _called(decorator)
            if self.value(called, scope) is jit:
                function = closure.function()
                options: dict[str, Any] = {}
                if isinstance(decorator, ast.Call):
                    options = {k.arg: self.value(k.value, scope) for k in decorator.keywords if k.arg}
                if function is None or UNKNOWN in options.values():
                    return UNKNOWN
                value = jit(function, **{name: v for name, v in options.items() if name == "platform_target"})
            elif not _harmless(called):
                return UNKNOWN
        return value

    def _forget(self, node: ast.AST, scope: Scope) -> None:
        """Make the names that a statement binds unknown."""
        module = ast.Module([node], []) if isinstance(node, ast.stmt) else node
        for name in bound_names(module):
            scope.names[name] = UNKNOWN


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _harmless(decorator: ast.expr) -> bool:
    """True for a decorator that leaves a test what it is."""
    while isinstance(decorator, ast.Attribute):
        if decorator.attr in ("mark", "fixture"):
            return True
        decorator = decorator.value
    return False


def _is_main(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]):
            return True
        case _:
            return False


def _parameters(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    a = node.args
    return [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))]


def _positional(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    return [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]


def _bound(
    node: ast.FunctionDef | ast.Lambda, args: list[Any], kwargs: dict[str, Any], defaults: dict[str, Any]
) -> dict[str, Any] | None:
    """The arguments of a call by parameter; None if they do not fit."""
    positional, named = _positional(node), [arg.arg for arg in node.args.kwonlyargs]
    rest = args[len(positional) :]
    if rest and node.args.vararg is None:
        return None
    names = defaults | dict(zip(positional, args, strict=False))
    more = {name: value for name, value in kwargs.items() if name not in (*positional, *named)}
    if more and node.args.kwarg is None:
        return None
    names |= {name: value for name, value in kwargs.items() if name not in more}
    if node.args.vararg is not None:
        names[node.args.vararg.arg] = tuple(rest)
    if node.args.kwarg is not None:
        names[node.args.kwarg.arg] = more
    return names if all(name in names for name in (*positional, *named)) else None


def _axis(names: Any, values: Any) -> list[dict[str, Any]]:
    """The cases of one ``parametrize``."""
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not isinstance(values, list | tuple | range):
        return []
    keys = [str(name) for name in cast("list[Any]", listed)]
    cases: list[dict[str, Any]] = []
    for value in cast("list[Any]", values):
        parts: Any = [value] if len(keys) == 1 else value
        if not isinstance(parts, list | tuple) or len(cast("list[Any]", parts)) != len(keys):
            parts = [UNKNOWN] * len(keys)
        cases.append(dict(zip(keys, cast("list[Any]", parts), strict=True)))
    return cases


__all__ = ["examples"]
