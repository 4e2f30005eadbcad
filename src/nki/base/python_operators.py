"""Python's operators: syntax node, sign, method, and the function of ``nki.language`` that does the same to tiles."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn


@dataclass(frozen=True, slots=True)
class PythonOperator:
    """One operator. ``method`` is its name without underscores, ``function`` "" if the language has none."""

    node: type[ast.AST]
    sign: str
    method: str
    function: str = ""


BINARY: Final = (
    PythonOperator(ast.Add, "+", "add", "add"),
    PythonOperator(ast.Sub, "-", "sub", "subtract"),
    PythonOperator(ast.Mult, "*", "mul", "multiply"),
    PythonOperator(ast.Div, "/", "truediv", "divide"),
    PythonOperator(ast.FloorDiv, "//", "floordiv"),
    PythonOperator(ast.Mod, "%", "mod", "mod"),
    PythonOperator(ast.Pow, "**", "pow", "power"),
    PythonOperator(ast.MatMult, "@", "matmul"),
    PythonOperator(ast.BitAnd, "&", "and", "bitwise_and"),
    PythonOperator(ast.BitOr, "|", "or", "bitwise_or"),
    PythonOperator(ast.BitXor, "^", "xor", "bitwise_xor"),
    PythonOperator(ast.LShift, "<<", "lshift", "left_shift"),
    PythonOperator(ast.RShift, ">>", "rshift", "right_shift"),
)
UNARY: Final = (
    PythonOperator(ast.USub, "-", "neg", "negative"),
    PythonOperator(ast.UAdd, "+", "pos"),
    PythonOperator(ast.Invert, "~", "invert", "invert"),
)
ORDERINGS: Final = (
    PythonOperator(ast.Lt, "<", "lt", "less"),
    PythonOperator(ast.LtE, "<=", "le", "less_equal"),
    PythonOperator(ast.Gt, ">", "gt", "greater"),
    PythonOperator(ast.GtE, ">=", "ge", "greater_equal"),
)
EQUALITIES: Final = (
    PythonOperator(ast.Eq, "==", "eq", "equal"),
    PythonOperator(ast.NotEq, "!=", "ne", "not_equal"),
)
OPERATORS: Final = (*BINARY, *UNARY, *ORDERINGS, *EQUALITIES)

FUNCTION_OF: Final = {row.node: row.function for row in OPERATORS if row.function}
"""The function of ``nki.language`` behind each operator that has one, by its syntax node."""


def refuse_operators(kind: type) -> None:
    """Let ``_refuse(sign)`` of a class raise the error of each operator on it, and of ``abs``; equality stays."""
    names = {f"__{prefix}{row.method}__": row.sign for row in BINARY for prefix in ("", "r", "i")}
    names |= {f"__{row.method}__": row.sign for row in (*UNARY, *ORDERINGS)}
    for name, sign in {**names, "__abs__": "abs"}.items():
        setattr(kind, name, _refusing(sign))


def _refusing(sign: str) -> Callable[..., NoReturn]:
    def method(self: Any, *_: object) -> NoReturn:
        raise self._refuse(sign)  # it does not return

    return method


__all__ = [
    "BINARY",
    "EQUALITIES",
    "FUNCTION_OF",
    "OPERATORS",
    "ORDERINGS",
    "UNARY",
    "PythonOperator",
    "refuse_operators",
]
