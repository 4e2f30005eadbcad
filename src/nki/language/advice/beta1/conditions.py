"""Conditions of index tiles as instructions: ``affine_select``, ``iota``, and masks that are no rectangle."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from nki.language.advice.beta1.formulas import Comparison, Index, UnknownFormError, bounds_of
from nki.language.advice.beta1.scope import NL

if TYPE_CHECKING:
    from nki.language.advice.beta1.rewriting import Rewriter

_OPS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip


def _pattern(index: Index) -> tuple[str, list[str]]:
    """The arguments ``pattern``, ``offset`` and ``channel_multiplier`` of an index, and the shape of its tile."""
    steps = {variable.axis: (step, variable.size) for variable, step in index.steps.items()}
    if len(steps) != len(index.steps) or index.ndim < 2:
        raise UnknownFormError
    multiplier, rows = steps.get(-index.ndim, ("0", "1"))
    free = [steps.get(axis, ("0", "1")) for axis in range(-index.ndim + 1, 0)]
    pattern = ", ".join(f"[{step}, {size}]" for step, size in free)
    code = f"pattern=[{pattern}], offset={index.base}, channel_multiplier={multiplier}"
    return code, [rows, *(size for _, size in free)]


def _comparison(rewriter: Rewriter, node: ast.expr) -> Comparison:
    mask = rewriter.scope.mask(node)
    if mask is None or len(mask) != 1:
        raise UnknownFormError
    return mask[0]


def allocated(rewriter: Rewriter, name: str, given: dict[str, ast.expr]) -> tuple[str, str]:
    """Shape and dtype of the result of ``iota`` and ``affine_select``."""
    dtype = ast.unparse(rewriter.dtype(given["dtype"])) if "dtype" in given else ""
    if name == "affine_select":
        data = rewriter.text(given["on_true_tile"])
        return f"{data}.shape", dtype or f"{data}.dtype"
    index = rewriter.scope.index(given["expr"])
    if index is None:
        raise UnknownFormError
    return f"({', '.join(_pattern(index)[1])})", dtype or f"{rewriter.nl}.int32"


def call(rewriter: Rewriter, name: str, given: dict[str, ast.expr], to: str) -> str:
    """``iota`` and ``affine_select`` with the destination ``to``."""
    if name == "iota":
        index = rewriter.scope.index(given["expr"])
        if index is None:
            raise UnknownFormError
        return f"{rewriter.nisa}.iota({to}, {_pattern(index)[0]})"
    part = _comparison(rewriter, given["pred"])
    operands = (
        f"on_true_tile={rewriter.text(given['on_true_tile'])}, on_false_value={rewriter.text(given['on_false_value'])}"
    )
    compared = f"cmp_op={rewriter.nl}.{_OPS[part.op]}"
    return f"{rewriter.nisa}.affine_select({to}, {_pattern(part.difference)[0]}, {operands}, {compared})"


def masked(rewriter: Rewriter, target: ast.expr, value: ast.Call) -> str:
    """``t[…] = f(…, mask=i >= j)``: the result, a tile of truth values, and a predicated copy."""
    nl, nisa = rewriter.nl, rewriter.nisa
    mask = rewriter.scope.mask(next(k.value for k in value.keywords if k.arg == "mask"))
    parts = mask or ()
    bounds = bounds_of(parts)
    if len(parts) != 1 or bounds.conditions or len(bounds.several) != 1:
        raise UnknownFormError
    plain = ast.Call(value.func, value.args, [k for k in value.keywords if k.arg != "mask"])
    to = rewriter.destination(target)
    source, inside = rewriter.fresh("masked"), rewriter.fresh("inside")
    if rewriter.scope.full(plain.func) == NL + "copy" and len(plain.args) == 1:
        source = rewriter.text(plain.args[0])
    elif rewriter.returns_result(plain):
        rewriter.result(plain, source)
    else:
        rewriter.lines.append(f"{source} = {rewriter.text(plain)}")
    pattern, shape = _pattern(parts[0].difference)
    rewriter.lines += [
        f"{inside} = {nl}.ndarray(({', '.join(shape)}), {nl}.uint8, buffer={nl}.sbuf)",
        f"{nisa}.memset({inside}, 1)",
        f"{nisa}.affine_select({inside}, {pattern}, on_true_tile={inside}, on_false_value=0, "
        f"cmp_op={nl}.{_OPS[parts[0].op]})",
    ]
    return f"{nisa}.tensor_copy_predicated(dst={to}, src={source}, predicate={inside})"


__all__ = ["allocated", "call", "masked"]
