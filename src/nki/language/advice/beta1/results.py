"""Results of the instructions of NKI Beta 1: shape, dtype and buffer as code, from the operands of a call."""

from __future__ import annotations

import ast
from typing import Final

PARAMETERS: Final = {
    "activation": ("op", "data"), "activation_reduce": ("op", "data"),
    "affine_select": ("pred", "on_true_tile", "on_false_value"), "bn_aggr": ("data",), "bn_stats": ("data",),
    "dma_copy": ("dst", "src"), "dma_transpose": ("src",), "dropout": ("data", "prob"), "iota": ("expr", "dtype"),
    "local_gather": ("src_buffer", "index", "num_elem_per_idx", "num_valid_indices"), "max8": ("src",),
    "memset": ("shape", "value", "dtype"), "nc_find_index8": ("data", "vals"),
    "nc_match_replace8": ("data", "vals", "imm", "dst_idx"), "nc_matmul": ("stationary", "moving"),
    "nc_stream_shuffle": ("src", "dst", "shuffle_mask"), "nc_transpose": ("data",), "range_select": ("on_true_tile",),
    "reciprocal": ("data",), "scalar_tensor_tensor": ("data",), "sequence_bounds": ("segment_ids",),
    "tensor_copy": ("src",), "tensor_copy_dynamic_src": ("src",), "tensor_partition_reduce": ("op", "data"),
    "tensor_reduce": ("op", "data", "axis"),
    "tensor_scalar": ("data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1"),
    "tensor_scalar_reduce": ("data",), "tensor_tensor": ("data1", "data2", "op"),
    "tensor_tensor_scan": ("data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1"),
}  # fmt: skip
"""The positional parameters of the instructions of Beta 1."""
RESULTS: Final = PARAMETERS.keys() - {"dma_copy", "nc_stream_shuffle"}
"""Those that returned their result."""
LIKE: Final = {
    "activation": "data", "activation_reduce": "data", "affine_select": "on_true_tile", "dropout": "data",
    "exponential": "src", "nc_match_replace8": "data", "nc_stream_shuffle": "src", "range_select": "on_true_tile",
    "reciprocal": "data", "scalar_tensor_tensor": "data", "select_reduce": "on_true", "tensor_copy": "src",
    "tensor_scalar": "data", "tensor_scalar_reduce": "data", "tensor_tensor": "data1", "tensor_tensor_scan": "data0",
}  # fmt: skip
"""Instructions with a result of the shape and dtype of an operand."""
NUMPY_OPERATORS: Final = {
    "absolute": "abs", "amax": "maximum", "amin": "minimum", "conjugate": "copy", "max": "maximum", "min": "minimum",
    "pow": "power", "prod": "multiply", "product": "multiply", "remainder": "mod", "sum": "add",
    "true_divide": "divide",
}  # fmt: skip
"""Operators that are functions of NumPy, as Beta 1 took them, under a name that is not NumPy's."""
COLUMNS: Final = {"bn_stats": 6, "bn_aggr": 2, "max8": 8, "nc_find_index8": 8}
"""Elements per partition of results of a fixed size."""


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
    first = LIKE.get(name) or next(iter(PARAMETERS.get(name, ("data",))))
    operand = arguments.get("data") if name in ("tensor_reduce", "tensor_partition_reduce") else arguments.get(first)
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
        case "local_gather" if "index" in arguments:
            each = ast.unparse(arguments["num_elem_per_idx"]) if "num_elem_per_idx" in arguments else "1"
            every = f"{ast.unparse(arguments['index'])}.shape[1] * 16"
            count = ast.unparse(arguments["num_valid_indices"]) if "num_valid_indices" in arguments else every
            shape = f"({data}.shape[0], {count})" if each == "1" else f"({data}.shape[0], {count}, {each})"
        case _ if name in COLUMNS:
            shape = f"({data}.shape[0], {COLUMNS[name]})"
            dtype = f"{nl}.uint32" if name == "nc_find_index8" and "dtype" not in arguments else dtype
        case _ if name in LIKE:
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


__all__ = ["COLUMNS", "LIKE", "NUMPY_OPERATORS", "PARAMETERS", "RESULTS", "bound", "buffer_of", "shape_and_dtype"]
