"""The second opinion on ``nki.collectives``: each function as plain NumPy on the tensors of all ranks.

Written from the public NKI documentation alone, never from the implementation. A tensor of every rank is a list with
one array a rank (``dsts`` with the contents before); the result is the list of the contents after. ``groups`` are lists
of ranks; a chunk belongs to the rank at its place in the list. Sources: NKI reference, nki.collectives (2.32, 2.33);
"What is Neuron Collective Communication?".

Chosen where they are silent:

- A sum adds in the order of the list, in float32, with one rounding at the end; integers are exact and wrap. On a
  device each hop of an algorithm rounds, in an order of its own.
- A rank in no list, and a rank to which no pair sends, keeps its destination.
- Chunks count elements in row-major order, so a destination may have another shape with as many elements.
- The ring of ``collective_permute_implicit`` has the order of the list; its register holds a rank of the world.
- What a rank sends to itself by ``all_to_all_v`` is moved and counted like any other chunk.
- Split forms take counts and displacements when they are prepared, and write the received counts when triggered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.isa.oracle import alu, numerics

Array = np.ndarray[Any, Any]
Ranks = list[Array]
"""One array for each rank."""
Groups = Sequence[Sequence[int]]

REDUCTIONS = ("add", "minimum", "maximum")
_PARTITIONS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": lambda rank, operand: rank & operand,
    "div": lambda rank, operand: rank // operand,
    "mod": lambda rank, operand: rank % operand,
}


def from_partition_op(world_size: int, op: str, operand: int) -> list[list[int]]:
    """Lists of the ranks with the same ``op(rank, operand)``."""
    lists: dict[int, list[int]] = {}
    for rank in range(world_size):
        lists.setdefault(_PARTITIONS[op](rank, operand), []).append(rank)
    return [lists[key] for key in sorted(lists)]


def reduced(parts: Sequence[Array], op: str) -> Array:
    """``parts`` of one shape and dtype, reduced from the first to the last."""
    dtype = parts[0].dtype
    if dtype.name in numerics.INTEGERS:
        numbers = [part.astype(np.int64) for part in parts]
        combine = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}[op]
        total = numbers[0]
        for number in numbers[1:]:
            total = combine(total, number)
        return total.astype(dtype)  # wraps
    value = numerics.read(parts[0])
    for part in parts[1:]:
        value = alu.arithmetic(op, value, numerics.read(part))
    return numerics.write(value, dtype).reshape(parts[0].shape)


def _kept(dsts: Ranks) -> Ranks:
    return [dst.copy() for dst in dsts]


def _chunks(tensor: Array, count: int) -> list[Array]:
    assert tensor.size % count == 0, f"{tensor.shape} does not divide in {count} chunks"
    return list(tensor.reshape(count, -1))


def all_reduce(srcs: Ranks, dsts: Ranks, groups: Groups, op: str) -> Ranks:
    """Every rank of a list gets its sources reduced. All tensors have one number of elements."""
    results = _kept(dsts)
    for ranks in groups:
        total = reduced([srcs[r].ravel() for r in ranks], op)
        for rank in ranks:
            results[rank] = total.reshape(dsts[rank].shape)
    return results


def all_gather(srcs: Ranks, dsts: Ranks, groups: Groups, collective_dim: int = 0) -> Ranks:
    """Every rank of a list gets its sources, one behind the other along ``collective_dim``: 0, or 1 of tiles."""
    results = _kept(dsts)
    for ranks in groups:
        gathered = np.concatenate([srcs[r] for r in ranks], axis=collective_dim)
        for rank in ranks:
            results[rank] = gathered.reshape(dsts[rank].shape)
    return results


def reduce_scatter(srcs: Ranks, dsts: Ranks, groups: Groups, op: str) -> Ranks:
    """The rank at place i of a list gets chunk i of the sources reduced, along dimension 0."""
    results = _kept(dsts)
    for ranks in groups:
        chunks = _chunks(reduced([srcs[r].ravel() for r in ranks], op), len(ranks))
        for rank, chunk in zip(ranks, chunks, strict=True):
            results[rank] = chunk.reshape(dsts[rank].shape)
    return results


def all_to_all(srcs: Ranks, dsts: Ranks, groups: Groups) -> Ranks:
    """The rank at place i of a list gets chunk i of every source, in the order of the list."""
    results = _kept(dsts)
    for ranks in groups:
        chunks = [_chunks(srcs[r], len(ranks)) for r in ranks]
        for place, rank in enumerate(ranks):
            results[rank] = np.concatenate([parts[place] for parts in chunks]).reshape(dsts[rank].shape)
    return results


def collective_permute(srcs: Ranks, dsts: Ranks, source_target_pairs: Sequence[tuple[int, int]]) -> Ranks:
    """``target`` gets the source of ``source`` for each pair; no rank is source, or target, of two."""
    for side in zip(*source_target_pairs, strict=True):
        assert len(set(side)) == len(side)
    results = _kept(dsts)
    for source, target in source_target_pairs:
        results[target] = srcs[source].reshape(dsts[target].shape).copy()
    return results


def ring(groups: Groups) -> list[tuple[int, int]]:
    """The pairs of each rank and its successor."""
    return [(rank, ranks[(i + 1) % len(ranks)]) for ranks in groups for i, rank in enumerate(ranks)]


def collective_permute_implicit(srcs: Ranks, dsts: Ranks, groups: Groups) -> Ranks:
    """Every rank gets the source of its predecessor: one channel."""
    return collective_permute(srcs, dsts, ring(groups))


def collective_permute_implicit_reduce(srcs0: Ranks, srcs1: Ranks, dsts: Ranks, groups: Groups, op: str) -> Ranks:
    """Every rank gets ``op(src0, src1)`` of its predecessor: one channel."""
    sent = [reduced([a.ravel(), b.ravel()], op).reshape(a.shape) for a, b in zip(srcs0, srcs1, strict=True)]
    return collective_permute(sent, dsts, ring(groups))


def current_processing_rank_id(iteration_id: int, groups: Groups, rank: int) -> int:
    """The owner of what ``rank`` holds after ``iteration_id`` steps of the ring: itself, then its predecessors."""
    ranks = next(ranks for ranks in groups if rank in ranks)
    return ranks[(list(ranks).index(rank) - iteration_id) % len(ranks)]


class OutsideError(Exception):
    """A chunk begins or ends outside of its tensor, or of its slot."""


def all_to_all_v(
    srcs: Ranks,
    dsts: Ranks,
    metadata: Ranks,
    groups: Groups,
    *,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    prepared: Ranks | None = None,
) -> tuple[Ranks, Ranks]:
    """The tensors and the metadata after chunks ``src[displ[i] : displ[i] + count[i]]`` went to the ranks at place i.

    Rows of ``metadata``: counts and displacements of what is sent, counts and displacements of what is received.
    ``prepared``: the metadata when a split form was prepared. Raises :class:`OutsideError`.
    """
    return _variable(srcs, dsts, metadata, groups, prepared, recv_counts_known, has_rdispls, uniform=False)


def all_gather_v(
    srcs: Ranks,
    dsts: Ranks,
    metadata: Ranks,
    groups: Groups,
    *,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    prepared: Ranks | None = None,
) -> tuple[Ranks, Ranks]:
    """:func:`all_to_all_v` with one chunk for all: only column 0 of what is sent is read."""
    return _variable(srcs, dsts, metadata, groups, prepared, recv_counts_known, has_rdispls, uniform=True)


def _variable(
    srcs: Ranks,
    dsts: Ranks,
    metadata: Ranks,
    groups: Groups,
    prepared: Ranks | None,
    known: bool,
    has_rdispls: bool,
    *,
    uniform: bool,
) -> tuple[Ranks, Ranks]:
    results, tables = _kept(dsts), _kept(metadata)
    for ranks in groups:
        count = len(ranks)
        read = [(metadata if prepared is None else prepared)[r].reshape(-1, count).astype(np.int64) for r in ranks]
        for place, rank in enumerate(ranks):
            flat, slot = results[rank].reshape(-1), results[rank].size // count
            written = tables[rank].reshape(-1, count)
            for sender, other in enumerate(ranks):
                column = 0 if uniform else place
                size, begin = read[sender][0, column], read[sender][1, column]
                at = read[place][3, sender] if has_rdispls else slot * sender
                room = flat.size - at if has_rdispls else slot
                if begin + size > srcs[other].size or size > room:
                    raise OutsideError(f"rank {other} sends {size} elements from {begin} to rank {rank} at {at}")
                flat[at : at + size] = srcs[other].reshape(-1)[begin : begin + size]
                if not known:
                    written[2, sender] = size
            results[rank], tables[rank] = flat.reshape(dsts[rank].shape), written.reshape(metadata[rank].shape)
    return results, tables
