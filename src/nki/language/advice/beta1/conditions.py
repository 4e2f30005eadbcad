"""Conditions of index tiles as instructions: ``affine_select`` and ``iota``."""

from __future__ import annotations

import ast
from typing import Final

from nki.language.advice.beta1.formulas import Comparison, Index, UnknownFormError
from nki.language.advice.beta1.operand_rewriting import OperandRewriter

OPS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip


def pattern_of(index: Index) -> tuple[str, list[str]]:
    """The arguments ``pattern``, ``offset`` and ``channel_multiplier`` of an index, and the shape of its tile."""
    steps = {variable.axis: (step, variable.size) for variable, step in index.steps.items()}
    if len(steps) != len(index.steps) or index.ndim < 2:
        raise UnknownFormError
    multiplier, rows = steps.get(-index.ndim, ("0", "1"))
    free = [steps.get(axis, ("0", "1")) for axis in range(-index.ndim + 1, 0)]
    pattern = ", ".join(f"[{step}, {size}]" for step, size in free)
    code = f"pattern=[{pattern}], offset={index.base}, channel_multiplier={multiplier}"
    return code, [rows, *(size for _, size in free)]


def _comparison(rewriter: OperandRewriter, node: ast.expr) -> Comparison:
    mask = rewriter.scope.mask(node)
    if mask is None or len(mask) != 1:
        raise UnknownFormError
    return mask[0]


def allocated(rewriter: OperandRewriter, name: str, given: dict[str, ast.expr]) -> tuple[str, str]:
    """Shape and dtype of the result of ``iota`` and ``affine_select``."""
    dtype = ast.unparse(rewriter.dtype(given["dtype"])) if "dtype" in given else ""
    if name == "affine_select":
        data = rewriter.text(given["on_true_tile"])
        return f"{data}.shape", dtype or f"{data}.dtype"
    index = rewriter.scope.index(given["expr"])
    if index is None:
        raise UnknownFormError
    return f"({', '.join(pattern_of(index)[1])})", dtype or f"{rewriter.nl}.int32"


def call(rewriter: OperandRewriter, name: str, given: dict[str, ast.expr], to: str) -> str:
    """``iota`` and ``affine_select`` with the destination ``to``."""
    if name == "iota":
        index = rewriter.scope.index(given["expr"])
        if index is None:
            raise UnknownFormError
        return f"{rewriter.nisa}.iota({to}, {pattern_of(index)[0]})"
    part = _comparison(rewriter, given["pred"])
    operands = (
        f"on_true_tile={rewriter.text(given['on_true_tile'])}, on_false_value={rewriter.text(given['on_false_value'])}"
    )
    compared = f"cmp_op={rewriter.nl}.{OPS[part.op]}"
    return f"{rewriter.nisa}.affine_select({to}, {pattern_of(part.difference)[0]}, {operands}, {compared})"


__all__ = ["OPS", "allocated", "call", "pattern_of"]
