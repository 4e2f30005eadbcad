"""NKI 0.3: functions of ``nki.language`` that compute on tiles, and slices of slices."""

from __future__ import annotations

from typing import Final

from nki.frontend.release import DECORATED, LIST_ARGUMENT, Release, full_names
from nki.frontend.rewrite import LISTED, NESTED

_RANGE: Final = "write `range(…)`, which is unrolled as well"

RELEASE: Final = Release(
    version="0.3",
    traced=False,
    names=full_names({
        "nki.collectives": "all_to_all_v",
        "nki.isa": "NkiValidationError VirtualRegister",
        "nki.language": "MemoryRegion NkiTensor all broadcast_to ceil copy cos dropout empty_like expand_dims floor "
        "fmod full gather_flattened is_hbm is_on_chip is_psum is_sbuf load load_transpose2d matmul mean mod negative "
        "prod rand random_seed rms_norm softmax store sum tan transpose trunc var where zeros_like",
    }),
    parameters=full_names({
        "nki.isa.dma_compute": "unique_indices",
        "nki.isa.dma_copy": "engine",
        "nki.isa.exponential": "name",
        "nki.isa.nc_matmul": "accumulate",
        "nki.isa.nc_matmul_mx": "accumulate",
        "nki.isa.nonzero_with_count": "name",
        "nki.isa.register_move": "src",
        "nki.isa.sendrecv": "dma_engine",
        "nki.isa.tensor_scalar_cumulative": "name",
    }),
    instead={
        "nki.language.copy": "write nisa.tensor_copy",
        "nki.language.load": "write nisa.dma_copy into a tile of nl.ndarray",
        "nki.language.matmul": "write nisa.nc_matmul",
        "nki.language.store": "write nisa.dma_copy",
        "nki.language.transpose": "write nisa.nc_transpose",
    },
    operators=frozenset({"nki.language.copy"}),  # public library of 0.2
    removed={
        "nki.language.par_dim": "write the number itself: the first dimension is the partition dimension",
    },
    undocumented=full_names({"nki.tensor": "arange identity zeros"}),
    deprecated={"nki.language.affine_range": _RANGE, "nki.language.sequential_range": _RANGE},
    hooks={NESTED: None, LISTED: None},
    warnings={DECORATED: "", LIST_ARGUMENT: "`{0}` is a list: since NKI 0.3 kernels take tuples"},
)  # fmt: skip
