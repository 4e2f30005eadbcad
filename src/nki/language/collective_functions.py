"""Collectives: what the ranks of a program exchange. Source of the limits: NKI reference, nki.collectives.

The functions take lists of tensors and record the instructions of :mod:`nki.isa.instructions.collectives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nki.base.assigned_name import assigned_name
from nki.base.errors import ArgumentError
from nki.base.source import here
from nki.frontend.builder import current
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.loop import VirtualRegister
from nki.ir.types import Access
from nki.isa.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    CollectivePermuteReduce,
    ProcessingRankId,
    RankId,
    ReduceScatter,
)
from nki.isa.deprecated import accepting, dropped
from nki.isa.rules.collectives import Groups
from nki.language.collective_arguments import ReplicaGroup, accesses_of, groups_of, listed, record
from nki.language.nki_tensor import NkiTensor

_CHANNELS = 4
"""The most channels that a group can have: one of all devices of a node."""


def all_reduce(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each of ``dsts`` becomes the sum (``nl.add``), minimum or maximum over the ranks of its source.

    All tensors are in HBM, or all in SBUF (then one of each); a destination has the shape and dtype of its source.
    Floats are combined in float32 in the order of the ranks and converted once.
    ``priority``: of the DMA, 0 (most urgent) to 3, on trn3.
    """
    what = "nki.collectives.all_reduce"
    sources, targets = accesses_of(srcs, "srcs", what), accesses_of(dsts, "dsts", what)
    return record(what, AllReduce(targets, sources, groups_of(replica_group, what), op, priority, name))


