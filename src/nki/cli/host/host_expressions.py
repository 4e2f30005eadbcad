"""Values of host expressions where their syntax tells, and the calls of kernels among them.

Nothing of the user's runs: a function of the user is followed statement by statement
(:mod:`nki.cli.host.host_statements`), and of libraries only what :mod:`nki.cli.host.arrays` lists is called. What is
not known is ``UNKNOWN``.
"""

# The values of users have no declared types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import ast
import builtins
import inspect
import math
import operator
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from nki.base.element_types import DType
from nki.base.errors import GridError
from nki.base.python_operators import OPERATORS
from nki.base.source import Span, is_toolchain
from nki.cli.host import arrays
from nki.frontend.lint import names_instructions
from nki.frontend.scopes import UNKNOWN
from nki.jit import Kernel, jit, simulate

_LIMIT: Final = 1 << 16
"""Limit on the length of a repeated sequence."""
_EXPONENT: Final = 64
"""Limit on exponents."""
_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    **{row.node: getattr(operator, f"__{row.method}__") for row in OPERATORS},
    ast.Not: operator.not_, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_BUILTINS: Final = frozenset(
    (
        abs, bool, dict, divmod, enumerate, float, int, len, list, max, min, pow, range, reversed, round, slice, sorted,
        str, sum, tuple, zip,
    )
)  # fmt: skip
"""Functions of Python that are called with what is known."""
_PURE: Final = frozenset(["copy", "count", "get", "index", "items", "keys", "values"])
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), types.EllipsisType)
_WRAPPERS: Final = {("jax", "jit"), ("torch", "compile")}
"""Functions that return a function with the arguments of the one they take."""


@dataclass(frozen=True, slots=True)
class Example:
    """A call of a kernel in host code: its arguments, arrays without elements. ``kernel`` may lack its decorator."""

    kernel: Kernel | types.FunctionType
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    span: Span
    called: bool
    """False for a kernel beside a tuple of arguments, as tables of tests have them."""

    @property
    def known(self) -> bool:
        return not any(_unknown(value) for value in (*self.args, *self.kwargs.values()))


@dataclass(slots=True)
class Scope:
    """The names of a function that is followed; ``around`` is the scope of the function that it is defined in."""

    globals: Mapping[str, Any]
    names: dict[str, Any] = field(default_factory=dict[str, Any])
    around: Scope | None = None

    def value(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return arrays.without_elements(self.globals.get(name, vars(builtins).get(name, UNKNOWN)))


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function that would come to be where a definition is met."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    code: types.CodeType | None
    defaults: Mapping[str, Any]

    def function(self) -> types.FunctionType | None:
        """The function itself, its closure filled with what is known; None if something is not."""
        if self.code is None or any(_unknown(value) for value in self.defaults.values()):
            return None
        around = [_materialised(self.scope.value(name)) for name in self.code.co_freevars]
        if any(_unknown(value) for value in around):
            return None
        args = self.node.args
        ordered = [a.arg for a in (*args.posonlyargs, *args.args) if a.arg in self.defaults]
        cells = tuple(types.CellType(value) for value in around)
        names = cast("dict[str, Any]", self.scope.globals)
        function = types.FunctionType(
            self.code, names, self.code.co_name, tuple(self.defaults[name] for name in ordered), cells
        )
        function.__kwdefaults__ = {a.arg: self.defaults[a.arg] for a in args.kwonlyargs if a.arg in self.defaults}
        function.__qualname__ = self.code.co_qualname
        function.__module__ = str(names.get("__name__"))
        return function


def _materialised(value: Any) -> Any:
    if isinstance(value, Closure):
        function = value.function()
        return UNKNOWN if function is None else function
    return value


def _unknown(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_unknown, cast("list[Any]", value)))
    if isinstance(value, dict):
        return any(map(_unknown, cast("dict[Any, Any]", value).values()))
    return value is UNKNOWN or isinstance(value, Closure | arrays.Generator)


