"""Replays of a few instructions, with times that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nki.base.element_types import bfloat16, float32
from nki.base.terms import Cause
from nki.cost.queue_replay import Replay, in_order_ns, run
from nki.cost.tensor_array import TensorClock
from nki.ir.estimate import Compute, Dma, Estimate, Matmul
from nki.ir.instruction import REGISTRY
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.tables.activations import ACTIVATIONS
from nki.target import GEN2, GEN3
from nki.target.fact_rows import Fact
from tests.cost.replays import replayed


def plain(resource: str, occupancy: float, latency: float, **more: Any) -> Compute:
    return Compute(occupancy, latency, "guess", "a test", resource, **more)


def product(occupancy: float, latency: float, **more: Any) -> Matmul:
    return Matmul(occupancy, latency, "guess", "a test", **more)


def moved(shared: float, transfer: float, dge: str = "sync", issue: float = 100.0) -> Dma:
    return Dma(shared, issue, 50.0, transfer, 7.0, 1, "guess", "a test", dge)


def test_queues_run_beside_each_other_and_each_in_order() -> None:
    replay = replayed([0, 1, 0], [plain("vector", 10, 30), plain("scalar", 5, 6), plain("vector", 10, 30)])
    assert replay.starts == [0, 0, 10]
    assert replay.now == 40
    assert [Cause(cause) for cause in replay.causes] == [Cause.block, Cause.block, Cause.queue]


def test_results_of_other_queues_come_with_their_latency() -> None:
    estimates = [plain("vector", 10, 30), plain("scalar", 5, 6)]
    replay = replayed([0, 1], estimates, {1: (0,)})
    assert replay.starts == [0, 30] and replay.now == 36
    assert replay.causes[1] == Cause.dependence and replay.blockers[1] == 0


def test_dependences_that_instructions_share_are_those_that_they_have_alone() -> None:
    """An instruction with the dependences of the one before it on its queue begins when a replay of its own would."""
    random = Random(3)
    for ports in ((), ("sbuf",)):
        queues = [random.randrange(4) for _ in range(200)]
        kinds = [plain(str(q), random.choice((5, 20, 60)), 80, ports=ports, ports_ns=4) for q in queues]
        shared: dict[int, tuple[int, ...]] = {}
        for number in range(20, 200):
            before = shared.get(number - random.randrange(1, 4), ())
            fresh = tuple(sorted({random.randrange(number) for _ in range(12)}))
            shared[number] = before if before and random.random() < 0.8 else fresh
        alone = {number: (*numbers,) for number, numbers in shared.items()}
        one, other = (replayed(queues, kinds, each) for each in (shared, alone))
        assert one.starts == other.starts and one.now == other.now
        assert (one.causes, one.blockers) == (other.causes, other.blockers)
        assert sum(cause == Cause.dependence for cause in one.causes) > 20


def test_a_chain_on_one_engine_leaves_its_pipeline_first() -> None:
    first = replace(plain("vector", 10, 30), dependent=12.0)
    replay = replayed([0, 0], [first, first], {1: (0,)}, {1: (0,)})
    assert replay.starts == [0, 22] and replay.causes[1] == Cause.chain


def test_transfers_share_the_engines_and_their_generator() -> None:
    """Issue 100, start 50; 80 ns of all engines, or 90 alone; 7 ns to the reader."""
    replay = replayed([0, 1, 2], [moved(80, 90)] * 3)
    assert replay.starts == [0, 100, 200]
    assert replay.data == [(150, 240), (250, 340), (350, 440)]
    assert replay.now == 447
    assert replay.causes[1:] == [Cause.generator] * 2 and replay.blockers[1:] == [0, 1]
    together = replayed([0, 1, 2], [moved(80, 90, f"generator {n}") for n in range(3)])
    assert together.starts == [0, 0, 0]
    assert together.data == [(150, 400)] * 3  # a third of the rate each; 10 ns more, as alone


def test_a_queue_of_data_is_that_of_the_generator_and_serves_its_transfers_in_order() -> None:
    """A small transfer waits behind a large one of its generator on any ring, and passes other generators'."""
    large, small = moved(1000, 1000, issue=10.0), moved(20, 20, issue=10.0)
    assert replayed([0, 1], [large, small]).data == [(60, 1060), (1060, 1080)]
    other = replace(small, dge="scalar")
    assert replayed([0, 1], [large, other]).data == [(60, 1080), (60, 100)]
    static = replace(small, dge="")
    assert replayed([0, 1, 2], [large, static, static]).data == [(60, 1100), (60, 120), (60, 120)]
    assert replayed([0, 1, 1], [large, static, static]).data == [(60, 1100), (60, 100), (100, 140)]


