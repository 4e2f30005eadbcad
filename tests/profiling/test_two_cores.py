"""Profiles of two cores: their shares of the work, what a meeting costs, and who waited for whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc import nki as beta1
from neuronxcc.nki import language as b1
from nki.base.terms import Cause
from nki.cost.dma_costs import bandwidth
from nki.profiling.events import CoreEvents
from nki.profiling.kernel_profile import Profile
from nki.profiling.parquet import tables
from nki.profiling.trace import trace
from nki.target import GEN3, GEN4, find
from tests.profiling.flaws import BALANCE, SAME
from tests.profiling.kernels import profiled
from tests.support.decoded_trace import DecodedTrace
from tests.support.profile_invariants import violations
from tests.support.profiled_kernels import in_turn, of_in_turn, of_one_works

P = 128


def shape(*sizes: int, dtype: str = "float32") -> Any:
    return nki.ShapeDtype(sizes, dtype)


@nki.jit
def functions(x, count=1):
    """``count`` functions of each element; each core has its part of the rows."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()
    for row in range(nl.program_id(0) * rows, (nl.program_id(0) + 1) * rows, P):
        tile = nl.ndarray((P, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + P])
        for _ in range(count):
            nisa.activation(dst=tile, data=tile, op=nl.exp)
        nisa.dma_copy(dst=result[row : row + P], src=tile)
    return result


@beta1.jit
def older_functions(x, count):
    """The same in Beta 1, with a grid of one program for each row of tiles."""
    result = b1.ndarray(x.shape, dtype=x.dtype, buffer=b1.shared_hbm)
    row = b1.program_id(0) * P
    tile = b1.load(x[b1.ds(row, P), :])
    for _ in range(count):
        tile = b1.exp(tile)
    b1.store(result[b1.ds(row, P), :], tile)
    return result


def share_of_hbm(name: str) -> float:
    """The part of the rate of loads and stores that a core has beside another one at the same stack of HBM."""
    target = find(name)
    rates = [(bandwidth(target, stores=stores), bandwidth(target, cores=2, stores=stores)) for stores in (False, True)]
    return sum(1 / alone for alone, _ in rates) / sum(1 / shared for _, shared in rates)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize(("count", "bound"), [(1, "dma"), (20, "scalar")])
def test_two_cores_take_half_the_time(target: str, count: int, bound: str) -> None:
    one, two = (profiled(k, shape(4096, 1024), count, target=target) for k in (functions, functions[2]))
    assert one.lower_bound.resource == two.lower_bound.resource == bound
    share = share_of_hbm(target)
    longer, busier = (1 / share, 1.0) if bound == "dma" else (1.0, 1 / share)
    assert one.device_time / 2 <= two.device_time < 0.53 * one.device_time * longer
    assert (one.hbm_bytes, one.instructions) == (two.hbm_bytes, two.instructions)
    assert busier * one.mbu == pytest.approx(two.mbu, rel=0.05)
    assert two.advice == [] or BALANCE not in [advice.title for advice in two.advice]


def test_a_grid_of_beta_1_on_two_cores_takes_half_the_time() -> None:
    grids = older_functions[32], older_functions[b1.spmd_dim(16, b1.nc(2))]
    one, two = (profiled(kernel, shape(4096, 1024), 4) for kernel in grids)
    assert [len(one.cores), len(two.cores)] == [1, 2]
    assert one.device_time / 2 <= two.device_time < 0.53 * one.device_time


def test_cores_that_run_share_hbm() -> None:
    """With a stack of HBM that has the rate of one core's DMA engines, one core keeps its time, and two gain nothing
    by the second one's engines.
    """
    one, two = (profiled(kernel, shape(4096, 1024)) for kernel in (functions, functions[2]))
    stores = GEN3.dma_engines * GEN3.dma_engine_store_gbps
    slower, slower_two = (each.what_if(hbm_stack_gbps=stores) for each in (one, two))
    assert slower.device_time == pytest.approx(one.device_time)
    assert 0.9 * one.device_time < slower_two.device_time < 1.05 * one.device_time
    assert one.what_if(hbm_stack_gbps=stores / 4).device_time > 3 * one.device_time


