"""Functions of NumPy, PyTorch, JAX and Triton that NKI does not have, each with what to write instead."""

from __future__ import annotations

from typing import Final

_PARTS: Final = (
    "allocate the whole tile, and copy each part into its slice: `nisa.tensor_copy(dst=whole[:, 0:n], src=part)`"
)
_EIGHT: Final = (
    "use `nisa.max8`, `nisa.nc_find_index8` and `nisa.nc_match_replace8`: the eight greatest of each row, their "
    "places, and the next eight"
)
_TOP: Final = (
    "use `nisa.topk`: the greatest of the numbers in each group of 16 partitions, in bfloat16, and their places; of "
    "rows, " + _EIGHT
)
_CAST: Final = "write `nl.copy(x, dtype=…)`, or give the destination of an instruction the dtype"
_PRODUCT: Final = "write `nl.matmul(x, y)`, or `nisa.nc_matmul` into a tile of PSUM"
_BOUNDS: Final = "write `nl.minimum(nl.maximum(x, low), high)`, or one `nisa.tensor_scalar` with both operators"
_SCAN: Final = "use `nisa.tensor_tensor_scan`: each element from the one before, with `op0` and `op1`"
_GATHER: Final = (
    "load rows by index with `x.ap(…, vector_offset=indices, indirect_dim=0)`, or columns with `nisa.local_gather`"
)
_TRIANGLE: Final = "mask with `nisa.affine_select`: its condition is a linear function of row and column"
_NUMBERS: Final = "use `nisa.iota`, and `nisa.tensor_scalar` on its result"
_LOGARITHM: Final = "multiply `nl.log(x)` by the number that changes its base"
_MOVE: Final = (
    "use `nl.transpose`, `nisa.nc_transpose` or `nisa.dma_transpose`; a view of other dimensions is `x.permute(…)`"
)

_CONSTANT: Final = "write `nl.shared_constant(array)`, or pass the array to the kernel"
_TILE: Final = "write `nl.ndarray(shape, dtype, buffer=nl.sbuf)`: a tile in the memory on the chip"
_IN_PLACE: Final = "no function works in place: write `t = nl.exp(t)`, or an instruction with `dst=t`"
_THREADS: Final = (
    "NKI has no threads: an instruction works on all partitions of a tile; `nl.program_id(0)` is the number of the core"
)
_ORDER: Final = (
    "leave it out: instructions wait for the data that they read; two cores meet in `nisa.core_barrier(tensor, (0, 1))`"
)
_ATOMIC: Final = (
    "`nisa.dma_compute(rows, [rows, src], nl.add)` adds to rows in HBM by index, `rows = t.vector_select(0, index)`; "
    "within a kernel add into one tile, since no threads run"
)
_POINTER: Final = (
    "slice the tensor, `x[i:i + 128, 0:512]`; other patterns are `x.ap([[step, count], …], "
    "offset=n)`; there are no pointers"
)
_POOL: Final = "reduce the last dimensions of a view with `nisa.tensor_reduce`: `t.reshape(…)` and `permute` of windows"
_CONVOLUTION: Final = "sum products in PSUM, one `nisa.nc_matmul` of a slice for each offset of the window"
_NORMALISE: Final = (
    "use `nisa.bn_stats` of up to 512 elements and `nisa.bn_aggr`: mean and variance; then "
    "`nisa.tensor_scalar` with both"
)
_ONE_HOT: Final = (
    "compare numbers with labels: `nisa.iota`, then `nisa.tensor_scalar(dst, numbers, nl.equal, labels)` with labels "
    "(partitions, 1) in float32; a product with ones counts"
)
_TWO_TILES: Final = (
    "write `nisa.tensor_tensor(dst, x, y, op=nl.add)`, with a number "
    "`nisa.tensor_scalar(dst, x, op0=nl.add, operand0=2.0)`"
)
_ONE_TILE: Final = "write `nisa.activation(dst, op=nl.exp, data=x)`, or `y = nl.exp(x)`"
_OF_TWO: Final = {
    **{name: name for name in ("add", "divide", "maximum", "minimum", "multiply", "subtract")},
    "mul": "multiply",
    "sub": "subtract",
    "tensor_add": "add",
    "tensor_div": "divide",
    "tensor_max": "maximum",
    "tensor_min": "minimum",
    "tensor_mul": "multiply",
    "tensor_sub": "subtract",
}
_OF_ONE: Final = ("exp", "gelu", "log", "relu", "rsqrt", "sigmoid", "silu", "sqrt", "square", "tanh")
_FOLD: Final = "write `nisa.tensor_reduce(dst, op=nl.add, data=x, axis=1)`"
_COPY: Final = "write `nisa.dma_copy(dst, src)` from and to HBM, `nisa.tensor_copy(dst, src)` within the chip"
_NC_MATMUL: Final = "write `nisa.nc_matmul(dst, stationary, moving)`: `stationary` transposed times `moving`, into PSUM"
_RENAMED: Final = {
    "abs": ("absolute", "fabs"), "arctan": ("atan",), "bfloat16": ("bf16",), "broadcast_to": ("broadcast", "expand_as"),
    "divide": ("div", "truediv", "true_divide"), "equal": ("eq",), "float16": ("fp16", "half"), "float32": ("float",),
    "gelu_apprx_tanh": ("gelu_new", "gelu_tanh"), "greater": ("gt",), "greater_equal": ("ge",), "int32": ("int",),
    "invert": ("bitwise_not", "not_"), "left_shift": ("shift_left",), "less": ("lt",), "less_equal": ("le",),
    "max": ("amax",), "maximum": ("fmax",), "min": ("amin",), "minimum": ("fmin",), "mod": ("remainder",),
    "multiply": ("mul",), "not_equal": ("ne",), "power": ("pow",), "right_shift": ("shift_right",),
    "rms_norm": ("rmsnorm",), "silu": ("swish",), "subtract": ("sub",),
}  # fmt: skip
"""Functions and dtypes that NKI has under another name."""

