"""Hazards that the compiler finds: each is one of the simulator's, and no certain one is missed."""

from __future__ import annotations

import resource
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import (
    AccumulationError,
    CoreRaceError,
    DeadlockError,
    NkiError,
    UnwrittenReadError,
)
from nki.base.warning import NkiWarning
from nki.compilation import pipeline
from nki.jit import adapter_for

A = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) % 7 + 1
Op = tuple[str, int, int, int]
Verdict = tuple[str, int] | None
"""Code and line of the error."""


def compiled(kernel: Any, *arguments: Any) -> tuple[Verdict, set[str]]:
    """The verdict of the compiler, and its warnings."""
    bound = kernel.bind(arguments, {})
    specs = kernel.specs(bound, adapter_for(arguments, {}))
    return verdict(
        lambda: pipeline.compile(kernel.func, specs, kernel.chosen_target(), grid=kernel.grid, stop="hazards")
    )


def simulated(kernel: Any, *arguments: Any) -> tuple[Verdict, set[str]]:
    """The verdict of a run in the simulator, and its warnings."""
    return verdict(lambda: nki.simulate(kernel)(*arguments))


def verdict(run: Any) -> tuple[Verdict, set[str]]:
    result = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run()
        except NkiError as error:
            result = error.code, error.span.line if error.span else 0
    return result, {str(w.message) for w in caught if w.category is NkiWarning}


def half(tile, part):
    """All of a tile, its first or last columns, or its first or last rows."""
    return (tile, tile[:, 0:16], tile[:, 16:32], tile[0:32], tile[32:64])[part]


def operate(kind, into, source, other, sums, register, kept):
    """One instruction of a random program."""
    if kind == "copy":
        nisa.tensor_copy(into, source)
    elif kind == "scale":
        nisa.tensor_scalar(into, source, nl.multiply, 0.5)
    elif kind == "add":
        nisa.tensor_tensor(into, source, other, nl.add)
    elif kind == "fill":
        nisa.memset(into, 1.0)
    elif kind == "choose":
        chosen = nl.ndarray(source.shape, nl.uint8)
        nisa.tensor_scalar(chosen, source, nl.greater, 3.0)
        nisa.tensor_copy_predicated(into, other, chosen)
    elif kind == "turn":
        nisa.nc_transpose(sums[1][0 : into.shape[1]], into[0:32])
    elif kind in ("begin", "go_on", "either"):
        adds = {"begin": False, "go_on": True, "either": None}[kind]
        nisa.nc_matmul(sums[0][0 : source.shape[1], 0 : into.shape[1]], source, into, accumulate=adds)
    elif kind == "drain":
        nisa.tensor_copy(into[0:32], sums[0][:, 0 : into.shape[1]])
    elif kind == "keep":
        nisa.dma_copy(kept[0, :, 0 : into.shape[1]], into)
    elif kind == "fetch":
        nisa.dma_copy(into, kept[1, :, 0 : into.shape[1]])
    else:
        assert kind == "moved"
        nisa.dma_copy(kept.ap([[32, 64], [1, into.shape[1]]], scalar_offset=register, indirect_dim=0), into)


def loop(rounds, left, right, tiles, kept):
    """A loop of the device."""

    def body(i):
        nisa.dma_copy(tiles[2], kept[1])
        nisa.tensor_scalar(left, right, nl.add, 1.0)
        nisa.dma_copy(kept[i, :, 0 : left.shape[1]], left)

    nl.fori_loop(0, rounds, body)


@nki.jit
def random_program(a, plan, ready):
    """Instructions on tiles that are written in part, in whole or not at all; ``loop`` is a loop of the device."""
    tiles = [nl.ndarray(a.shape, a.dtype, name=f"tile{i}") for i in range(3)]
    sums = [nl.ndarray((32, 32), nl.float32, buffer=nl.psum, name=f"sum{i}") for i in range(2)]
    kept = nl.ndarray((2, *a.shape), a.dtype, buffer=nl.hbm)
    register = nisa.register_alloc(1)
    for i in range(ready):
        nisa.dma_copy(tiles[i], a)
    for kind, into, source, part in plan:
        left, right, other = half(tiles[into], part), half(tiles[source], part), tiles[0]
        if kind == "loop":
            loop(1 if source == 0 else 2, left, right, tiles, kept)
        else:
            operate(kind, left, right, half(other, part), sums, register, kept)
    out = nl.ndarray((3, *a.shape), a.dtype, buffer=nl.shared_hbm)
    for i in range(3):
        nisa.dma_copy(out[i], tiles[0])
    return out


KINDS = ("copy", "scale", "add", "fill", "choose", "turn", "begin", "go_on", "either", "drain", "keep", "fetch")
ARITHMETIC = tuple(kind for kind in KINDS if kind not in ("choose", "either"))
"""What is undefined does not depend on data."""