def test_transfers_of_a_ring_or_of_a_data_queue_complete_in_order() -> None:
    """Semaphores of a ring count its transfers. One of few partitions moves long, and lets the bandwidth to others."""
    narrow, wide = moved(20, 900, issue=10.0), moved(100, 100, issue=10.0)
    assert replayed([0, 1], [narrow, wide]).data == [(60, 960), (80, 960)]
    other = replace(wide, dge="scalar")
    assert replayed([0, 1], [narrow, other]).data == [(60, 980), (60, 180)]
    assert replayed([0, 0], [narrow, other]).data == [(60, 970), (70, 970)]


def test_the_reader_of_a_large_transfer_waits_for_the_small_ones_that_pass_it() -> None:
    """Ten of 20 ns on other queues take 200 ns of the bandwidth while a large transfer moves, though they begin later
    and stand behind its reader in the program.
    """
    large, small = moved(1000, 1000, "sync", 10.0), moved(20, 20, "scalar", 30.0)
    reader = plain("vector", 5, 5)
    replay = replayed([0, 2, *[1] * 10], [large, reader, *[small] * 10], {1: (0,)})
    assert replay.data[0] == (60, 1260) and replay.starts[1] == 1267
    assert replay.data[2] == (80, 120) and replay.data[-1] == (440, 480)


def test_a_transfer_that_waits_holds_up_those_behind_it() -> None:
    estimates = [plain("vector", 500, 500), moved(10, 10), moved(10, 10)]
    assert replayed([0, 1, 2], estimates, {1: (0,)}).starts == [0, 500, 600]
    static = [estimates[0], replace(moved(10, 10), dge=""), replace(moved(10, 10), dge="")]
    assert replayed([0, 1, 2], static, {1: (0,)}).starts == [0, 500, 0]


def test_ports_exclude_each_other_on_trn1() -> None:
    vector = plain("vector", 100, 100, ports=("sbuf",), ports_ns=100)
    gpsimd = plain("gpsimd", 60, 60, ports=("sbuf",), ports_ns=60)
    replay = replayed([0, 1], [vector, gpsimd], target=GEN2)
    assert replay.starts == [0, 100] and replay.causes[1] == Cause.port
    late = replayed([2, 0, 1], [plain("scalar", 30, 30), vector, gpsimd], {1: (0,)}, target=GEN2)
    assert late.starts == [0, 60, 0] and late.causes[1] == Cause.port  # who asks first has the port
    other = replace(gpsimd, ports=("psum",))
    assert replayed([0, 1], [vector, other], target=GEN2).starts == [0, 0]


@pytest.mark.parametrize("kept", [100, 140, 180])
def test_an_engine_takes_a_memory_over_when_it_knows_of_the_result(kept: float) -> None:
    """The compiler serializes such instructions (architecture guide of trn1), which takes a semaphore. An engine does
    not wait for the end of its own instruction before, nor one that uses another memory.
    """
    vector = plain("vector", 100, 180, ports=("psum",), ports_ns=kept)
    scalar = plain("scalar", 60, 90, ports=("psum",), ports_ns=90)
    replay = replayed([0, 0, 1], [vector, vector, scalar], target=GEN2)
    assert replay.starts == [0, kept + 90, kept] and replay.causes[2] == Cause.port
    assert replayed([0, 0], [vector, vector], target=GEN2).starts == [0, 100]
    apart = replace(scalar, ports=("sbuf",))
    assert replayed([0, 0, 1], [vector, vector, apart], target=GEN2).starts == [0, 100, 0]


