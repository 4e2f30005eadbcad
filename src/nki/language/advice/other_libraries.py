"""Functions of NumPy, PyTorch, JAX and Triton that NKI does not have, each with what to write instead."""

from __future__ import annotations

from typing import Final

RENAMED: Final = {
    "abs": ("absolute", "fabs"), "arctan": ("atan",), "bfloat16": ("bf16",), "broadcast_to": ("broadcast", "expand_as"),
    "divide": ("div", "truediv", "true_divide"), "equal": ("eq",), "float16": ("fp16", "half"), "float32": ("float",),
    "gelu_apprx_tanh": ("gelu_new", "gelu_tanh"), "greater": ("gt",), "greater_equal": ("ge",), "int32": ("int",),
    "invert": ("bitwise_not",), "left_shift": ("shift_left",), "less": ("lt",), "less_equal": ("le",),
    "logical_not": ("not_",), "max": ("amax",), "maximum": ("fmax",), "min": ("amin",), "minimum": ("fmin",),
    "mod": ("remainder",), "multiply": ("mul",), "negative": ("neg",), "not_equal": ("ne",),
    "power": ("pow", "float_power"), "right_shift": ("shift_right",), "rms_norm": ("rmsnorm",), "silu": ("swish",),
    "subtract": ("sub",),
}  # fmt: skip
"""Functions and dtypes that NKI has under another name."""