def all_gather(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each of ``dsts`` becomes the sources of all ranks, one behind the other along ``collective_dim``.

    All tensors are in HBM (``collective_dim`` 0), or all in SBUF (one of each, of 2 dimensions; 0 or 1).
    """
    what = "nki.collectives.all_gather"
    sources, targets = accesses_of(srcs, "srcs", what), accesses_of(dsts, "dsts", what)
    return record(what, AllGather(targets, sources, groups_of(replica_group, what), collective_dim, priority, name))


def reduce_scatter(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each of ``dsts`` becomes this rank's part, along ``collective_dim`` (0), of its source reduced over the ranks.

    Operators and memories are as in :func:`all_reduce`.
    """
    what = "nki.collectives.reduce_scatter"
    sources, targets = accesses_of(srcs, "srcs", what), accesses_of(dsts, "dsts", what)
    group = groups_of(replica_group, what)
    return record(what, ReduceScatter(targets, sources, group, collective_dim, op, priority, name))


def all_to_all(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Part r of each source, along ``collective_dim`` (0), goes to rank r; parts come in the order of their ranks.

    All tensors are in HBM.
    """
    what = "nki.collectives.all_to_all"
    sources, targets = accesses_of(srcs, "srcs", what), accesses_of(dsts, "dsts", what)
    return record(what, AllToAll(targets, sources, groups_of(replica_group, what), collective_dim, priority, name))


def collective_permute(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """The source of rank ``a`` goes to the destination of rank ``b`` for each pair ``(a, b)``: one tensor, in HBM.

    A rank sends to one and receives from one. The destination of a rank that is no target stays as it is. Neighbours in
    a ring are what the device connects.
    """
    what = "nki.collectives.collective_permute"
    pairs = [listed(pair, "a pair", what) for pair in listed(source_target_pairs, "source_target_pairs", what)]
    if not pairs or any(len(p) != 2 or any(type(r) is not int or r < 0 for r in p) for p in pairs):
        raise ArgumentError(
            f"{what}: source_target_pairs={pairs!r} are not pairs of ranks", fix="pass [(0, 1), (1, 0)]"
        )
    sources, targets = accesses_of(srcs, "srcs", what), accesses_of(dsts, "dsts", what)
    if len(sources) != 1 or not all(access.buffer.is_hbm for access in (*sources, *targets)):
        raise ArgumentError(f"{what}: it takes one tensor, in HBM", fix="call it for each tensor; copy tiles to HBM")
    group = (tuple(sorted({rank for pair in pairs for rank in pair})),)
    together = tuple((first, second) for first, second in pairs)
    return record(what, CollectivePermute(targets, sources, group, together, True, priority, name))


def collective_permute_implicit(
    srcs_by_channel: Sequence[Sequence[NkiTensor]],
    dsts_by_channel: Sequence[Sequence[NkiTensor]],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each rank's source goes to the destination of the next rank in the ring, channel by channel.

    The outer lists are the channels, the inner ones hold one tensor; ``channel_ids`` counts from 0. On the device the
    runtime chooses the ring; here it is each group in its order.
    """
    what = "nki.collectives.collective_permute_implicit"
    group = groups_of(replica_group, what)
    sources = _channels(srcs_by_channel, "srcs_by_channel", channel_ids, what)
    targets = _channels(dsts_by_channel, "dsts_by_channel", channel_ids, what)
    return record(what, CollectivePermute(targets, sources, group, _ring(group), False, priority, name))


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Sequence[NkiTensor]],
    srcs1_by_channel: Sequence[Sequence[NkiTensor]],
    dsts_by_channel: Sequence[Sequence[NkiTensor]],
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Like :func:`collective_permute_implicit`, of ``op(src0, src1)``: ``nl.add``, ``nl.minimum`` or ``nl.maximum``."""
    what = "nki.collectives.collective_permute_implicit_reduce"
    group = groups_of(replica_group, what)
    lefts = _channels(srcs0_by_channel, "srcs0_by_channel", channel_ids, what)
    rights = _channels(srcs1_by_channel, "srcs1_by_channel", channel_ids, what)
    targets = _channels(dsts_by_channel, "dsts_by_channel", channel_ids, what)
    return record(what, CollectivePermuteReduce(targets, lefts, rights, group, _ring(group), op, priority, name))


@accepting(
    dropped("num_channels", "0.3", "leave it out: `collective_permute_implicit` takes the channels as `channel_ids`"),
    "ncc.collective_permute_implicit_current_processing_rank_id",
)
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: Any, replica_group: ReplicaGroup, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """A register with the rank that owns the data of step ``iteration_id`` of the ring: at step 0 this rank, then its
    predecessors.
    """
    what = "nki.collectives.collective_permute_implicit_current_processing_rank_id"
    group = groups_of(replica_group, what)
    if type(channel_id) is not int or not 0 <= channel_id < _CHANNELS:
        raise ArgumentError(f"{what}: channel_id={channel_id!r}; channels are 0 to {_CHANNELS - 1}", fix="pass 0")
    if not isinstance(iteration_id, int | VirtualRegister):
        raise ArgumentError(
            f"{what}: iteration_id={iteration_id!r} is no step of a ring", fix="pass the loop's counter"
        )
    register = _register(what, name)
    record(what, ProcessingRankId(register, iteration_id, group, name))
    return register


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank among all of the launch."""
    what = "nki.collectives.rank_id"
    register = _register(what, name)
    record(what, RankId(register, name))
    return register


def _register(what: str, name: str | None) -> VirtualRegister:
    where = here()
    return current(what).register(name or assigned_name(where, "rank"), where)


def _ring(groups: Groups) -> tuple[tuple[int, int], ...]:
    """The steps from each rank to its successor."""
    return tuple([(group[n - 1], group[n]) for group in groups for n in range(len(group))])


def _channels(value: Any, name: str, channel_ids: Any, what: str) -> tuple[Access, ...]:
    """The tensor of each channel."""
    ids, channels = listed(channel_ids, "channel_ids", what), listed(value, name, what)
    if ids != list(range(len(ids))) or not 1 <= len(ids) <= _CHANNELS or len(channels) != len(ids):
        raise ArgumentError(
            f"{what}: {name} has {len(channels)} channels, channel_ids={ids!r}",
            fix=f"number up to {_CHANNELS} channels from 0, and pass a list for each",
        )
    tensors = [accesses_of(channel, f"a channel of {name}", what) for channel in channels]
    if any(len(each) != 1 for each in tensors):
        raise ArgumentError(f"{what}: a channel of {name} has several tensors", fix="pass one tensor for each channel")
    return tuple([each[0] for each in tensors])


__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]
