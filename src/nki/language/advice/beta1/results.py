"""Results of the instructions of NKI Beta 1: shape, dtype and buffer as code, from the operands of a call."""

from __future__ import annotations

import ast
from typing import Final

_FIRST_OPERANDS: Final = (
    "data", "data1", "src", "on_true_tile", "data0", "stationary", "on_true", "src_buffer", "segment_ids",
)  # fmt: skip
_LIKE_DATA: Final = frozenset({
    "activation", "activation_reduce", "affine_select", "dropout", "exponential", "nc_match_replace8",
    "nc_stream_shuffle", "range_select", "reciprocal", "scalar_tensor_tensor", "select_reduce", "tensor_copy",
    "tensor_scalar", "tensor_scalar_reduce", "tensor_tensor", "tensor_tensor_scan",
})  # fmt: skip
"""Instructions whose result has the shape of their data."""
_LAST: Final = {"bn_stats": "6", "bn_aggr": "2", "max8": "8", "nc_find_index8": "8"}
"""Elements per partition of results of a fixed size."""
PARAMETERS: Final = {
    "activation": ("op", "data"),
    "activation_reduce": ("op", "data"),
    "affine_select": ("pred", "on_true_tile", "on_false_value"),
    "bn_aggr": ("data",),
    "bn_stats": ("data",),
    "dma_transpose": ("src",),
    "dropout": ("data", "prob"),
    "iota": ("expr", "dtype"),
    "local_gather": ("src_buffer", "index", "num_elem_per_idx", "num_valid_indices"),
    "memset": ("shape", "value", "dtype"),
    "nc_matmul": ("stationary", "moving"),
    "nc_stream_shuffle": ("src", "dst", "shuffle_mask"),
    "nc_transpose": ("data",),
    "reciprocal": ("data",),
    "tensor_copy": ("src",),
    "tensor_partition_reduce": ("op", "data"),
    "tensor_reduce": ("op", "data", "axis"),
    "tensor_scalar": ("data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1"),
    "tensor_tensor": ("data1", "data2", "op"),
    "tensor_tensor_scan": ("data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1"),
}
"""The positional parameters of Beta 1, whose instructions returned their result."""


def bound(call: ast.Call, name: str) -> dict[str, ast.expr]:
    """The arguments of a call of Beta 1 by parameter."""
    given = dict(zip(PARAMETERS.get(name, ()), call.args, strict=False))
    return given | {k.arg: k.value for k in call.keywords if k.arg is not None}


def buffer_of(call: ast.Call, name: str) -> str:
    """The buffer of the result, "psum" or "sbuf"."""
    vector = any(k.arg == "engine" and ("vector" in ast.unparse(k.value)) for k in call.keywords)
    return "psum" if name == "nc_matmul" or (name == "nc_transpose" and not vector) else "sbuf"


def shape_and_dtype(arguments: dict[str, ast.expr], name: str, nl: str) -> tuple[str, str] | None:
    """Shape and dtype of the result of instruction ``name``; None where the operands do not tell."""
    operand = next((arguments[each] for each in _FIRST_OPERANDS if each in arguments), None)
    if operand is None:
        return None
    data = ast.unparse(operand)
    dtype = ast.unparse(arguments["dtype"]) if "dtype" in arguments else f"{data}.dtype"
    match name:
        case "nc_matmul":
            if "moving" not in arguments:
                return None
            shape = f"({data}.shape[1], {ast.unparse(arguments['moving'])}.shape[1])"
            dtype = dtype if "dtype" in arguments else f"{nl}.float32"
        case "nc_transpose" | "dma_transpose":
            shape = f"({data}.shape[1], {data}.shape[0])"
        case "tensor_reduce":
            shape = _reduced(data, arguments)
        case "tensor_partition_reduce":
            shape = f"(1, {data}.shape[1])"
        case "sequence_bounds":
            shape = f"(1, 2, {data}.shape[1])"
        case _ if name in _LAST:
            shape = f"({data}.shape[0], {_LAST[name]})"
            dtype = f"{nl}.uint32" if name == "nc_find_index8" and "dtype" not in arguments else dtype
        case _ if name in _LIKE_DATA:
            shape = f"{data}.shape"
        case _:
            return None
    return shape, dtype


def _reduced(data: str, arguments: dict[str, ast.expr]) -> str:
    """The shape of a reduction: the partitions, and the dimensions that are left."""
    axis, keep = arguments.get("axis"), arguments.get("keepdims")
    axes = axis.elts if isinstance(axis, ast.Tuple | ast.List) else [axis] if axis is not None else []
    numbers = [each.value for each in axes if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    first = min(numbers, default=1)
    kept = isinstance(keep, ast.Constant) and keep.value is True
    if len(numbers) != len(axes) or first <= 1 or kept:
        return f"({data}.shape[0], 1)"
    return f"{data}.shape[:{first}]"


__all__ = ["PARAMETERS", "bound", "buffer_of", "shape_and_dtype"]