def test_tables_are_loaded_while_operands_are_awaited() -> None:
    load = GEN3.activation_table_load_ns
    act = plain("scalar", 10, 20, table="exp")
    producer = plain("vector", 3000, 3000)
    replay = replayed([0, 1, 1], [producer, act, act], {1: (0,)})
    assert replay.starts[1] == 3000 and replay.resources.tables.loads == [(0, load)]
    early = replayed([1], [act])
    assert early.starts == [load] and early.causes == [Cause.table]
    swapped = replayed([1, 1], [act, plain("scalar", 10, 20, table="tanh")])
    assert swapped.starts[1] == load + 10 + GEN3.activation_table_swap_ns
    assert len(replayed([1, 1], [act, plain("scalar", 10, 20)]).resources.tables.loads) == 1  # a copy needs no table


WINDOW = 8192 / 2.4
"""ns of a window of the throttle on trn2."""


def test_the_clock_rises_after_a_busy_window_and_falls_after_an_idle_one() -> None:
    clock = TensorClock(GEN3)
    assert clock.length == pytest.approx(WINDOW)
    assert clock.run(0.0, 100.0, 1.0) == 200.0  # half the rate at the start
    end = clock.run(200.0, (WINDOW - 200) / 2 + 50, 1.0)  # the rest of the window, and 50 ns of the next one
    assert end == pytest.approx(WINDOW + 50)
    assert clock.windows == [0.5, 1.0]
    # The second window is idle from here on; the third is throttled, and the fourth too.
    assert clock.run(3 * WINDOW + 10, 30.0, 1.0) == pytest.approx(3 * WINDOW + 70)
    assert clock.windows == [0.5, 1.0, 0.5, 0.5]


@pytest.mark.parametrize(("share", "rate"), [(0.74, 0.5), (0.76, 1.0)])
def test_a_window_has_to_be_busy_enough(share: float, rate: float) -> None:
    clock = TensorClock(GEN3)
    clock.run(0.0, share * WINDOW / 2, 1.0)
    clock.run(WINDOW, 1.0, 1.0)
    assert clock.windows == [0.5, rate]


@pytest.mark.parametrize(("share", "rate"), [(0.31, 0.5), (0.41, 1.0)])
def test_a_window_stays_fast_while_it_is_busy_enough(share: float, rate: float) -> None:
    clock = TensorClock(GEN3)
    clock.run(0.0, WINDOW / 2, 1.0)
    clock.run(WINDOW, share * WINDOW, 1.0)
    clock.run(2 * WINDOW, 1.0, 1.0)
    assert clock.windows == [0.5, 1.0, rate]


def test_a_part_of_the_array_counts_as_a_part_of_the_window() -> None:
    clock = TensorClock(GEN3)
    clock.run(0.0, WINDOW / 2, 0.5)
    clock.run(WINDOW, 1.0, 1.0)
    assert clock.windows == [0.5, 0.5]


@pytest.mark.parametrize("alone", [True, False])
def test_gpsimd_makes_no_descriptors_while_it_computes(alone: bool) -> None:
    """The guide to descriptor generation: software uses GpSimd's cycles, and may compete with its other work."""
    transfer, compute = moved(10, 10, "gpsimd"), plain("gpsimd", 50, 60)
    ahead = [] if alone else [moved(10, 10, "sync")]  # another queue of data
    replay = replayed([2] * len(ahead) + [0, 1, 0, 1], [*ahead, transfer, compute, transfer, compute])
    assert replay.starts[-4:] == [0, 100, 150, 250]
    assert replay.causes[-3:] == [Cause.generator] * 3
    assert [blocker - len(ahead) for blocker in replay.blockers[-3:]] == [0, 1, 2]
    hardware = replace(transfer, dge="sync")
    replay = replayed([2] * len(ahead) + [0, 1, 0, 1], [*ahead, hardware, compute, hardware, compute])
    assert replay.starts[-3] == 0 and replay.starts[-1] == 50


