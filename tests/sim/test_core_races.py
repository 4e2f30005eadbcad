"""Races between cores, against what a barrier between each pair of accesses would say."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.analysis.may_hazards import suspicion_of
from nki.base.errors import CoreRaceError, UnwrittenReadError
from nki.base.warning import NkiWarning
from nki.compilation import pipeline, simulated_run
from nki.compilation.hazard_check import CheckHazards
from nki.jit import adapter_for
from nki.sim.hazards import replay

A = np.arange(8 * 4, dtype=np.float32).reshape(8, 4)
Plans = tuple[tuple[tuple[str, int], ...], ...]
"""What each core does to which tensor: scatter, store or meet."""
Step = tuple[str, int, int]
"""What a core does: write or read rows from one number on, as many; or meet."""


@nki.jit
def swapped(a, meet):
    core = nl.program_id(0)
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="between")
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(between[nl.ds(4 * core, 4)], nl.load(a[nl.ds(4 * core, 4)]))
    nisa.core_barrier(data=between if meet else out, cores=(0, 1))
    nl.store(out[nl.ds(4 * core, 4)], nl.load(between[nl.ds(4 * (1 - core), 4)]))
    return out


def test_a_barrier_on_the_tensor_orders_what_one_on_another_does_not() -> None:
    assert np.array_equal(nki.simulate(swapped[2])(A, True), np.concatenate([A[4:], A[:4]]))
    for run in (nki.simulate(swapped[2]), lambda a, meet: simulated_run.run(swapped[2].compile(a, meet).kernel, [a])):
        with pytest.raises(CoreRaceError, match="'between'"):
            run(A, False)


def test_cores_that_write_the_same_numbers_do_not_race() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        tile = nl.load(out)
        nisa.tensor_tensor(tile, tile, tile, nl.add)
        last = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(last, tile)
        return last

    assert np.array_equal(nki.simulate(kernel[2])(A), 2 * A)


def test_cores_that_leave_the_same_numbers_in_the_end_do_not_race() -> None:
    """As a scatter over zeros that both cores make: whoever is last leaves the same."""

    @nki.jit
    def kernel(a, scale):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros(a.shape, dtype=a.dtype))
        tile = nl.load(a[2:4])
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.0 + scale * nl.program_id(0))
        nl.store(out[2:4], tile)
        return out

    assert nki.simulate(kernel[2])(A, 0.0).sum() == A[2:4].sum()
    with pytest.raises(CoreRaceError, match="with other numbers"):
        nki.simulate(kernel[2])(A, 1.0)


def races(plans: list[list[Step]]) -> bool:
    """Row by row, all pairs of accesses of two cores between the same two barriers; each writes numbers of its own."""
    touched: list[set[tuple[int, str, int]]] = []
    for plan in plans:
        part, mine = 0, set[tuple[int, str, int]]()
        written: set[tuple[int, int]] = set()
        for what, first, count in plan:
            part += what == "meet"
            for row in range(first, first + count) if what != "meet" else ():
                if what == "write":
                    written.add((part, row))
                if what == "write" or (part, row) not in written:  # a core reads its own write: that one races
                    mine.add((part, what, row))
        touched.append(mine)
    return any(
        (part, other, row) in touched[1]
        for part, what, row in touched[0]
        for other in ("read", "write")
        if "write" in (what, other)
    )


@st.composite
def plans(draw: st.DrawFn) -> list[list[Step]]:
    meets = draw(st.integers(0, 2))
    step = st.tuples(st.sampled_from(["read", "write"]), st.integers(0, 5), st.integers(1, 3))
    made: list[list[Step]] = []
    for _ in range(2):
        plan: list[Step] = []
        for number in range(meets + 1):
            plan += [*draw(st.lists(step, max_size=3)), *([("meet", 0, 0)] if number < meets else [])]
        made.append(plan)
    return made


@settings(max_examples=60)
@given(plans())
def test_races_are_found_where_they_are(steps: list[list[Step]]) -> None:
    @nki.jit
    def kernel(a, plans):
        core = nl.program_id(0)
        shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="shared")
        seen = nl.ndarray((2, 12, 3, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        if core == 0:
            nl.store(shared, nl.load(a))
        nl.store(seen[core], nl.zeros((12, 3, 4), dtype=a.dtype))
        nisa.core_barrier(data=shared, cores=(0, 1))
        for number, (what, first, count) in enumerate(plans[core]):
            rows = shared[first : first + count]
            if what == "meet":
                nisa.core_barrier(data=shared, cores=(0, 1))
            elif what == "read":
                nl.store(seen[core, number, 0:count], nl.load(rows))
            else:
                nl.store(rows, nl.full((count, 4), 100 * core + number + 50, dtype=a.dtype))
        return seen, shared

    def run(simulated: Any) -> None:
        simulated(A, tuple(steps))

    if races(steps):
        with pytest.raises(CoreRaceError):
            run(nki.simulate(kernel[2]))
    else:
        run(nki.simulate(kernel[2]))


def test_what_the_other_core_never_writes_is_unwritten_and_no_race() -> None:
    @nki.jit
    def kernel(a):
        between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="between")
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(between))
        return out

    with pytest.raises(UnwrittenReadError):
        nki.simulate(kernel[2])(A)


@nki.jit
def written_by_the_first(a):
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="between")
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(between, nl.load(a))
    else:
        nl.store(out, nl.load(between))
    return out


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_more_than_two_cores_race_by_pairs(order: tuple[int, ...]) -> None:
    specs = written_by_the_first.specs(written_by_the_first.bind((A,), {}), adapter_for((A,), {}))
    target = written_by_the_first.chosen_target()
    two = pipeline.compile(written_by_the_first.func, specs, target, grid=(2,), stop="accumulate")
    three = replace(two, cores=tuple(replace(two.cores[number], rank=rank) for rank, number in enumerate(order)))
    assert suspicion_of(three).of_hazards
    with pytest.raises(CoreRaceError) as caught:
        replay.check(three, target)
    writer = order.index(0)
    others = [rank for rank in range(3) if rank != writer]
    pair = next(tuple(sorted((writer, other))) for other in others if f"core {other} " in str(caught.value))
    assert f"core {writer} " in str(caught.value)
    assert f"cores={pair}" in caught.value.fix


@nki.jit
def scattering(a, rows, plans):
    core = nl.program_id(0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    other = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="other")
    tile, index = nl.load(a), nl.load(rows)
    for tensor in (out, other):
        nl.store(tensor, tile)
        nisa.core_barrier(data=tensor, cores=(0, 1))
    for what, number in plans[core]:
        tensor = (out, other)[number]
        if what == "meet":
            nisa.core_barrier(data=tensor, cores=(0, 1))
        elif what == "scatter":
            nisa.dma_copy(tensor.ap([[4, 8], [1, 4]], 0, vector_offset=index, indirect_dim=0), tile)
        else:
            nl.store(tensor[4 * core : 4 * core + 4], tile[4 * core : 4 * core + 4])
    return out, other


def warned(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if w.category is NkiWarning]


@st.composite
def scatters(draw: st.DrawFn) -> Plans:
    step = st.tuples(st.sampled_from(["scatter", "store"]), st.integers(0, 1))
    between = st.lists(step, max_size=2)
    meets = draw(st.lists(st.integers(0, 1), max_size=2))
    plans: list[tuple[tuple[str, int], ...]] = []
    for _ in range(2):
        plan = draw(between)
        for tensor in meets:
            plan += [("meet", tensor), *draw(between)]
        plans.append(tuple(plan))
    return tuple(plans)


@settings(max_examples=40)
@given(scatters())
def test_only_the_writes_tell_what_all_accesses_tell_of_scatters(
    plans: tuple[tuple[tuple[str, int], ...], ...],
) -> None:
    arguments = (A, np.arange(8, dtype=np.int32)[:, None], plans)
    specs = scattering.specs(scattering.bind(arguments, {}), adapter_for(arguments, {}))
    target = scattering.chosen_target()
    program = pipeline.compile(scattering.func, specs, target, grid=(2,), stop="accumulate")
    suspicion = suspicion_of(program)
    want = warned(lambda: replay.check(program, target))
    assert not suspicion.of_hazards and bool(suspicion.of_writes) >= bool(want)
    assert warned(lambda: replay.warn_of_writes(program, target, suspicion.of_writes)) == want
    assert warned(lambda: CheckHazards().run(program, target)) == want


def test_cores_that_scatter_into_one_tensor_are_warned_about_once() -> None:
    plans = (("scatter", 0), ("scatter", 0), ("store", 1)), (("store", 0), ("store", 1))
    arguments = (A, np.arange(8, dtype=np.int32)[:, None], plans)
    specs = scattering.specs(scattering.bind(arguments, {}), adapter_for(arguments, {}))
    target = scattering.chosen_target()
    (message,) = warned(lambda: pipeline.compile(scattering.func, specs, target, grid=(2,), stop="hazards"))
    assert "'out' (8, 4) float32 in shared_hbm is written on core 0 at places" in message and "core 1 writes" in message
