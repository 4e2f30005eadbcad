"""Properties of shared bandwidth, over random transfers: conservation, fairness, order and monotony."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.cost.queue_replay import Replay, in_order_ns
from nki.cost.sharing import NEVER, SharedBandwidth
from nki.ir.estimate import Compute, Dma, Estimate
from nki.passes.scheduling.list_scheduler import resource_bounds
from nki.target import GEN3
from tests.cost.replays import SLACK, check_spans, in_turns, replayed, transfer


class Coming(NamedTuple):
    """A transfer that comes to ``queue`` at ``time`` with ``share`` ns of the whole bandwidth."""

    time: float
    queue: int
    share: float


arrivals = st.lists(
    st.builds(Coming, st.integers(0, 300).map(float), st.integers(0, 4), st.sampled_from([1.0, 7.0, 40.0, 300.0])),
    min_size=1,
    max_size=25,
).map(sorted)


def moved(coming: list[Coming]) -> list[tuple[float, float]]:
    """Begin and end of the data of each transfer, by virtual time."""
    bandwidth, left = SharedBandwidth(), list(enumerate(coming))
    times = [(0.0, 0.0)] * len(coming)
    while left or bandwidth.next_end < NEVER:
        if left and left[0][1].time < bandwidth.next_end:
            number, (time, queue, share) = left.pop(0)
            bandwidth.arrive(time, queue, number, share)
        else:
            ((number, begin, end),) = bandwidth.complete()
            times[number] = begin, end
    return times


@given(arrivals)
def test_virtual_time_is_the_limit_of_queues_that_take_turns(coming: list[Coming]) -> None:
    """Of packets as short as a step each queue is ahead or behind by a few rounds at most."""
    step = 0.25
    for (_, end), turns in zip(moved(coming), in_turns(coming, step), strict=True):
        assert end == pytest.approx(turns, abs=len(coming) * 5 * step)


@given(arrivals)
def test_no_span_of_time_moves_more_than_the_bandwidth(coming: list[Coming]) -> None:
    check_spans(moved(coming), [each.share for each in coming])


@given(arrivals)
def test_the_bandwidth_never_rests_while_there_is_data(coming: list[Coming]) -> None:
    """The last data of all is through when one queue that serves everything in order would be."""
    time = 0.0
    for each in coming:
        time = max(time, each.time) + each.share
    assert max(end for _, end in moved(coming)) == pytest.approx(time)


@given(arrivals)
def test_a_queue_serves_its_transfers_in_order(coming: list[Coming]) -> None:
    by_queue: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for each, times in zip(coming, moved(coming), strict=True):
        by_queue[each.queue].append(times)
        assert times[0] >= each.time and times[1] >= times[0] + each.share - SLACK
    for queue in by_queue.values():
        assert all(one[1] <= two[0] + SLACK for one, two in pairwise(queue))


@given(arrivals, st.data())
def test_a_smaller_transfer_delays_nobody(coming: list[Coming], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(coming) - 1))
    smaller = list(coming)
    smaller[number] = coming[number]._replace(share=coming[number].share * data.draw(st.sampled_from([0.1, 0.5, 0.9])))
    for (_, before), (_, after) in zip(moved(coming), moved(smaller), strict=True):
        assert after <= before + SLACK


class Block(NamedTuple):
    """Queues, estimates and dependences of random instructions: queues 0 to 3 are rings, 4 and 5 engines."""

    queues: list[int]
    estimates: list[Estimate]
    predecessors: list[tuple[int, ...]]


def block(seed: int, generators: tuple[str, ...]) -> Block:
    random = np.random.default_rng(seed)
    queues: list[int] = []
    estimates: list[Estimate] = []
    predecessors: list[tuple[int, ...]] = []
    for number in range(random.integers(2, 60)):
        if random.random() < 0.7:
            share = float(random.choice([5, 20, 100, 400, 2000]))
            queues.append(int(random.integers(4)))
            estimates.append(transfer(share, dge=str(random.choice(generators)), alone=float(random.choice([0, 60]))))
        else:
            busy = float(random.choice([10, 300]))
            queues.append(int(random.integers(4, 6)))
            estimates.append(Compute(busy, busy + 30, "docs", "test", "vector"))
        few = random.integers(0, number, random.integers(0, 3)) if number else ()
        predecessors.append(tuple(sorted({int(n) for n in few if queues[n] != queues[-1]})))
    return Block(queues, estimates, predecessors)


def replay_of(given: Block) -> Replay:
    return replayed(given.queues, given.estimates, dict(enumerate(given.predecessors)))


several = st.sampled_from([("sync", "scalar"), ("sync", "scalar", ""), ("",)])
seeds = st.integers(0, 2**32)


@given(seeds, several)
def test_no_block_moves_more_than_the_bandwidth(seed: int, generators: tuple[str, ...]) -> None:
    given = block(seed, generators)
    shares = [each.occupancy if isinstance(each, Dma) else 0.0 for each in given.estimates]
    moving = [(times, share) for times, share in zip(replay_of(given).data, shares, strict=True) if times[1]]
    check_spans([times for times, _ in moving], [share for _, share in moving])


@given(seeds, several)
def test_instructions_wait_for_what_they_depend_on(seed: int, generators: tuple[str, ...]) -> None:
    given = block(seed, generators)
    replay = replay_of(given)
    for number, before in enumerate(given.predecessors):
        assert all(replay.starts[number] >= replay.results[producer] for producer in before)
    assert max(replay.results) == replay.now < NEVER


@given(seeds, st.sampled_from([("sync",), ("sync", "scalar"), ("sync", "scalar", ""), ("",)]))
def test_transfers_of_a_ring_and_of_a_data_queue_complete_in_order(seed: int, generators: tuple[str, ...]) -> None:
    """A data queue's transfers also wait for others of their ring, and so may be told after the queue's next one."""
    given = block(seed, generators)
    ends: dict[str | int, list[float]] = defaultdict(list)
    for queue, estimate, (_, end) in zip(given.queues, given.estimates, replay_of(given).data, strict=True):
        if isinstance(estimate, Dma):
            ends[queue if generators != ("sync",) else estimate.dge].append(end)
    assert all(one <= two for line in ends.values() for one, two in pairwise(line))


@given(seeds)
def test_events_give_the_times_of_program_order(seed: int) -> None:
    """A transfer behind everything, in another queue of data, makes the replay go by events."""
    plain = block(seed, ("sync",))
    count = len(plain.queues)
    late = Block(
        [*plain.queues, 6], [*plain.estimates, transfer(5, dge="scalar")], [*plain.predecessors, (*range(count),)]
    )
    direct, by_events = replay_of(plain), replay_of(late)
    for name in ("starts", "releases", "results"):
        assert getattr(by_events, name)[:-1] == pytest.approx(getattr(direct, name))
    assert by_events.causes[:-1] == direct.causes and by_events.blockers[:-1] == direct.blockers


@given(seeds, st.data())
def test_in_one_queue_of_data_whatever_is_faster_delays_nobody(seed: int, data: st.DataObject) -> None:
    given = block(seed, ("sync",))
    number = data.draw(st.integers(0, len(given.queues) - 1))
    part = data.draw(st.sampled_from([0.0, 0.5]))
    estimates = list(given.estimates)
    estimates[number] = faster(estimates[number], part)
    before, after = replay_of(given), replay_of(given._replace(estimates=estimates))
    assert all(late <= early + SLACK for early, late in zip(before.results, after.results, strict=True))


def faster(estimate: Estimate, part: float) -> Estimate:
    """``estimate`` with ``part`` of its time for the work itself."""
    occupancy = estimate.occupancy * part + 1e-3
    if isinstance(estimate, Dma):
        return replace(estimate, occupancy=occupancy, transfer=estimate.transfer * part + 1e-3)
    return estimate.lasting(occupancy)


@given(st.lists(st.tuples(st.sampled_from([5.0, 100.0, 400.0]), st.sampled_from([0.0, 60.0, 1400.0]),
                          st.sampled_from([50.0, 900.0]), st.integers(0, 3), st.sampled_from(["sync", "scalar", ""])),
                min_size=1, max_size=12))  # fmt: skip
def test_no_transfers_end_before_their_bound(rows: list[tuple[float, float, float, int, str]]) -> None:
    """The first data of one kind, the shares of all, and the end of another kind: whatever the queues."""
    queues = [row[3] for row in rows]
    estimates: list[Estimate] = []
    for share, alone, start, _, generator in rows:
        estimates.append(replace(transfer(share, dge=generator, alone=alone), start=start))
    none = [()] * len(rows)
    bound = max(resource_bounds(queues, estimates).values())
    assert in_order_ns(queues, estimates, none, none, GEN3) >= bound - SLACK


def quicker(estimate: Estimate, resource: str) -> Estimate:
    """``estimate`` with twice as much of one resource."""
    if not isinstance(estimate, Dma):
        return estimate.lasting(estimate.occupancy / 2) if resource == "engine" else estimate
    if resource == "bandwidth":
        return replace(estimate, occupancy=estimate.occupancy / 2, transfer=estimate.transfer / 2)
    return estimate if resource == "engine" else replace(estimate, **{resource: getattr(estimate, resource) / 2})


@pytest.mark.parametrize("resource", ["engine", "bandwidth", "issue", "start"])
def test_a_faster_resource_costs_next_to_nothing_where_queues_share_the_bandwidth(resource: str) -> None:
    """Who has data earlier shares earlier, so that others may end later; in one queue of data that cannot be."""
    worst: dict[int, float] = {}
    for generators in (("sync",), ("sync", "scalar"), ("sync", "scalar", ""), ("",)):
        for seed in range(60):
            queues, estimates, before = block(seed, generators)
            none = [()] * len(queues)
            slow = in_order_ns(queues, estimates, before, none, GEN3)
            fast = in_order_ns(queues, [quicker(each, resource) for each in estimates], before, none, GEN3)
            several = generators != ("sync",)
            worst[several] = max(worst.get(several, 0.0), fast / slow - 1)
    assert worst[False] < 1e-9 and worst[True] < 0.02
