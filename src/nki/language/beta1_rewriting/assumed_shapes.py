"""Shapes of results as code, where the source does not tell the shapes of operands: these have two dimensions then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nki.language.beta1_functions import Function


class _Shape(tuple[str, str]):
    """The sizes of an operand, as code."""

    __slots__ = ()

    def __str__(self) -> str:
        return self[0].removesuffix("[0]")


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of two dimensions, by its code."""

    text: str

    @property
    def shape(self) -> _Shape:
        return _Shape((f"{self.text}.shape[0]", f"{self.text}.shape[1]"))


def _free(x: _Operand) -> str:
    return x.shape[1]


def _joint(x: _Operand, _: object) -> _Shape:
    return x.shape


def _reduced(x: _Operand, _axis: object, _keepdims: object) -> tuple[str, int]:
    return (x.shape[0], 1)


def _gathered(index: _Operand, per: _Operand | None, count: _Operand | None) -> tuple[str, ...]:
    elements = count.text if count is not None else f"{index.shape[1]} * 16"
    return (elements, per.text) if per is not None and per.text != "1" else (elements,)


_FUNCTIONS: dict[str, Any] = {
    "__builtins__": {},
    "free": _free,
    "gathered": _gathered,
    "joint": _joint,
    "reduced": _reduced,
}
"""The functions of :class:`nki.language.beta1_functions.Function`, for code; the others have no answer here."""


def assumed_shape(function: Function, arguments: Mapping[str, str]) -> str:
    """The shape of the result, as code, of operands with this code; "" where they do not tell."""
    operands = {name: _Operand(arguments[name]) if name in arguments else None for name in function.parameters}
    try:
        shape = eval(function.shape, _FUNCTIONS, operands)  # a row of the table, never the user's code
    except (AttributeError, LookupError, NameError, TypeError, SyntaxError):
        return ""
    return str(shape) if isinstance(shape, _Shape) else f"({', '.join(map(str, shape))})"


__all__ = ["assumed_shape"]
