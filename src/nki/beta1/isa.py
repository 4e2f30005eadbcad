"""The names of ``neuronxcc.nki.isa``."""

from __future__ import annotations

from typing import Any, Final

from nki.beta1 import isa_elements, isa_moving, reducing
from nki.isa.tables import enums

engine = enums.engine
reduce_cmd = enums.reduce_cmd
dge_mode = enums.dge_mode
oob_mode = enums.oob_mode
nc_version = enums.nc_version

_ELEMENTS: Final = (
    "activation", "activation_reduce", "affine_select", "bn_aggr", "bn_stats", "dropout", "iota", "max8", "memset",
    "nc_find_index8", "nc_match_replace8", "range_select", "reciprocal", "scalar_tensor_tensor", "select_reduce",
    "sequence_bounds", "tensor_partition_reduce", "tensor_reduce", "tensor_scalar", "tensor_scalar_reduce",
    "tensor_tensor", "tensor_tensor_scan",
)  # fmt: skip
_MOVING: Final = (
    "builtin_custom_op", "dma_copy", "dma_transpose", "get_nc_version", "local_gather", "nc_matmul",
    "nc_stream_shuffle", "nc_transpose", "tensor_copy", "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
)  # fmt: skip

NAMES: Final[dict[str, Any]] = {
    **{name: getattr(isa_elements, name) for name in _ELEMENTS},
    **{name: getattr(isa_moving, name) for name in _MOVING},
    "tensor_scalar_cumulative": reducing.tensor_scalar_cumulative,
    **{f"{e.name}_engine": e for e in engine if e.name in ("tensor", "vector", "scalar", "gpsimd", "unknown", "sync")},
    "engine": engine,
    "reduce_cmd": reduce_cmd,
    "dge_mode": dge_mode,
    "oob_mode": oob_mode,
    "nc_version": nc_version,
    "dma_engine": engine.dma,
}
"""Everything that ``neuronxcc.nki.isa`` shows."""
