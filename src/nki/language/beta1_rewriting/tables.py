"""Functions of NKI Beta 1: its instructions with their parameters and results, operators, element-wise functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of Beta 1."""

    parameters: tuple[str, ...]
    """Its positional parameters."""
    like: str = ""
    """The operand that has the shape and dtype of the result."""
    columns: int = 0
    """Elements per partition of a result of a fixed size."""
    returns: bool = True
    """It returns its result."""
    shape: str = ""
    """The shape of the result of operands with two dimensions."""


def _like(operand: str, *parameters: str) -> Instruction:
    return Instruction(parameters, operand)


INSTRUCTIONS: Final = {
    "activation": _like("data", "op", "data"),
    "activation_reduce": _like("data", "op", "data"),
    "affine_select": _like("on_true_tile", "pred", "on_true_tile", "on_false_value"),
    "bn_aggr": Instruction(("data",), columns=2),
    "bn_stats": Instruction(("data",), columns=6),
    "dma_copy": Instruction(("dst", "src"), returns=False),
    "dma_transpose": Instruction(("src",), shape="({src}.shape[1], {src}.shape[0])"),
    "dropout": _like("data", "data", "prob"),
    "iota": Instruction(("expr", "dtype")),
    "local_gather": Instruction(
        ("src_buffer", "index", "num_elem_per_idx", "num_valid_indices"),
        shape="({src_buffer}.shape[0], {index}.shape[1] * 16)",
    ),
    "max8": Instruction(("src",), columns=8),
    "memset": Instruction(("shape", "value", "dtype")),
    "nc_find_index8": Instruction(("data", "vals"), columns=8),
    "nc_match_replace8": _like("data", "data", "vals", "imm", "dst_idx"),
    "nc_matmul": Instruction(("stationary", "moving"), shape="({stationary}.shape[1], {moving}.shape[1])"),
    "nc_stream_shuffle": Instruction(("src", "dst", "shuffle_mask"), returns=False),
    "nc_transpose": Instruction(("data",), shape="({data}.shape[1], {data}.shape[0])"),
    "range_select": _like("on_true_tile", "on_true_tile"),
    "reciprocal": _like("data", "data"),
    "scalar_tensor_tensor": _like("data", "data"),
    "sequence_bounds": Instruction(("segment_ids",), shape="(1, 2, {segment_ids}.shape[1])"),
    "tensor_copy": _like("src", "src"),
    "tensor_copy_dynamic_src": Instruction(("src",)),
    "tensor_partition_reduce": Instruction(("op", "data"), shape="(1, {data}.shape[1])"),
    "tensor_reduce": Instruction(("op", "data", "axis"), shape="({data}.shape[0], 1)"),
    "tensor_scalar": _like("data", "data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1"),
    "tensor_scalar_reduce": _like("data", "data"),
    "tensor_tensor": _like("data1", "data1", "data2", "op"),
    "tensor_tensor_scan": _like("data0", "data0", "data1", "initial", "op0", "op1", "reverse0", "reverse1"),
}
PARAMETERS: Final = {name: row.parameters for name, row in INSTRUCTIONS.items()}
"""The positional parameters of the instructions."""
RESULTS: Final = frozenset(name for name, row in INSTRUCTIONS.items() if row.returns)
"""Instructions that returned their result."""
LIKE: Final = {name: row.like for name, row in INSTRUCTIONS.items() if row.like}
"""Instructions with a result of the shape and dtype of an operand."""

TENSORS: Final = ("dst", "data", "data1", "src", "stationary", "data0", "src_buffer", "index")
"""Parameters that take tensors alone."""


def is_number(parameter: str, value: object) -> bool:
    """True for a number where a parameter takes a tensor; instructions on registers take numbers as ``src``."""
    return parameter not in ("dst", "src") and isinstance(value, int | float)


CREATION: Final = {"ndarray", "zeros", "ones", "full", "rand"}
CREATED_LIKE: Final = {"zeros_like", "empty_like"}
ELEMENTWISE: Final = {
    "abs", "arctan", "ceil", "cos", "erf", "erf_dx", "exp", "floor", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_tanh",
    "gelu_dx", "invert", "log", "logical_not", "mish", "negative", "reciprocal", "relu", "rsqrt", "sigmoid", "sign",
    "silu", "silu_dx", "sin", "softplus", "sqrt", "square", "tan", "tanh", "trunc", "copy", "softmax", "dropout",
    "rms_norm", "static_cast",
}  # fmt: skip
BINARY: Final = {
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod", "fmod", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor",
}  # fmt: skip
REDUCTIONS: Final = {"sum", "max", "min", "mean", "prod", "var", "all"}
ALIKE: Final = {
    *(f"nki.language.{name}" for name in {"load", "store", *ELEMENTWISE, *BINARY} - {"softmax", "rms_norm"}),
    "nki.isa.dma_copy", "nki.isa.tensor_copy", "nki.isa.activation", "nki.isa.reciprocal",
}  # fmt: skip
"""Functions that make each element of the result from the elements in the same place."""

OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Mod: "mod", ast.Pow: "power",
    ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift", ast.RShift: "right_shift",
    ast.USub: "negative", ast.Invert: "invert",
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip
"""The function of ``nki.language`` behind each operator of Python that has one."""
NUMPY_OPERATORS: Final = {
    "absolute": "abs", "amax": "maximum", "amin": "minimum", "conjugate": "copy", "max": "maximum", "min": "minimum",
    "pow": "power", "prod": "multiply", "product": "multiply", "remainder": "mod", "sum": "add",
    "true_divide": "divide",
}  # fmt: skip
"""Operators that are functions of NumPy, as Beta 1 took them, under a name that is not NumPy's."""


__all__ = [
    "ALIKE", "BINARY", "CREATED_LIKE", "CREATION", "ELEMENTWISE", "INSTRUCTIONS", "LIKE", "NUMPY_OPERATORS",
    "OPERATORS", "PARAMETERS", "REDUCTIONS", "RESULTS", "TENSORS", "Instruction", "is_number",
]  # fmt: skip
