"""The call at a site: which argument each parameter got, and the same call with other arguments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np

from nki.base.errors import NkiError
from nki.base.source import is_toolchain
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.language.nki_tensor import NkiTensor

_ALLOCATED: Final = ("shape", "dtype", "buffer")
"""The first parameters of ``nl.ndarray``."""


def _is_given(made: ast.Call, keyword: str) -> bool:
    """True if a call of ``nl.ndarray`` passes ``keyword``, by name or by position."""
    return len(made.args) > _ALLOCATED.index(keyword) or any(k.arg == keyword for k in made.keywords)


class NotKnownError(KeyError):
    """A parameter that the call does not pass, or a fact about a value that the code does not tell."""


class Argument:
    """One argument of a call: the user's code as text, and facts about its value. Raises :class:`NotKnownError`."""

    def __init__(self, call: Call, parameter: str) -> None:
        self.call = call
        self.parameter = parameter
        self.node = call.arguments[parameter]
        self.value: Any = call.value(parameter)

    def __str__(self) -> str:
        return self.call.text(self.parameter)

    @property
    def is_number(self) -> bool:
        """True for a number of Python or NumPy that is no truth value."""
        number: Any = self.value
        return isinstance(number, int | float | np.generic) and not isinstance(number, bool)

    @property
    def is_tensor(self) -> bool:
        """True for a tensor of the kernel."""
        return isinstance(self.value, NkiTensor)

    @property
    def tensor(self) -> NkiTensor:
        """The tensor of the kernel."""
        if not isinstance(self.value, NkiTensor):
            raise NotKnownError(self.parameter)
        return self.value

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.tensor.name

    @property
    def memory(self) -> str:
        """The tensor's memory: ``sbuf``, ``psum``, ``hbm`` and its kinds."""
        return self.tensor.buffer.value

    @property
    def dtype(self) -> str:
        """The tensor's dtype."""
        return self.tensor.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a tensor, or of a foreign array."""
        shape = getattr(self.value, "shape", None)
        if not isinstance(shape, tuple):
            raise NotKnownError(self.parameter)
        return tuple(cast("tuple[int, ...]", shape))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def rows(self) -> int:
        """The size of the first dimension."""
        return self.shape[0]

    @property
    def columns(self) -> int:
        """The size of the last dimension."""
        return self.shape[-1]

    @property
    def free(self) -> str:
        """The sizes of all dimensions but the first, as code."""
        return ", ".join(map(str, self.shape[1:]))

    @property
    def in_float32(self) -> str:
        """Code for the tensor in float32."""
        return str(self) if self.dtype == "float32" else f"{self.call.nl}.copy({self}, dtype={self.call.nl}.float32)"


class Call:
    """A call of a function of this package: ``arguments`` by parameter, as the user wrote them.

    ``operand`` is the parameter that advice is about, ``fix`` and ``rule`` are the error's. The names that templates of
    fix-its may use are items of the call.
    """

    def __init__(
        self,
        site: Site,
        node: ast.Call,
        function: Callable[..., Any],
        arguments: dict[str, ast.expr],
        error: NkiError,
    ) -> None:
        self.operand = ""
        self.fix = error.fix
        self.rule = error.rule
        self.site = site
        self.node = node
        self.function = function
        self.arguments = arguments
        self.name = getattr(function, "__name__", "")
        self.module = getattr(function, "__module__", "")

    def __getitem__(self, name: str) -> Argument | str:
        if name in ("nl", "nisa", "name", "fix"):
            return str(getattr(self, name))
        return self.arg(name)

    def arg(self, name: str) -> Argument:
        """The argument of a parameter, of ``operand``, or of ``input``: ``data`` or ``src``.

        Raises :class:`NotKnownError` if the call does not pass it.
        """
        if name == "input":
            name = "data" if "data" in self.arguments else "src"
        parameter = self.operand if name == "operand" else name
        if parameter not in self.arguments:
            raise NotKnownError(parameter)
        return Argument(self, parameter)

    def passes(self, *parameters: str) -> bool:
        """True if the call passes all of ``parameters``."""
        return self.arguments.keys() >= set(parameters)

    def passes_only(self, *parameters: str) -> bool:
        """True if the call passes nothing but ``parameters``."""
        return self.arguments.keys() <= set(parameters)

    def value(self, parameter: str) -> Any:
        """The value of an argument, ``UNKNOWN`` where only its own code could tell."""
        return self.site.value(self.arguments.get(parameter))

    def text(self, parameter: str) -> str:
        """An argument as the user wrote it."""
        return ast.unparse(self.arguments[parameter])

    @property
    def nl(self) -> str:
        """The user's name of ``nki.language``."""
        return self.site.module("nki.language", "nl")

    @property
    def nisa(self) -> str:
        """The user's name of ``nki.isa``."""
        return self.site.module("nki.isa", "nisa")

    def tensors(self) -> dict[str, NkiTensor]:
        """The tensor arguments with known values, by parameter."""
        values = {name: self.value(name) for name in self.arguments}
        return {name: value for name, value in values.items() if isinstance(value, NkiTensor)}

    def unused_name(self, *wanted: str) -> str:
        """The first of ``wanted`` that the user's code has not bound, else the last one with a number."""
        numbered = (f"{wanted[-1]}_{number}" for number in range(99))
        return next(name for name in (*wanted, *numbered) if name not in self.site.variables)

    def with_arguments(self, **changes: str) -> str:
        """The user's statement, or on lines of several only the call, with other code for some arguments."""
        return self.in_statement(_changed(self.node, tuple(inspect.signature(self.function).parameters), changes))

    def in_statement(self, call: ast.expr) -> str:
        """The user's statement with ``call`` in place of this one; of a block only ``call``."""
        statement = self.site.statement
        if hasattr(statement, "body"):
            return ast.unparse(call)
        return ast.unparse(substituted(statement, self.node, call))

    def allocated_otherwise(self, parameter: str, keyword: str, value: str) -> str | None:
        """The allocation of a tensor argument with another ``shape``, ``dtype`` or ``buffer``, as a fix."""
        allocation = self.allocation(parameter)
        if allocation is None:
            return None
        assignment, made = allocation
        changed = _changed(made, _ALLOCATED, {keyword: value})
        code = ast.unparse(ast.Assign(assignment.targets, changed, lineno=0))
        return f"in line {made.lineno} write `{code}`"

    def allocation(self, parameter: str) -> tuple[ast.Assign, ast.Call] | None:
        """The statement ``name = nl.ndarray(…)`` that made a tensor argument, and its call."""
        tensor = self.tensors().get(parameter)
        span = tensor.access.tensor.span if tensor is not None else None
        if tensor is None or span is None:
            return None
        statement = self.site.assignment(span.line, tensor.name)
        match statement:
            case ast.Assign(value=ast.Call(func=ast.Attribute(attr="ndarray")) as made) as assignment:
                return assignment, made
            case _:
                return None

    def names_memory(self, parameter: str) -> bool:
        """True if the allocation of a tensor argument names a ``buffer``, or is not found."""
        allocation = self.allocation(parameter)
        return allocation is None or _is_given(allocation[1], "buffer")


