"""The declarations of collectives, for ``nki.collectives``, which has a function for each form of a call."""

from __future__ import annotations

from nki.isa.instructions.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    CollectivePermuteReduce,
    ProcessingRankId,
    RankId,
    ReduceScatter,
)
from nki.isa.instructions.collectives_by_count import ExchangeByCount, PrepareExchange

__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAll",
    "CollectivePermute",
    "CollectivePermuteReduce",
    "ExchangeByCount",
    "PrepareExchange",
    "ProcessingRankId",
    "RankId",
    "ReduceScatter",
]