@nki.jit
def exchanged(x, meet, columns=512, ahead=0):
    """Both cores load; core 0 works ``ahead`` instructions more; they meet and store."""
    rank = nl.program_id(0)
    result = nl.ndarray((2, P, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
    other = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(ahead if rank == 0 else 0):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
    if meet == "barrier":
        nisa.core_barrier(tile, (0, 1), engine=nisa.engine.vector)
    else:
        way = nisa.dma_engine.gpsimd_dma if meet == "gpsimd_dma" else nisa.dma_engine.dma
        part = tile[:, :columns]
        nisa.sendrecv(src=part, dst=other, send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=0, dma_engine=way)
        nisa.tensor_copy(dst=part, src=other, engine=nisa.engine.vector)
    nisa.dma_copy(dst=result[rank], src=tile)
    return result


def ns(profile: Profile) -> float:
    return profile.timeline.ns


def test_a_barrier_costs_an_instruction_and_a_semaphore_of_the_other_core() -> None:
    profile = profiled(exchanged[2], shape(P, 512), "barrier")
    for core in profile.cores:
        barrier = row_of(core, "core_barrier")
        assert core.release[barrier] - core.start[barrier] == GEN3.sequencer_ns + GEN3.remote_semaphore_ns
        assert core.end[barrier] - core.release[barrier] == GEN3.semaphore_ns
        assert core.start[row_of(core, "dma_copy", 1)] == core.end[barrier]


@pytest.mark.parametrize("target", [GEN3, GEN4])
def test_an_exchange_costs_a_barrier_and_a_static_transfer(target: Any) -> None:
    """ "Uses the standard DMA engine with CoreBarrier synchronization", says the reference."""
    profile = profiled(exchanged[2], shape(P, 512), "dma", target=target.name)
    core = profile.cores[0]
    row = row_of(core, "sendrecv")
    rate = target.dma_engines * target.dma_engine_sustained_gbps
    barrier = target.sequencer_ns + target.remote_semaphore_ns
    least = barrier + target.sequencer_ns + target.dma_static_start_ns + target.dma_completion_ns
    assert core.end[row] - core.start[row] == pytest.approx(least + P * 512 * 4 / rate, rel=0.05)


def test_the_dma_of_gpsimd_is_faster_for_small_tiles_and_leaves_the_dma_engines_alone() -> None:
    small, large = 16, 256
    times = {
        (way, columns): ns(profiled(exchanged[2], shape(P, 512), way, columns))
        for way in ("dma", "gpsimd_dma")
        for columns in (small, large)
    }
    assert times["gpsimd_dma", small] < times["dma", small] - 500
    moved = P * (large - small) * 4 / GEN3.gpsimd_dma_gbps
    copied = (large - small) / (GEN3.vector_width_32bit / P) / GEN3.vector_clock_ghz
    assert times["gpsimd_dma", large] - times["gpsimd_dma", small] == pytest.approx(moved + copied, abs=1)
    profile = profiled(exchanged[2], shape(P, 512), "gpsimd_dma", large)
    for name in ("dma_bandwidth", "dma_latency"):
        assert ns(profile.what_if(**{name: 0.5 if name == "dma_bandwidth" else 2.0})) > ns(profile)
    slower = profile.what_if(gpsimd_dma_gbps=GEN3.gpsimd_dma_gbps / 2)
    assert ns(slower) - ns(profile) == pytest.approx(P * large * 4 / GEN3.gpsimd_dma_gbps)


@pytest.mark.parametrize("meet", ["barrier", "dma", "gpsimd_dma"])
def test_the_core_that_comes_first_stalls(meet: str) -> None:
    even, uneven = (profiled(exchanged[2], shape(P, 512), meet, 256, ahead) for ahead in (0, 20))
    late = ns(uneven) - ns(even)
    stalls = {(use.core, use.engine): use.stalls.get("other core", 0.0) for use in uneven.engines}
    where = "vector" if meet == "barrier" else "dma"
    assert stalls.pop((1, where)) == pytest.approx(late)
    assert not any(stalls.values())
    assert not any(use.stalls.get("other core") for use in even.engines)
    assert [advice.title for advice in even.advice].count(BALANCE) == 0
    advice = next(advice for advice in uneven.advice if advice.title == BALANCE)
    assert advice.seconds * 1e9 == pytest.approx(late / 2)
    assert advice.evidence.startswith(f"core 1 waits {late / 1e3:.1f} us")
    assert f"other core {100 * late / ns(uneven):.1f} %" in str(uneven)


def test_the_worth_of_balance_is_that_of_a_balanced_kernel() -> None:
    """Work before a barrier on one core and behind it on the other, against half of both on each."""
    uneven, even = (profiled(in_turn[2], shape(2 * P, 512), *work) for work in ((24, 0), (12, 12)))
    advice = next(advice for advice in uneven.advice if advice.title == BALANCE)
    assert advice.seconds == pytest.approx(uneven.device_time - even.device_time, rel=0.1)
    assert BALANCE not in [advice.title for advice in even.advice]


def test_a_core_without_work_is_told() -> None:
    profile = of_one_works()
    (advice,) = (advice for advice in profile.advice if advice.title == BALANCE)
    assert advice.evidence == f"core 0 is complete {ns(profile) / 1e3:.1f} us before the last one"
    assert advice.seconds == pytest.approx(profile.device_time / 2)


def test_work_that_all_cores_do_in_one_store_or_in_a_loop() -> None:
    """A store has no share that a core could leave out: half of all is the bound."""

    @nki.jit
    def one_block(x):
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.activation(dst=tile, data=tile, op=nl.exp)
        nisa.dma_copy(dst=result, src=tile)
        return result

    profile = profiled(one_block[2], shape(P, 8192))
    (advice,) = (advice for advice in profile.advice if advice.title == SAME)
    assert advice.at_most and advice.evidence == "each of 2 cores stores the same parts of 'result'"
    assert 0.3 * profile.latency < advice.seconds <= profile.latency / 2
    assert all(advice.title != SAME for advice in profiled(functions[2], shape(2048, 512)).advice)


@pytest.fixture(scope="module")
def turns() -> Profile:
    return of_in_turn()


def row_of(core: CoreEvents, mnemonic: str, which: int = 0) -> int:
    return [row for row, n in enumerate(core.number) if core.instructions[n].mnemonic == mnemonic][which]


def test_the_critical_path_goes_from_core_to_core(turns: Profile) -> None:
    """Core 0 works before the barrier, core 1 behind it."""
    path = turns.critical_path
    assert path[0].begin == 0 and path[-1].end == ns(turns)
    assert all(one.end == pytest.approx(two.begin) for one, two in pairwise(path))
    met = turns.cores[1].meetings[row_of(turns.cores[1], "core_barrier")].last.time
    assert all(step.core == (0 if step.end <= met else 1) for step in path)
    assert turns.by_instruction["activation"].critical > 0.5 * ns(turns)
    assert violations(turns) == []


def test_tables_say_which_core_came_last(turns: Profile) -> None:
    columns = tables(turns)
    flows = columns["Flow"]
    kinds = list(flows["dependency_type"])
    assert kinds.count("MEETING") == 1
    flow = kinds.index("MEETING")
    first, late = turns.cores
    barriers = row_of(first, "core_barrier"), len(first) + row_of(late, "core_barrier")
    assert (flows["in_id"][flow], flows["out_id"][flow]) == barriers
    assert flows["in_table"][flow] == flows["out_table"][flow] == "Instruction"
    meeting = late.meetings[row_of(late, "core_barrier")]
    waits = columns["CoreBarriers"]["duration_ns"]
    itself = GEN3.sequencer_ns + GEN3.remote_semaphore_ns
    assert waits[0] == itself
    assert waits[1] == pytest.approx(meeting.last.time - meeting.time + itself, abs=1)


def test_a_flow_of_the_trace_leads_from_core_to_core(turns: Profile) -> None:
    decoded = DecodedTrace(trace(turns))
    barriers = [each for each in decoded.slices if each.name == "core_barrier"]
    shared = set(barriers[0].flows) & set(barriers[1].flows)
    assert len(barriers) == 2 and len(shared) == 1
    ends = [each for each in decoded.slices if shared & set(each.flows)]
    assert len(ends) == 2


def test_the_summary_counts_both_cores(turns: Profile) -> None:
    summary = turns.summary()
    assert summary["scalar_engine_instruction_count"] == 24 == turns.by_instruction["activation"].executions
    assert summary["gpsimd_engine_instruction_count"] == 2
    semaphore = turns.target.semaphore_ns
    active = 0.0
    for core in turns.cores:
        ends = 0.0  # each instruction lasts until its result is there, and counts from the end of those before it on
        for row in range(len(core)):
            if core.instructions[core.number[row]].mnemonic == "activation":
                begin, end = max(core.start[row], ends), max(core.end[row] - semaphore, core.release[row])
                active, ends = active + max(end - begin, 0.0) * 1e-9, max(ends, end)
    busy = sum(use.busy for use in turns.engines if use.engine == "scalar") * 1e-9
    assert busy < summary["scalar_engine_active_time"] == pytest.approx(active)
    assert summary["scalar_engine_active_time_percent"] == pytest.approx(active / turns.total_time / 2)
    text = str(turns)
    assert re.search(r"^  0\.scalar .*\n(.*\n)*  1\.scalar ", text, re.MULTILINE)


@nki.jit
def rounds(x, count=1):
    """``count`` barriers in a loop on the device, which takes longer on core 1."""
    shared = nl.ndarray((2, P, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    def body(_):
        for _ in range(1 + 4 * nl.program_id(0)):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.5)
        nisa.core_barrier(shared, (0, 1))

    nl.fori_loop(0, count, body)
    nisa.dma_copy(dst=shared[nl.program_id(0)], src=tile)
    return shared


def test_meetings_in_a_loop_repeat() -> None:
    times = [ns(profiled(rounds[2], shape(P, 512), count)) for count in (10, 110, 1110)]
    assert (times[1] - times[0]) / 100 == pytest.approx((times[2] - times[1]) / 1000, rel=1e-6)
    profile = profiled(rounds[2], shape(P, 512), 110)
    assert violations(profile) == []
    stall = next(use.stalls["other core"] for use in profile.engines if (use.core, use.engine) == (0, "gpsimd"))
    assert 0.4 * ns(profile) < stall < 0.95 * ns(profile)


def interleaved(seed: int) -> Iterator[tuple[int, int]]:
    random = np.random.default_rng(seed)
    yield from random.integers(0, 12, (6, 2)).tolist()


@nki.jit
def random_meetings(x, work=()):
    """Uneven work before each of several exchanges; both cores keep the order."""
    rank = nl.program_id(0)
    result = nl.ndarray((2, P, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for pipe, counts in enumerate(work):
        for _ in range(counts[rank]):
            nisa.activation(dst=tile, data=tile, op=nl.exp)
        other = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=pipe % 2)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    nisa.dma_copy(dst=result[rank], src=tile)
    return result


@pytest.mark.parametrize("seed", range(3))
def test_uneven_work_costs_that_of_the_slower_core(seed: int) -> None:
    """Between two meetings both cores take as long as the slower one: both cores take the maxima."""
    work = tuple((int(a), int(b)) for a, b in interleaved(seed))
    uneven = profiled(random_meetings[2], shape(P, 512), work)
    even = profiled(random_meetings[2], shape(P, 512), tuple((max(counts),) * 2 for counts in work))
    assert ns(uneven) == pytest.approx(ns(even), rel=1e-9)
    assert violations(uneven) == []
    waits = [Cause.meeting in core.cause for core in uneven.cores]
    assert any(waits)
    fewer = profiled(random_meetings[2], shape(P, 512), tuple((min(counts),) * 2 for counts in work))
    assert ns(fewer) < ns(uneven)


@nki.jit
def through_pipes(x, pipes=(), how=""):
    """An exchange through each of ``pipes``: each of what the one before has brought if ``how`` is relayed, or with a
    barrier behind the first one.
    """
    rank = nl.program_id(0)
    result = nl.ndarray((2, len(pipes), P, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for number, pipe in enumerate(pipes):
        other = nl.ndarray((P, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=pipe)
        if how == "barrier" and number == 0:
            nisa.core_barrier(tile, (0, 1), engine=nisa.engine.vector)
        nisa.dma_copy(dst=result[rank, number], src=other)
        tile = other if how == "relayed" else tile
    return result


def overlaps(profile: Profile) -> bool:
    """Test if the second exchange of core 0 begins before the first one is complete."""
    core = profile.cores[0]
    first, second = (row_of(core, "sendrecv", number) for number in (0, 1))
    assert violations(profile) == []
    return bool(core.start[second] < core.end[first])


def test_exchanges_of_different_pipes_do_not_wait_for_each_other() -> None:
    """Reference, nisa.sendrecv: "Operations with different pipe_id values can progress independently"."""
    x = shape(P, 512)
    assert overlaps(profiled(through_pipes[2], x, (0, 1)))
    assert not overlaps(profiled(through_pipes[2], x, (0, 0)))
    assert not overlaps(profiled(through_pipes[2], x, (0, 1), "relayed"))
    assert not overlaps(profiled(through_pipes[2], x, (0, 1), "barrier"))
    times = [ns(profiled(through_pipes[2], x, pipes)) for pipes in ((0, 1, 2, 3), (0, 1, 0, 1), (0, 0, 0, 0))]
    assert times == sorted(times) and len(set(times)) == 3


def test_a_load_behind_a_barrier_does_not_wait_for_its_memory(turns: Profile) -> None:
    assert "Loads wait for their memory" not in [advice.title for advice in turns.advice]