def _changed(call: ast.Call, parameters: tuple[str, ...], changes: Mapping[str, str]) -> ast.Call:
    """The call of a function of ``parameters`` with other code for some of them."""
    args, keywords = list(call.args), list(call.keywords)
    for parameter, code in changes.items():
        new, position = parsed(code), parameters.index(parameter)
        if position < len(args):
            args[position] = new
        elif any(k.arg == parameter for k in keywords):
            keywords = [ast.keyword(k.arg, new) if k.arg == parameter else k for k in keywords]
        else:
            keywords.append(ast.keyword(parameter, new))
    return ast.Call(call.func, args, keywords)


def parsed(text: str) -> Any:
    """The syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def substituted(node: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """A copy of ``node`` with ``new`` in place of its part ``old``."""
    if node is old:
        return new
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            parts = cast("list[Any]", value)
            fields[name] = [substituted(part, old, new) if isinstance(part, ast.AST) else part for part in parts]
        else:
            fields[name] = substituted(value, old, new) if isinstance(value, ast.AST) else value
    return ast.copy_location(type(node)(**fields), node)


def call_at(site: Site, error: NkiError) -> Call | None:
    """The call of a function of this package that raised ``error``, with its arguments bound."""
    node = site.node
    if not isinstance(node, ast.Call):
        return None
    function = site.value(node.func)
    if function is UNKNOWN or not callable(function) or not is_toolchain(function) or isinstance(function, type):
        return None
    if any(isinstance(arg, ast.Starred) for arg in node.args) or any(k.arg is None for k in node.keywords):
        return None
    try:
        bound = inspect.signature(function).bind_partial(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except (TypeError, ValueError):
        return None
    return Call(site, node, function, dict(bound.arguments), error)


__all__ = ["Argument", "Call", "NotKnownError", "call_at", "parsed", "substituted"]