def plans(kinds: tuple[str, ...], parts: int) -> st.SearchStrategy[list[Op]]:
    number = st.integers(0, 2)
    return st.lists(st.tuples(st.sampled_from(kinds), number, number, st.integers(0, parts)), max_size=8)


def legal(kernel: Any, *arguments: Any) -> bool:
    """True if the program breaks no rule, so that only hazards are left to find."""
    bound = kernel.bind(arguments, {})
    specs = kernel.specs(bound, adapter_for(arguments, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipeline.compile(kernel.func, specs, kernel.chosen_target(), grid=kernel.grid, stop="accumulate")
        except NkiError:
            return False
    return True


@settings(max_examples=300)
@given(plans((*KINDS, "moved", "loop"), 2), st.integers(1, 3))
def test_what_the_compiler_refuses_the_simulator_refuses_at_the_same_line(plan: list[Op], ready: int) -> None:
    if not legal(random_program, A, tuple(plan), ready):
        return
    refused, warned = compiled(random_program, A, tuple(plan), ready)
    expected, told = simulated(random_program, A, tuple(plan), ready)
    if refused is not None:
        assert refused == expected
    elif expected is None:
        assert warned <= told


@settings(max_examples=150)
@given(plans(ARITHMETIC, 4), st.integers(1, 3))
def test_of_straight_arithmetic_on_halves_of_tiles_the_compiler_knows_all(plan: list[Op], ready: int) -> None:
    if not legal(random_program, A, tuple(plan), ready):
        return
    refused, warned = compiled(random_program, A, tuple(plan), ready)
    expected, told = simulated(random_program, A, tuple(plan), ready)
    assert refused == expected
    if refused is None:
        assert warned == told


@nki.jit
def random_cores(a, plans):
    """What each core does to rows of two tensors that both share; ``send`` exchanges a tile."""
    core = nl.program_id(0)
    shared = [nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name=f"shared{i}") for i in range(2)]
    register = nisa.register_alloc(2)
    tile = nl.load(a)
    for number, (what, which, first, count) in enumerate(plans[core]):
        rows = shared[which % 2][first : first + count]
        if what == "meet":
            nisa.core_barrier(data=shared[which % 2], cores=(0, 1))
        elif what == "send":
            got = nl.ndarray(a.shape, a.dtype)
            nisa.sendrecv(src=tile, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
            tile = got
        elif what == "read":
            nisa.dma_copy(tile[first : first + count], rows)
        elif what == "same":
            nisa.dma_copy(rows, a[first : first + count])
        elif what == "moved":
            nisa.dma_copy(shared[which % 2].ap([[32, 1], [1, 32]], scalar_offset=register, indirect_dim=0), tile[0:1])
        else:
            nl.store(rows, nl.full((count, 32), 100 * core + number + 50, dtype=a.dtype))
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out[core], tile)
    return out


@st.composite
def core_plans(draw: st.DrawFn, several: st.SearchStrategy[str]) -> tuple[tuple[Op, ...], ...]:
    step = st.tuples(several, st.integers(0, 2), st.integers(0, 5), st.integers(1, 3))
    common = draw(st.lists(st.tuples(st.sampled_from(["meet", "send", "write"]), st.just(0), st.just(0), st.just(8))))
    made: list[list[Op]] = [[], []]
    for meeting in (*common[:3], None):
        for plan in made:
            plan += [*draw(st.lists(step, max_size=3)), *([meeting] if meeting is not None else [])]
    return tuple(tuple(plan) for plan in made)


OF_CORES = ("read", "read", "write", "same")


@settings(max_examples=200)
@given(core_plans(st.sampled_from((*OF_CORES, *OF_CORES, *OF_CORES, "moved", "meet", "send"))))
def test_what_the_compiler_refuses_on_two_cores_the_simulator_refuses(steps: tuple[tuple[Op, ...], ...]) -> None:
    kernel = random_cores[2]
    refused, _ = compiled(kernel, A, steps)
    if refused is not None:
        expected, _ = simulated(kernel, A, steps)
        if expected is None:
            assert refused[0] == "NKI-HZ005", "a race of which no output shows the order"
        else:
            races = "NKI-HZ005" in (expected[0], refused[0])
            assert expected == refused or races, "beside a race another hazard may be named"


@nki.jit
def meeting(a, write_early, read, meet):
    """Core 0 writes and core 1 reads, or the other way round; a barrier lies between the two, on one of two tensors."""
    core = nl.program_id(0)
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="between")
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    if core == write_early:
        nl.store(between, tile)
    if meet != "never" and (meet != "alone" or core == 0):
        nisa.core_barrier(data=out if meet == "elsewhere" else between, cores=(0, 1))
    if core != write_early and read:
        tile = nl.load(between)
    nl.store(out[32 * core : 32 * core + 32], tile[32 * core : 32 * core + 32])
    return out


