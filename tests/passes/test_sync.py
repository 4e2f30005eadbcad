"""Waits: none is missing, none is too many, and a kernel that brings its own is held to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.errors import MissingWaitError, OutOfBoundsError, QueueDeadlockError
from nki.ir.instruction import REGISTRY
from nki.ir.program import Program
from nki.ir.text import parser, printer
from nki.passes import sync
from nki.sim.interleaving import QueueSimulator
from nki.target import ENVIRONMENT
from tests.kernels import test_corpus  # noqa: F401  # enters the kernels into the corpus
from tests.kernels.case import CASES
from tests.support.interleaved_run import compiled, happens, in_order, onward, played, run, waits, without

from . import orders, pairs, programs


def check_waits(kernel: Program) -> int:
    """How many waits there are; asserts that none is missing, and that without any one of them one would be."""
    count = 0
    for core in kernel.cores:
        for region in orders.straight(core.body):
            needs = orders.dependences(core, region)
            assert not orders.violated(needs, orders.before(region))
            for i, inst in enumerate(region):
                for wait in inst.waits:
                    count += 1
                    assert orders.violated(needs, orders.before(region, (i, wait))), f"{wait} of {inst} is implied"
    return count


@pytest.mark.parametrize("name", CASES)
def test_no_wait_is_missing_and_none_is_implied(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setenv(ENVIRONMENT, case.targets[-1])
    assert check_waits(compiled(case.kernel, *case.arguments()))


@settings(max_examples=40)
@given(programs.programs)
def test_random_programs_wait_for_what_they_need_and_nothing_else(steps):
    kernel = compiled(programs.program, *programs.INPUTS, steps)
    sync.check_waits(kernel)
    assert check_waits(kernel)
    for inst, wait in waits(kernel):
        with pytest.raises(MissingWaitError):
            sync.check_waits(without(kernel, inst, wait))


@settings(max_examples=20)
@given(pairs.programs)
def test_programs_for_two_cores_wait_for_what_they_need_and_nothing_else(plan):
    assert check_waits(compiled(pairs.program[2], *pairs.INPUTS, plan))


@settings(max_examples=15)
@given(programs.programs)
def test_random_programs_compute_the_same_in_every_order(steps):
    expected = in_order(compiled(programs.program, *programs.INPUTS, steps, stop="order"), programs.INPUTS)
    for kernel in (
        compiled(programs.program, *programs.INPUTS, steps),
        compiled(programs.program, *programs.INPUTS, steps, reorder=False),
    ):
        for seed in range(5):
            assert played(kernel, programs.INPUTS, seed) == expected, f"seed {seed}"


@nki.jit
def choosing(table, lists):
    """Pieces of a tile are written by several queues; offsets may choose any, and what they scatter to is read."""
    tile, index = nl.ndarray((16, 64), table.dtype), nl.load(lists)
    for first in (0, 16, 32, 48):
        nisa.dma_copy(tile[:, first : first + 16], table[:, first : first + 16])
    found = nl.ndarray((16, 32), table.dtype)
    nisa.activation(found, nl.square, tile.indirect(index))
    nisa.tensor_tensor(tile.indirect(index), found, found, nl.add)
    nisa.tensor_scalar(index, index, nl.bitwise_xor, 1)
    out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    for first in (0, 16, 32, 48):
        nl.store(out[:, first : first + 16], tile[:, first : first + 16])
    return out


def test_what_offsets_choose_waits_for_all_of_the_tile(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "trn3")
    rng = np.random.default_rng(4)
    inputs = (rng.standard_normal((16, 64)).astype(np.float32), rng.integers(0, 64, (16, 2)).astype(np.uint16))
    expected = in_order(compiled(choosing, *inputs, stop="order"), inputs)
    kernel = compiled(choosing, *inputs)
    sync.check_waits(kernel)
    for seed in range(30):
        assert played(kernel, inputs, seed) == expected, f"seed {seed}"


STEPS = (
    (3, 0, (3, 0, 2, 0), (4, 0, 1, 0), (0, 0, 1, 0)),
    (4, 0, (4, 0, 1, 0), (3, 0, 2, 0), (0, 0, 1, 0)),
    (2, 0, (0, 1, 3, 32), (4, 2, 1, 0), (0, 0, 1, 0)),
    (0, 3, (1, 0, 1, 0), (2, 0, 1, 0), (0, 0, 1, 0)),
    (1, 0, (2, 0, 1, 0), (1, 0, 1, 0), (4, 0, 1, 0)),
    (3, 0, (3, 1, 1, 32), (2, 0, 1, 0), (0, 0, 1, 0)),
)


def test_some_order_shows_that_a_wait_is_missing():
    kernel = compiled(programs.program, *programs.INPUTS, STEPS)
    expected = in_order(kernel, programs.INPUTS)
    every = list(waits(kernel))
    shown = [
        any(happens(less, programs.INPUTS, seed) != expected for seed in range(60))
        for less in (without(kernel, inst, wait) for inst, wait in every)
    ]
    assert len(every) > 10
    # Some waits keep an instruction from overwriting what is read again with the same bits.
    assert sum(shown) >= 0.8 * len(every)


def check_mutants(kernel: Program, inputs: Sequence[np.ndarray], most: int) -> None:
    """Without a wait, the simulator lets an instruction begin before one that it depends on is complete.

    ``most``: about so many waits, of all places in the kernel, are left out in turn.
    """
    places = [(core, region) for core in kernel.cores for region in orders.straight(core.body)]
    every = [
        (n, i, wait) for n, (_, region) in enumerate(places) for i, inst in enumerate(region) for wait in inst.waits
    ]
    for n, i, wait in every[:: max(1, len(every) // most)]:
        core, region = places[n]
        producer, consumer = orders.violated(orders.dependences(core, region), orders.before(region, (i, wait)))[0]
        simulator = QueueSimulator(0, len(kernel.cores), last=region[producer])
        less = without(kernel, region[i], wait)
        try:
            run(less, inputs, simulator)
        except OutOfBoundsError:  # an index that was read too early
            continue
        began = [r for other in less.cores for r in orders.straight(other.body)][n][consumer]
        happened = [(id(each), complete) for each, complete in simulator.history]
        if (id(began), False) in happened:  # it may be in a loop without rounds
            assert happened.index((id(began), False)) < happened.index((id(region[producer]), True))


@settings(max_examples=15)
@given(programs.programs)
def test_the_simulator_finds_the_order_that_a_missing_wait_allows(steps):
    check_mutants(compiled(programs.program, *programs.INPUTS, steps), programs.INPUTS, 5)


@settings(max_examples=10)
@given(pairs.programs)
def test_it_finds_that_on_two_cores(plan):
    check_mutants(compiled(pairs.program[2], *pairs.INPUTS, plan), pairs.INPUTS, 5)


@pytest.mark.parametrize("target", targets.GENERATIONS)
def test_the_hardware_has_a_semaphore_for_every_queue(target):
    engines = {e.name for inst in REGISTRY.values() for e in inst.engines} - {"dma", "unknown"}
    barrier = 1
    assert len(engines) + target.dma_queues_per_engine + barrier <= target.semaphores


LOOP = ((0, 0, (3, 0, 1, 0), (4, 0, 1, 0), (0, 0, 1, 0)), (3, (STEPS[0], STEPS[1], STEPS[4])), STEPS[5])


def test_counts_in_a_body_are_those_of_one_round():
    kernel = compiled(programs.program, *programs.INPUTS, LOOP)
    (loop,) = [s for s in kernel.core.body if not hasattr(s, "queue")]
    counts: dict[str, int] = {}
    for inst in loop.body:
        assert all(count <= counts.get(queue, 0) for queue, count in inst.waits)
        counts[inst.queue] = counts.get(inst.queue, 0) + 1
    assert any(inst.waits for inst in loop.body)


def test_the_text_of_a_kernel_with_waits_is_the_kernel():
    kernel = compiled(programs.program, *programs.INPUTS, LOOP)
    shown = printer.show(kernel)
    assert " wait " in shown
    assert " on vector" in shown
    read = parser.parse(shown)
    assert read == kernel
    assert printer.show(onward(read)) == shown


def test_a_kernel_without_waits_gets_them():
    kernel = compiled(programs.program, *programs.INPUTS, STEPS)
    bare = kernel.with_cores([kernel.core.with_body([inst.with_schedule(waits=()) for inst in kernel.instructions()])])
    assert onward(bare) == kernel


def test_waits_that_never_come_are_a_deadlock():
    kernel = compiled(programs.program, *programs.INPUTS, STEPS)
    inst, (queue, count) = next(waits(kernel))
    beyond = inst.with_schedule(waits=((queue, count + 1000),))
    stuck = kernel.with_cores(
        [kernel.core.with_body([beyond if each is inst else each for each in kernel.instructions()])]
    )
    with pytest.raises(QueueDeadlockError, match=r"waits for [\w.]+>=\d+, which comes to"):
        onward(stuck)
    with pytest.raises(QueueDeadlockError, match="no queue can go on"):
        played(stuck, programs.INPUTS, 0)
