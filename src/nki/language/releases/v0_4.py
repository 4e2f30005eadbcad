"""NKI 0.4: priorities of transfers, and sizes of memories under new names."""

from __future__ import annotations

from typing import Final

from nki.frontend.release import Release, full_names

_OF_COLLECTIVES: Final = (
    "all_gather all_reduce all_to_all all_to_all_v collective_permute collective_permute_implicit "
    "collective_permute_implicit_reduce reduce_scatter"
)

RELEASE: Final = Release(
    version="0.4",
    traced=False,
    names=full_names({
        "nki.isa": "activate2",
        "nki.language": "abs_max abs_min bypass prelu",
        "nki.language.tile_size": "psum_bank_fmax psum_bank_fmax_bytes sbuf_fmax sbuf_fmax_bytes sbuf_size_bytes",
    }),
    parameters=full_names({
        **{f"nki.collectives.{name}": "priority" for name in _OF_COLLECTIVES.split()},
        "nki.isa.dma_compute": "oob_mode",
        "nki.isa.dma_copy": "priority",
        "nki.isa.dma_transpose": "priority",
        "nki.isa.tensor_scalar_reduce": "reduce_cmd reduce_init",
    }),
    deprecated={
        "nki.language.static_range": "write `range(…)`, which is unrolled as well",
        "nki.language.tile_size.psum_fmax": "write `psum_bank_fmax`",
        "nki.language.tile_size.total_available_sbuf_size": "write `sbuf_fmax_bytes`",
    },
)  # fmt: skip