@pytest.mark.parametrize("alone", [True, False])
def test_an_instruction_of_gpsimd_that_waits_holds_up_the_descriptors_behind_it(alone: bool) -> None:
    """The engine runs its instructions in order, those that trigger a DMA among them."""
    ahead = [] if alone else [moved(10, 10, "sync")]
    first = len(ahead)
    estimates = [*ahead, plain("vector", 500, 500), plain("gpsimd", 50, 60), moved(10, 10, "gpsimd")]
    replay = replayed([3] * first + [0, 1, 2], estimates, {first + 1: (first,)})
    assert replay.starts[first:] == [0, 500, 550]


@pytest.mark.parametrize("generators", [("gpsimd",) * 4, ("gpsimd", "sync", "gpsimd", "sync")])
def test_the_data_of_the_second_load_of_a_launch_stands_still(generators: tuple[str, ...]) -> None:
    """Measured on inf2. A transfer that is no load with generated descriptors does not count."""
    loads = [replace(moved(10.0, 10.0, dge=name, issue=1000.0), fetches=True) for name in generators]
    store = moved(10.0, 10.0, dge="scalar", issue=1000.0)
    begins: list[list[float]] = []
    for stall in (0.0, GEN2.dma_second_load_ns):
        target = GEN2.with_facts({"dma_second_load_ns": Fact(stall, "ns", "a test")})
        none: list[tuple[int, ...]] = [()] * 5
        replay = Replay(target)
        estimates, queues = [loads[0], store, *loads[1:]], [0, 1, 0, 0, 0]
        for _ in range(2):
            run(replay.block(queues, estimates, none, none))
        begins.append([begin for begin, _ in replay.data])
    late = [after - before for before, after in zip(*begins, strict=True)]
    assert late == [0, 0, pytest.approx(453), *[0] * 7]


@pytest.mark.parametrize(("rows", "columns", "throttled"), [(64, 128, (0, 1, 1)), (128, 64, (0, 0, 1))])
def test_the_interval_holds_both_readings_of_an_idle_array(rows: int, columns: int, throttled: tuple[int, ...]) -> None:
    """Products in half of the array in one go: throttled for ever if what is idle counts, else for one window. By the
    facts idle rows count, and idle columns do not.
    """
    declaration: Any = REGISTRY["nc_matmul"]
    operands = [
        Access.whole(Tensor("t", shape, dtype, buffer))
        for shape, dtype, buffer in (
            ((columns, 512), float32, Buffer.psum), ((rows, columns), bfloat16, Buffer.sbuf),
            ((rows, 512), bfloat16, Buffer.sbuf),
        )
    ]  # fmt: skip
    for target, slow in zip((GEN3.bound(0), GEN3, GEN3.bound(1)), throttled, strict=True):
        activity = declaration(*operands).cost(target).activity
        assert TensorClock(target).run(0.0, 8 * WINDOW, activity) == pytest.approx((16 if slow else 8.5) * WINDOW)


def test_a_throttled_clock_stretches_columns_and_not_what_is_beside_them() -> None:
    """Profiles of trn2: 427 ns between products of 512 columns at half of the clock, 105-107 for 128."""
    for columns, low, high in ((512, 427, 427), (128, 105, 107)):
        work, clocked = (columns + 10) / 2.4, columns / (columns + 10)
        assert low - 1 <= TensorClock(GEN3).run(0.0, work, 1.0, clocked) <= high + 1
    across = TensorClock(GEN3)
    across.run(0.0, (WINDOW - 100) / 2, 1.0)  # so that the second window is at full rate
    assert across.run(WINDOW - 100, 217.5, 1.0, 512 / 522) == pytest.approx(WINDOW + 217.5 - 100 / 2 * 522 / 512)


