"""Exchanges and barriers among three and more cores: in turns, in random interleavings, and in native code."""

from __future__ import annotations

import numpy as np
import pytest

from nki.backend.numpy import executor
from nki.backend.numpy.memory import Memory
from nki.base.errors import DeadlockError, QueueDeadlockError
from nki.compilation.executable import Executable
from nki.ir.program import Program
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin
from nki.sim.interleaving import QueueSimulator

from .rings import arguments, expected, ring

CORES = pytest.mark.parametrize("cores", [2, 3, 4, 7])


def native(program: Program, source: np.ndarray) -> np.ndarray:
    out = np.empty_like(source)
    Executable(program).launch([source.ctypes.data, out.ctypes.data])
    return out


def in_turns(program: Program, source: np.ndarray) -> np.ndarray:
    return executor.run(program, [source])[0]


def interleaved(program: Program, source: np.ndarray, seed: int) -> np.ndarray:
    """Each core has one queue: only the rendezvous orders it."""
    memory = Memory()
    memory.bind(program.inputs[0], source)
    simulator = QueueSimulator(seed, len(program.cores))
    executors = [executor.Reference(memory, each) for each in simulator.rendezvous.participants()]
    simulator.run([(each, core.body) for each, core in zip(executors, program.cores, strict=True)])
    return memory.array(program.outputs[0])


@CORES
@pytest.mark.parametrize("rounds", [1, 5])
def test_a_ring_of_cores_passes_rows_on(cores: int, rounds: int) -> None:
    program, source = ring(cores, rounds), arguments(cores)
    for _ in range(3):
        assert np.array_equal(native(program, source), expected(source, rounds))
    assert np.array_equal(in_turns(program, source), expected(source, rounds))
    for seed in range(10):
        assert np.array_equal(interleaved(program, source, seed), expected(source, rounds))


@pytest.mark.parametrize("cores", [2, 3, 4])
@pytest.mark.parametrize("run", [native, in_turns])
def test_a_core_that_leaves_a_barrier_out_is_a_deadlock_that_names_it(cores: int, run) -> None:
    program = ring(cores, without_barrier=cores - 1)
    with pytest.raises(DeadlockError, match=rf"core \d waits at core_barrier.*core {cores - 1} has ended"):
        run(program, arguments(cores))


def test_an_interleaving_in_which_no_queue_can_run_is_a_deadlock() -> None:
    with pytest.raises(QueueDeadlockError, match="of core 1 waits for another core"):
        interleaved(ring(3, without_barrier=2), arguments(3), 0)


def test_barriers_of_a_part_of_the_cores_leave_the_others_alone() -> None:
    log: list[tuple[str, int]] = []
    (barrier, *_) = [i for i in ring(4).instructions() if isinstance(i, CoreBarrier)]

    def work(each: Participant) -> int:
        log.append(("begins", each.rank))
        if each.rank != 2:
            each.barrier(barrier, (0, 1, 3), "some")
        log.append(("ends", each.rank))
        return each.exchange(barrier, each.rank, (each.rank + 1) % 4, (each.rank + 3) % 4, 0)

    assert RoundRobin[int](4).run([work] * 4) == [3, 0, 1, 2]
    assert log.index(("begins", 3)) < min(log.index(("ends", rank)) for rank in (0, 1, 3))
    assert log.index(("ends", 2)) == log.index(("begins", 2)) + 1


def test_a_core_that_can_go_on_is_not_taken_for_deadlocked() -> None:
    """Core 1 waits for core 2, which sends only when core 0 has waited for core 1 in vain."""
    (barrier, *_) = [i for i in ring(3).instructions() if isinstance(i, CoreBarrier)]

    def work(each: Participant) -> int:
        if each.rank == 2:
            each.barrier(barrier, (1, 2), "late")
            return 2
        if each.rank == 1:
            each.barrier(barrier, (1, 2), "late")
        each.barrier(barrier, (0, 1), "early")
        return each.rank

    assert RoundRobin[int](3).run([work] * 3) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_cores_of_an_interleaving_may_share_instructions(seed: int) -> None:
    """Each core arrives at the barrier itself: it is the core's queue that is in flight, not the instruction."""
    (barrier, *_) = [i for i in ring(2).instructions() if isinstance(i, CoreBarrier)]
    simulator = QueueSimulator(seed, 2)
    executors = [executor.Reference(Memory(), each) for each in simulator.rendezvous.participants()]
    simulator.run([(each, [barrier]) for each in executors])
    assert [complete for _, complete in simulator.history].count(True) == 2
