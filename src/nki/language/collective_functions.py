"""Collectives: what the ranks of a program exchange. This version runs one rank, which exchanges with itself.

So gathering, scattering and permuting copy, and reducing changes nothing: each function checks what it is given, and
emits ``nisa.dma_copy``. Groups in which a rank has partners raise :class:`SeveralRanksError`. Source of the limits: NKI
reference, nki.collectives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, cast

from nki import isa
from nki.base.assigned_name import assigned_name
from nki.base.element_types import uint32
from nki.base.errors import (
    ArgumentError,
    DTypeError,
    GenerationError,
    MemoryRegionError,
    OperatorError,
    SeveralRanksError,
    ShapeError,
)
from nki.base.source import here
from nki.frontend.builder import current
from nki.frontend.objects import NKIObject
from nki.ir.loop import VirtualRegister
from nki.ir.types import Buffer
from nki.isa.deprecated import accepting, dropped
from nki.isa.tables.operators import Op
from nki.language.nki_tensor import NkiTensor

_REDUCTIONS = ("add", "minimum", "maximum")
_PRIORITIES = 4
"""The first generation with DMA that tells transfers apart by urgency."""
_CHANNELS = 4
"""The most channels that a group can have: one of all devices of a node."""


class ReplicaGroup(NKIObject):
    """Groups of ranks that exchange with each other, disjoint lists: ``ReplicaGroup([[0, 1], [2, 3]])``.

    Raises :class:`ArgumentError` for anything else.
    """

    replica_groups: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        groups = _listed(self.replica_groups, "replica_groups", "ReplicaGroup")
        ranks = [rank for group in groups for rank in _listed(group, "a group", "ReplicaGroup")]
        whole = all(type(rank) is int and rank >= 0 for rank in ranks)
        if not whole or len(set(ranks)) < len(ranks) or not all(map(len, groups)) or not groups:
            raise ArgumentError(
                f"ReplicaGroup: {self.replica_groups!r} is not lists of ranks (0, 1, …), each rank in one of them",
                fix="write `ReplicaGroup([[0, 1], [2, 3]])`",
            )
        self.replica_groups = tuple(tuple(group) for group in groups)


def all_reduce(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each of ``dsts`` becomes the sum (``nl.add``), minimum or maximum over the ranks of its source.

    All tensors are in HBM, or all in SBUF (then one of each); a destination has the shape and dtype of its source.
    ``priority``: of the DMA, 0 (most urgent) to 3, on trn3.
    """
    what = "nki.collectives.all_reduce"
    _alone(replica_group, what)
    _reduces(op, what)
    _copy(_pairs(srcs, dsts, what), priority, name)


