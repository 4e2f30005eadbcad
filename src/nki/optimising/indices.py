"""Indices of a kernel's text as polynomials, so that new code shows them as a person would write them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from nki.source_text.polynomial import Polynomial
from nki.source_text.source import one_line

RANGES: Final = ("range", "affine_range", "sequential_range", "static_range")
"""Functions that count the rounds of a loop."""


def value_of(node: ast.expr, given: Mapping[str, Polynomial] | None = None) -> Polynomial:
    """The value of an index, with some variables ``given``."""
    match node:
        case ast.Constant(value=int(number)):
            return Polynomial.of(number)
        case ast.Name(id=name) if given is not None and name in given:
            return given[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand, given)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            one, other = value_of(left, given), value_of(right, given)
            return one + other if isinstance(op, ast.Add) else one - other if isinstance(op, ast.Sub) else one * other
        case _:
            return Polynomial.of(one_line(node))


def factor(text: str) -> str:
    """Code that may stand beside an operator."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


__all__ = ["RANGES", "factor", "value_of"]