OTHERS: Final[dict[str, str]] = {
    **dict.fromkeys(("cast", "astype", "convert", "to", "type_as"), _CAST),
    **dict.fromkeys(("cat", "concat", "concatenate", "hstack", "vstack", "stack", "pad"), _PARTS),
    **dict.fromkeys(("argmax", "argsort", "sort"), _EIGHT),
    **dict.fromkeys(("bmm", "dot", "einsum", "linear", "mm", "tensordot"), _PRODUCT),
    **dict.fromkeys(("clamp", "clip", "relu6", "hardtanh"), _BOUNDS),
    **dict.fromkeys(("associative_scan", "cumprod", "cumsum", "scan"), _SCAN),
    **dict.fromkeys(("gather", "index_select", "take", "take_along_axis"), _GATHER),
    **dict.fromkeys(("top_k", "topk"), _TOP),
    **dict.fromkeys(("tril", "triu"), _TRIANGLE),
    **dict.fromkeys(("linspace",), _NUMBERS),
    **dict.fromkeys(("log2", "log10"), _LOGARITHM),
    **dict.fromkeys(("moveaxis", "permute", "swapaxes"), _MOVE),
    **dict.fromkeys(("float64", "double"), "use `nl.float32`: engines compute in it, and no dtype of floats is wider"),
    **{name: f"write `nl.{ours}`" for ours, names in _RENAMED.items() for name in names},
    **dict.fromkeys(("abs_", "exp_", "relu_", "sigmoid_", "sqrt_", "tanh_"), _IN_PLACE),
    **dict.fromkeys(("blockIdx", "num_threads", "thread_id", "threadIdx", "warp_id"), _THREADS),
    **dict.fromkeys(("barrier", "commit_group", "debug_barrier", "sync_threads", "syncthreads", "wait_group"), _ORDER),
    **dict.fromkeys(("atomic_add", "atomic_cas", "atomic_max", "atomic_min", "atomic_xchg"), _ATOMIC),
    **dict.fromkeys(("index_add", "index_put", "scatter", "scatter_add", "put_along_axis"), _ATOMIC),
    **dict.fromkeys(("empty", "shared", "shared_memory", "smem", "vmem"), _TILE),
    **dict.fromkeys(
        ("dram", "dram_tensor", "global_memory", "gmem"), "write `nl.ndarray(shape, dtype, buffer=nl.shared_hbm)`"
    ),
    **dict.fromkeys(
        ("assume", "max_constancy", "max_contiguous", "multiple_of"), "leave it out: the compiler knows all sizes"
    ),
    **dict.fromkeys(
        ("static_assert", "device_assert"), "write `assert`, about sizes and other numbers known at compile time"
    ),
    **dict.fromkeys(
        ("static_print", "print"), "write Python's `print` at compile time, or `nl.device_print(prefix, tile)`"
    ),
    **dict.fromkeys(("advance", "make_block_ptr", "make_tensor_descriptor"), _POINTER),
    **dict.fromkeys(
        ("copy_async", "dma_copy_async", "load_async"), "write `nisa.dma_copy`: transfers run beside the engines"
    ),
    **dict.fromkeys((f"nki.language.{name}" for name in ("array", "asarray", "from_numpy")), _CONSTANT),
    **dict.fromkeys(
        ("expand", "repeat", "repeat_interleave", "tile"),
        "write `t.broadcast(dim, n)`, a view that repeats, of a dimension of size 1",
    ),
    **dict.fromkeys(("chunk", "split"), "write slices, `t[:, 0:n]`: they are views"),
    **dict.fromkeys(
        ("flatten", "ravel", "reshape", "view"),
        "write `t.reshape(shape)`, a method of tensors that keeps the partitions",
    ),
    **dict.fromkeys(("max_pool2d", "avg_pool2d", "max_pool1d"), _POOL),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _CONVOLUTION),
    **dict.fromkeys(("batch_norm", "group_norm", "instance_norm", "layer_norm"), _NORMALISE),
    **dict.fromkeys(("bincount", "histc", "histogram", "one_hot"), _ONE_HOT),
    **dict.fromkeys(("masked_fill", "select"), "write `nl.where(condition, x, y)`"),
    **dict.fromkeys(("rand_like", "uniform"), "write `nl.rand(shape, dtype)`: numbers from 0 to 1"),
    **dict.fromkeys(
        ("floor_divide", "floordiv"), "write `nl.floor(nl.divide(x, y))`; sizes are Python integers, `a // b`"
    ),
    **dict.fromkeys(("inf", "nan"), "write `float('inf')` or `float('nan')`"),
    **dict.fromkeys(("inv", "inverse", "recip"), "write `nl.reciprocal(x)` for 1 / x of each element"),
    **dict.fromkeys(("diag", "diagonal"), "mask with `nisa.affine_select` and `cmp_op=nl.equal`, then sum"),
    **dict.fromkeys(("roll",), "copy two slices: `nisa.tensor_copy(dst=r[:, k:n], src=t[:, 0:n - k])` and the rest"),
    **dict.fromkeys(
        ("load.dst", "load.out"), "it returns a new tile; into one that exists write `nisa.dma_copy(dst=tile, src=x)`"
    ),
    "load.other": (
        "fill a tile first, `t = nl.full(shape, value, dtype)`, and load the part that exists, "
        "`nisa.dma_copy(dst=t[0:n], src=x[0:n])`"
    ),
    **{f"nki.isa.{name}": _TWO_TILES.replace("nl.add", f"nl.{op}") for name, op in _OF_TWO.items()},
    **{f"nki.isa.{name}": _ONE_TILE.replace("exp", name) for name in _OF_ONE},
    **dict.fromkeys((f"nki.isa.{name}" for name in ("max", "mean", "min", "reduce", "reduce_sum", "sum")), _FOLD),
    **dict.fromkeys((f"nki.isa.{name}" for name in ("copy", "load", "store")), _COPY),
    **dict.fromkeys((f"nki.isa.{name}" for name in ("dot", "gemm", "matmul", "mm")), _NC_MATMUL),
    "nki.isa.transpose": "write `nisa.nc_transpose(dst, data)`, or `nisa.dma_transpose(dst, src)`",
    "any": "write `nl.max(x, axis=1)` of truth values",
    "argmin": "negate the tile, then " + _EIGHT,
    "exp2": "write `nl.exp` of the tile times the logarithm of 2",
    "expm1": "subtract 1 from `nl.exp(x)`",
    "cdiv": "write `-(-a // b)`: sizes are Python integers",
    "constexpr": "leave the annotation out: what is no tensor is known at compile time",
    "cosh": "write `nl.multiply(nl.add(nl.exp(x), nl.exp(nl.negative(x))), 0.5)`",
    "count_nonzero": "write `nl.sum(nl.not_equal(x, 0), axis=1)`",
    "elu": "write `nl.maximum(x, nl.subtract(nl.exp(nl.minimum(x, 0.0)), 1.0))`",
    "eye": "use `nl.shared_identity_matrix(n)`",
    "identity": "use `nl.shared_identity_matrix(n)`",
    "flip": "take elements by numbers that fall: `nisa.iota` with a step of -1, and `nisa.nc_n_gather`",
    "float8": "write `nl.float8_e4m3` or `nl.float8_e5m2`",
    "full_like": "write `nl.full(x.shape, value, x.dtype)`",
    "hardsigmoid": "write `nl.minimum(nl.maximum(nl.add(nl.multiply(x, 1 / 6), 0.5), 0.0), 1.0)`",
    "hardswish": "write `nl.multiply(x, nl.minimum(nl.maximum(nl.add(nl.multiply(x, 1 / 6), 0.5), 0.0), 1.0))`",
    "isinf": "write `nl.equal(nl.abs(x), float('inf'))`",
    "isnan": "write `nl.not_equal(x, x)`",
    "leaky_relu": "write `nl.maximum(x, nl.multiply(x, 0.01))`",
    "log_softmax": (
        "write `nl.log(nl.softmax(x, axis=1))`; where it may underflow, subtract the maximum and the log of the sum"
    ),
    "logsigmoid": "write `nl.negative(nl.softplus(nl.negative(x)))`",
    "logsumexp": "subtract each row's maximum, then `nisa.activation_reduce` with `op=nl.exp`, and `nl.log` of the sum",
    "log1p": "take `nl.log` of the tile plus 1",
    "neg": "write `nl.negative(x)`",
    "norm": "write `nl.sqrt(nl.sum(nl.square(x), axis=1))`",
    "nonzero": "use `nisa.nonzero_with_count`: places in partitions 0, 16, 32, …, on trn2 and later",
    "ones_like": "write `nl.full(x.shape, 1.0, x.dtype)`",
    "outer": "write `nl.matmul(x, y, transpose_x=True)` of two rows, (1, M) and (1, N)",
    "pi": "write `math.pi`",
    "round": "write `nl.copy(x, dtype=nl.int32)`: the conversion rounds to the nearest, ties to even",
    "sinh": "write `nl.multiply(nl.subtract(nl.exp(x), nl.exp(nl.negative(x))), 0.5)`",
    "squeeze": "write `t.squeeze_dim(d)`, a method of tensors",
    "std": "write `nl.sqrt(nl.var(x, axis=1))`",
}
"""By name, whether it is written behind ``nl`` or ``nisa``."""

KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("dim", "dims", "axes"), ("axis", "axes")),
    **dict.fromkeys(("keepdim", "keep_dims"), ("keepdims",)),
    **dict.fromkeys(("dest", "destination", "out", "output", "result"), ("dst", "val_dst")),
    **dict.fromkeys(("in_", "inp", "input", "x", "a", "tensor"), ("data", "src", "data1", "x")),
    "data": ("src", "x"),
    **dict.fromkeys(("act", "activation", "fn", "func", "function", "operator"), ("op", "op0")),
    **dict.fromkeys(("lhs", "lhsT", "lhs_t", "weights"), ("stationary", "data1", "x")),
    **dict.fromkeys(("rhs", "other"), ("moving", "data2", "y")),
    **dict.fromkeys(("in0", "in0_ap", "src0", "src1"), ("data1", "data0")),
    **dict.fromkeys(("in1", "in1_ap", "src2"), ("data2", "data1")),
    **dict.fromkeys(("loc", "location", "memory", "mem", "memory_space", "region", "space"), ("buffer",)),
    **dict.fromkeys(("fill", "fill_value", "val"), ("value", "fill_value")),
    **dict.fromkeys(("src", "source"), ("src", "value", "data", "data1")),
    **dict.fromkeys(("scalar", "imm"), ("operand0", "imm0")),
    **dict.fromkeys(("size", "sizes"), ("shape",)),
    **dict.fromkeys(("tensor1", "x1"), ("data1",)),
    **dict.fromkeys(("tensor2", "x2"), ("data2",)),
}
"""Keywords of other libraries, and the parameters for which each may stand, the likeliest first."""
