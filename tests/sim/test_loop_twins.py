"""Twins: a loop of the device, and the same iterations unrolled, get the same verdict from the compiler."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import CoreRaceError, DeadlockError, NkiError, UnwrittenReadError
from nki.base.warning import NkiWarning
from nki.compilation import pipeline
from nki.jit import adapter_for
from nki.sim.hazards import replay

A = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) % 7 + 1
EXAMPLES = max(120, int(os.environ.get("NKI_TEST_EXAMPLES", "50")))
Step = tuple[str, int, int, str]


def verdict(kernel: Any, *arguments: Any) -> tuple[tuple[str, int] | None, set[str]]:
    """Code and line of the error of the compiler; its warnings."""
    bound = kernel.bind(arguments, {})
    specs = kernel.specs(bound, adapter_for(arguments, {}))
    result = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            pipeline.compile(kernel.func, specs, kernel.chosen_target(), grid=kernel.grid, stop="hazards")
        except NkiError as error:
            result = error.code, error.span.line if error.span else 0
    return result, {str(w.message) for w in caught if w.category is NkiWarning}


def repeat(form, rounds, body):
    """``body`` in each round, as one loop or unrolled."""
    if form == "loop":
        nl.fori_loop(0, rounds, body)
    else:
        for i in range(rounds):
            body(i)


def columns(tile, where, i):
    """All columns, a half of them, or eight that move with the loop."""
    if where == "all":
        return tile
    if where == "left":
        return tile[:, 0:16]
    return tile[:, nl.ds(i * 8 + (8 if where == "next" else 0), 8)]


@nki.jit
def random_loop(a, form, rounds, ready, plan):
    """Instructions on tiles that are written in part, in a loop."""
    tiles = [nl.ndarray(a.shape, a.dtype, name=f"tile{i}") for i in range(3)]
    chosen = nl.ndarray(a.shape, nl.uint8)
    nisa.tensor_scalar(chosen, nl.load(a), nl.greater, 3.0)
    product = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    for tile, part in zip(tiles, ready, strict=True):
        if part == "some rows":
            nisa.dma_copy(tile[0:32], a[0:32])
        elif part == "some columns":
            nisa.dma_copy(tile[:, 0:16], a[:, 0:16])
        elif part == "all":
            nisa.dma_copy(tile, a)
    out = nl.ndarray((8, *a.shape), a.dtype, buffer=nl.shared_hbm)

    def body(i):
        for kind, into, source, where in plan:
            left, right = columns(tiles[into], where, i), columns(tiles[source], where, i)
            if kind == "copy":
                nisa.tensor_copy(left, right)
            elif kind == "scale":
                nisa.tensor_scalar(left, right, nl.multiply, 0.5)
            elif kind == "fill":
                nisa.memset(left, 1.0)
            elif kind == "fetch":
                nisa.dma_copy(left, columns(a, where, i))
            elif kind == "choose":
                nisa.tensor_copy_predicated(left, right, columns(chosen, where, i))
            elif kind == "multiply":
                nisa.nc_matmul(product, tiles[source], tiles[source], accumulate=False)
                nisa.tensor_copy(tiles[into][0:32], product)
            else:
                nisa.dma_copy(out[i], tiles[source])

    repeat(form, rounds, body)
    for number, tile in enumerate(tiles):
        nisa.dma_copy(out[number + 4], tile)
    return out


STEPS = st.tuples(
    st.sampled_from(["copy", "scale", "fill", "fetch", "choose", "multiply", "keep"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from(["all", "left", "here", "next"]),
)
READY = st.tuples(*[st.sampled_from(["all", "all", "all", "some rows", "some columns", "none"])] * 3)


@settings(max_examples=EXAMPLES)
@given(st.integers(1, 3), READY, st.lists(STEPS, min_size=1, max_size=5))
def test_a_loop_is_refused_as_its_iterations_are(rounds: int, ready: Any, plan: list[Step]) -> None:
    unrolled = verdict(random_loop, A, "unrolled", rounds, ready, tuple(plan))
    assert verdict(random_loop, A, "loop", rounds, ready, tuple(plan)) == unrolled
    event(str(unrolled[0] and unrolled[0][0]))


@nki.jit
def random_cores_in_a_loop(a, form, rounds, before, plans):
    """What each core does in each round to rows of two tensors that both share."""
    core = nl.program_id(0)
    boxes = [nl.ndarray((8, *a.shape), a.dtype, buffer=nl.shared_hbm, name=f"box{i}") for i in range(2)]
    tile, other = nl.load(a), nl.load(a)
    for box, ready in zip(boxes, before, strict=True):
        if ready and core == 0:
            for row in range(8):
                nisa.dma_copy(box[row], a)
        if ready:
            nisa.core_barrier(data=box, cores=(0, 1))

    def body(i):
        for kind, which, row, where in plans[core]:
            place = boxes[which][i if where == "here" else i + 1 if where == "next" else row]
            if kind == "write":
                nisa.dma_copy(place, tile)
            elif kind == "read":
                nisa.dma_copy(other, place)
            elif kind == "add":
                nisa.tensor_tensor(tile, tile, other, nl.add)
            elif kind == "meet":
                nisa.core_barrier(data=boxes[which], cores=(0, 1))
            else:
                nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)

    repeat(form, rounds[core], body)
    out = nl.ndarray((2, *a.shape), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[core], tile)
    return out


@st.composite
def plans_of_cores(draw: st.DrawFn) -> tuple[tuple[Step, ...], ...]:
    kinds = st.sampled_from(["write", "write", "read", "read", "add"])
    step = st.tuples(kinds, st.integers(0, 1), st.integers(0, 1), st.sampled_from(["static", "static", "here", "next"]))
    meeting = st.tuples(st.sampled_from(["meet", "meet", "meet", "send"]), st.integers(0, 1), st.just(0), st.just(""))
    plans: list[list[Step]] = [[], []]
    for common in (*draw(st.lists(meeting, max_size=3)), None):
        for plan in plans:
            plan += [*draw(st.lists(step, max_size=2)), *([common] if common is not None else [])]
    if draw(st.integers(0, 15)) == 15:
        plans[0].append(draw(meeting))
    return tuple(tuple(plan) for plan in plans)


OFTEN = st.sampled_from([True, True, True, False])


@settings(max_examples=EXAMPLES)
@given(st.integers(1, 3), st.integers(0, 7), st.tuples(OFTEN, OFTEN), plans_of_cores())
def test_cores_in_a_loop_are_refused_as_its_iterations_are(
    count: int, uneven: int, before: tuple[bool, bool], plans: Any
) -> None:
    rounds = (count, count + (uneven == 7))
    unrolled = verdict(random_cores_in_a_loop[2], A, "unrolled", rounds, before, plans)
    assert verdict(random_cores_in_a_loop[2], A, "loop", rounds, before, plans) == unrolled
    event(str(unrolled[0] and unrolled[0][0]))


@pytest.fixture
def long_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """All loops have more iterations than are replayed one by one."""
    monkeypatch.setattr(replay, "MOST_INSTRUCTIONS", 0)


@pytest.mark.usefixtures("long_loops")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 3), READY, st.lists(STEPS, min_size=1, max_size=5))
def test_a_long_loop_is_not_refused_alone(rounds: int, ready: Any, plan: list[Step]) -> None:
    if verdict(random_loop, A, "loop", rounds, ready, tuple(plan))[0] is not None:
        assert verdict(random_loop, A, "unrolled", rounds, ready, tuple(plan))[0] is not None


@pytest.mark.usefixtures("long_loops")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 3), st.tuples(OFTEN, OFTEN), plans_of_cores())
def test_cores_in_a_long_loop_are_not_refused_alone(count: int, before: tuple[bool, bool], plans: Any) -> None:
    rounds = (count, count)
    if verdict(random_cores_in_a_loop[2], A, "loop", rounds, before, plans)[0] is not None:
        assert verdict(random_cores_in_a_loop[2], A, "unrolled", rounds, before, plans)[0] is not None


@nki.jit
def in_turn(a, form, rounds, barriers):
    """Each core adds what the other one has put into a box, round by round."""
    core = nl.program_id(0)
    box = nl.ndarray((2, *a.shape), a.dtype, buffer=nl.shared_hbm, name="box")
    tile, other = nl.load(a), nl.ndarray(a.shape, a.dtype)

    def body(i):
        nisa.dma_copy(box[core], tile)
        nisa.core_barrier(data=box, cores=(0, 1))
        nisa.dma_copy(other, box[1 - core])
        if barriers == 2:
            nisa.core_barrier(data=box, cores=(0, 1))
        nisa.tensor_tensor(tile, tile, other, nl.add)

    repeat(form, rounds, body)
    out = nl.ndarray((2, *a.shape), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[core], tile)
    return out


@pytest.mark.parametrize(("form", "rounds"), [("unrolled", 3), ("loop", 2), ("loop", 3), ("loop", 1 << 20)])
def test_a_box_that_is_filled_again_before_it_is_read_is_refused(form: str, rounds: int) -> None:
    if rounds <= 3:
        assert np.array_equal(in_turn[2](A, form, rounds, 2)[0], A * 2**rounds)
    with pytest.raises(CoreRaceError, match=r"'box' .* is (read|written) on core"):
        in_turn[2](A, form, rounds, 1)


@nki.jit
def exchanging(a, rounds):
    core = nl.program_id(0)
    tile, got = nl.load(a), nl.ndarray(a.shape, a.dtype)

    def body(i):
        nisa.sendrecv(src=tile, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)

    nl.fori_loop(0, rounds[core], body)
    out = nl.ndarray((2, *a.shape), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[core], got)
    return out


def test_loops_that_meet_another_number_of_times_deadlock() -> None:
    assert np.array_equal(exchanging[2](A, (3, 3)), np.stack([A, A]))
    with pytest.raises(DeadlockError):
        exchanging[2](A, (2, 3))
    with pytest.raises(DeadlockError):
        nki.profile(exchanging[2], target="trn2")(A, (2, 3))


@nki.jit
def nested(a, form, used):
    """Fills row ``i`` up to column ``8 * i + 8``, and reads all columns or that many."""
    tile = nl.ndarray((64, 32), a.dtype)
    out = nl.ndarray((64, 32), a.dtype, buffer=nl.shared_hbm)

    def outer(i):
        def inner(j):
            nisa.dma_copy(tile[:, nl.ds(j * 8, 8)], a[:, nl.ds(j * 8, 8)])

        repeat(form, i + 1 if used == "triangle" else 4, inner)
        if used == "inside":
            nisa.dma_copy(out, tile)

    repeat(form, 3 if used == "triangle" else 2, outer)
    nisa.dma_copy(out, tile)
    return out


def test_loops_whose_iterations_depend_on_others_are_known() -> None:
    for form in ("loop", "unrolled"):
        for used in ("inside", "after"):
            assert np.array_equal(nested(A, form, used), A)
        with pytest.raises(UnwrittenReadError, match="bytes 96 to 127"):
            nested(A, form, "triangle")
