"""Expressions over the names of a space, such as ``rows % tile == 0``: arithmetic, comparisons, and nothing else.

A space is data. Its expressions are read as Python's syntax and evaluated here, node by node: no attribute, no
subscript, no call but of the functions in ``FUNCTIONS``.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nki.base.python_operators import OPERATORS
from nki.base.usage import nearest

IN_BRACES: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {"abs": abs, "max": max, "min": min}
_EXPONENT: Final = 64
"""Limit on exponents and shifts."""
_LARGEST: Final = 1 << 256
"""Limit on the magnitude of what is raised or shifted."""
_UNDEFINED: Final = (ast.MatMult,)


def _is_not_in(one: Any, several: Any) -> bool:
    return one not in several


def _is_in(one: Any, several: Any) -> bool:
    return one in several


_BINARY: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    row.node: getattr(operator, f"__{row.method}__") for row in OPERATORS if row.node not in _UNDEFINED
} | {ast.In: _is_in, ast.NotIn: _is_not_in}
_UNARY: Final[dict[type[ast.AST], Callable[[Any], Any]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip


class ExpressionError(ValueError):
    """An expression that cannot be read, or has no value."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A readable expression: its text, and the names in it."""

    text: str
    node: ast.expr
    names: tuple[str, ...]

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value. Raises :class:`ExpressionError` where it has none, as for a division by zero."""
        try:
            return _value(self.node, values)
        except (ArithmeticError, TypeError, ValueError) as error:
            known = ", ".join(f"{name} = {values[name]!r}" for name in self.names if name in values)
            raise ExpressionError(f"{self.text!r} has no value{f' for {known}' if known else ''}: {error}") from None


def read(text: str) -> Expression:
    """The expression in ``text``. Raises :class:`ExpressionError` for what is more than arithmetic and comparisons."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is no expression: {getattr(error, 'msg', error)}") from None
    return Expression(text, node, tuple(dict.fromkeys(_names(node, text))))


def substituted(text: str, values: Mapping[str, Any]) -> str:
    """``text`` with the value of each expression in braces. Raises :class:`ExpressionError`; KeyError for a name."""

    def filled(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        found = read(match[1]).value(values)
        return found if isinstance(found, str) else repr(found)

    return IN_BRACES.sub(filled, text)


def _names(node: ast.AST, text: str) -> Iterator[str]:
    """The names in ``node``, after a look at every part of it."""
    match node:
        case ast.Name(id=name):
            yield name
            return
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            if name not in FUNCTIONS:
                fix = nearest(name, FUNCTIONS, "functions")
                raise ExpressionError(f"{text!r} calls {name}, which is no function of an expression; {fix}")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.BoolOp(values=parts):
            pass
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _BINARY for op in ops):
            parts = [left, *others]
        case ast.IfExp(test=test, body=body, orelse=other):
            parts = [test, body, other]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            pass
        case _:
            shown = ast.get_source_segment(text.strip(), node) or text
            raise ExpressionError(
                f"{shown!r} is no part of an expression: numbers, names, + - * / // % **, comparisons, and, or, not, "
                f"if … else, and {', '.join(FUNCTIONS)} are"
            )
    for part in parts:
        yield from _names(part, text)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Call(func=ast.Name(id=name), args=parts):
            return FUNCTIONS[name](*[_value(part, values) for part in parts])
        case ast.BinOp(left=left, op=op, right=right):
            return _operation(op, _value(left, values), _value(right, values))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, values))
        case ast.BoolOp(op=op, values=parts):
            result: Any = None
            for part in parts:
                result = _value(part, values)
                if bool(result) is isinstance(op, ast.Or):
                    break
            return result
        case ast.Compare(left=left, ops=ops, comparators=others):
            one = _value(left, values)
            for op, other in zip(ops, others, strict=True):
                two = _value(other, values)
                if not _BINARY[type(op)](one, two):
                    return False
                one = two
            return True
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, values) else other, values)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(_value(part, values) for part in parts)
        case _:
            raise AssertionError(f"{ast.dump(node)} was not refused")


def _operation(op: ast.operator, left: Any, right: Any) -> Any:
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        raise TypeError(f"{left!r} and {right!r} are not both numbers")
    if isinstance(op, ast.Pow | ast.LShift) and not (abs(right) <= _EXPONENT and abs(left) <= _LARGEST):
        raise ValueError(f"the power or shift of {left} by {right} is too large")
    return _BINARY[type(op)](left, right)