def test_a_swap_of_tables_costs_between_nothing_and_a_load() -> None:
    for target in (GEN2, GEN3):
        least, most = (target.bound(end).activation_table_swap_ns for end in (0, 1))
        assert (least, most) == (0, target.activation_table_load_ns)
        assert target.activation_table_swap_ns == pytest.approx((least + most) / 2, abs=1)


def test_a_swap_between_sets_with_published_names_is_a_load() -> None:
    """Exponentials and logarithms share a set, reciprocal roots have one of their own; for others it is unknown."""
    tables = {name: ACTIVATIONS[name].table for name in ("exp", "log", "rsqrt", "reciprocal", "gelu", "tanh", "copy")}
    assert tables["exp"] == tables["log"] and not tables["copy"]
    for first, second, known in [
        ("exp", "rsqrt", True), ("gelu", "reciprocal", True), ("rsqrt", "reciprocal", True), ("exp", "gelu", False),
        ("rsqrt", "tanh", False),
    ]:  # fmt: skip
        acts = [plain("scalar", 10, 20, table=tables[name]) for name in (first, second)]
        (_, loaded), (begin, end) = replayed([1, 1], acts).resources.tables.loads
        assert begin == loaded + 10
        assert end - begin == (GEN3.activation_table_load_ns if known else GEN3.activation_table_swap_ns)


def test_long_work_takes_the_rates_of_its_windows() -> None:
    """8 windows of work at full rate: the first window does half of one, the others one each."""
    clock = TensorClock(GEN3)
    assert clock.run(0.0, 8 * WINDOW, 1.0) == pytest.approx(8.5 * WINDOW)


def test_trn1_has_a_limit_of_activity_and_no_throttle() -> None:
    assert all(Replay(target).resources.array.clock is None for target in (GEN2, GEN2.bound(0), GEN2.bound(1)))
    assert [target.tensor_activity_limit for target in (GEN2.bound(0), GEN2, GEN3)] == [1.0, 0.875, 1.0]


def test_bounds_of_a_target() -> None:
    fact: Fact[Any] = GEN2.fact("dma_static_start_ns")
    assert fact.range == (197.0, 544.0)
    assert GEN2.bound(0).dma_static_start_ns == 197.0 and GEN2.bound(1).dma_static_start_ns == 544.0
    assert GEN2.dma_static_start_ns == 331.0
    assert GEN3.bound(0).dma_trigger_ns == 517.0 and GEN3.bound(0).dma_hardware_trigger_ns == 517.0