def all_gather(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each of ``dsts`` becomes the sources of all ranks, one behind the other along ``collective_dim``.

    All tensors are in HBM (``collective_dim`` 0), or all in SBUF (one of each, of 2 dimensions; 0 or 1).
    """
    what = "nki.collectives.all_gather"
    _alone(replica_group, what)
    pairs = _pairs(srcs, dsts, what)
    on_chip = pairs[0][0].buffer.on_chip
    if on_chip and any(t.ndim != 2 for t in pairs[0]):
        raise ShapeError(
            f"{what}: '{pairs[0][0].name}' {pairs[0][0].shape} is in sbuf, where tensors have 2 dimensions",
            fix="flatten the free dimensions with reshape",
        )
    _along(collective_dim, (0, 1) if on_chip else (0,), what)
    _copy(pairs, priority, name)


def all_gather_v(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,  # noqa: ARG001  # nothing is emitted that could be called so
) -> None:
    """Like :func:`all_gather` of pieces with sizes known at run time: documented for groups of four ranks only, so
    it always raises :class:`SeveralRanksError`.
    """
    what = "nki.collectives.all_gather_v"
    _variable(what, srcs, dsts, replica_group, metadata_tensor, (recv_counts_known, has_rdispls), priority)
    _refuse_sizes(what, "it is for groups of 4 ranks", srcs[0], dsts[0])


def reduce_scatter(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each of ``dsts`` becomes this rank's part, along ``collective_dim`` (0), of its source reduced over the ranks.

    Operators and memories are as in :func:`all_reduce`.
    """
    what = "nki.collectives.reduce_scatter"
    _alone(replica_group, what)
    _reduces(op, what)
    _along(collective_dim, (0,), what)
    _copy(_pairs(srcs, dsts, what), priority, name)


def all_to_all(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Part r of each source, along ``collective_dim`` (0), goes to rank r; parts come in the order of their ranks.

    All tensors are in HBM.
    """
    what = "nki.collectives.all_to_all"
    _alone(replica_group, what)
    _along(collective_dim, (0,), what)
    _copy(_pairs(srcs, dsts, what, sbuf=False), priority, name)


def all_to_all_v(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,  # noqa: ARG001  # nothing is emitted that could be called so
) -> None:
    """Like :func:`all_to_all` of parts with sizes known at run time: documented between devices or nodes only, so
    it always raises :class:`SeveralRanksError`.
    """
    what = "nki.collectives.all_to_all_v"
    _variable(what, srcs, dsts, replica_group, metadata_tensor, (recv_counts_known, has_rdispls), priority)
    _refuse_sizes(what, "it is for ranks of several devices", srcs[0], dsts[0])


def collective_permute(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The source of rank ``a`` goes to the destination of rank ``b`` for each pair ``(a, b)``: one tensor, in HBM."""
    what = "nki.collectives.collective_permute"
    pairs = [_listed(pair, "a pair", what) for pair in _listed(source_target_pairs, "source_target_pairs", what)]
    if not pairs or any(len(p) != 2 or any(type(r) is not int or r < 0 for r in p) for p in pairs):
        raise ArgumentError(f"{what}: source_target_pairs={pairs!r} are not pairs of ranks", fix="pass [(0, 0)]")
    if any(rank != 0 for pair in pairs for rank in pair):
        _refuse(what, f"source_target_pairs={pairs!r}")
    _copy(_pairs(srcs, dsts, what, several=False, sbuf=False), priority, name)


def collective_permute_implicit(
    srcs_by_channel: Sequence[Sequence[NkiTensor]],
    dsts_by_channel: Sequence[Sequence[NkiTensor]],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each rank's source goes to the destination of the next rank in the ring, channel by channel.

    The outer lists are the channels, the inner ones hold one tensor; ``channel_ids`` counts from 0.
    """
    what = "nki.collectives.collective_permute_implicit"
    _alone(replica_group, what)
    sources = _channels(srcs_by_channel, "srcs_by_channel", channel_ids, what)
    targets = _channels(dsts_by_channel, "dsts_by_channel", channel_ids, what)
    for source, target in zip(sources, targets, strict=True):
        _copy(_pairs(source, target, what, several=False), priority, name)


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Sequence[NkiTensor]],
    srcs1_by_channel: Sequence[Sequence[NkiTensor]],
    dsts_by_channel: Sequence[Sequence[NkiTensor]],
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Like :func:`collective_permute_implicit`, of ``op(src0, src1)`` (``nl.add``, ``nl.minimum`` or ``nl.maximum``).

    Emits ``nisa.tensor_tensor`` for tiles; in HBM only ``nl.add`` runs, as ``nisa.dma_compute``.
    """
    what = "nki.collectives.collective_permute_implicit_reduce"
    _alone(replica_group, what)
    operator = _reduces(op, what)
    _urgent(priority, what)
    lefts = _channels(srcs0_by_channel, "srcs0_by_channel", channel_ids, what)
    rights = _channels(srcs1_by_channel, "srcs1_by_channel", channel_ids, what)
    targets = _channels(dsts_by_channel, "dsts_by_channel", channel_ids, what)
    for left, right, target in zip(lefts, rights, targets, strict=True):
        (a, dst), (b, _) = (_pairs(side, target, what, several=False)[0] for side in (left, right))
        if dst.buffer.on_chip:
            isa.tensor_tensor(dst, a, b, operator, name=name)
        elif operator.name == "add":
            isa.dma_compute(dst, [a, b], operator, name=name)
        else:
            raise OperatorError(
                f"{what}: op={op} of tensors in HBM, where a DMA only adds", fix="copy them to SBUF tiles first"
            )


@accepting(
    dropped("num_channels", "0.3", "leave it out: `collective_permute_implicit` takes the channels as `channel_ids`"),
    "ncc.collective_permute_implicit_current_processing_rank_id",
)
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: Any, replica_group: ReplicaGroup, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """A register with the rank that owns the data of step ``iteration_id`` of the ring: 0, the one rank of its ring."""
    what = "nki.collectives.collective_permute_implicit_current_processing_rank_id"
    _alone(replica_group, what)
    if type(channel_id) is not int or not 0 <= channel_id < _CHANNELS:
        raise ArgumentError(f"{what}: channel_id={channel_id!r}; channels are 0 to {_CHANNELS - 1}", fix="pass 0")
    if not isinstance(iteration_id, int | VirtualRegister):
        raise ArgumentError(
            f"{what}: iteration_id={iteration_id!r} is no step of a ring", fix="pass the loop's counter"
        )
    return _register(name)


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank among all: 0."""
    return _register(name)


def _register(name: str | None) -> VirtualRegister:
    """A new register that holds 0, the one rank."""
    where = here()
    register = current("nki.collectives").register(name or assigned_name(where, "rank"), where)
    isa.register_move(register, 0)
    return register


def _alone(group: Any, what: str) -> None:
    """Raise unless this rank, which is 0, is alone in its group."""
    current(what)
    if not isinstance(group, ReplicaGroup):
        raise ArgumentError(f"{what}: replica_group={group!r} is no ReplicaGroup", fix="pass `ReplicaGroup([[0]])`")
    if any(len(ranks) > 1 for ranks in group.replica_groups):
        _refuse(what, f"{group!r} has groups of several")
    if not any(0 in ranks for ranks in group.replica_groups):
        raise ArgumentError(
            f"{what}: rank 0, which runs, is in no group of {group!r}", fix="pass `ReplicaGroup([[0]])`"
        )


def _refuse(what: str, why: str) -> NoReturn:
    raise SeveralRanksError(
        f"{what}: {why}; this version runs one rank",
        fix="pass `ReplicaGroup([[0]])`, or run what one rank computes alone",
    )


def _refuse_sizes(what: str, why: str, source: NkiTensor, target: NkiTensor) -> NoReturn:
    copied = f"nisa.dma_copy(dst={target.name}, src={source.name})"
    raise SeveralRanksError(
        f"{what}: {why}, and reads sizes that one rank does not need",
        fix=f"in one rank copy what the rank would send to itself, such as all of it: `{copied}`",
    )


def _variable(
    what: str, srcs: Any, dsts: Any, group: Any, metadata: Any, flags: tuple[Any, Any], priority: Any
) -> None:
    """Check the arguments of a collective of pieces with their sizes in ``metadata``."""
    current(what)
    if not isinstance(group, ReplicaGroup):
        raise ArgumentError(f"{what}: replica_group={group!r} is no ReplicaGroup", fix="pass `ReplicaGroup([[0]])`")
    for name, side in (("srcs", _listed(srcs, "srcs", what)), ("dsts", _listed(dsts, "dsts", what))):
        if len(side) != 1 or not isinstance(side[0], NkiTensor) or not side[0].buffer.is_hbm:
            raise ArgumentError(f"{what}: {name} is not one tensor in HBM", fix="pass a list of one tensor in HBM")
    ranks, least = max(map(len, group.replica_groups)), 4 if flags[1] else 3 if flags[0] else 2
    rows = next((n for n in range(least, 5) if _is_table(metadata, n, ranks)), None)
    if rows is None:
        raise ShapeError(
            f"{what}: metadata_tensor is not uint32 (n, {ranks}) with n from {least} to 4",
            fix="a column for each rank; rows for what is sent, counts and displacements, and for what is received",
        )
    if not all(isinstance(flag, bool) for flag in flags) or priority not in (None, 0, 1, 2, 3):
        raise ArgumentError(
            f"{what}: flags {flags!r} or priority {priority!r} are of the wrong kind", fix="leave them out"
        )


def _is_table(metadata: Any, rows: int, columns: int) -> bool:
    if not isinstance(metadata, NkiTensor) or metadata.dtype is not uint32:
        return False
    return metadata.shape == ((1, rows, columns) if metadata.buffer.on_chip else (rows, columns))


def _urgent(priority: Any, what: str) -> None:
    """Check what is no argument of the instruction that is emitted."""
    if priority not in (None, 0, 1, 2, 3):
        raise ArgumentError(f"{what}: priority={priority!r} is not one of 0, 1, 2, 3", fix="leave it out")
    target = current(what).target
    if priority is not None and target.generation < _PRIORITIES:
        raise GenerationError(
            f"{what}: priority={priority} needs gen{_PRIORITIES}; {target.name} has no DMA quality of service",
            fix="leave it out, or target trn3",
        )


def _listed(value: Any, name: str, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ArgumentError(f"{what}: {name}={value!r:.60} is no list", fix="pass a list, of one item if there is one")
    return list(cast("Iterable[Any]", value))


def _channels(value: Any, name: str, channel_ids: Any, what: str) -> list[Any]:
    ids, channels = _listed(channel_ids, "channel_ids", what), _listed(value, name, what)
    if ids != list(range(len(ids))) or not 1 <= len(ids) <= _CHANNELS or len(channels) != len(ids):
        raise ArgumentError(
            f"{what}: {name} has {len(channels)} channels, channel_ids={ids!r}",
            fix=f"number up to {_CHANNELS} channels from 0, and pass a list for each",
        )
    return channels


def _pairs(
    srcs: Any, dsts: Any, what: str, *, several: bool = True, sbuf: bool = True
) -> list[tuple[NkiTensor, NkiTensor]]:
    """Sources with their destinations, checked."""
    sources, targets = _listed(srcs, "srcs", what), _listed(dsts, "dsts", what)
    tensors = [*sources, *targets]
    if not sources or len(sources) != len(targets) or not all(isinstance(t, NkiTensor) for t in tensors):
        raise ArgumentError(
            f"{what}: {len(sources)} srcs and {len(targets)} dsts are not as many tensors of each",
            fix="pass a list of tensors, and one of their destinations",
        )
    wrong = next((t for t in tensors if not (t.buffer.is_hbm or (sbuf and t.buffer is Buffer.sbuf))), None)
    if wrong is not None or len({t.buffer.is_hbm for t in tensors}) > 1:
        shown = ", ".join(f"'{t.name}' in {t.buffer.value}" for t in tensors)
        raise MemoryRegionError(
            f"{what}: {shown}: all must be in HBM" + (", or all in SBUF" if sbuf else ""),
            fix="copy what is elsewhere with nisa.dma_copy or nisa.tensor_copy",
        )
    if len(sources) > 1 and not (several and sources[0].buffer.is_hbm):
        raise ArgumentError(
            f"{what}: {len(sources)} tensors at once" + (" in SBUF; several must be in HBM" if several else ""),
            fix="call it for each tensor",
        )
    for source, target in zip(sources, targets, strict=True):
        if source.shape != target.shape:
            raise ShapeError(
                f"{what}: '{source.name}' {source.shape} and '{target.name}' {target.shape} differ; among 1 rank a "
                "destination has the shape of its source",
                fix=f"make '{target.name}' {source.shape}",
            )
        if source.dtype is not target.dtype:
            raise DTypeError(
                f"{what}: '{source.name}' is {source.dtype} and '{target.name}' {target.dtype}",
                fix=f"make '{target.name}' {source.dtype}",
            )
    return list(zip(sources, targets, strict=True))


def _reduces(op: Any, what: str) -> Op:
    if not isinstance(op, Op) or op.name not in _REDUCTIONS:
        raise OperatorError(f"{what}: op={op} reduces nothing over ranks", fix="pass nl.add, nl.minimum or nl.maximum")
    return op


def _along(dim: Any, allowed: tuple[int, ...], what: str) -> None:
    if dim not in allowed:
        raise ArgumentError(
            f"{what}: collective_dim={dim!r}; it is {' or '.join(map(str, allowed))}",
            fix="permute the dimensions first",
        )


def _copy(pairs: list[tuple[NkiTensor, NkiTensor]], priority: int | None, name: str | None) -> None:
    for source, target in pairs:
        isa.dma_copy(target, source, priority=priority, name=name)


__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]