_EIGHT: Final = (
    "`nisa.max8`, `nisa.nc_find_index8` and `nisa.nc_match_replace8`: the eight greatest of each row, their places, "
    "and the next eight"
)
_ROWS: Final = (
    ("cast astype convert to type_as",
     "write `nl.copy(x, dtype=…)`, or give the destination of an instruction the dtype"),
    ("cat concat concatenate hstack vstack stack pad",
     "allocate the whole tile, and copy each part into its slice: `nisa.tensor_copy(dst=whole[:, 0:n], src=part)`"),
    ("argmax argsort sort", f"use {_EIGHT}"),
    ("bmm dot einsum linear mm tensordot", "write `nl.matmul(x, y)`, or `nisa.nc_matmul` into a tile of PSUM"),
    ("clamp clip relu6 hardtanh",
     "write `nl.minimum(nl.maximum(x, low), high)`, or one `nisa.tensor_scalar` with both operators"),
    ("associative_scan cumprod cumsum scan",
     "use `nisa.tensor_tensor_scan`: each element from the one before, with `op0` and `op1`"),
    ("gather index_select take take_along_axis",
     "load rows by index with `x.ap(…, vector_offset=indices, indirect_dim=0)`, or columns with `nisa.local_gather`"),
    ("top_k topk",
     "use `nisa.topk`: the greatest of the numbers in each group of 16 partitions, in bfloat16, and their places; of "
     f"rows, use {_EIGHT}"),
    ("tril triu", "mask with `nisa.affine_select`: its condition is a linear function of row and column"),
    ("linspace", "use `nisa.iota`, and `nisa.tensor_scalar` on its result"),
    ("log2 log10", "multiply `nl.log(x)` by the number that changes its base"),
    ("moveaxis permute swapaxes",
     "use `nl.transpose`, `nisa.nc_transpose` or `nisa.dma_transpose`; a view of other dimensions is `x.permute(…)`"),
    ("float64 double", "use `nl.float32`: engines compute in it, and no dtype of floats is wider"),
    ("abs_ exp_ relu_ sigmoid_ sqrt_ tanh_",
     "no function works in place: write `t = nl.exp(t)`, or an instruction with `dst=t`"),
    ("blockIdx num_threads thread_id threadIdx warp_id",
     "NKI has no threads: an instruction works on all partitions of a tile; `nl.program_id(0)` is the number of the "
     "core"),
    ("barrier commit_group debug_barrier sync_threads syncthreads wait_group",
     "leave it out: instructions wait for the data that they read; two cores meet in `nisa.core_barrier(tensor, (0, "
     "1))`"),
    ("atomic_add atomic_cas atomic_max atomic_min atomic_xchg index_add index_put scatter scatter_add put_along_axis",
     "`nisa.dma_compute(rows, [rows, src], nl.add)` adds to rows in HBM by index, `rows = t.vector_select(0, "
     "index)`; within a kernel add into one tile, since no threads run"),
    ("empty shared shared_memory smem vmem",
     "write `nl.ndarray(shape, dtype, buffer=nl.sbuf)`: a tile in the memory on the chip"),
    ("dram dram_tensor global_memory gmem", "write `nl.ndarray(shape, dtype, buffer=nl.shared_hbm)`"),
    ("assume max_constancy max_contiguous multiple_of", "leave it out: the compiler knows all sizes"),
    ("static_assert device_assert", "write `assert`, about sizes and other numbers known at compile time"),
    ("static_print print", "write Python's `print` at compile time, or `nl.device_print(prefix, tile)`"),
    ("advance make_block_ptr make_tensor_descriptor",
     "slice the tensor, `x[i:i + 128, 0:512]`; other patterns are `x.ap([[step, count], …], offset=n)`; there are no "
     "pointers"),
    ("copy_async dma_copy_async load_async", "write `nisa.dma_copy`: transfers run beside the engines"),
    ("nki.language.array nki.language.asarray nki.language.from_numpy",
     "write `nl.shared_constant(array)`, or pass the array to the kernel"),
    ("expand repeat repeat_interleave tile",
     "write `t.broadcast(dim, n)`, a view that repeats, of a dimension of size 1"),
    ("chunk split", "write slices, `t[:, 0:n]`: they are views"),
    ("flatten ravel reshape view", "write `t.reshape(shape)`, a method of tensors that keeps the partitions"),
    ("max_pool2d avg_pool2d max_pool1d",
     "reduce the last dimensions of a view with `nisa.tensor_reduce`: `t.reshape(…)` and `permute` of windows"),
    ("conv1d conv2d conv3d", "sum products in PSUM, one `nisa.nc_matmul` of a slice for each offset of the window"),
    ("batch_norm group_norm instance_norm layer_norm",
     "use `nisa.bn_stats` of up to 512 elements and `nisa.bn_aggr`: mean and variance; then `nisa.tensor_scalar` "
     "with both"),
    ("bincount histc histogram one_hot",
     "compare numbers with labels: `nisa.iota`, then `nisa.tensor_scalar(dst, numbers, nl.equal, labels)` with "
     "labels (partitions, 1) in float32; a product with ones counts"),
    ("masked_fill select", "write `nl.where(condition, x, y)`"),
    ("rand_like uniform", "write `nl.rand(shape, dtype)`: numbers from 0 to 1"),
    ("floor_divide floordiv", "write `nl.floor(nl.divide(x, y))`; sizes are Python integers, `a // b`"),
    ("inf nan", "write `float('inf')` or `float('nan')`"),
    ("inv inverse recip", "write `nl.reciprocal(x)` for 1 / x of each element"),
    ("diag diagonal", "mask with `nisa.affine_select` and `cmp_op=nl.equal`, then sum"),
    ("roll", "copy two slices: `nisa.tensor_copy(dst=r[:, k:n], src=t[:, 0:n - k])` and the rest"),
    ("load.dst load.out", "it returns a new tile; into one that exists write `nisa.dma_copy(dst=tile, src=x)`"),
    ("load.other",
     "fill a tile first, `t = nl.full(shape, value, dtype)`, and load the part that exists, "
     "`nisa.dma_copy(dst=t[0:n], src=x[0:n])`"),
    ("nki.isa.max nki.isa.mean nki.isa.min nki.isa.reduce nki.isa.reduce_sum nki.isa.sum",
     "write `nisa.tensor_reduce(dst, op=nl.add, data=x, axis=1)`"),
    ("nki.isa.copy nki.isa.load nki.isa.store",
     "write `nisa.dma_copy(dst, src)` from and to HBM, `nisa.tensor_copy(dst, src)` within the chip"),
    ("nki.isa.dot nki.isa.gemm nki.isa.matmul nki.isa.mm",
     "write `nisa.nc_matmul(dst, stationary, moving)`: `stationary` transposed times `moving`, into PSUM"),
    ("nki.isa.transpose", "write `nisa.nc_transpose(dst, data)`, or `nisa.dma_transpose(dst, src)`"),
    ("any", "write `nl.max(x, axis=1)` of truth values"),
    ("argmin", f"negate the tile, then use {_EIGHT}"),
    ("exp2", "write `nl.exp` of the tile times the logarithm of 2"),
    ("expm1", "subtract 1 from `nl.exp(x)`"),
    ("cdiv", "write `-(-a // b)`: sizes are Python integers"),
    ("constexpr", "leave the annotation out: what is no tensor is known at compile time"),
    ("cosh", "write `nl.multiply(nl.add(nl.exp(x), nl.exp(nl.negative(x))), 0.5)`"),
    ("count_nonzero", "write `nl.sum(nl.not_equal(x, 0), axis=1)`"),
    ("elu", "write `nl.maximum(x, nl.subtract(nl.exp(nl.minimum(x, 0.0)), 1.0))`"),
    ("eye identity", "use `nl.shared_identity_matrix(n)`"),
    ("flip", "take elements by numbers that fall: `nisa.iota` with a step of -1, and `nisa.nc_n_gather`"),
    ("float8", "write `nl.float8_e4m3` or `nl.float8_e5m2`"),
    ("full_like", "write `nl.full(x.shape, value, x.dtype)`"),
    ("hardsigmoid", "write `nl.minimum(nl.maximum(nl.add(nl.multiply(x, 1 / 6), 0.5), 0.0), 1.0)`"),
    ("hardswish", "write `nl.multiply(x, nl.minimum(nl.maximum(nl.add(nl.multiply(x, 1 / 6), 0.5), 0.0), 1.0))`"),
    ("isinf", "write `nl.equal(nl.abs(x), float('inf'))`"),
    ("isnan", "write `nl.not_equal(x, x)`"),
    ("leaky_relu", "write `nl.maximum(x, nl.multiply(x, 0.01))`"),
    ("log_softmax",
     "write `nl.log(nl.softmax(x, axis=1))`; where it may underflow, subtract the maximum and the log of the sum"),
    ("logsigmoid", "write `nl.negative(nl.softplus(nl.negative(x)))`"),
    ("logsumexp",
     "subtract each row's maximum, then `nisa.activation_reduce` with `op=nl.exp`, and `nl.log` of the sum"),
    ("log1p", "take `nl.log` of the tile plus 1"),
    ("norm", "write `nl.sqrt(nl.sum(nl.square(x), axis=1))`"),
    ("nonzero", "use `nisa.nonzero_with_count`: places in partitions 0, 16, 32, …, on trn2 and later"),
    ("ones_like", "write `nl.full(x.shape, 1.0, x.dtype)`"),
    ("outer", "write `nl.matmul(x, y, transpose_x=True)` of two rows, (1, M) and (1, N)"),
    ("pi", "write `math.pi`"),
    ("round", "write `nl.copy(x, dtype=nl.int32)`: the conversion rounds to the nearest, ties to even"),
    ("sinh", "write `nl.multiply(nl.subtract(nl.exp(x), nl.exp(nl.negative(x))), 0.5)`"),
    ("squeeze", "write `t.squeeze_dim(d)`, a method of tensors"),
    ("std", "write `nl.sqrt(nl.var(x, axis=1))`"),
)  # fmt: skip
"""Names, and what to write for each."""
_OF_TWO: Final = {
    "add": "add tensor_add", "divide": "divide tensor_div", "maximum": "maximum tensor_max",
    "minimum": "minimum tensor_min", "multiply": "mul multiply tensor_mul", "subtract": "sub subtract tensor_sub",
}  # fmt: skip
"""Functions of two tiles by operator, as names behind ``nisa``."""
_OF_ONE: Final = ("exp", "gelu", "log", "relu", "rsqrt", "sigmoid", "silu", "sqrt", "square", "tanh")