def test_the_end_in_any_order_is_that_of_a_replay_with_records() -> None:
    """Random blocks: queues, shared generators and ports, tables, a throttled clock, parts of the array, chains."""
    random = Random(3)
    for target in (GEN2, GEN3):
        for _ in range(200):
            count, ports = random.randrange(1, 40), ("sbuf",)
            queues = [random.randrange(6) for _ in range(count)]
            estimates: list[Estimate] = []
            for queue in queues:
                if queue > 3:
                    share = random.randrange(1, 90)
                    origin = random.choice(("a", "gpsimd", ""))
                    estimates.append(moved(share, share + random.choice((0, 40)), origin))
                    continue
                name, busy = ("vector", "scalar", "tensor", "gpsimd")[queue], random.randrange(1, 3000)
                table = random.choice(("", "exp", "tanh")) if name == "scalar" else ""
                latency, activity = busy + random.randrange(50), random.random()
                if name != "tensor":
                    estimates.append(plain(name, busy, latency, ports=ports, table=table, dependent=9.0))
                    continue
                part = {"array_mask": 1 << random.randrange(2), "array_ns": 2.0 * busy}
                estimates.append(product(busy, latency, activity=activity, **(part if random.random() < 0.5 else {})))
            predecessors = [tuple(sorted({random.randrange(n) for _ in range(2)})) if n else () for n in range(count)]
            chained = [tuple(p for p in predecessors[n] if queues[p] == queues[n]) for n in range(count)]
            depths: list[int] = []
            for before in predecessors:
                depths.append(1 + max((depths[p] for p in before), default=-1))
            order = sorted(range(count), key=depths.__getitem__)
            place = {number: position for position, number in enumerate(order)}
            records = Replay(target)
            run(
                records.block(
                    [queues[n] for n in order],
                    [estimates[n] for n in order],
                    [tuple(place[p] for p in predecessors[n]) for n in order],
                    [tuple(place[p] for p in chained[n]) for n in order],
                )
            )
            assert in_order_ns(queues, estimates, predecessors, chained, target, order) == records.now
            again = Replay(target)
            run(again.block(queues, estimates, predecessors, chained))
            assert in_order_ns(queues, estimates, predecessors, chained, target) == again.now


def test_the_dma_of_gpsimd_serves_one_transfer_after_the_other_beside_the_engines() -> None:
    """Transfers that take nothing of the DMA engines, on two rings; a third one keeps these meanwhile."""
    replay = replayed([0, 1, 2], [moved(0, 500, ""), moved(0, 500, ""), moved(300, 300, "")])
    assert replay.data == [(150, 650), (650, 1150), (150, 450)]


def test_scalar_commands_a_transfer_while_it_computes() -> None:
    """Its sequencer is held for 100 ns; the instruction before goes on, and the one behind waits."""
    act, load = plain("scalar", 300, 300), moved(10, 10, dge="scalar")
    assert replayed([0, 1, 0], [act, load, act]).starts == [0, 0, 300]
    short = plain("scalar", 40, 40)
    after = replayed([0, 1, 0, 2, 0], [short, load, short, load, short])
    assert after.starts == [0, 0, 100, 100, 200] and after.causes[2] == Cause.generator
    other = replace(load, dge="sync")
    assert replayed([0, 1, 0, 2, 0], [short, other, short, other, short]).starts == [0, 0, 40, 100, 80]


def test_a_transfer_that_waits_holds_up_the_engine_that_commands_it() -> None:
    act, load = plain("scalar", 40, 40), moved(10, 10, dge="scalar")
    waits = replayed([2, 1, 0], [plain("vector", 500, 500), load, act], {1: (0,)})
    assert waits.starts == [0, 500, 600]
    ahead = replayed([2, 0, 1], [plain("vector", 500, 500), act, load], {2: (0,)})
    assert ahead.starts == [0, 0, 500]


def test_a_port_is_kept_as_long_as_its_instruction_needs_it() -> None:
    vector = plain("vector", 100, 100, ports=("bus",), ports_ns=30)
    gpsimd = plain("gpsimd", 60, 60, ports=("bus",), ports_ns=60)
    assert replayed([0, 1], [vector, gpsimd]).starts == [0, 30]
    first = plain("scalar", 10, 10)
    assert replayed([2, 0, 1], [first, vector, gpsimd], {1: (0,)}).starts == [0, 60, 0]


def test_a_short_wait_for_a_port_leaves_the_cause() -> None:
    """Most of the stall is due to the result of another engine, and the chain of causes goes on there."""
    estimates = [
        plain("scalar", 90, 90),
        plain("vector", 100, 100, ports=("bus",), ports_ns=100),
        plain("gpsimd", 60, 60, ports=("bus",), ports_ns=60),
    ]
    replay = replayed([2, 0, 1], estimates, {2: (0,)})
    assert replay.starts[2] == 100 and replay.causes[2] == Cause.dependence and replay.blockers[2] == 0
