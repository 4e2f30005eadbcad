"""Names of NKI Beta 1 that NKI no longer has, each with its replacement.

Source: the public migration guides from Beta 1 to Beta 2 (NKI 0.2) and on to NKI 0.3, and the release notes up to 0.6.
A name counts as removed only where the module does not have it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

import numpy as np

from nki.base import dtype as dtypes
from nki.isa.tables.operators import OPS, Op

_SLICES = (
    "index with slices, `t[0:128, 0:512]`, and keep them in bounds with `min`; "
    "other patterns go through `t.ap(pattern=..., offset=...)`"
)
_LOOPS = "run the programs as a `for` loop inside the kernel; `kernel[n]` only chooses the number of cores"
_ADDRESS = "give each tensor its own place: `nl.ndarray(..., address=(partition, byte))`, several of them in a list"
_DYNAMIC = "use `nisa.tensor_copy` with `t.ap(..., scalar_offset=register_or_tensor, indirect_dim=...)`"
_AUTOMATIC = "leave it out: it has no counterpart"

REMOVED: Final[dict[str, str]] = {
    "nki.trace": "leave the decorator out: functions that a kernel calls need none",
    "nki.isa.builtin_custom_op": "build it from other instructions",
    "nki.isa.tensor_copy_dynamic_dst": _DYNAMIC,
    "nki.isa.tensor_copy_dynamic_src": _DYNAMIC,
    "nki.language.all_reduce": "accumulate into one tensor yourself, or use `nki.collectives.all_reduce`",
    "nki.language.arange": _SLICES,
    "nki.language.atomic_rmw": "use `nisa.dma_compute(rows, [rows, src], nl.add)`, `rows = t.vector_select(0, index)`",
    "nki.language.bfp16": "write the number itself",
    "nki.language.finfo": "write the number itself",
    "nki.language.fp32": "write the number itself; the smallest float32 is -3.4028235e38",
    "nki.language.gemm_grid": _LOOPS,
    "nki.language.loop_reduce": "accumulate into one tensor yourself",
    "nki.language.mgrid": _SLICES,
    "nki.language.nc": "write the number of cores itself: `kernel[2]`",
    "nki.language.par_dim": (
        "write the number itself: the first dimension is the partition dimension; "
        "make block dimensions a list of tensors, or move them behind the first"
    ),
    "nki.language.spmd_dim": _LOOPS,
    "nki.language.static_cast": "copy into a tensor of the other dtype, or reinterpret the bits with `t.view(dtype)`",
    "nki.compiler.allocation_scope": _AUTOMATIC,
    "nki.compiler.enable_stack_allocator": _AUTOMATIC,
    "nki.compiler.force_auto_alloc": _AUTOMATIC,
    "nki.compiler.multi_buffer": _AUTOMATIC,
    "nki.compiler.no_reorder": "write `with nl.no_reorder():`",
    "nki.compiler.psum": _ADDRESS,
    "nki.compiler.sbuf": _ADDRESS,
    "nki.compiler.skip_middle_end_transformations": _AUTOMATIC,
}
"""Full names and the way out."""

REMOVED_ATTRIBUTES: Final[dict[str, str]] = {"alloc": _ADDRESS, "mod_alloc": _ADDRESS}
"""Attributes that NKI's own objects (``nl.sbuf``, ``nl.psum``) had."""

REMOVED_KEYWORDS: Final[dict[str, str]] = {
    "mask": "cut the slices to size instead, `t[0:min(128, rows - start)]`, or skip the call with `if`",
    "dtype": "leave it out: the dtype of the destination decides",
}
"""Keywords that calls into ``nki.isa`` and ``nki.language`` took."""

REMOVED_PARAMETERS: Final[dict[str, str]] = {
    "nki.isa.affine_select.pred": (
        "write the condition as `pattern=[[step, count], …], offset=…, channel_multiplier=…, cmp_op=…`: it holds where "
        "offset + partition * channel_multiplier + the steps compares so with 0"
    ),
    "nki.isa.iota.expr": "write the numbers as `pattern=[[step, count], …], offset=…, channel_multiplier=…`",
    "nki.isa.memset.shape": "allocate the tile first: `t = nl.ndarray(shape, dtype, buffer=nl.sbuf)`; pass it as `dst`",
}
"""Parameters that single functions had, by full name."""

SWAPPED: Final = frozenset({"nki.isa.nc_stream_shuffle"})
"""Functions that took the source before the destination."""

_IN_PSUM: Final = frozenset({"nki.isa.nc_matmul", "nki.isa.nc_transpose"})


def result_fix(call: ast.Call, keywords: list[ast.keyword], user: ast.stmt | None, full: str) -> str:
    """The fix for a call of ``nki.isa`` whose result a statement uses, as Beta 1 had it.

    ``keywords``: those of the call that its function still has. ``full``: the function's full name.
    """
    buffer = "nl.psum" if full in _IN_PSUM else "nl.sbuf"
    match user:
        case ast.Assign(targets=[ast.Subscript() as target]):
            return f"write `{_with_destination(call, keywords, target)}`"
        case ast.AugAssign(target=target, op=ast.Add()) if full == "nki.isa.nc_matmul":
            return f"write `{_with_destination(call, keywords, target)}`: calls with the same tile in PSUM accumulate"
        case ast.Assign(targets=[ast.Name() as target]):
            allocation = f"`{target.id} = nl.ndarray({_shape_and_dtype(call, full)}, buffer={buffer})`"
            rewritten = _with_destination(call, keywords, target)
            return f"allocate the destination and pass it: {allocation}, then `{rewritten}`"
        case _:
            name = ast.unparse(call.func)
            return f"allocate the destination first and pass it: `{name}(dst=tile, ...)`"


