"""The functions of NKI Beta 1 as tables: the instructions, which returned their results, and the elementwise functions.

The dialect makes ``neuronxcc.nki.isa`` of them; advice and migration find there the shape and dtype of a result, which
the code of today has to allocate. Sources: NKI API reference of 2.26.1, ``nki.isa`` and ``nki.language``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final, cast


@dataclass(frozen=True, slots=True)
class Function:
    """One instruction of Beta 1.

    ``signature`` stands behind its ``def``, without the keywords that the compiler ignores. ``shape`` and ``dtype`` of
    the result are Python expressions over the parameters, tiles with ``.shape`` and ``.dtype``; both are "" if the
    instruction writes to an argument and returns nothing. The argument ``dtype`` of a call, if there is one, comes
    before ``dtype`` here. The expressions use these functions, which a reader of the table defines for its own values:

    - ``free(x)``: the number of elements of each partition.
    - ``joint(x, y)`` and ``promoted(x, y)``: the shape to which both are repeated, the dtype of both together. A third
      argument of ``promoted`` is the operator: operators of bits keep truths, and the integers of the wider side.
    - ``reduced(x, axis, keepdims)``: the shape that a reduction leaves, of two dimensions or more.
    - ``grid(expr)`` and ``sizes(shape)``: the shape of an index expression, and of a tile ``shape``.
    - ``gathered(index, per, count)``: the free dimensions of ``count`` times ``per`` elements; without ``count`` as
      many as 16 partitions of ``index`` name.
    """

    name: str
    signature: str
    text: str
    positional: tuple[str, ...]
    """The parameters that a call may pass by position, in order."""
    parameters: tuple[str, ...]
    """All parameters."""
    result: str
    """The name of a result that no variable names."""
    shape: str
    dtype: str
    like: str
    """The parameter that has the shape of the result; of several that are joined, the first; "" if none has."""
    buffer: str
    """The memory of the result."""
    on_vector: str
    """The memory of the result of the Vector engine, if that is another one."""


def _row(
    signature: str, text: str, result: str = "", shape: str = "", dtype: str = "", *, buffer: str = "sbuf",
    on_vector: str = "",
) -> Function:  # fmt: skip
    parsed = cast("ast.FunctionDef", ast.parse(f"def {signature}: ...").body[0])
    positional = tuple(each.arg for each in parsed.args.args)
    every = (*positional, *(each.arg for each in parsed.args.kwonlyargs))
    like = shape.removeprefix("joint(").partition(",")[0].removesuffix(".shape")
    return Function(
        parsed.name, signature, text, positional, every, result, shape, dtype, like if like in every else "", buffer,
        on_vector,
    )  # fmt: skip


def _like(tile: str, *others: str) -> tuple[str, str]:
    """Shape and dtype of one tile, or of several together."""
    if not others:
        return f"{tile}.shape", f"{tile}.dtype"
    return f"joint({', '.join((tile, *others))})", f"promoted({', '.join((tile, *others))})"


_ROWS: Final = (
    _row(
        "activation(op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, "
        "dtype=None, mask=None)",
        "``op(data * scale + bias)`` on the Scalar engine.",
        "activated", *_like("data"),
    ),
    _row(
        "activation_reduce(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, dtype=None, mask=None)",
        "``activation`` and the sum of its results in ``reduce_res``.",
        "activated", *_like("data"),
    ),
    _row(
        "affine_select(pred, on_true_tile, on_false_value, *, mask=None, dtype=None)",
        "``on_true_tile`` where the comparison of indices ``pred`` holds, else a number.",
        "selected", *_like("on_true_tile"),
    ),
    _row(
        "bn_aggr(data, *, mask=None, dtype=None)",
        "Mean and variance of the triples of ``bn_stats``.",
        "bn_aggr", "(data.shape[0], 2)", "data.dtype",
    ),
    _row(
        "bn_stats(data, *, mask=None, dtype=None)",
        "Count, mean and count times variance of the even elements, then of the odd ones.",
        "bn_stats", "(data.shape[0], 6)", "data.dtype",
    ),
    _row(
        "dma_copy(dst, src, *, mask=None, dst_rmw_op=None, oob_mode=None, dge_mode=None)",
        "A copy between HBM and SBUF, or within either, with indices known at run time on either side.\n\n"
        "Beta 1 takes keywords alone; the migration guide of the vendor passes both tensors by position.",
    ),
    _row(
        "dma_transpose(src, *, axes=None, mask=None, dtype=None)",
        "``src`` with its first and last dimensions exchanged, as a tile in SBUF.",
        "transposed", "(src.shape[-1], *src.shape[1:-1], src.shape[0])", "src.dtype",
    ),
    _row(
        "dropout(data, prob, *, mask=None, dtype=None)",
        "``data`` with elements replaced by 0, each with the probability ``prob``.",
        "dropout", *_like("data"),
    ),
    _row(
        "iota(expr, dtype, *, mask=None)",
        "The integers of an index expression as a tile; a number, such as a program's, is a tile of one element.",
        "iota", "grid(expr)", "dtype",
    ),
    _row(
        "local_gather(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None)",
        "For each group of 16 partitions, the elements at its list of indices.",
        "gathered", "(src_buffer.shape[0], *gathered(index, num_elem_per_idx, num_valid_indices))", "src_buffer.dtype",
    ),
    _row(
        "max8(*, src, mask=None, dtype=None)",
        "The eight largest elements of each partition.",
        "max8", "(src.shape[0], 8)", "src.dtype",
    ),
    _row(
        "memset(shape, value, dtype, *, mask=None, engine=None)",
        "A tile filled with a number.",
        "memset", "sizes(shape)", "dtype",
    ),
    _row(
        "nc_find_index8(*, data, vals, mask=None, dtype=None)",
        "The first positions of eight values.",
        "nc_find_index8", "(data.shape[0], 8)", "uint32",
    ),
    _row(
        "nc_match_replace8(*, data, vals, imm, dst_idx=None, mask=None, dtype=None)",
        "``data`` with the first occurrence of each of eight values replaced by ``imm``.",
        "replaced", *_like("data"),
    ),
    _row(
        "nc_matmul(stationary, moving, *, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False, "
        "tile_position=(), tile_size=(), mask=None, perf_mode=None)",
        "``stationary.T @ moving`` in PSUM.",
        "product", "(free(stationary), free(moving))", "stationary.dtype if is_transpose else float32", buffer="psum",
    ),
    _row(
        "nc_stream_shuffle(src, dst, shuffle_mask, *, mask=None, dtype=None)",
        "Copy partitions of ``src`` to partitions of ``dst`` within quadrants of 32.",
    ),
    _row(
        "nc_transpose(data, *, mask=None, dtype=None, engine=None)",
        "``data`` transposed: on the Tensor engine into PSUM, on the Vector engine up to 32 x 32.",
        "transposed", "(free(data), data.shape[0])", "data.dtype", buffer="psum", on_vector="sbuf",
    ),
    _row(
        "range_select(*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.idle, "
        "reduce_res=None, reduce_op=amax, range_start=0, on_false_value=None, mask=None, dtype=None)",
        "``on_true_tile`` where the position is within two bounds, else the smallest float32.",
        "selected", *_like("on_true_tile"),
    ),
    _row("reciprocal(data, *, dtype=None, mask=None)", "``1 / data``.", "reciprocal", *_like("data")),
    _row(
        "scalar_tensor_tensor(*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, "
        "mask=None)",
        "``(data op0 operand0) op1 operand1`` with a number or column, then a tile.",
        "combined", *_like("data", "operand1"),
    ),
    _row(
        "select_reduce(*, dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle, "
        "reduce_op=amax, reverse_pred=False, mask=None)",
        "``dst = on_true`` where ``predicate``, else ``on_false``; and the maximum of these.",
    ),
    _row(
        "sequence_bounds(*, segment_ids, dtype=None)",
        "Start and exclusive end of each element's segment.",
        "bounds", "(1, 2, free(segment_ids))", "segment_ids.dtype",
    ),
    _row(
        "tensor_copy(src, *, mask=None, dtype=None, engine=None)", "A copy of a tile.", "copied", *_like("src")
    ),
    _row(
        "tensor_copy_dynamic_dst(*, dst, src, mask=None, engine=None)",
        "A copy into a tile with one free index known at run time.",
    ),
    _row(
        "tensor_copy_dynamic_src(src, *, mask=None, dtype=None, engine=None)",
        "A copy of a tile with one free index known at run time.",
        "copied", *_like("src"),
    ),
    _row(
        "tensor_copy_predicated(*, src, dst, predicate, mask=None, dtype=None, reverse_pred=False)",
        "Copy ``src`` into ``dst`` where ``predicate`` is not 0.",
    ),
    _row(
        "tensor_partition_reduce(op, data, *, mask=None, dtype=None)",
        "``data`` folded over its partitions.",
        "reduced", "(1, *data.shape[1:])", "data.dtype",
    ),
    _row(
        "tensor_reduce(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False)",
        "``data`` folded over its last dimensions.",
        "reduced", "reduced(data, axis, keepdims)", "data.dtype",
    ),
    _row(
        "tensor_scalar(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, dtype=None, "
        "mask=None, engine=None)",
        "``(data op0 operand0) op1 operand1`` with numbers or (partitions, 1) operands.",
        "scaled", *_like("data"),
    ),
    _row(
        "tensor_scalar_cumulative(*, dst, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, "
        "mask=None)",
        "``dst``: ``src op0 imm0``, accumulated along the free dimension with ``op1``.",
    ),
    _row(
        "tensor_scalar_reduce(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None)",
        "``data op0 operand0``, and its fold in ``reduce_res``.",
        "scaled", *_like("data"),
    ),
    _row(
        "tensor_tensor(data1, data2, op, *, dtype=None, mask=None, engine=None)",
        "``data1 op data2``, element by element.",
        "combined", "joint(data1, data2)", "promoted(data1, data2, op)",
    ),
    _row(
        "tensor_tensor_scan(data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, "
        "mask=None)",
        "``r = op1(op0(data0, r), data1)`` along the free dimension.",
        "scanned", *_like("data0", "data1"),
    ),
)  # fmt: skip
FUNCTIONS: Final = {row.name: row for row in _ROWS}
"""The instructions of ``neuronxcc.nki.isa``."""
RESULTS: Final = frozenset(row.name for row in _ROWS if row.shape)
"""Those that return their result."""

BINARY: Final = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod", "fmod", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
"""Functions of ``neuronxcc.nki.language`` of two tiles, or of a tile and a number, element by element."""
UNARY: Final = (
    "abs", "arctan", "ceil", "cos", "erf", "erf_dx", "exp", "floor", "gelu", "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx", "gelu_apprx_tanh", "gelu_dx", "invert", "log", "logical_not", "mish", "negative",
    "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "silu", "silu_dx", "sin", "softplus", "sqrt", "square", "tan",
    "tanh", "trunc",
)  # fmt: skip
"""Functions of each element of a tile."""
REDUCTIONS: Final = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply", "all": "logical_and"}
"""Reductions over free dimensions of one operator each; ``mean`` and ``var`` are others."""
NUMPY_FUNCTIONS: Final = {
    "absolute": "abs", "bitwise_not": "invert", "conjugate": "copy", "fabs": "abs", "fmax": "maximum",
    "fmin": "minimum", "pow": "power", "remainder": "mod", "true_divide": "divide",
}  # fmt: skip
"""Names of elementwise functions by NumPy's, where they differ."""
NUMPY_OPERATORS: Final = {
    **NUMPY_FUNCTIONS, "all": "logical_and", "amax": "maximum", "amin": "minimum", "any": "logical_or",
    "max": "maximum", "min": "minimum", "prod": "multiply", "product": "multiply", "sum": "add",
}  # fmt: skip
"""Names of operators by NumPy's, also its reductions: Beta 1 takes ``op=np.max``."""

__all__ = ["BINARY", "FUNCTIONS", "NUMPY_FUNCTIONS", "NUMPY_OPERATORS", "REDUCTIONS", "RESULTS", "UNARY", "Function"]
