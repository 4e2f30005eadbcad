"""Operands of expressions as source text."""

from __future__ import annotations

from typing import Any

import libcst as cst

from nki.migrate.code import one_line
from nki.migrate.facts import Tensor, shape_text
from nki.migrate.indices import Index, Variable
from nki.migrate.types import Types, arguments


def bare(node: cst.BaseExpression) -> str:
    """The code of an operand as an argument: without parentheses of its own."""
    return one_line(node.with_changes(lpar=[], rpar=[]))


def is_number(node: cst.BaseExpression) -> bool:
    """True for a number that is written out."""
    return isinstance(node, cst.Integer | cst.Float) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.expression, cst.Integer | cst.Float)
    )


def target_shape(one: Tensor, other: Tensor, shape: tuple[Any, ...]) -> str:
    """The code of ``shape``, to which one of two tiles is repeated."""
    if shape == one.shape and one.name:
        return f"{one.name}.shape"
    if shape == other.shape and other.name:
        return f"{other.name}.shape"
    return shape_text(shape)


def matmul_operands(call: cst.Call) -> tuple[str, str, bool]:
    """The operands of ``nl.matmul(x, y, transpose_x=…)`` as code, and whether x is transposed."""
    named = arguments(call, ("x", "y", "transpose_x"))
    turned = "transpose_x" in named and one_line(named["transpose_x"].value) == "True"
    return one_line(named["x"].value), one_line(named["y"].value), turned


def variables_in(types: Types, node: cst.CSTNode) -> list[Variable]:
    """The variables of all index tiles inside ``node``."""
    found: list[Variable] = []

    class _Subscripts(cst.CSTVisitor):
        def visit_Subscript(self, node: cst.Subscript) -> None:  # noqa: N802
            for element in node.slice:
                if isinstance(element.slice, cst.Index):
                    value = types.value(element.slice.value)
                    if isinstance(value, Index):
                        found.extend(variable for variable, _ in value.steps)

    node.visit(_Subscripts())
    return list(dict.fromkeys(found))


__all__ = ["bare", "is_number", "matmul_operands", "target_shape", "variables_in"]
