"""Kernels on two cores: one program each, shared HBM, barriers and exchanges; eager and native give the same bits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor
from nki.base.errors import DeadlockError, OutOfBoundsError
from nki.compiler import pipeline
from nki.compiler.executable import Executable
from nki.ir.text import artifact, parser, printer
from nki.target import find

A = np.arange(64 * 8, dtype=np.float32).reshape(64, 8) ** 1.5
Run = Callable[[Any], Callable[..., Any]]
BOTH = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["compiled", "simulated"])


@nki.jit
def differences(a):
    """Each core subtracts the other's half from its own; then they swap the results through shared memory."""
    core, half = nl.program_id(0), a.shape[0] // 2
    mine, other = nl.ds(core * half, half), nl.ds((1 - core) * half, half)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile, got = nl.load(a[mine]), nl.ndarray((half, a.shape[1]), dtype=a.dtype)
    nisa.sendrecv(tile, got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_tensor(tile, tile, got, nl.subtract)
    nl.store(between[mine], tile)
    nisa.core_barrier(between, (0, 1))
    nl.store(out[mine], nl.load(between[other]))
    return out


WANT = np.concatenate([A[32:] - A[:32], A[:32] - A[32:]])


@BOTH
def test_two_cores_exchange_and_meet(run: Run) -> None:
    for _ in range(3):
        assert np.array_equal(run(differences[2])(A), WANT)


def test_one_kernel_object_runs_on_one_core_and_on_two() -> None:
    @nki.jit
    def count(a):
        out = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.full((1, 1), nl.num_programs() + 0.5 * nl.program_id(0), nl.float32)
        nl.store(out[:, nl.ds(nl.program_id(0), 1)], tile)
        if nl.num_programs() == 1:
            nl.store(out[:, 1:2], tile)
        return out

    assert count(A).tolist() == count[1](A).tolist() == [[1.0, 1.0]]
    assert count[2](A).tolist() == nki.simulate(count[2])(A).tolist() == [[2.0, 2.5]]


@nki.jit
def double(a):
    """Both cores do and write the same."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    own = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
    nl.store(own, nl.load(a))
    tile = nl.load(own)
    nisa.tensor_tensor(tile, tile, tile, nl.add)
    nl.store(out, tile)
    return out


@BOTH
def test_a_kernel_that_ignores_its_number_runs_on_both_alike(run: Run) -> None:
    assert np.array_equal(run(double[2])(A), 2 * A)


@nki.jit
def through_memories(a):
    """The cores swap rows, which go through private memory and then shared memory."""
    core = nl.program_id(0)
    out = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    private = nl.ndarray((1, 8), dtype=a.dtype, buffer=nl.private_hbm)
    shared = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(private, nl.load(a[core : core + 1]))
    nl.store(shared[core : core + 1], nl.load(private))
    nisa.core_barrier(shared, (0, 1))
    nl.store(out[core : core + 1], nl.load(shared[1 - core : 2 - core]))
    return out


@BOTH
def test_tensors_on_chip_and_private_ones_are_each_cores_own(run: Run) -> None:
    assert np.array_equal(run(through_memories[2])(A), A[[1, 0]])


@nki.jit
def to_and_fro(a):
    """A running sum that goes to and fro: an exchange in a loop that runs on the device."""
    core = nl.program_id(0)
    out = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    mine, got = nl.load(a[core : core + 1]), nl.ndarray((1, 8), dtype=a.dtype)

    def swap(_):
        nisa.sendrecv(mine, got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=3)
        nisa.tensor_tensor(mine, mine, got, nl.add if core else nl.subtract)

    nl.fori_loop(0, 5, swap)
    nl.store(out[core : core + 1], mine)
    return out


@BOTH
def test_cores_meet_in_every_round_of_a_loop(run: Run) -> None:
    x, y = A[0], A[1]
    for _ in range(5):
        x, y = x - y, y + x
    assert np.array_equal(run(to_and_fro[2])(A), np.stack([x, y]))


def test_text_and_artifact_hold_both_programs() -> None:
    kernel = differences[2].compile(A).kernel
    assert len(kernel.cores) == 2 and kernel.size == sum(1 for c in kernel.cores for _ in c.instructions())
    written = printer.show(kernel)
    again, kept = parser.parse(written), artifact.loads(artifact.dumps(kernel))
    assert again == kept == kernel and printer.show(again) == written
    assert again.outputs[0] in again.cores[1].tensors and again.shared() == [again.cores[0].tensors[2]]
    assert [line for line in written.splitlines() if line.startswith("core")] == ["core 1 {"]
    for read in (again, kept):
        compiled = pipeline.compile(None, {}, find(read.target), start=read)
        assert np.array_equal(executor.run(compiled, [A])[0], WANT)
        out = np.empty_like(A)
        Executable(compiled).launch([A.ctypes.data, out.ctypes.data])
        assert np.array_equal(out, WANT)


def test_launches_in_several_threads_do_not_meet_each_other() -> None:
    compiled, wrong = differences[2].compile(A), []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).random(A.shape, np.float32)
        want = np.concatenate([a[32:] - a[:32], a[:32] - a[32:]])
        for _ in range(20):
            out = np.empty_like(a)
            compiled.launch([a.ctypes.data, out.ctypes.data])
            wrong.extend([seed] * (not np.array_equal(out, want)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@BOTH
def test_a_core_that_fails_lets_the_other_go(run: Run) -> None:
    """Not the deadlock that follows is said, but what led to it."""

    @nki.jit
    def kernel(a, index):
        core = nl.program_id(0)
        out = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((1, 8), dtype=a.dtype)
        if core == 1:
            register = nisa.register_alloc(0)
            nisa.register_load(register, nl.load(index))
            nisa.dma_copy(tile, a.ap([[8, 1], [1, 8]], scalar_offset=register))
        else:
            nisa.dma_copy(tile, a[0:1])
        nisa.sendrecv(tile, tile, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nl.store(out[core : core + 1], tile)
        return out

    assert np.array_equal(run(kernel[2])(A, np.array([[5]], np.int32)), A[[5, 0]])
    with pytest.raises(OutOfBoundsError):
        run(kernel[2])(A, np.array([[64]], np.int32))
    assert np.array_equal(run(kernel[2])(A, np.array([[7]], np.int32)), A[[7, 0]])


@st.composite
def meetings(draw: st.DrawFn) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """What two cores do, in order: barriers about one of two tensors, exchanges through one of two pipes."""
    step = st.tuples(st.sampled_from(["barrier", "exchange"]), st.integers(0, 1))
    first = draw(st.lists(step, max_size=4))
    return first, list(first) if draw(st.booleans()) else draw(st.lists(step, max_size=4))


@settings(max_examples=25)
@given(meetings())
def test_cores_end_if_and_only_if_they_come_to_the_same_meetings(
    steps: tuple[list[tuple[str, int]], list[tuple[str, int]]],
) -> None:
    @nki.jit
    def kernel(a, plans):
        core = nl.program_id(0)
        shared = [nl.ndarray((1, 8), dtype=a.dtype, buffer=nl.shared_hbm, name=f"shared{n}") for n in range(2)]
        out = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a[core : core + 1])
        for kind, number in plans[core]:
            if kind == "barrier":
                nisa.core_barrier(shared[number], (0, 1))
            else:
                nisa.sendrecv(tile, tile, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=number)
        nl.store(out[core : core + 1], tile)
        return out

    swaps = sum(kind == "exchange" for kind, _ in steps[0])
    for run in (kernel[2], nki.simulate(kernel[2])):
        if steps[0] == steps[1]:
            assert np.array_equal(run(A, steps), A[[swaps % 2, 1 - swaps % 2]])
        else:
            with pytest.raises(DeadlockError):
                run(A, steps)
