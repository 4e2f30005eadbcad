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
_TRIANGLE: Final = "mask with `nisa.affine_select`, whose condition is a linear function of row and column"
_NUMBERS: Final = "use `nisa.iota`, and `nisa.tensor_scalar` on its result"
_LOGARITHM: Final = "multiply `nl.log(x)` by the number that changes its base"
_MOVE: Final = (
    "use `nl.transpose`, `nisa.nc_transpose` or `nisa.dma_transpose`; a view of other dimensions is `x.permute(…)`"
)

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
    "argmin": "negate the tile, then " + _EIGHT,
    "exp2": "write `nl.exp` of the tile times the logarithm of 2",
    "expm1": "subtract 1 from `nl.exp(x)`",
    "eye": "use `nl.shared_identity_matrix(n)`",
    "identity": "use `nl.shared_identity_matrix(n)`",
    "logsumexp": "subtract each row's maximum, then `nisa.activation_reduce` with `op=nl.exp`, and `nl.log` of the sum",
    "log1p": "take `nl.log` of the tile plus 1",
    "neg": "write `nl.negative(x)`",
    "norm": "write `nl.sqrt(nl.sum(nl.square(x), axis=1))`",
    "std": "write `nl.sqrt(nl.var(x, axis=1))`",
}
"""By name, whether it is written behind ``nl`` or ``nisa``."""
