"""Timing of whole programs: loops, cores that meet, waits, and what stays the same under changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import KernelArgumentError
from nki.base.profile_errors import TripCountError
from nki.base.terms import Cause
from nki.compilation import pipeline
from nki.passes.schedule import Schedule
from nki.profiling.kernel_profile import Profile, of_program
from nki.sim.timing import TimedProgram
from nki.target import GEN3, GEN4

X = nki.ShapeDtype((128, 512), "float32")


def profiled(kernel: Any, *arguments: Any, target: str = "trn2") -> Profile:
    return nki.profile(kernel, target=target)(*arguments)


@nki.jit
def doubled(x, times=1):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(times):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
    nisa.dma_copy(dst=result, src=tile)
    return result


@nki.jit
def doubled_in_a_loop(x, times=1):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    def body(_):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)

    nl.fori_loop(0, times, body)
    nisa.dma_copy(dst=result, src=tile)
    return result


@nki.jit
def doubled_as_data_says(x, counts):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=number, src=counts)
    register = nisa.register_alloc()
    nisa.register_load(register, number)

    def body(_):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)

    nl.fori_loop(0, register, body)
    nisa.dma_copy(dst=result, src=tile)
    return result


def test_a_chain_takes_the_latencies_of_its_instructions() -> None:
    """Load, one instruction, store: issue, start, data and completion of both transfers, and the instruction."""
    profile = profiled(doubled, X)
    load, scaled, store = profile.cores[0].estimates
    assert profile.device_time * 1e9 == pytest.approx(load.latency + scaled.latency + store.latency)
    assert profile.latency == pytest.approx(profile.device_time + GEN3.launch_ns * 1e-9)
    more = profiled(doubled, X, 5)
    again = scaled.occupancy + scaled.dependent
    assert (more.device_time - profile.device_time) * 1e9 == pytest.approx(4 * again)


def test_iterations_that_repeat_are_not_replayed_one_by_one() -> None:
    times = [profiled(doubled_in_a_loop, X, count).device_time for count in (10, 1000, 1_000_000)]
    assert (times[1] - times[0]) / 990 == pytest.approx((times[2] - times[1]) / 999_000, rel=1e-6)
    long = profiled(doubled_in_a_loop, X, 1_000_000)
    assert len(long.cores[0]) < 100 and long.instructions == 1_000_002
    vector = next(use for use in long.engines if use.engine == "vector")
    assert vector.busy == pytest.approx(1e6 * long.cores[0].estimates[1].occupancy)


def test_the_data_says_how_often_a_loop_runs() -> None:
    with pytest.raises(TripCountError, match="contents of 'counts'") as raised:
        profiled(doubled_as_data_says, X, nki.ShapeDtype((1, 1), "int32"))
    assert raised.value.span is not None and raised.value.code == "NKI-PR001"
    x = np.zeros((128, 512), np.float32)
    times = [profiled(doubled_as_data_says, x, np.array([[n]], np.int32)).device_time for n in (0, 100, 200)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=0.05) and times[1] > times[0]


def test_iterations_can_be_stated() -> None:
    shapes = X, nki.ShapeDtype((1, 1), "int32")
    x, count = np.zeros((128, 512), np.float32), np.array([[64]], np.int32)
    counted = profiled(doubled_as_data_says, x, count)
    line = next(span.line for span in counted.lines if span is not None and counted.lines[span].executions == 64) + 2
    for trips in (64, {line: 64}, (64, 64)):
        assert nki.profile(doubled_as_data_says, target="trn2", trips=trips)(*shapes).latency == counted.latency
    between = nki.profile(doubled_as_data_says, target="trn2", trips=(0, 64))(*shapes)
    assert between.latency == counted.latency and between.interval[1] == counted.interval[1]
    none = nki.profile(doubled_as_data_says, target="trn2", trips=0)(*shapes)
    assert between.interval[0] == none.interval[0] < counted.interval[0]


@pytest.mark.parametrize("trips", [-1, 1.5, (3, 2), "many", (1, 2, 3)])
def test_iterations_that_are_none(trips: Any) -> None:
    shapes = X, nki.ShapeDtype((1, 1), "int32")
    with pytest.raises(KernelArgumentError, match="no loop has a number of iterations") as elsewhere:
        nki.profile(doubled_as_data_says, target="trn2", trips={0: trips})(*shapes)
    line = int(elsewhere.value.fix.rpartition(" ")[2])
    for stated in (trips, {line: trips}):
        with pytest.raises(KernelArgumentError, match="this is no number of iterations"):
            nki.profile(doubled_as_data_says, target="trn2", trips=stated)(*shapes)


@nki.jit
def exchanged(x, work=1):
    """Core 1 works ``work`` times as long as core 0 before both meet."""
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    between = nl.ndarray((2, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm, name="between")
    rank = nl.program_id(0)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(work if rank else 1):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
    nisa.dma_copy(dst=between[rank], src=tile)
    nisa.core_barrier(between, (0, 1))
    if rank == 0:
        other = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=other, src=between[1])
        nisa.dma_copy(dst=result, src=other)
    return result


def test_cores_wait_for_each_other_where_they_meet() -> None:
    short, long = (profiled(exchanged[2], X, work) for work in (1, 101))
    assert [len(p.cores) for p in (short, long)] == [2, 2]
    scaled = short.cores[1].estimates[1]
    added = 100 * (scaled.occupancy + scaled.dependent)
    assert (long.device_time - short.device_time) * 1e9 == pytest.approx(added, rel=1e-6)
    first, second = long.cores
    assert Cause.meeting in first.cause and Cause.meeting not in second.cause


@nki.jit
def summed(a, b):
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, a.shape[0], 128):
        left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a[k : k + 128, :])
        nisa.dma_copy(dst=right, src=b[k : k + 128, :])
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=result, src=tile)
    return result


A, B = nki.ShapeDtype((4096, 128), "bfloat16"), nki.ShapeDtype((4096, 512), "bfloat16")


def program(reorder: bool) -> Any:
    specs = summed.specs(summed.bind(tuple(np.zeros(s.shape, nl.bfloat16.dtype) for s in (A, B)), {}), _numpy())
    return pipeline.compile(summed.func, specs, GEN3, stages=pipeline.STAGES.with_stage(Schedule(reorder)))


def _numpy() -> Any:
    from nki.frameworks.numpy import ADAPTER

    return ADAPTER


def test_the_schedule_that_the_compiler_chooses_is_no_slower_in_the_model() -> None:
    in_order, reordered = (TimedProgram(program(reorder)).run(GEN3).ns for reorder in (False, True))
    assert reordered <= in_order


def test_no_schedule_beats_the_lower_bound() -> None:
    for profile in (profiled(summed, A, B), profiled(doubled, X, 7), of_program(program(False))):
        assert 0 < profile.lower_bound.seconds <= profile.latency
    assert profiled(summed, A, B).lower_bound.resource == "descriptors (sync)"


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_interval_holds_the_latency(target: str) -> None:
    low, high = (profile := profiled(summed, A, B, target=target)).interval
    assert 0 < low <= profile.latency <= high
    assert low < high  # the launch alone is not known exactly


def test_a_profile_is_the_same_every_time() -> None:
    one, two = profiled(summed, A, B), profiled(summed, A, B)
    for name in ("start", "release", "end", "cause", "blocker"):
        assert np.array_equal(getattr(one.cores[0], name), getattr(two.cores[0], name))


def test_events_keep_the_dependences_and_the_order_of_queues() -> None:
    core = profiled(summed, A, B).cores[0]
    for queue in range(len(core.queues)):
        rows = np.flatnonzero(core.queue == queue)
        assert np.all(core.start[rows][1:] >= core.release[rows][:-1] - 1e-6)
    graph = TimedProgram(program(True)).cores[0].parts[0]
    for row, producers in enumerate(graph.graph.predecessors):  # type: ignore[union-attr]
        for producer in producers:
            if core.queue[producer] != core.queue[row]:
                assert core.start[row] >= core.end[producer] - 1e-6


@nki.jit
def turned(x, products=0):
    """16 transposes of a tile on the Tensor engine, with products between them."""
    result = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, :128])
    moving = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=x)
    results = nl.ndarray((128, 16, 128), dtype=x.dtype, buffer=nl.psum)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    with nl.no_reorder():
        for i in range(16):
            nisa.nc_transpose(dst=results[:, i], data=tile, engine=nisa.engine.tensor)
            for _ in range(products):
                nisa.nc_matmul(dst=total, stationary=tile, moving=moving)
    nisa.tensor_copy(dst=tile, src=results[:, 15])
    nisa.dma_copy(dst=result, src=tile)
    return result


def tensor_ns(products: int, target: str, part: float) -> float:
    """Time of the Tensor engine at its full clock, if ``part`` of a transpose is hidden."""
    profile = profiled(turned, nki.ShapeDtype((128, 512), "bfloat16"), products, target=target)
    profile = profile.what_if(tensor_throttle_fraction=1.0, tensor_background_transpose=part)
    return next(use.busy for use in profile.engines if use.engine == "tensor")


def test_transposes_run_in_the_background_on_trn3() -> None:
    """Trainium3 guide: chains of transposes at almost twice the rate, or beside larger products."""
    turn, product = (128 + 10) / 2.4, (512 + 10) / 2.4
    for part in (0.0, 0.5, 0.9):
        assert tensor_ns(0, "trn3", part) == pytest.approx(16 * turn * (1 - part / 2), rel=1e-6)
        assert tensor_ns(1, "trn3", part) == pytest.approx(16 * (product + turn * (1 - part)), rel=1e-6)
        assert tensor_ns(2, "trn3", part) == pytest.approx(16 * (2 * product + turn * (1 - part)), rel=1e-6)
    assert GEN3.tensor_background_transpose == 0.0 and 0.5 < GEN4.tensor_background_transpose < 1.0


def test_a_transpose_in_the_background_is_complete_no_sooner() -> None:
    """Its result takes as long, so a product that needs it waits as long."""
    x = nki.ShapeDtype((128, 512), "bfloat16")
    alone, hidden = (
        profiled(turned, x, target="trn3").what_if(tensor_background_transpose=part) for part in (0.0, 0.9)
    )
    for profile in (alone, hidden):
        core = profile.cores[0]
        rows = [row for row, inst in enumerate(core.instructions) if inst.mnemonic == "nc_transpose"]
        took = core.end[rows[0]] - core.start[rows[0]]
        assert 128 / 2.4 + 160 + 35 <= took < 2 * 128 / 2.4 + 160 + 35  # the clock is slow at first
