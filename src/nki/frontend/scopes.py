"""Scopes: the names that a function binds, and the values of all others before it runs."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterator

from nki.base.source import is_toolchain
from nki.frontend.capture import EMPTY, Captured
from nki.frontend.syntax_tree import children, walk

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
UNKNOWN = object()


def bound_names(scope: ast.AST) -> frozenset[str]:
    """The names that a function, lambda or comprehension binds itself; names of scopes inside it do not count."""
    names: set[str] = set()
    if isinstance(scope, FUNCTIONS):
        a = scope.args
        names.update(arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))))
    names.update(parameter.name for parameter in getattr(scope, "type_params", ()))
    for node in _own_nodes(scope):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                names.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.alias():
                names.add(node.asname or node.name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case _:
                pass
    return frozenset(names)


def own_yields(function: ast.AST) -> frozenset[ast.AST]:
    """The ``yield`` expressions that make ``function`` itself a generator."""
    return frozenset(node for node in _own_nodes(function) if isinstance(node, ast.Yield | ast.YieldFrom))


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run in ``scope`` itself; of an inner scope only its definition."""
    todo: list[ast.AST]
    match scope:
        case ast.Lambda():
            todo = [scope.body]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            todo = list(scope.body)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            todo = [part for generator in scope.generators for part in (generator.target, *generator.ifs)]
        case _:
            todo = children(scope)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            todo += children(node)


def dictionaries(function: ast.AST) -> frozenset[str]:
    """The names to which ``function``, with all functions inside it, assigns dictionaries and nothing else."""
    dictionary_stores: dict[str, int] = {}
    bound: dict[str, int] = {}
    for node in walk(function):
        match node:
            case ast.Assign(value=value, targets=targets) if _is_dictionary(value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        dictionary_stores[target.id] = dictionary_stores.get(target.id, 0) + 1
            case ast.AnnAssign(value=ast.expr() as value, target=ast.Name(id=name)) if _is_dictionary(value):
                dictionary_stores[name] = dictionary_stores.get(name, 0) + 1
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                bound[name] = bound.get(name, 0) + 1
            case _:
                pass
    return frozenset(name for name, times in dictionary_stores.items() if bound.get(name) == times)


def _is_dictionary(node: ast.expr) -> bool:
    match node:
        case ast.Dict() | ast.DictComp() | ast.Call(func=ast.Name(id="dict")):
            return True
        case _:
            return False


def resolve(node: ast.expr, captured: Captured, outer: frozenset[str], *, closures: bool = True) -> object:
    """The value of a name or dotted name if it is settled before the function runs, else ``UNKNOWN``.

    Names in ``outer`` are not settled. Attributes are followed through modules and NKI's own objects only: looking at
    any other object could run code of the user. Without ``closures``, closure variables are not settled either.
    """
    match node:
        case ast.Name(id=name):
            if name in outer:
                return UNKNOWN
            if name in captured.cells:
                value = captured.closure(name) if closures else EMPTY
                return UNKNOWN if value is EMPTY else value
            return captured.globals.get(name, vars(builtins).get(name, UNKNOWN))
        case ast.Attribute(value=owner, attr=name):
            value = resolve(owner, captured, outer, closures=closures)
            if isinstance(value, types.ModuleType) or (value is not UNKNOWN and is_toolchain(value)):
                return getattr(value, name, UNKNOWN)
            return UNKNOWN
        case _:
            return UNKNOWN