@pytest.mark.parametrize("writer", [0, 1])
def test_cores_meet_about_what_they_share(writer: int) -> None:
    kernel = meeting[2]
    assert np.array_equal(kernel(A, writer, True, "between"), A)
    assert np.array_equal(kernel(A, writer, False, "never"), A)
    for meet, error in (("never", CoreRaceError), ("elsewhere", CoreRaceError), ("alone", DeadlockError)):
        with pytest.raises(error) as refused:
            kernel(A, writer, meet != "alone", meet)
        with pytest.raises(error) as expected:
            nki.simulate(kernel)(A, writer, meet != "alone", meet)
        assert str(refused.value) == str(expected.value)


@nki.jit
def summed(a, first, in_loop):
    """A sum in PSUM; ``first``: what the first matmul does."""
    tile = nl.load(a)
    total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    if first is not None:
        nisa.nc_matmul(total, tile, tile, accumulate=first)
    if in_loop:
        nl.fori_loop(0, 2, lambda i: nisa.nc_matmul(total, tile, tile, accumulate=True))
    else:
        nisa.nc_matmul(total, tile, tile, accumulate=True)
    out = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(total))
    return out


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_sum_needs_a_start(in_loop: bool) -> None:
    np.testing.assert_allclose(summed(A, False, in_loop), (2 + in_loop) * A.T @ A)
    for first in (None, True):
        with pytest.raises(AccumulationError, match="is added to where nothing was written, partitions 0 to 31"):
            summed(A, first, in_loop)


@nki.jit
def begun_again(a, rounds, drained):
    """A loop that begins a sum in one tile in every round; ``drained``: and reads it."""
    tile = nl.load(a)
    total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    out = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
    result = nl.ndarray((32, 32), nl.float32)

    def body(_):
        nisa.nc_matmul(total, tile, tile, accumulate=False)
        if drained:
            nisa.tensor_copy(result, total)

    nl.fori_loop(0, rounds, body)
    nisa.tensor_copy(result, total)
    nl.store(out, result)
    return out


def test_a_loop_that_loses_sums_is_warned_of() -> None:
    for rounds, drained in ((1, False), (2, True)):
        assert compiled(begun_again, A, rounds, drained) == (None, set())
    lost = compiled(begun_again, A, 2, False)
    assert lost == simulated(begun_again, A, 2, False)
    assert "which nc_matmul in line" in next(iter(lost[1]))


@nki.jit
def looped(a, rounds, read):
    """Reads a tile that nothing has written in a loop of ``rounds`` rounds; only the kernel may know the number."""
    tile = nl.ndarray(a.shape, a.dtype)
    result = nl.ndarray(a.shape, a.dtype)
    nisa.memset(result, 0.0)
    count = rounds if rounds >= 0 else nisa.register_alloc(0)
    nl.fori_loop(0, count, lambda i: nisa.tensor_copy(result, tile if read else result))
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


def test_only_loops_that_run_are_judged() -> None:
    assert not looped(A, -1, True).any() and not looped(A, 0, True).any() and not looped(A, 3, False).any()
    with pytest.raises(UnwrittenReadError, match=r"src 'tile' .* is read where nothing was written yet"):
        looped(A, 3, True)


@nki.jit
def loaded_in_part(a, rows, moved):
    """A tile with ``rows`` loaded rows, stored as it is or after a multiplication."""
    tile = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(tile[0:rows], a[0:rows])
    if not moved:
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def test_a_copy_of_what_is_not_there_is_an_error_and_the_rest_is_left_to_runs() -> None:
    for rows, moved in ((32, True), (32, False), (64, True), (64, False)):
        refused, _ = compiled(loaded_in_part, A, rows, moved)
        expected, _ = simulated(loaded_in_part, A, rows, moved)
        assert expected == refused or (rows < 64 and not moved and refused is None)


@nki.jit
def written_in_part(a, rows):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[0:rows], a[0:rows])
    nisa.dma_copy(out[:, 0:16], a[:, 0:16])
    return out


def test_outputs_that_are_written_in_part_are_warned_of() -> None:
    assert compiled(written_in_part, A, 64) == (None, set())
    assert compiled(written_in_part, A, 32) == simulated(written_in_part, A, 32)
    assert "is written in part: 25.0% of it" in next(iter(compiled(written_in_part, A, 32)[1]))


def test_the_switch_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    with pytest.warns(NkiWarning, match="of which 100% was never written"):
        assert np.isnan(nki.jit(summed.func)(A, True, False)).all()


