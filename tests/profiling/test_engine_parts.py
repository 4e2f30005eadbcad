"""The parts of each engine's time, busy, stalled and idle, are the time of the kernel, whatever its loops do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.profile_invariants import violations

TARGETS = ("trn1", "trn2", "trn3")
V, G = nisa.engine.vector, nisa.engine.gpsimd
TILES = 4
Plan = tuple[Any, ...]


def worked(plan, x, out, tiles):
    """Run the steps of ``plan``: a loop (count, steps), or a kind of instruction with the tiles that it takes."""
    for step in plan:
        if isinstance(step[1], tuple):
            count, inner = step

            def body(_, inner=inner):
                worked(inner, x, out, tiles)

            nl.fori_loop(0, count, body)
            continue
        kind, first, second = step
        one, two = tiles[first], tiles[second]
        if kind == 0:
            nisa.dma_copy(dst=one, src=x)
        elif kind == 1:
            nisa.dma_copy(dst=out, src=one)
        elif kind == 2:
            nisa.activation(dst=one, op=nl.exp, data=two)
        elif kind == 3:
            nisa.tensor_tensor(dst=one, data1=one, data2=two, op=nl.add, engine=G)
        elif kind == 4:
            total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=total, stationary=one, moving=two)
            nisa.tensor_copy(dst=one, src=total, engine=V)
        else:
            nisa.tensor_scalar(dst=one, data=two, op0=nl.multiply, operand0=0.5, engine=V)


@nki.jit
def planned(x, plan):
    """The steps of ``plan`` on each core; two cores meet at the end."""
    outs = [
        nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.hbm if rank else nl.shared_hbm, name=f"out{rank}")
        for rank in range(2)
    ]
    tiles = [nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf) for _ in range(TILES)]
    for tile in tiles:
        nisa.dma_copy(dst=tile, src=x)
    rank = nl.program_id(0)
    worked(plan[rank:], x, outs[rank], tiles)
    if nl.num_programs() > 1:
        nisa.sendrecv(src=tiles[0], dst=tiles[1], send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=0)
    if not rank:
        nisa.dma_copy(dst=outs[0], src=tiles[1])
    return outs[0]


def drawn(random: Random, depth: int = 0) -> Plan:
    """Steps with loops up to three deep, of few iterations or of many."""
    steps: list[Any] = []
    for _ in range(random.randint(1, 5)):
        if depth < 3 and random.random() < 0.35:
            steps.append((random.choice((1, 2, 3, 7, 70, 1000)), drawn(random, depth + 1)))
        else:
            steps.append((random.randrange(6), random.randrange(TILES), random.randrange(TILES)))
    return tuple(steps)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_the_parts_of_random_kernels_are_the_whole(target: str, seed: int) -> None:
    plan = drawn(Random(seed))
    assert (
        violations(nki.profile(planned, target=target)(nki.ShapeDtype((128, 128), "bfloat16"), plan), deep=False) == []
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_parts_of_random_kernels_on_two_cores_are_the_whole(seed: int) -> None:
    plan = ((3, 0, 1), *drawn(Random(100 + seed)))
    assert (
        violations(nki.profile(planned[2], target="trn2")(nki.ShapeDtype((128, 128), "bfloat16"), plan), deep=False)
        == []
    )


@nki.jit
def halved(x, rounds, inner):
    """A loop of Vector inside another one, beside which Scalar does nothing until both are over."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, other = (nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=other, op=nl.exp, data=tile)

    def body(_):
        def within(_):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5, engine=V)

        nl.fori_loop(0, inner, within)

    nl.fori_loop(0, rounds, body)
    nisa.activation(dst=other, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=other)
    return out


@pytest.mark.parametrize(("rounds", "inner"), [(1, 1000), (1000, 1), (30, 200), (200, 30)])
def test_what_a_loop_leaves_out_is_busy_and_stalled_as_what_it_replays(rounds: int, inner: int) -> None:
    """Six thousand iterations, or a thousand: Vector works most of the time, and Scalar waits for the loop."""
    profile = nki.profile(halved, target="trn2")(nki.ShapeDtype((128, 512), "float32"), rounds, inner)
    use = {each.engine: each for each in profile.engines}
    step = next(e.occupancy for e in profile.cores[0].estimates if e.resource == "vector")
    assert use["vector"].busy == pytest.approx(step * rounds * inner, rel=1e-3)
    assert violations(profile, deep=False) == []
    assert use["scalar"].stalls["barrier"] > 0.9 * profile.timeline.ns
