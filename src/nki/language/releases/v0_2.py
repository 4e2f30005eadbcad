"""NKI 0.2, the first release of the package ``nki``, and what NKI Beta 1 had before it.

Source: the public migration guides from Beta 1 to Beta 2 (NKI 0.2) and on to NKI 0.3, and the release notes up to 0.6.
The public library of Neuron 2.28 calls decorated kernels from kernels; the libraries of 2.27 and 2.28, like the
performance guide of these releases, mark the first size of a shape with ``par_dim``. The library of 2.27 compares parts
of shapes with lists, and whole ones with tuples.
"""

from __future__ import annotations

import ast
from typing import Final

from nki.frontend.device_loops import while_hook
from nki.frontend.dialect import RemovedNames
from nki.frontend.inlining import nested_hook
from nki.frontend.python.hooks import listed_hook
from nki.frontend.release import DECORATED, Release
from nki.frontend.rewrite import LISTED, NESTED, WHILE

RELEASE: Final = Release(
    version="0.2",
    traced=False,
    hooks={NESTED: nested_hook, WHILE: while_hook, LISTED: listed_hook},
    warnings={
        DECORATED: "`{0}` has a decorator of its own, and a kernel calls it: release 2.27 of NKI 0.2 refuses that, "
        "2.28 takes it. Leave the decorator out, and write `nki.jit({0})(…)` where the host calls it",
    },
)

_SLICES = (
    "index with slices, `t[0:128, 0:512]`, and keep them in bounds with `min`; "
    "other patterns go through `t.ap(pattern=..., offset=...)`"
)
_LOOPS = "run the programs as a `for` loop inside the kernel; `kernel[n]` only chooses the number of cores"
_ADDRESS = "give each tensor its own place: `nl.ndarray(..., address=(partition, byte))`, several of them in a list"
_DYNAMIC = "use `nisa.tensor_copy` with `t.ap(..., scalar_offset=register_or_tensor, indirect_dim=...)`"
_AUTOMATIC = "leave it out: it has no counterpart"


def _is_behind_blocks(function: ast.AST, node: ast.expr) -> bool:
    """True if the call of ``node`` in ``function`` gives a size behind others in a shape."""
    shapes = (one for one in ast.walk(function) if isinstance(one, ast.Tuple | ast.List))
    return any(isinstance(size, ast.Call) and size.func is node for one in shapes for size in one.elts[1:])


OF_BETA_1: Final = RemovedNames(
    names={
        "nki.trace": "leave the decorator out: functions that a kernel calls need none",
        "nki.isa.builtin_custom_op": "build it from other instructions",
        "nki.isa.tensor_copy_dynamic_dst": _DYNAMIC,
        "nki.isa.tensor_copy_dynamic_src": _DYNAMIC,
        "nki.language.all_reduce": "accumulate into one tensor yourself, or use `nki.collectives.all_reduce`",
        "nki.language.arange": _SLICES,
        "nki.language.atomic_rmw": "use `nisa.dma_compute(rows, [rows, src], nl.add)`, "
        "`rows = t.vector_select(0, index)`",
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
        "nki.language.static_cast": "copy into a tensor of the other dtype, or reinterpret the bits with "
        "`t.view(dtype)`",
        "nki.compiler.allocation_scope": _AUTOMATIC,
        "nki.compiler.enable_stack_allocator": _AUTOMATIC,
        "nki.compiler.force_auto_alloc": _AUTOMATIC,
        "nki.compiler.multi_buffer": _AUTOMATIC,
        "nki.compiler.no_reorder": "write `with nl.no_reorder():`",
        "nki.compiler.psum": _ADDRESS,
        "nki.compiler.sbuf": _ADDRESS,
        "nki.compiler.skip_middle_end_transformations": _AUTOMATIC,
    },
    attributes={"alloc": _ADDRESS, "mod_alloc": _ADDRESS},
    keywords={
        "mask": "cut the slices to size instead, `t[0:min(128, rows - start)]`, or skip the call with `if`",
        "dtype": "leave it out: the dtype of the destination decides",
        "compute_dtype": "name it `dtype`",
        "lazy_initialization": "leave it out",
        "precise_schedule": "leave it out",
        "name": "leave it out: instructions and `nl.ndarray` take names",
    },
    parameters={
        "nki.isa.affine_select.pred": (
            "write the condition as `pattern=[[step, count], …], offset=…, channel_multiplier=…, cmp_op=…`: it holds "
            "where offset + partition * channel_multiplier + the steps compares so with 0"
        ),
        "nki.isa.iota.expr": "write the numbers as `pattern=[[step, count], …], offset=…, channel_multiplier=…`",
        "nki.isa.memset.shape": "allocate the tile first: `t = nl.ndarray(shape, dtype, buffer=nl.sbuf)`; "
        "pass it as `dst`",
    },
    misplaced={
        "nki.language.par_dim": _is_behind_blocks
    },  # the public libraries of Neuron 2.27 and 2.28 mark the first
    packages={
        "neuronxcc": "import it from the new package: `import nki`, `import nki.language as nl`, "
        "`import nki.isa as nisa`",
    },
)
"""Names of Beta 1 that ``nki`` does not have, each with its replacement: attributes of ``nl.sbuf`` and ``nl.psum``,
keywords of calls into ``nki.isa`` and ``nki.language``, parameters of single functions; and its package, for anything
of that inside a kernel.
"""

SWAPPED: Final = frozenset({"nki.isa.nc_stream_shuffle"})
"""Functions that took the source before the destination in Beta 1."""

RESULT_FIX: Final = "allocate the destination first and pass it: `{}(dst=tile, ...)`"
"""The fix for a call of ``nki.isa`` with a result that a statement uses, as in Beta 1, where no exact one is known."""
