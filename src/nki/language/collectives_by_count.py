"""Collectives of pieces with sizes known at run time, at once or in two steps: prepare and trigger.

Source of the limits: NKI reference, nki.collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from nki.base.element_types import uint32
from nki.base.errors import ArgumentError, CollectiveOrderError, ShapeError
from nki.base.source import here
from nki.frontend.builder import current
from nki.ir.instruction import Inst
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.types import Access, Buffer, access_of
from nki.isa.collectives import ExchangeByCount, PrepareExchange
from nki.isa.rules.collectives import Groups
from nki.language.collective_arguments import ReplicaGroup, accesses_of, groups_of, record
from nki.language.nki_tensor import NkiTensor


def all_to_all_v(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Like :func:`all_to_all` of pieces with sizes known at run time: a piece of ``srcs[0]`` goes to each rank.

    ``metadata_tensor``: uint32 of shape (rows, ranks) in HBM or (1, rows, ranks) in SBUF, a column for each rank of the
    group, all in elements: counts and displacements of what is sent; counts of what is received, which are written
    unless ``recv_counts_known``; with ``has_rdispls`` the displacements in ``dsts[0]`` of what is received. Without,
    the piece of each rank begins a slot of its own, of equal ones. What no piece covers stays as it is. One tensor
    each, in HBM.
    """
    exchange = _exchange(
        "nki.collectives.all_to_all_v", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls
    )
    return record(exchange.what, exchange.instruction(True, priority, name))


def all_gather_v(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Like :func:`all_gather` of pieces with sizes known at run time: a rank sends one piece of ``srcs[0]`` to all.

    ``metadata_tensor`` is as in :func:`all_to_all_v`; of what is sent, the first column counts.
    """
    exchange = _exchange(
        "nki.collectives.all_gather_v", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls
    )
    return record(exchange.what, exchange.instruction(False, priority, name))


def all_to_all_v_prepare(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Prepare an :func:`all_to_all_v`: its table is read now, its tensors by :func:`all_to_all_v_trigger`.

    One exchange can be prepared at a time, of any kind: its trigger comes before the next prepare.
    """
    exchange = _exchange(
        "nki.collectives.all_to_all_v_prepare",
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls,
    )  # fmt: skip
    return _prepare(exchange, True, priority, name)


def all_gather_v_prepare(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Prepare an :func:`all_gather_v`: its table is read now, its tensors by :func:`all_gather_v_trigger`."""
    exchange = _exchange(
        "nki.collectives.all_gather_v_prepare",
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls,
    )  # fmt: skip
    return _prepare(exchange, False, priority, name)


def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Carry out the exchange that ``prepare_instr``, what :func:`all_to_all_v_prepare` returned, has prepared."""
    return _trigger("nki.collectives.all_to_all_v_trigger", prepare_instr, True, name)


def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Carry out the exchange that ``prepare_instr``, what :func:`all_gather_v_prepare` returned, has prepared."""
    return _trigger("nki.collectives.all_gather_v_trigger", prepare_instr, False, name)


class _Exchange(NamedTuple):
    """The checked arguments of an exchange of pieces; ``rows``: counts, displacements, both of what is received."""

    what: str
    src: Access
    dst: Access
    groups: Groups
    rows: tuple[Access, Access, Access | None, Access | None]

    def instruction(self, by_rank: bool, priority: int | None, name: str | None) -> Inst:
        """The exchange."""
        counts, starts, received, places = self.rows
        return ExchangeByCount(
            self.dst, received, self.src, counts, starts, places, self.groups, by_rank, priority, name
        )


def _exchange(
    what: str, srcs: Any, dsts: Any, group: Any, metadata: Any, recv_counts_known: Any, has_rdispls: Any
) -> _Exchange:
    groups = groups_of(group, what)
    sources, targets = accesses_of(srcs, "srcs", what), accesses_of(dsts, "dsts", what)
    for side, tensors in (("srcs", sources), ("dsts", targets)):
        if len(tensors) != 1:
            raise ArgumentError(f"{what}: {side} has {len(tensors)} tensors; it takes one", fix="call it for each")
    if type(recv_counts_known) is not bool or type(has_rdispls) is not bool:
        raise ArgumentError(
            f"{what}: recv_counts_known={recv_counts_known!r} and has_rdispls={has_rdispls!r} are True or False",
            fix="leave them out",
        )
    ranks, least = max(map(len, groups)), 4 if has_rdispls else 3
    table = access_of(metadata)
    leading = () if not isinstance(table, Access) or table.buffer.is_hbm else (1,)
    if (
        not isinstance(table, Access)
        or table.dtype is not uint32
        or table.shape not in [(*leading, rows, ranks) for rows in range(least, 5)]
    ):
        raise ShapeError(
            f"{what}: metadata_tensor {getattr(table, 'shape', table)!r} is not uint32 (n, {ranks}) in HBM or (1, n, "
            f"{ranks}) in SBUF, with n from {least} to 4",
            fix="a column for each rank; rows for what is sent, counts and displacements, and for what is received",
        )
    rows = [_row(table, number) for number in range(table.shape[-2])]
    received, places = None if recv_counts_known else rows[2], rows[3] if has_rdispls else None
    return _Exchange(what, sources[0], targets[0], groups, (rows[0], rows[1], received, places))


def _row(table: Access, number: int) -> Access:
    """One row of a table, as one row of elements."""
    offset, strides = table.offset + number * table.strides[-2], (table.strides[0], table.strides[-1])
    return Access(table.tensor, offset, (1, table.shape[-1]), strides, table.dtype)


def _prepare(exchange: _Exchange, by_rank: bool, priority: int | None, name: str | None) -> NkiInstruction:
    recorder = current(exchange.what)
    if recorder.prepared is not None:
        span = recorder.prepared[0].where.span
        raise CollectiveOrderError(
            f"{exchange.what}: the exchange prepared"
            + (f" in line {span.line}" if span else " before")
            + " was not triggered; one is prepared at a time",
            fix="trigger each prepared exchange before you prepare the next",
        )
    counts, starts, received, places = exchange.rows
    read = [row for row in (counts, starts, places) if row is not None]
    ranks = len(exchange.groups[0])
    whole = Access.whole(recorder.tensor("prepared", (len(read), ranks), uint32, Buffer.hbm, where=here()))
    kept = [_row(whole, number) for number in range(len(read))]
    places = kept[2] if places is not None else None
    prepared = exchange._replace(rows=(kept[0], kept[1], received, places))
    inst = PrepareExchange(whole, counts, starts, exchange.rows[3], exchange.groups, priority, name)
    record(exchange.what, inst)
    recorder.prepared = inst, prepared.instruction(by_rank, priority, None), recorder.open_loop
    return inst


def _trigger(what: str, prepared: Any, by_rank: bool, name: str | None) -> NkiInstruction:
    recorder = current(what)
    if recorder.prepared is None or recorder.prepared[0] is not prepared:
        raise CollectiveOrderError(
            f"{what}: prepare_instr={prepared!r:.60} is no prepared exchange that waits for its trigger",
            fix="pass what the prepare function returned, once",
        )
    _, exchange, loop = recorder.prepared
    if loop is not recorder.open_loop:
        raise CollectiveOrderError(
            f"{what}: the exchange is prepared and triggered in different loops, so not once each",
            fix="prepare and trigger it in one body",
        )
    if cast("ExchangeByCount", exchange).by_rank is not by_rank:
        raise CollectiveOrderError(f"{what}: the prepared exchange is of the other kind", fix="use its own trigger")
    recorder.prepared = None
    return record(what, exchange.replace(name=name))


__all__ = [
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
]
