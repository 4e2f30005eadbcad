"""Shape and dtype of a result: the expressions of a row of the table, over what the source tells of the operands."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from nki.language.beta1_functions import Function
from nki.language.beta1_rewriting.facts import Tensor, joint
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import one_line

Shape = tuple[Polynomial, ...]
_ONE: Final = Polynomial.of(1)


class _UnknownError(Exception):
    """The source does not tell a size or a dtype."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a call: its node, None if the call leaves it out, and the tensor that it is, None if unknown."""

    node: ast.expr | None
    tensor: Tensor | None = None

    def __bool__(self) -> bool:
        return is_true(self.node)

    @property
    def shape(self) -> Shape:
        if self.tensor is None or self.tensor.shape is None:
            raise _UnknownError
        return self.tensor.shape

    @property
    def dtype(self) -> str:
        if self.tensor is None:
            raise _UnknownError
        return self.tensor.dtype


@dataclass(frozen=True, slots=True)
class Reader:
    """The values of arguments that are no tensors: ``size`` of a number, ``index`` the shape of an index expression."""

    size: Callable[[ast.expr], Polynomial]
    index: Callable[[ast.expr], Shape | None]

    def grid(self, expr: Operand) -> Shape | None:
        return self.index(expr.node) if expr.node is not None else None

    def sizes(self, shape: Operand) -> Shape | None:
        return sizes(self.size, shape.node)

    def gathered(self, index: Operand, per: Operand, count: Operand) -> Shape:
        each = self.size(per.node) if per.node is not None else _ONE
        total = self.size(count.node) if count.node is not None else _free(index) * 16
        return (total,) if each == _ONE else (total, each)


def result_tensor(row: Function, operands: Mapping[str, Operand], reader: Reader) -> Tensor:
    """The result of a call of the function of ``row``; ``operands`` are the arguments that it has, by parameter."""
    every = {name: operands.get(name, Operand(None)) for name in row.parameters}
    notation = _NOTATION | {"grid": reader.grid, "sizes": reader.sizes, "gathered": reader.gathered}
    shape = _evaluated(row.shape, notation, every)
    shape = tuple(Polynomial.of(n) if isinstance(n, int) else n for n in shape) if shape is not None else None
    dtype = _evaluated(row.dtype, notation, every) if "dtype" not in operands else ""
    like = every[row.like].tensor if row.like else None
    is_alike = like is not None and (shape is None or shape == like.shape)
    buffer = row.buffer
    if row.on_vector and "engine" in operands and "vector" in one_line(operands["engine"].node or ast.Constant("")):
        buffer = row.on_vector
    name = like.name if like is not None and is_alike else ""
    return Tensor(shape, dtype or "", buffer, name=name)


def sizes(size: Callable[[ast.expr], Polynomial], shape: ast.expr | None) -> Shape | None:
    """A shape that is written out; None for other expressions."""
    return tuple(map(size, shape.elts)) if isinstance(shape, ast.Tuple | ast.List) else None


def reduced(shape: Shape | None, axis: ast.expr | None, keepdims: bool) -> Shape | None:
    """The shape of a reduction over ``axis``; None if it, or ``shape``, is not known."""
    if shape is None:
        return None
    axes = {each % len(shape) for each in reduced_axes(axis)}
    if not axes or 0 in axes:
        return None
    if keepdims:
        return tuple(_ONE if k in axes else size for k, size in enumerate(shape))
    left = tuple(size for k, size in enumerate(shape) if k not in axes)
    return left if len(left) > 1 else (*left, _ONE)


def reduced_axes(axis: ast.expr | None) -> list[int]:
    """The axes of a reduction that are written out."""
    words = one_line(axis).strip("[]()").replace(" ", "").split(",") if axis is not None else []
    return [int(word) for word in words if word.lstrip("-").isdigit()]


def promoted(one: str, other: str) -> str:
    """The dtype of a result of two tiles; "" if it is not known from the source."""
    if one == other:
        return one
    return "nl.float32" if "nl.float32" in (one, other) else ""


def is_true(node: ast.expr | None) -> bool:
    """True for the word ``True``."""
    return isinstance(node, ast.Constant) and node.value is True


def _evaluated(expression: str, notation: Mapping[str, Any], operands: Mapping[str, Operand]) -> Any:
    try:
        return eval(_code(expression), dict(notation), dict(operands))  # a row of the table, never the user's code
    except (_UnknownError, IndexError):
        return None


@functools.cache
def _code(expression: str) -> CodeType:
    return compile(expression, "table of functions", "eval")


def _free(x: Operand) -> Polynomial:
    return math.prod(x.shape[1:], start=_ONE)


def _joint(x: Operand, y: Operand) -> Shape:
    """The shape of both; of ``x`` where the source does not tell the other one."""
    one, other = x.shape, y.tensor.shape if y.tensor is not None else None
    if other is None or len(one) != len(other):
        return one
    return joint(one, other)


def _promoted(x: Operand, y: Operand, _op: object = None) -> str:
    return promoted(x.dtype, y.dtype)


def _reduced(x: Operand, axis: Operand, keepdims: Operand) -> Shape | None:
    return reduced(x.shape, axis.node, bool(keepdims))


_NOTATION: Final[dict[str, Any]] = {
    "__builtins__": {}, "free": _free, "joint": _joint, "promoted": _promoted, "reduced": _reduced,
    "float32": "nl.float32", "uint32": "nl.uint32",
}  # fmt: skip
"""The functions of :class:`nki.language.beta1_functions.Function`, for sizes and dtypes of the source."""

__all__ = ["Operand", "Reader", "is_true", "promoted", "reduced", "reduced_axes", "result_tensor", "sizes"]
