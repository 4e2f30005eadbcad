"""Names of NKI Beta 1 that NKI no longer has, each with its replacement.

Source: the public migration guides from Beta 1 to Beta 2 (NKI 0.2) and on to NKI 0.3, and the release notes up to 0.6.
A name counts as removed only where the module does not have it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

import numpy as np

from nki.isa.tables.operators import Op

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
    "compute_dtype": "name it `dtype`",
    "lazy_initialization": "leave it out",
    "precise_schedule": "leave it out",
    "name": "leave it out: instructions and `nl.ndarray` take names",
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

RESULT_FIX: Final = "allocate the destination first and pass it: `{}(dst=tile, ...)`"
"""The fix for a call of ``nki.isa`` whose result a statement uses, as Beta 1 had it, where no exact one is known."""


def older_order(call: ast.Call, full: str, parameters: list[str], value_of: Callable[[ast.expr], object]) -> str:
    """The message about a call of ``nki.isa`` whose positional arguments stand in the order of Beta 1, "" for others.

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


TENSORS: Final = ("dst", "data", "data1", "src", "stationary", "data0", "src_buffer", "index")
"""Parameters that take tensors alone."""


def is_number(parameter: str, value: object) -> bool:
    """True for a number where a parameter takes a tensor; instructions on registers take numbers as ``src``."""
    return parameter not in ("dst", "src") and isinstance(value, int | float)


def _is_no_tensor(parameter: str, node: ast.expr, value_of: Callable[[ast.expr], object]) -> bool:
    """True for a shape, a number and an operator."""
    value = node.value if isinstance(node, ast.Constant) else value_of(node)
    return isinstance(node, ast.Tuple | ast.List) or isinstance(value, Op | np.ufunc) or is_number(parameter, value)


REMOVED_SINCE_0_7: Final[dict[str, str]] = {
    "nki.language.dynamic_range": "use `nl.fori_loop(start, stop, body)`, where `body(i)` is a function",
}
"""Names that this package has for kernels of older releases, and NKI 0.7 does not."""

NAMESPACE = "import it from the new package: `import nki`, `import nki.language as nl`, `import nki.isa as nisa`"
"""For anything of ``neuronxcc`` inside a kernel."""
