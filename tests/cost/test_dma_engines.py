"""DMA engines one by one: each serves its eight partitions, in the order of its queues, whoever uses the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.base.element_types import float32
from nki.cost import dma_costs
from nki.cost.queue_replay import in_order_ns
from nki.cost.sharing import NEVER, SharedEngines, engine_loads
from nki.ir.estimate import Dma
from nki.ir.types import Access, Buffer, Tensor
from nki.passes.scheduling.list_scheduler import resource_bounds
from nki.target import GEN3, GENERATIONS, Target
from tests.cost.replays import ENGINES, SLACK, check_spans, in_turns, replayed, transfer

windows = st.sampled_from([1, 1, 2, 4, 8, ENGINES]).flatmap(
    lambda count: st.tuples(st.integers(0, ENGINES - count), st.just(count))
)
transfers = st.builds(
    lambda busy, window, generator, alone: transfer(busy, *window, generator, alone),
    st.sampled_from([1.0, 7.0, 40.0, 300.0]),
    windows,
    st.sampled_from(["sync", "scalar", ""]),
    st.sampled_from([0.0, 60.0]),
)


def by_engine(estimate: Dma) -> tuple[float, ...]:
    return estimate.engine_times or (estimate.occupancy,) * ENGINES


def shared(coming: list[tuple[float, int, Dma]], *, ahead: bool = False) -> list[tuple[float, float]]:
    """Begin and end of the data of each transfer. ``ahead``: engines run on to the next completion of a transfer, or
    to the next arrival, at once.
    """
    loads = engine_loads([estimate for _, _, estimate in coming])
    engines, left, times = SharedEngines(), list(enumerate(coming)), [(0.0, 0.0)] * len(coming)
    while left or engines.next_end < NEVER:
        if left and left[0][1][0] < engines.next_end:
            number, (time, queue, estimate) = left.pop(0)
            engines.arrive(time, queue, number, loads.of(estimate))
        else:
            latest = 0.0 if not ahead else left[0][1][0] if left else NEVER
            for number, begin, end in engines.complete(latest):
                times[number] = begin, end
    return times


arrivals = st.lists(st.tuples(st.integers(0, 300).map(float), st.integers(0, 4), transfers), min_size=1, max_size=12)


@given(arrivals)
def test_engines_that_are_left_out_end_nothing_later(coming: list[tuple[float, int, Dma]]) -> None:
    """A simulation of all 16 engines, packet by packet, knows nothing of engines that do not matter."""
    coming.sort(key=lambda each: each[0])
    step = 0.5
    exact = [
        in_turns([(time, queue, by_engine(estimate)[engine]) for time, queue, estimate in coming], step)
        for engine in range(ENGINES)
    ]
    for (_, end), of_engines in zip(shared(coming), zip(*exact, strict=True), strict=True):
        assert end == pytest.approx(max(of_engines), abs=len(coming) * 5 * step)


@given(arrivals)
def test_engines_that_run_ahead_give_the_same_times(coming: list[tuple[float, int, Dma]]) -> None:
    coming.sort(key=lambda each: each[0])
    assert shared(coming, ahead=True) == shared(coming)


@given(arrivals)
def test_no_engine_moves_more_than_it_can(coming: list[tuple[float, int, Dma]]) -> None:
    coming.sort(key=lambda each: each[0])
    times = shared(coming)
    for engine in range(ENGINES):
        check_spans(times, [by_engine(estimate)[engine] for _, _, estimate in coming])


rings = st.lists(st.tuples(st.integers(0, 3), transfers), min_size=1, max_size=16)


@given(rings)
def test_no_transfers_end_before_their_bound(rows: list[tuple[int, Dma]]) -> None:
    queues, estimates = [row[0] for row in rows], [row[1] for row in rows]
    none = [()] * len(rows)
    bounds = resource_bounds(queues, estimates)
    assert in_order_ns(queues, estimates, none, none, GEN3) >= max(bounds.values()) - SLACK
    # The engine with the most work, alone with its transfers, is the bound of all engines.
    busiest = max(sum(by_engine(estimate)[engine] for estimate in estimates) for engine in range(ENGINES))
    assert bounds["dma"] == pytest.approx(60 + busiest + 7 + min(each.transfer - busy(each) for each in estimates))


def busy(estimate: Dma) -> float:
    return max(by_engine(estimate))


@given(st.lists(transfers, min_size=1, max_size=12))
def test_in_one_queue_each_engine_serves_in_order(estimates: list[Dma]) -> None:
    """Written again without events: first come, first served on each engine, complete in order of the queue."""
    estimates = [replace(each, dge="sync") for each in estimates]
    free, last, ends = [0.0] * ENGINES, 0.0, list[float]()
    for number, estimate in enumerate(estimates):
        arrival = 10.0 * (number + 1) + 50.0
        loads = by_engine(estimate)
        free = [max(each, arrival) + load if load else each for each, load in zip(free, loads, strict=True)]
        through = max(each for each, load in zip(free, loads, strict=True) if load)
        last = max(last, through + estimate.transfer - busy(estimate))
        ends.append(last)
    direct = replayed([0] * len(estimates), estimates)
    assert [end for _, end in direct.data] == pytest.approx(ends)
    # A transfer of another queue, behind everything, makes the replay go by events.
    late = transfer(5.0, 0, ENGINES, "scalar")
    count = len(estimates)
    events = replayed([0] * count + [1], [*estimates, late], {count: (*range(count),)})
    assert events.results[:-1] == pytest.approx(direct.results)


def test_a_long_transfer_that_a_narrow_one_passes_pays_for_it_once() -> None:
    long, narrow = transfer(10_000.0, 0, ENGINES), transfer(100.0, 0, 1, "scalar")
    replay = replayed([0, 1], [long, narrow])
    first, second = (end for _, end in replay.data)
    assert second == pytest.approx(60 + 200) and first == pytest.approx(60 + 10_100)
    # On engines of their own two transfers of different queues do not meet.
    replay = replayed([0, 1], [transfer(10_000.0, 0, 8), transfer(10_000.0, 8, 8, "scalar")])
    assert [end for _, end in replay.data] == pytest.approx([10_060, 10_060])


def window(target: Target, first: int, rows: int, columns: int = 8192, step: int = 1) -> Dma:
    """Rows of a tensor in HBM to the partitions from ``first`` on of a tile."""
    tile = Tensor("t", (128, columns), float32, Buffer.sbuf)
    dst = Access(tile, first * columns, (rows, columns), (step * columns, 1), float32)
    return dma_costs.transfer(dst, (Access.whole(Tensor("source", (rows, columns), float32, Buffer.hbm)),), target)


def last_data(target: Target, estimates: list[Dma]) -> float:
    """End of transfers of one queue that depend on nothing."""
    none = [()] * len(estimates)
    return in_order_ns([0] * len(estimates), estimates, none, none, target)


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_a_dma_engine_serves_its_eight_partitions(target: Target) -> None:
    # Introduction to DMA: rows of four partitions go through one engine; the next ones of these partitions wait for it.
    rows = window(target, 0, 8)
    alone, eight = last_data(target, [rows]), last_data(target, [rows] * 8)
    assert eight - alone == pytest.approx(7 * 16 * rows.occupancy, rel=0.02)
    apart = last_data(target, [window(target, 8 * number, 8) for number in range(8)])
    assert apart < alone + 16 * rows.occupancy
    # 64 partitions have half of the engines, all 128 in two windows have all of them.
    half, whole = window(target, 0, 64), window(target, 0, 128)
    assert last_data(target, [half] * 4) == pytest.approx(last_data(target, [whole] * 4), rel=0.02)
    both = [half, window(target, 64, 64)]
    assert last_data(target, both * 32) == pytest.approx(last_data(target, [whole] * 32), rel=0.03)
    assert last_data(target, [half, whole] * 8) == pytest.approx(last_data(target, [whole] * 16), rel=0.02)


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_engines_follow_from_the_partitions(target: Target) -> None:
    def parts(estimate: Dma) -> list[float]:
        return [busy / estimate.occupancy for busy in estimate.engine_times]

    def alike(first: int, count: int) -> object:
        return pytest.approx([16 / count * (first <= engine < first + count) for engine in range(16)])

    assert parts(window(target, 0, 4)) == alike(0, 1) and parts(window(target, 32, 32)) == alike(4, 4)
    assert parts(window(target, 12, 8)) == alike(1, 2)
    assert parts(window(target, 0, 12)) == pytest.approx([16 * 8 / 12, 16 * 4 / 12] + [0.0] * 14)
    assert parts(window(target, 0, 16, step=8)) == parts(window(target, 0, 128)) == []
    assert window(target, 0, 12).transfer == pytest.approx(window(target, 0, 8).transfer)
    # Copies within HBM go through all engines; within SBUF, through the engines of the tile with more rows.
    hbm = Access.whole(Tensor("a", (4, 512), float32, Buffer.hbm))
    assert dma_costs.transfer(hbm, (hbm,), target).engine_times == ()
    row, column = (Access.whole(Tensor("t", shape, float32, Buffer.sbuf)) for shape in ((1, 64), (64, 1)))
    assert (
        parts(dma_costs.transfer(column, (row,), target))
        == parts(dma_costs.transfer(row, (column,), target))
        == alike(0, 8)
    )


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_engines_by_partition_are_a_fact_with_a_range(target: Target) -> None:
    fast, slow = window(target.bound(0), 0, 8), window(target.bound(1), 0, 8)
    assert fast.engine_times == () and max(slow.engine_times) == pytest.approx(16 * slow.occupancy)
    fact = target.facts()["dma_engine_by_partition"]
    between = window(target.with_facts({"dma_engine_by_partition": replace(fact, value=0.5)}), 0, 8)
    assert sum(between.engine_times) == pytest.approx(16 * between.occupancy)
    assert max(between.engine_times) == pytest.approx(8.5 * between.occupancy)


def test_where_hbm_is_slower_than_the_engines_it_is_shared() -> None:
    """Rows on eight pairs of engines, at a fifth of HBM's rate: no engine is busy for long, but HBM is."""
    slow = GEN3.with_facts({"hbm_stack_gbps": replace(GEN3.facts()["hbm_stack_gbps"], value=GEN3.hbm_stack_gbps / 10)})
    windows = [window(slow, 16 * number, 16) for number in range(8)]
    assert max(windows[0].engine_times) < 8 * windows[0].occupancy
    end, alone = last_data(slow, windows * 4), last_data(slow, windows[:1])
    assert end - alone == pytest.approx(32 * windows[0].occupancy - windows[0].transfer)
    bound = resource_bounds([0] * 32, windows * 4)["dma"]
    assert 0.95 * end < bound <= end


@given(st.lists(transfers, min_size=2, max_size=12))
def test_one_queue_completes_in_order(estimates: list[Dma]) -> None:
    """All engines write the semaphore of a transfer, those without its data too, in the order of the queue."""
    replay = replayed([number % 3 for number in range(len(estimates))], [replace(e, dge="") for e in estimates])
    for ring in range(3):
        assert all(one <= two for (_, one), (_, two) in pairwise(replay.data[ring::3]))
