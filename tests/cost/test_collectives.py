"""Prices of collectives: textbook formulas, monotony, facts, and their place beside other transfers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, get_args

import pytest

from nki.cost import collectives
from nki.cost.collectives import Kind, Level, Stage, levels_of, of_groups, permuted, price
from nki.cost.dma_costs import bandwidth
from nki.cost.queue_replay import in_order_ns
from nki.ir.estimate import Collective, Compute, Dma
from nki.target import GEN2, GEN3, GEN4, GENERATIONS
from nki.target.fact_rows import rows
from nki.target.interconnect import Interconnect
from nki.target.model import Target

ALL = pytest.mark.parametrize("target", GENERATIONS, ids=str)
KINDS: tuple[Kind, ...] = get_args(Kind)
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
MIB = 1 << 20
SIZES = [0, 256, 4096, 65536, MIB, 16 * MIB, 256 * MIB]
COUNTS = [1 << power for power in range(11)]
ALGORITHMS = [collectives.ring, collectives.paired_ring, collectives.mesh, collectives.recursive_doubling]


def level(members: int, per_place: int = 1, **changes: Any) -> Level:
    """A level with DMA engines that are never the limit."""
    one = Level(members, per_place, members // per_place, 100.0, 1e9, 0.5, 1500.0, 2.0)
    return replace(one, **changes)


@ALL
@EACH_KIND
def test_more_bytes_take_longer(kind: Kind, target: Target) -> None:
    for ranks in COUNTS:
        times = [price(kind, size, ranks, target).latency for size in SIZES]
        assert times == sorted(times) and times[-1] > times[0], (ranks, times)


@ALL
@EACH_KIND
def test_more_ranks_take_longer(kind: Kind, target: Target) -> None:
    for size in SIZES:
        times = [price(kind, size, ranks, target).latency for ranks in COUNTS]
        assert all(later >= earlier * (1 - 1e-9) for earlier, later in itertools.pairwise(times)), (size, times)
        assert times[-1] > times[0]


@ALL
@EACH_KIND
def test_the_interval_holds_the_price_and_is_wide(kind: Kind, target: Target) -> None:
    ends = target.bound(0), target.bound(1)
    for ranks in COUNTS[1:]:
        for size in SIZES:
            fast, value, slow = [price(kind, size, ranks, one).latency for one in (ends[0], target, ends[1])]
            assert fast < value < slow, (ranks, size)
    fast, slow = [price(kind, 64 * MIB, 2 * target.cores_per_chip, one).latency for one in ends]
    assert slow > 5 * fast


@pytest.mark.parametrize("ranks", [2, 3, 4, 16, 61])
def test_a_ring_has_the_time_of_the_textbook(ranks: int) -> None:
    one, size = level(ranks), 64e6
    gathering, adding = [collectives.ring(one, size, adds=adds) for adds in (False, True)]
    assert gathering.data_ns == pytest.approx((ranks - 1) / ranks * size / 100.0)
    assert gathering.data_ns + adding.data_ns == pytest.approx(2 * (ranks - 1) / ranks * size / 100.0)
    assert gathering.steps_ns == (ranks - 1) * 1500.0


@pytest.mark.parametrize("ranks", [2, 4, 16, 64])
def test_steps_of_the_algorithms(ranks: int) -> None:
    one = level(ranks)
    steps = [algorithm(one, 1.0, adds=False).steps_ns / one.hop_ns for algorithm in ALGORITHMS]
    assert steps == [ranks - 1, ranks / 2, 1, math.log2(ranks)]
    assert collectives.single_step_mesh(one, 1.0).steps_ns == one.hop_ns
    within = level(4 * ranks, 4)
    assert collectives.mesh(within, 1.0, adds=False).steps_ns == 2 * one.hop_ns
    assert collectives.recursive_doubling(within, 1.0, adds=False).steps_ns == (math.log2(ranks) + 1) * one.hop_ns


def test_no_algorithm_sends_less_than_it_must() -> None:
    size = 1e6
    for members, per_place in ((2, 1), (16, 1), (64, 4), (8, 8)):
        one = level(members, per_place, gbps=1.0)
        least = size * (members - per_place) / members  # what other places have
        for algorithm in ALGORITHMS:
            assert algorithm(one, size, adds=False).data_ns >= least
        assert collectives.single_step_mesh(one, size).data_ns >= 2 * least


@pytest.mark.parametrize("adds", [False, True])
def test_the_dma_engines_of_a_chip_are_the_limit_within_it(adds: bool) -> None:
    (one,) = levels_of(range(4), GEN3)
    stage = collectives.fastest(one, 4e6, adds=adds)
    rate = (
        GEN3.cores_per_rank
        * bandwidth(GEN3, cores=GEN3.cores_per_rank)
        * (GEN3.dma_accumulate_efficiency if adds else 1)
    )
    assert (one.members, one.places) == (4, 1)
    assert stage.data_ns == stage.dma_ns == pytest.approx(3e6 / rate)


@pytest.mark.parametrize(
    ("target", "ranks", "members"),
    [
        (GEN2, range(2), [2]),
        (GEN2, range(32), [32]),
        (GEN2, range(64), [32, 2]),
        (GEN3, range(64), [64]),
        (GEN3, range(0, 64, 4), [16]),
        (GEN3, range(256), [64, 4]),
        (GEN3, [0, 64, 128], [3]),
        (GEN4, range(256), [256]),
        (GEN4, range(512), [256, 2]),
        (GEN3.bound(0), range(512), [64, 4, 2]),
        (GEN3, [5], []),
    ],
)
def test_levels(target: Target, ranks: Any, members: list[int]) -> None:
    assert [one.members for one in levels_of(ranks, target)] == members


def test_ranks_on_a_chip_share_its_links() -> None:
    (all_of_chips,), (one_of_each) = levels_of(range(64), GEN3), levels_of(range(0, 64, 4), GEN3)
    assert all_of_chips.gbps == 4 * one_of_each[0].gbps
    assert all_of_chips.gbps == GEN3.neuronlink_chip_gbps * GEN3.collective_efficiency
    assert all_of_chips.pairs and not one_of_each[0].pairs, "KangaRing needs all ranks of a chip"
    assert levels_of(range(0, 256, 64), GEN3)[0].gbps == GEN3.efa_chip_gbps * GEN3.collective_efficiency / 4


@pytest.mark.parametrize(
    ("size", "algorithm"), [(MIB // 2, "mesh"), (16 * MIB, "recursive doubling"), (256 * MIB, "KangaRing")]
)
def test_the_model_chooses_the_algorithms_that_the_documentation_names(size: int, algorithm: str) -> None:
    """On 16 chips of trn2: mesh below 1 MB, recursive doubling from 1 to 56 MB, KangaRing above."""
    assert price("all_gather", size // 64, 64, GEN3).source.split(":")[0] == algorithm


def test_an_all_reduce_is_a_scattering_and_a_gathering() -> None:
    size = 256 * MIB
    for ranks in (4, 64, 256):
        scattering, gathering = (
            price("reduce_scatter", size, ranks, GEN3),
            price("all_gather", size // ranks, ranks, GEN3),
        )
        both = scattering.transfer + gathering.transfer
        assert price("all_reduce", size, ranks, GEN3).transfer == pytest.approx(both)
    assert "single-step mesh" in price("all_reduce", 1024, 16, GEN3).source


def test_permuting_goes_through_one_link() -> None:
    within, next_chip, next_node = [permuted(64 * MIB, [(0, other)], GEN3) for other in (1, 4, 64)]
    assert within.latency < next_chip.latency < next_node.latency
    assert next_chip.transfer == pytest.approx(64 * MIB / (GEN3.neuronlink_chip_gbps * GEN3.collective_efficiency / 4))
    assert permuted(MIB, [(0, 1), (1, 64), (64, 0)], GEN3) == permuted(MIB, [(0, 64)], GEN3)
    assert permuted(MIB, [(3, 3)], GEN3) == price("permute", MIB, 1, GEN3) == price("all_reduce", MIB, 1, GEN3)


def test_a_replica_group_takes_as_long_as_its_slowest_group() -> None:
    near, far = [0, 1, 2, 3], [4, 68]
    assert of_groups("all_reduce", MIB, [near, far], GEN3) == price("all_reduce", MIB, far, GEN3)


@ALL
def test_one_rank_copies(target: Target) -> None:
    alone = price("all_gather", MIB, 1, target)
    assert (
        alone.transfer
        == alone.occupancy
        == MIB / (bandwidth(target, cores=target.cores_per_rank) * target.cores_per_rank)
    )
    assert alone.latency < price("all_gather", MIB, 2, target).latency


@ALL
def test_facts_have_a_source_and_rates_and_times_a_range(target: Target) -> None:
    for name in rows(Interconnect):
        fact = target.fact(name)
        assert len(fact.source) > 10
        if fact.range is not None:
            fast, slow = sorted(fact.range)
            assert fast <= fact.value <= slow, name
        assert fact.range is not None or fact.unit not in ("ns", "GB/s"), name
        assert fact.range is not None or fact.kind == "docs", name


def test_collectives_share_dma_engines_with_transfers_and_links_with_each_other() -> None:
    issue, completion = 1000.0, 100.0
    plain = Dma(4000.0, 10.0, 20.0, 4000.0, completion, 1, "guess", "a test")
    one = Collective(2000.0, issue, 0.0, 8000.0, completion, 1, "guess", "a test")
    independent = [(), ()]

    def end(queues: list[int], estimates: list[Any]) -> float:
        return in_order_ns(queues, estimates, independent, independent, GEN3)

    assert end([0, 1], [one, Compute(9000.0, 9000.0, "guess", "a test", "vector")]) == issue + 8000.0 + completion
    assert end([0, 1], [plain, one]) == pytest.approx(issue + 8000.0 + completion), "the transfer goes beside the links"
    assert end([0, 0], [one, one]) == pytest.approx(issue + 2 * 8000.0 + completion), "collectives take turns"
    large = replace(plain, occupancy=8000.0, transfer=8000.0)
    alone, beside = end([0], [large]), end([0, 1], [large, one])
    assert alone + 2000.0 == pytest.approx(beside), "the collective's part of the DMA engines delays the transfer"


def test_a_stage_is_its_steps_and_its_data() -> None:
    assert Stage("ring", 2.0, 3.0, 1.0, 10.0).ns == 5.0
