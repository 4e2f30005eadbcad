"""The release of NKI that first has each name and parameter: the support matrix shows it, ``NKI_VERSION`` enforces it.

A name that is not listed is in every release from 0.2 on. Source: the release notes of NKI 0.2 to 0.7, and the API
reference of each release, where a name counts from the first release whose documents mention it anywhere; the
migration guide and the public library of 0.2 show more of that release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RELEASES: Final = ("0.2", "0.3", "0.4", "0.5", "0.6", "0.7")


def _listed(names: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """By full name, the release. ``names``: by release and module, names in one text."""
    return {
        f"nki.{module}.{name}": release
        for release, modules in names.items()
        for module, text in modules.items()
        for name in text.split()
    }


FIRST_RELEASE: Final[dict[str, str]] = _listed({
    "0.3": {
        "collectives": "all_to_all_v",
        "isa": "NkiValidationError VirtualRegister",
        "language": "MemoryRegion NkiTensor all broadcast_to ceil copy cos dropout empty_like expand_dims floor fmod "
        "full gather_flattened is_hbm is_on_chip is_psum is_sbuf load load_transpose2d matmul mean mod negative "
        "prod rand random_seed rms_norm softmax store sum tan transpose trunc var where zeros_like",
    },
    "0.4": {
        "isa": "activate2",
        "language": "abs_max abs_min bypass prelu",
        "language.tile_size": "psum_bank_fmax psum_bank_fmax_bytes sbuf_fmax sbuf_fmax_bytes sbuf_size_bytes",
    },
    "0.5": {
        "isa": "get_nc_sub_version",
        "language": "average float8_e8m0fnu",
        "language.NkiTensor": "broadcast expand_dim flatten_dims indirect is_contiguous is_indirect permute rearrange "
        "reshape_dim select slice squeeze_dim vector_select",
        "language.tile_size": "psum_num_banks",
    },
    "0.6": {
        "collectives": "all_gather_v",
        "isa": "NkiInstruction topk",
        "language": "DType fori_loop while_loop",
    },
    "0.7": {
        "isa": "NkiScalar scalar_load scalar_store",
        "language": "NkiBlockGrid NkiGrid NkiTileGrid alloc_blocks alloc_tiles blocks int64 tiles uint64",
        "language.NkiTensor": "data",
    },
})  # fmt: skip
"""Names by full name. Those with an entry in no release from 0.2 on are not here."""

FIRST_RELEASE_OF_PARAMETERS: Final[dict[str, str]] = _listed({
    "0.3": {
        "isa": "dma_compute.unique_indices dma_copy.engine exponential.name nc_matmul.accumulate "
        "nc_matmul_mx.accumulate nonzero_with_count.name register_move.src sendrecv.dma_engine "
        "tensor_scalar_cumulative.name",
    },
    "0.4": {
        "collectives": "all_gather.priority all_reduce.priority all_to_all.priority all_to_all_v.priority "
        "collective_permute.priority collective_permute_implicit.priority collective_permute_implicit_reduce.priority "
        "reduce_scatter.priority",
        "isa": "dma_compute.oob_mode dma_copy.priority dma_transpose.priority tensor_scalar_reduce.reduce_cmd "
        "tensor_scalar_reduce.reduce_init",
    },
    "0.5": {
        "collectives": "all_gather.name all_reduce.name all_to_all.name all_to_all_v.name collective_permute.name "
        "collective_permute_implicit.name collective_permute_implicit_current_processing_rank_id.name "
        "collective_permute_implicit_reduce.name rank_id.name reduce_scatter.name",
    },
    "0.6": {"isa": "tensor_scalar_reduce.reduce_res_negate"},
})  # fmt: skip
"""Parameters by full name of function and parameter; the others came with their function."""

OPERATORS_BEFORE: Final = frozenset({"nki.language.copy"})
"""Functions that were operators, for ``op=`` arguments, in all releases before (public library of 0.2)."""

INSTEAD: Final[dict[str, str]] = {
    "nki.isa.scalar_load": "load a register with nisa.register_alloc or nisa.register_load",
    "nki.isa.scalar_store": "write nisa.register_store",
    "nki.isa.topk": "write nisa.max8 and nisa.nc_match_replace8",
    "nki.language.NkiTensor.data": "leave it out: a tensor is its own data",
    "nki.language.copy": "write nisa.tensor_copy",
    "nki.language.fori_loop": "write `for i in nl.dynamic_range(…)`",
    "nki.language.load": "write nisa.dma_copy into a tile of nl.ndarray",
    "nki.language.matmul": "write nisa.nc_matmul",
    "nki.language.store": "write nisa.dma_copy",
    "nki.language.tiles": "cut the tensor with slices",
    "nki.language.transpose": "write nisa.nc_transpose",
    "nki.language.while_loop": "write `while register:`",
}
"""Names that older releases have instead, as the beginning of a sentence."""

LAST_RELEASE: Final[dict[str, str]] = {
    "nki.language.dynamic_range": "0.6",
    "nki.tensor.arange": "0.2",
    "nki.tensor.identity": "0.2",
    "nki.tensor.zeros": "0.2",
}
"""Names that a later release has dropped, and the last one that has them."""


def has(full: str, release: str) -> bool:
    """True if ``release`` has the name or parameter ``full``."""
    first = FIRST_RELEASE.get(full) or FIRST_RELEASE_OF_PARAMETERS.get(full) or RELEASES[0]
    return RELEASES.index(first) <= RELEASES.index(release) <= RELEASES.index(LAST_RELEASE.get(full, RELEASES[-1]))


def later_than(release: str) -> dict[str, str]:
    """The names and parameters that ``release`` does not have yet, each with the first release that has it."""
    every = {**FIRST_RELEASE, **FIRST_RELEASE_OF_PARAMETERS}
    return {name: first for name, first in every.items() if RELEASES.index(first) > RELEASES.index(release)}


__all__ = [
    "FIRST_RELEASE",
    "FIRST_RELEASE_OF_PARAMETERS",
    "INSTEAD",
    "LAST_RELEASE",
    "OPERATORS_BEFORE",
    "RELEASES",
    "has",
    "later_than",
]