@nki.jit
def compared(a, b):
    """Undefined where ``b`` is 0: a predicated copy leaves such elements unwritten."""
    chosen = nl.ndarray(a.shape, a.dtype)
    places = nl.ndarray(a.shape, nl.uint8)
    nisa.tensor_scalar(places, nl.load(b), nl.not_equal, 0.0)
    nisa.tensor_copy_predicated(chosen, nl.load(a), places)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, chosen)
    return out


@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_first_call_can_be_checked_with_its_data(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "variable":
        monkeypatch.setenv("NKI_CHECK", "1")
    kernel = nki.jit(compared.func, check=how == "option")
    zeros = np.zeros_like(A)
    for _ in range(2):  # a call that failed has not been checked
        with pytest.raises(UnwrittenReadError, match=r"src 'chosen' .* is read"):
            kernel(A, zeros)
    assert np.array_equal(kernel(A, A), A)
    assert np.isnan(kernel(A, zeros)).all(), "later calls are native alone"
    assert np.isnan(compared(A, zeros)).all() or how == "variable"


@nki.jit
def gathered_by_an_unwritten_index(a):
    out = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a[0:32])
    written, unwritten = nl.ndarray((32, 1), nl.uint32), nl.ndarray((32, 1), nl.uint32)
    nisa.memset(written, 1)
    nisa.dma_copy(tile, a[32:64])
    nisa.dma_copy(tile, a.vector_select(0, written))
    nisa.dma_copy(tile, a.vector_select(0, unwritten))
    nl.store(out, tile)
    return out


def test_an_index_into_data_of_the_caller_is_read_as_well() -> None:
    code, line = compiled(gathered_by_an_unwritten_index, A)[0] or ("", 0)
    assert code == UnwrittenReadError.code
    assert line == gathered_by_an_unwritten_index.func.__code__.co_firstlineno + 8


def at(tile, where):
    """Four columns of a tile, from a column that is known at run time."""
    return tile.ap([[16, 4], [1, 4]], scalar_offset=where, indirect_dim=1)


@nki.jit
def copied_at_run_time(a, source):
    out = nl.ndarray((4, 16), a.dtype, buffer=nl.shared_hbm)
    full, unwritten = nl.load(a[0:4, 0:16]), nl.ndarray((4, 16), a.dtype)
    where, mask = nl.ndarray((1, 1), nl.int32), nl.ndarray((4, 4), nl.uint8)
    nisa.memset(where, 3)
    nisa.memset(mask, 1)
    if source == "itself":
        nisa.tensor_copy_predicated(at(unwritten, where), at(unwritten, where), mask)
    elif source == "read before":
        nisa.tensor_copy(full, unwritten)
        nisa.tensor_copy(at(unwritten, where), full[:, 0:4])
    else:
        nisa.tensor_copy_predicated(at(unwritten, where), full[:, 0:4], mask)
    nisa.tensor_copy_predicated(full[:, 0:4], at(unwritten, where), mask)
    nl.store(out, full)
    return out


@pytest.mark.parametrize(("source", "line"), [("itself", 8), ("read before", 10), ("another tile", None)])
def test_a_copy_at_a_run_time_index_keeps_only_what_it_does_not_read(source: str, line: int | None) -> None:
    wanted = line and (UnwrittenReadError.code, copied_at_run_time.func.__code__.co_firstlineno + line)
    assert compiled(copied_at_run_time, A, source)[0] == simulated(copied_at_run_time, A, source)[0] == wanted


@nki.jit
def ends_of_a_tensor(x, rows, first):
    """128 rows from ``first`` on of a tensor in HBM; the first and the last 128 are written."""
    whole = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=whole[0:128], src=tile)
    nisa.dma_copy(dst=whole[rows - 128 : rows], src=tile)
    nisa.dma_copy(dst=tile, src=whole[first : first + 128])
    nisa.dma_copy(dst=out, src=tile)
    return out, whole


@pytest.mark.filterwarnings("ignore:.*is written in part:nki.base.warning.NkiWarning")
@pytest.mark.parametrize("first", [0, 64, 1000])
@pytest.mark.parametrize("rows", [1 << 20, 1 << 32])
def test_parts_of_tensors_larger_than_memory_are_left_to_runs(rows: int, first: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = nki.ShapeDtype((128, 1), "float32")
    if first and rows == 1 << 20:
        with pytest.raises(UnwrittenReadError, match="'whole'"):
            nki.profile(ends_of_a_tensor, target="trn3")(x, rows, first)
    else:
        nki.profile(ends_of_a_tensor, target="trn3")(x, rows, first)
    unit = 1 if sys.platform == "darwin" else 1 << 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 1 << 29