class Expressions:
    """Evaluator of expressions; ``examples`` grows with each call of a kernel that it meets."""

    def __init__(self, file: str, budget: int) -> None:
        self.file = file
        self.budget = budget
        self.quiet = 0  # blocks around that expect an error
        self.depth = 0
        self.examples: list[Example] = []

    def follow(self, function: Closure | types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call of a function of the user."""
        raise NotImplementedError

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression; all its parts are evaluated, too, for the calls in them."""
        self.budget -= 1
        if self.budget < 0:
            return UNKNOWN
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return scope.value(name)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(self.value(owner, scope), name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._sequence(node, self._several(parts, scope))
            case ast.Call():
                return self._call(node, scope)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(_OPERATORS[type(op)], [self.value(left, scope), self.value(right, scope)])
            case ast.UnaryOp(op=op, operand=operand):
                return self._operation(_OPERATORS[type(op)], [self.value(operand, scope)])
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._operation(_OPERATORS[type(op)], [self.value(left, scope), self.value(right, scope)])
            case ast.Subscript(value=owner, slice=index):
                return self._operation(operator.getitem, [self.value(owner, scope), self.value(index, scope)])
            case ast.Slice(lower=lower, upper=upper, step=step):
                bounds = [self.value(part, scope) if part else None for part in (lower, upper, step)]
                return UNKNOWN if UNKNOWN in bounds else slice(*bounds)
            case ast.Dict(keys=keys, values=values):
                entries = [
                    (self.value(k, scope) if k else UNKNOWN, self.value(v, scope))
                    for k, v in zip(keys, values, strict=True)
                ]
                return dict(entries) if all(isinstance(key, _PLAIN) for key, _ in entries) else UNKNOWN
            case ast.IfExp(test=test, body=body, orelse=other):
                condition = self.value(test, scope)
                if isinstance(condition, _PLAIN):
                    return self.value(body if condition else other, scope)
                self.value(body, scope)
                self.value(other, scope)
                return UNKNOWN
            case ast.Lambda():
                return Closure(node, scope, None, self.defaults(node, scope))
            case ast.NamedExpr(target=ast.Name(id=name), value=inner):
                scope.names[name] = result = self.value(inner, scope)
                return result
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._comprehension(node, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)
                return UNKNOWN

    def defaults(self, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> dict[str, Any]:
        """The defaults of a definition, by parameter."""
        args = node.args
        names = [a.arg for a in (*args.posonlyargs, *args.args)]
        last = names[len(names) - len(args.defaults) :]
        values = {name: self.value(each, scope) for name, each in zip(last, args.defaults, strict=True)}
        named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
        return values | {a.arg: self.value(d, scope) for a, d in named if d is not None}

    def _several(self, nodes: list[ast.expr], scope: Scope) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.value(node.value, scope)
                values += cast("list[Any]", inner) if isinstance(inner, list | tuple | range) else [UNKNOWN]
            else:
                values.append(self.value(node, scope))
        return values

    def _sequence(self, node: ast.Tuple | ast.List, parts: list[Any]) -> Any:
        """The list or tuple; a kernel with a tuple of its arguments is an example."""
        if isinstance(node, ast.List):
            return parts
        match node.elts, parts:
            case [_, ast.Tuple() | ast.List()], [Closure() | Kernel() | types.FunctionType() as kernel, values]:
                values = tuple(values)
                if any(not isinstance(value, int | str | type(None)) for value in values):
                    self._meet(kernel, values, {}, node, called=False)
            case _:
                pass
        return tuple(parts)

    def _comprehension(self, node: ast.expr, scope: Scope) -> Any:
        """The list of a simple comprehension; of any other its element is evaluated once, with unknown names."""
        inner = Scope(scope.globals, {}, scope)
        generators = cast("list[ast.comprehension]", getattr(node, "generators"))  # noqa: B009
        first = generators[0]
        iterated = self.value(first.iter, scope)
        simple = len(generators) == 1 and not first.ifs and isinstance(node, ast.ListComp | ast.GeneratorExp)
        if simple and isinstance(iterated, list | tuple | range) and len(cast("list[Any]", iterated)) <= 64:
            results: list[Any] = []
            for item in cast("list[Any]", iterated):
                self.assign(first.target, item, inner)
                results.append(self.value(cast("ast.ListComp", node).elt, inner))
            return results
        for generator in generators:
            self.assign(generator.target, UNKNOWN, inner)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, inner)
        return UNKNOWN

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Bind the names of an assignment's target."""
        match target:
            case ast.Name(id=name):
                scope.names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = list(cast("list[Any]", value)) if isinstance(value, list | tuple | range) else []
                if arrays.is_array(value) and tuple(arrays.attribute(value, "shape"))[:1] == (len(parts),):
                    values = [arrays.operation(operator.getitem, [value, n]) for n in range(len(parts))]
                if len(values) != len(parts) or any(isinstance(part, ast.Starred) for part in parts):
                    values = [UNKNOWN] * len(parts)
                for part, one in zip(parts, values, strict=True):
                    self.assign(part.value if isinstance(part, ast.Starred) else part, one, scope)
            case ast.Subscript(value=ast.Name(id=name)) if not arrays.is_array(scope.value(name)):
                scope.names[name] = UNKNOWN
            case _:
                pass

    def _attribute(self, owner: Any, name: str) -> Any:
        if owner is UNKNOWN or isinstance(owner, Closure):
            return UNKNOWN
        if arrays.is_array(owner):
            return arrays.attribute(owner, name)
        if isinstance(owner, types.ModuleType):
            known = owner.__name__.partition(".")[0] in ("numpy", "torch", "jax", "nki", "ml_dtypes")
            value = getattr(owner, name, UNKNOWN) if known else vars(owner).get(name, UNKNOWN)
            return arrays.without_elements(value)
        if is_toolchain(owner) or isinstance(owner, DType | np.random.RandomState):
            return getattr(owner, name, UNKNOWN)
        value = inspect.getattr_static(owner, name, UNKNOWN)  # runs no code of the user
        return value if isinstance(value, (*_PLAIN, tuple, Kernel)) else arrays.without_elements(value)

    def _operation(self, function: Callable[..., Any], operands: list[Any]) -> Any:
        if any(one is UNKNOWN or isinstance(one, Closure) for one in operands):
            return UNKNOWN
        if isinstance(operands[0], Kernel) and function is operator.getitem:
            return _on_grid(operands[0], operands[1])
        if any(map(arrays.is_array, operands)) and not isinstance(operands[0], list | tuple | dict):
            return UNKNOWN if function in (operator.is_, operator.is_not) else arrays.operation(function, operands)
        allowed = (*_PLAIN, list, tuple, dict, range, slice, np.generic)
        if not all(type(one) in allowed or isinstance(one, np.generic) for one in operands):
            return UNKNOWN
        if function is operator.mul and not _bounded(operands):
            return UNKNOWN
        if function in (operator.pow, operator.lshift) and not (_bounded(operands) and operands[1] <= _EXPONENT):
            return UNKNOWN
        return _tried(function, operands)

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        args = self._several(node.args, scope)
        kwargs = {k.arg: self.value(k.value, scope) for k in node.keywords if k.arg}
        if any(k.arg is None for k in node.keywords):
            inner = [self.value(k.value, scope) for k in node.keywords if k.arg is None]
            if not all(isinstance(each, dict) for each in inner):
                args.append(UNKNOWN)
            kwargs |= {k: v for each in inner if isinstance(each, dict) for k, v in cast("Any", each).items()}
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, scope)
            if arrays.is_array(owner) or isinstance(owner, arrays.Generator):
                return arrays.method(owner, node.func.attr, args, kwargs)
            if isinstance(owner, list | dict | set):
                return self._method(node.func, cast("Any", owner), args, kwargs, scope)
            if isinstance(owner, Kernel | Closure) and node.func.attr == "compile":
                return self._meet(owner, tuple(args), kwargs, node)
            callee = self._attribute(owner, node.func.attr)
        else:
            callee = self.value(node.func, scope)
        return self._called(callee, args, kwargs, node)

    def _method(self, func: ast.Attribute, owner: Any, args: list[Any], kwargs: dict[str, Any], scope: Scope) -> Any:
        """A method of a list, set or dictionary; it may change its owner, which is then unknown."""
        if func.attr in _PURE and isinstance(owner, list | dict):
            return _tried(getattr(cast("Any", owner), func.attr), args, kwargs)
        if isinstance(func.value, ast.Name):
            scope.names[func.value.id] = UNKNOWN
        return UNKNOWN

    def _called(self, callee: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        if callee is UNKNOWN:
            return UNKNOWN
        if isinstance(callee, Kernel):
            return self._meet(callee, tuple(args), kwargs, node)
        if callee is simulate or callee is jit or _name(callee) in _WRAPPERS:
            return self._wrapped(callee, args, kwargs)
        if isinstance(callee, Closure):
            return self.follow(callee, args, kwargs)
        if isinstance(callee, types.FunctionType) and not is_toolchain(callee) and _is_users(callee):
            if names_instructions(callee.__code__, callee.__globals__):
                return self._meet(callee, tuple(args), kwargs, node)
            return self.follow(callee, args, kwargs)
        if isinstance(callee, Hashable) and callee in _BUILTINS:
            return _builtin(callee, args, kwargs)
        return arrays.call(callee, args, kwargs)

    def _wrapped(self, callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a function that takes a kernel, or a function to make one of."""
        if not args:
            return UNKNOWN
        inner = _materialised(args[0])
        if isinstance(inner, Kernel) and callee is not jit:
            return inner
        if isinstance(inner, types.FunctionType) and (callee is jit or callee is simulate):
            return _tried(jit, [inner], kwargs)
        return UNKNOWN

    def _meet(
        self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], node: ast.expr, *, called: bool = True
    ) -> Any:
        """Note a call of a kernel; its result is not known."""
        kernel = _materialised(kernel)
        span = Span(self.file, node.lineno, node.col_offset, node.end_col_offset or 0)
        match kernel:
            case _ if self.quiet:
                pass
            case Kernel():
                self.examples.append(Example(kernel, args, kwargs, span, called))
            case types.FunctionType() if names_instructions(kernel.__code__, kernel.__globals__):
                self.examples.append(Example(kernel, args, kwargs, span, called))
            case _:
                pass
        return UNKNOWN


def _builtin(callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function of Python."""
    if callee is len and args and arrays.is_array(args[0]):
        return args[0].shape[0] if args[0].ndim else UNKNOWN
    known = not any(_unknown(arg) or arrays.is_array(arg) for arg in args)
    arranging = callee in (list, tuple, zip, enumerate, reversed, dict) and all(arg is not UNKNOWN for arg in args)
    if not known and not arranging:
        return UNKNOWN
    result = _tried(callee, args, kwargs)
    return list(result) if isinstance(result, zip | enumerate | reversed) else result


def _name(value: Any) -> tuple[str, str]:
    """Root module and name of a function."""
    return str(getattr(value, "__module__", "")).partition(".")[0], str(getattr(value, "__name__", ""))


def _is_users(function: types.FunctionType) -> bool:
    """True for a function of a file that is in no installed package."""
    file = function.__code__.co_filename
    return file.endswith(".py") and "site-packages" not in file and "dist-packages" not in file


def _bounded(operands: list[Any]) -> bool:
    """True if a product, power or shift of the operands is small enough to be computed."""
    if any(isinstance(one, list | tuple | str | bytes) for one in operands):
        return math.prod(one if isinstance(one, int) else len(one) for one in operands) <= _LIMIT
    return all(not isinstance(one, int) or abs(one) < 1 << 64 for one in operands)


class Refused(Kernel):
    """A kernel that the file launches on a grid which no launch has; ``error`` says so."""

    error: GridError


def _on_grid(kernel: Kernel, grid: Any) -> Any:
    """``kernel[grid]``."""
    try:
        return kernel[grid]
    except GridError as error:
        refused = Refused(kernel.func, (), kernel.target, kernel.schedule, kernel.check, kernel.configs)
        refused.error = error
        return refused
    except Exception:  # the file raises it when it runs
        return UNKNOWN


def _tried(function: Callable[..., Any], args: list[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    try:
        return function(*args, **(kwargs or {}))
    except Exception:  # the file raises it when it runs
        return UNKNOWN


__all__ = ["Closure", "Example", "Expressions", "Refused", "Scope"]
