"""Syntax nodes from code, and the keys of subscripts."""

from __future__ import annotations

import ast
from typing import Any


def expression(code: str) -> Any:
    """The node of an expression."""
    return ast.parse(code, mode="eval").body


def keys_of(node: ast.Subscript) -> list[ast.expr]:
    """The keys of a subscript."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def subscript(owner: ast.expr, texts: list[str]) -> ast.expr:
    """``owner[…]`` with keys that are code."""
    return ast.Subscript(owner, expression(f"_[{', '.join(texts)}]").slice, ast.Load())


__all__ = ["expression", "keys_of", "subscript"]