def older_order(
    call: ast.Call,
    user: ast.stmt | None,
    full: str,
    parameters: list[str],
    value_of: Callable[[ast.expr], object],
) -> tuple[str, str] | None:
    """Message and fix for a call of ``nki.isa`` whose positional arguments stand in the order of Beta 1.

    Such a call may bind by accident: a shape, a number or an operator is where a tensor belongs.
    """
    if not full.startswith("nki.isa.") or not parameters or parameters[0] != "dst":
        return None
    named = dict(zip(parameters, call.args, strict=False))
    misplaced = next((name for name in _TENSORS if name in named and _is_no_tensor(named[name], value_of)), None)
    if misplaced is None:
        return None
    written = ast.unparse(call.func)
    message = (
        f"`{written}` takes `{misplaced}` where `{ast.unparse(named[misplaced])}` stands: this is the order of NKI "
        f"Beta 1, which returned the result"
    )
    return message, _memset_fix(call, user) if full == "nki.isa.memset" else result_fix(call, call.keywords, user, full)


_TENSORS: Final = ("dst", "data", "data1", "src", "stationary", "data0")


def _is_no_tensor(node: ast.expr, value_of: Callable[[ast.expr], object]) -> bool:
    """True for a shape, and for an operator."""
    return isinstance(node, ast.Tuple | ast.List) or isinstance(value_of(node), Op | np.ufunc)


def _memset_fix(call: ast.Call, user: ast.stmt | None) -> str:
    """``t = nisa.memset(shape, value, dtype)`` as a tile that is filled."""
    named = dict(zip(("shape", "value", "dtype"), map(ast.unparse, call.args), strict=False))
    named |= {str(k.arg): ast.unparse(k.value) for k in call.keywords}
    shape, value, dtype = (named.get(name, name) for name in ("shape", "value", "dtype"))
    match user:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return f"write `{name} = nl.full({shape}, {value}, {dtype})`"
        case ast.Assign(targets=[ast.Subscript() as target]):
            return f"write `{ast.unparse(call.func)}({ast.unparse(target)}, {value})`"
        case _:
            return f"write `tile = nl.full({shape}, {value}, {dtype})`"


def _shape_and_dtype(call: ast.Call, full: str) -> str:
    """The shape and dtype of the result of an instruction, from its operands and the ``dtype=`` that Beta 1 took."""
    given = next((ast.unparse(_operator(k.value)) for k in call.keywords if k.arg == "dtype"), "")
    if given:
        shape, _, _ = _shape_and_dtype(_without_dtype(call), full).rpartition(", ")
        return f"{shape}, {given}"
    operands = [k.value for k in call.keywords if k.arg in _DATA] or list(call.args)
    named = [node for node in operands if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)]
    texts = [text for text in map(ast.unparse, named) if text.partition(".")[0] not in _MODULES]
    match full.rpartition(".")[2], texts:
        case "nc_matmul", [stationary, moving, *_]:
            return f"({stationary}.shape[1], {moving}.shape[1]), nl.float32"
        case "nc_transpose", [data, *_]:
            return f"({data}.shape[1], {data}.shape[0]), {data}.dtype"
        case "tensor_reduce", [data, *_]:
            return f"({data}.shape[0], 1), {data}.dtype"
        case name, [data, *_] if name in _ELEMENTWISE:
            return f"{data}.shape, {data}.dtype"
        case _:
            return "shape, dtype"


def _without_dtype(call: ast.Call) -> ast.Call:
    return ast.Call(call.func, call.args, [k for k in call.keywords if k.arg != "dtype"])


_MODULES: Final = ("np", "numpy", "nl")
_DATA: Final = frozenset({"data", "data1", "src", "stationary", "moving"})
_ELEMENTWISE: Final = frozenset({
    "activation", "activation_reduce", "exponential", "nc_stream_shuffle", "reciprocal", "select_reduce", "tensor_copy",
    "tensor_scalar", "tensor_tensor", "tensor_tensor_scan",
})  # fmt: skip
"""Instructions whose result has the shape of their data."""


def _with_destination(call: ast.Call, keywords: list[ast.keyword], target: ast.expr) -> str:
    args = [target, *map(_operator, call.args)]
    others = [ast.keyword(k.arg, _operator(k.value)) for k in keywords]
    return ast.unparse(ast.Call(func=call.func, args=args, keywords=others))


def _operator(node: ast.expr) -> ast.expr:
    """An argument; an operator of NumPy, which Beta 1 took, as that of ``nl``."""
    match node:
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name) if name in OPS or name in dtypes.BY_NAME:
            return ast.Attribute(ast.Name("nl", ast.Load()), name, ast.Load())
        case _:
            return node


REMOVED_SINCE_0_7: Final[dict[str, str]] = {
    "nki.language.dynamic_range": "use `nl.fori_loop(start, stop, body)`, where `body(i)` is a function",
}
"""Names that this package has for kernels of older releases, and NKI 0.7 does not."""

NAMESPACE = "import it from the new package: `import nki`, `import nki.language as nl`, `import nki.isa as nisa`"
"""For anything of ``neuronxcc`` inside a kernel."""
