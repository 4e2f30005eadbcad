"""NKI 0.5: views of tensors, and names of collectives."""

from __future__ import annotations

from typing import Final

from nki.frontend.release import Release, full_names

_COLLECTIVES: Final = (
    "all_gather all_reduce all_to_all all_to_all_v collective_permute collective_permute_implicit "
    "collective_permute_implicit_current_processing_rank_id collective_permute_implicit_reduce rank_id reduce_scatter"
)

RELEASE: Final = Release(
    version="0.5",
    traced=False,
    names=full_names({
        "nki.isa": "get_nc_sub_version",
        "nki.language": "average float8_e8m0fnu",
        "nki.language.NkiTensor": "broadcast expand_dim flatten_dims indirect is_contiguous is_indirect permute "
        "rearrange reshape_dim select slice squeeze_dim vector_select",
        "nki.language.tile_size": "psum_num_banks",
    }),
    parameters=full_names({f"nki.collectives.{name}": "name" for name in _COLLECTIVES.split()}),
)  # fmt: skip
