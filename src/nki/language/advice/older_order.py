"""Calls with arguments in the order of NKI Beta 1."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numpy as np

from nki.isa.tables.operators import Op
from nki.language.beta1_rewriting.tables import TENSORS, is_number


def older_order(call: ast.Call, full: str, parameters: list[str], value_of: Callable[[ast.expr], object]) -> str:
    """The message about a call of ``nki.isa`` with positional arguments in the order of Beta 1, "" for others.

    Such a call may bind by accident: a shape, a number or an operator is where a tensor belongs.
    """
    if not full.startswith("nki.isa.") or not parameters or parameters[0] != "dst":
        return ""
    named = dict(zip(parameters, call.args, strict=False))
    misplaced = next((name for name in TENSORS if name in named and _is_no_tensor(name, named[name], value_of)), None)
    if misplaced is None:
        return ""
    return (
        f"`{ast.unparse(call.func)}` takes `{misplaced}` where `{ast.unparse(named[misplaced])}` stands: this is the "
        f"order of NKI Beta 1, which returned the result"
    )


def _is_no_tensor(parameter: str, node: ast.expr, value_of: Callable[[ast.expr], object]) -> bool:
    """True for a shape, a number and an operator."""
    value = node.value if isinstance(node, ast.Constant) else value_of(node)
    return isinstance(node, ast.Tuple | ast.List) or isinstance(value, Op | np.ufunc) or is_number(parameter, value)


__all__ = ["older_order"]
