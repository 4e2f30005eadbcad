"""Kernels on two cores: one program each, shared HBM, barriers and exchanges; eager and native give the same bits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor
from nki.base.errors import DeadlockError, OutOfBoundsError, UnwrittenReadError
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning
from nki.compilation import eager, pipeline
from nki.compilation.executable import Executable
from nki.ir.text import artifact, parser, printer
from nki.ir.types import TensorSpec
from nki.target import find
from tests.support.kernel_parts import returned

A = np.arange(64 * 8, dtype=np.float32).reshape(64, 8) ** 1.5
Run = Callable[[Any], Callable[..., Any]]
BOTH = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["compiled", "simulated"])


@nki.jit
def differences(a):
    """Each core subtracts the other's half from its own; then they swap the results through shared memory."""
    core, half = nl.program_id(0), a.shape[0] // 2
    mine, other = nl.ds(core * half, half), nl.ds((1 - core) * half, half)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="between")
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
    own = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
    nl.store(own, nl.load(a))
    tile = nl.load(own)
    nisa.tensor_tensor(tile, tile, tile, nl.add)
    return returned(tile)


@BOTH
def test_a_kernel_that_ignores_its_number_runs_on_both_alike(run: Run) -> None:
    assert np.array_equal(run(double[2])(A), 2 * A)


@nki.jit
def through_memories(a):
    """The cores swap rows, which go through private memory and then shared memory."""
    core = nl.program_id(0)
    out = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    private = nl.ndarray((1, 8), dtype=a.dtype, buffer=nl.private_hbm)
    shared = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.shared_hbm, name="shared")
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


def halves(buffer: Any, name: str, returned: bool, exchanged: bool) -> Callable[..., Any]:
    """Each core writes its half of a tensor and, behind a barrier, copies one of the halves to a result."""

    def kernel(a):
        core, half = nl.program_id(0), a.shape[0] // 2
        mine, read = nl.ds(core * half, half), nl.ds((1 - core if exchanged else core) * half, half)
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=buffer, name=name)
        tile = nl.ndarray((half, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        scratch = nl.ndarray(tile.shape, dtype=a.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=tile, src=a[mine])
        nisa.dma_copy(dst=scratch, src=tile)
        nisa.dma_copy(dst=kept[mine], src=scratch)
        if returned and not exchanged:
            return kept
        nisa.core_barrier(tile if buffer == nl.hbm else kept, (0, 1))
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=tile, src=kept[read])
        nisa.dma_copy(dst=out[mine], src=tile)
        return (out, kept) if returned else out

    return kernel


RELEASED = pytest.mark.parametrize("version", [None, "0.2", "0.6", "0.7"])
SWAPPED = np.concatenate([A[32:], A[:32]])


@BOTH
@RELEASED
@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
def test_a_result_in_hbm_is_one_tensor_of_all_cores(run: Run, version: str | None, capsys: Any) -> None:
    """Only a result: what a core keeps in ``nl.hbm`` besides is its own, under whatever name."""

    def kernel(a):
        print("recorded")
        return halves(nl.hbm, "", True, False)(a)

    assert np.array_equal(run(nki.jit(kernel, nki_version=version)[2])(A), A)
    assert capsys.readouterr().out.count("recorded") == 2


def test_a_result_in_hbm_gives_a_warning() -> None:
    with pytest.warns(NkiDeprecationWarning, match=r"'kept' is returned and in nl\.hbm.*results are in nl\.shared_hbm"):
        nki.jit(halves(nl.hbm, "", True, False))[2].compile(A)


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
def test_programs_of_a_grid_fill_one_result_in_hbm() -> None:
    def kernel(a):
        rows = nl.ds(nl.program_id(0) * 8, 8)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
        own = nl.ndarray((8, a.shape[1]), dtype=a.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=own, src=a[rows])
        nisa.dma_copy(dst=out[rows, nl.ds(nl.program_id(1) * 4, 4)], src=own[:, nl.ds(nl.program_id(1) * 4, 4)])
        return out

    spec = {"a": TensorSpec("a", A.shape, nl.float32)}
    program, (result,) = eager.run(kernel, spec, [A], find("trn2"), grid=(8, 2))
    assert np.array_equal(result, A)
    assert program.outputs[0].buffer is nl.shared_hbm
    compiled = pipeline.compile(kernel, spec, find("trn2"), grid=(8, 2))
    assert sum(tensor.buffer is nl.hbm for tensor in compiled.core.tensors) == 16 + (
        compiled.inputs[0].buffer is nl.hbm
    )


@BOTH
def test_cores_do_not_share_what_is_in_hbm_and_stays(run: Run) -> None:
    with pytest.raises(UnwrittenReadError, match="'kept'"):
        run(nki.jit(halves(nl.hbm, "", False, True))[2])(A)


@BOTH
@RELEASED
def test_an_unnamed_tensor_that_cores_exchange_gives_a_warning(run: Run, version: str | None) -> None:
    """One release has it as the device: one for each core."""
    kernel = run(nki.jit(halves(nl.shared_hbm, "", False, True), nki_version=version)[2])
    want = nullcontext() if version is None else pytest.raises(UnwrittenReadError, match="'kept'")
    warned = pytest.warns(NkiPortabilityWarning, match="core 0 reads from 'kept' what core 1 writes.*`name='kept'`")
    with warned, want:
        assert np.array_equal(kernel(A), SWAPPED)


@BOTH
@RELEASED
@pytest.mark.parametrize(
    ("name", "returned", "exchanged"),
    [("kept", False, True), ("", True, True), ("", True, False), ("", False, False)],
    ids=["named", "also returned", "returned", "of its own half"],
)
def test_a_tensor_of_both_cores_that_the_device_has_too(
    run: Run, version: str | None, name: str, returned: bool, exchanged: bool
) -> None:
    kernel = nki.jit(halves(nl.shared_hbm, name, returned, exchanged), nki_version=version)[2]
    got = run(kernel)(A)
    first = got[0] if returned and exchanged else got
    assert np.array_equal(first, SWAPPED if exchanged else A)
    program = kernel.compile(A).kernel
    assert parser.parse(printer.show(program)) == program


@BOTH
def test_unnamed_zeros_that_cores_exchange_give_a_warning(run: Run) -> None:
    def kernel(a):
        core = nl.program_id(0)
        mine, other = nl.ds(core * 32, 32), nl.ds(32 - core * 32, 32)
        between = nl.empty_like(a, buffer=nl.shared_hbm)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(between[mine], nl.load(a[mine]))
        nisa.core_barrier(between, (0, 1))
        nl.store(out[mine], nl.load(between[other]))
        return out

    with pytest.warns(NkiPortabilityWarning, match="`name='between'`"):
        assert np.array_equal(run(nki.jit(kernel)[2])(A), SWAPPED)