OTHERS: Final = {
    **{name: f"write `nl.{ours}`" for ours, names in RENAMED.items() for name in names},
    **{name: fix for names, fix in _ROWS for name in names.split()},
    **{
        f"nki.isa.{name}": f"write `nisa.tensor_tensor(dst, x, y, op=nl.{op})`, with a number "
        f"`nisa.tensor_scalar(dst, x, op0=nl.{op}, operand0=2.0)`"
        for op, names in _OF_TWO.items() for name in names.split()
    },
    **{f"nki.isa.{op}": f"write `nisa.activation(dst, op=nl.{op}, data=x)`, or `y = nl.{op}(x)`" for op in _OF_ONE},
}  # fmt: skip
"""By name, whether it is written behind ``nl`` or ``nisa``."""

KEYWORDS: Final = {
    name: tuple(parameters.split())
    for names, parameters in (
        ("dim dims axes", "axis axes"),
        ("keepdim keep_dims", "keepdims"),
        ("dest destination out output result", "dst val_dst"),
        ("in_ inp input x a tensor", "data src data1 x"),
        ("data", "src x"),
        ("act activation fn func function operator", "op op0"),
        ("lhs lhsT lhs_t weights", "stationary data1 x"),
        ("rhs other", "moving data2 y"),
        ("in0 in0_ap src0 src1", "data1 data0"),
        ("in1 in1_ap src2", "data2 data1"),
        ("loc location memory mem memory_space region space", "buffer"),
        ("fill fill_value val", "value fill_value"),
        ("src source", "src value data data1"),
        ("scalar imm", "operand0 imm0"),
        ("size sizes", "shape"),
        ("tensor1 x1", "data1"),
        ("tensor2 x2", "data2"),
    )
    for name in names.split()
}
"""Keywords of other libraries, and the parameters for which each may stand, the likeliest first."""
