"""The entries of harnesses inside of ``with nki.ranks(n):`` launch on all ranks, with an item of a list for each."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import nki.simulator
from nki.collectives import ReplicaGroup

A = [np.full((8, 16), 1 + rank, np.float32) for rank in range(2)]
BOTH = ReplicaGroup([[0, 1]])


def total(a, group):
    source, target = (nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm, name=name) for name in ("source", "target"))
    nisa.dma_copy(source, a)
    ncc.all_reduce([source], [target], group, nl.add)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, target)
    return out


@pytest.mark.parametrize(
    "launch",
    [
        lambda: nki.cpu_simulate(total)[2](a=A, group=BOTH),
        lambda: nki.simulator.simulate_kernel(total, (A,), {"group": BOTH}, 2),
        lambda: nki.baremetal()(total)(A, BOTH),
    ],
    ids=["cpu_simulate", "simulate_kernel", "baremetal"],
)
def test_harnesses_launch_on_all_ranks(launch) -> None:
    with nki.ranks(2):
        np.testing.assert_array_equal(launch(), [A[0] + A[1]] * 2)
