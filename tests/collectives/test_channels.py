"""The channels of a ring: tensors in HBM and parts of one tile in SBUF, on one core and on two."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ArgumentError
from nki.collectives import ReplicaGroup

RANKS, ROWS, COLUMNS = 4, 8, 6
RING = ReplicaGroup([[0, 1, 2, 3]])
A = [np.random.default_rng(rank).standard_normal((ROWS, 2 * COLUMNS)).astype(np.float32) for rank in range(RANKS)]


def both(kernel, *args):
    """The results of native code, by rank; the simulator's have the same bits."""
    with nki.ranks(RANKS):
        native = kernel(*args)
    for one, other in zip(native, nki.simulate(kernel, ranks=RANKS)(*args), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    return native


def halves(tile):
    """Two channels with a half of the columns each."""
    return [[tile[:, :COLUMNS]], [tile[:, COLUMNS:]]]


@nki.jit
def gather(a):
    """All sources, by rank: each core has its own tiles, and stores what it has if it is the first."""
    out = nl.ndarray((RANKS, *a.shape), a.dtype, buffer=nl.shared_hbm)
    here, arrived = nl.load(a), nl.ndarray(a.shape, a.dtype)
    for step in range(RANKS):
        if nl.num_programs(0) == 1 or nl.program_id(0) == 1:
            owner = ncc.collective_permute_implicit_current_processing_rank_id(step, RING, channel_id=1)
            nisa.dma_copy(out.ap([[a.shape[1], ROWS], [1, a.shape[1]]], 0, scalar_offset=owner, indirect_dim=0), here)
        if step + 1 < RANKS:
            ncc.collective_permute_implicit(halves(here), halves(arrived), RING, channel_ids=[0, 1])
            here, arrived = arrived, here
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_parts_of_one_tile_go_around(cores: int) -> None:
    for result in both(gather[cores], A):
        np.testing.assert_array_equal(result, A)


def test_parts_of_one_tile_are_added_on_the_way() -> None:
    @nki.jit
    def kernel(a):
        tile, arrived = nl.load(a), nl.ndarray(a.shape, a.dtype)
        ncc.collective_permute_implicit_reduce(
            halves(tile), halves(tile)[::-1], halves(arrived), RING, nl.add, channel_ids=[0, 1]
        )
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, arrived)
        return out

    for rank, result in enumerate(both(kernel, A)):
        sent = A[rank - 1]
        np.testing.assert_array_equal(result, sent + np.roll(sent, COLUMNS, axis=1))


def test_tiles_are_not_sent_together_on_one_channel() -> None:
    @nki.jit
    def kernel(a):
        tile, arrived = nl.load(a), nl.ndarray(a.shape, a.dtype)
        sources, targets = halves(tile), halves(arrived)
        ncc.all_reduce([sources[0][0], sources[1][0]], [targets[0][0], targets[1][0]], RING, nl.add)
        return a

    with nki.ranks(RANKS), pytest.raises(ArgumentError, match="several tensors at once must be in HBM"):
        kernel(A)
