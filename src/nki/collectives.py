"""``nki.collectives``: what the ranks of a program exchange; see :mod:`nki.language.collective_functions`."""

from __future__ import annotations

from nki.language.collective_functions import (
    ReplicaGroup,
    all_gather,
    all_reduce,
    all_to_all,
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
    reduce_scatter,
    rg_partition_op,
)

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "rg_partition_op",
]
