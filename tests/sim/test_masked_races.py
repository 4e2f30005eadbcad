"""Races that no output shows, and races that one does: against the outcomes of all orders of two cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import CoreRaceError
from nki.compilation import simulated_run

A = np.arange(16, dtype=np.float32).reshape(4, 4) % 3
MASKS = np.ones((4, 16), np.uint8)
for row in range(4):
    MASKS[row, 4 * row : 4 * row + 4] = 0
Array = np.ndarray[Any, Any]
Step = tuple[str, int, int, int]
"""The work of a core on rows from one number on, as many, and its number."""
State = tuple[bytes, bytes, bytes]
"""The shared tensor, and the tile of each core."""


@nki.jit
def attend(cache, new, keep, at, writer, late):
    """The core ``writer`` writes row ``at`` of a cache that the other one reads and masks; ``late``: at its end."""
    rows, columns = cache.shape
    core = nl.program_id(0)
    out = nl.ndarray((2, rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)

    def read():
        tile, mask = nl.load(cache), nl.load(keep)
        kept = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.select_reduce(dst=kept, predicate=mask, on_true=tile, on_false=-1.0)
        nisa.dma_copy(dst=out[core], src=kept)

    if late:
        read()
    if core == writer:
        row, fresh = nisa.register_alloc(nl.load(at)), nl.load(new)
        nisa.dma_copy(dst=cache.ap(pattern=[[columns, 1], [1, columns]], scalar_offset=row, indirect_dim=0), src=fresh)
    if not late:
        read()
    return out, cache


def cache_of(masked: bool) -> list[Any]:
    keep = np.ones((8, 4), np.uint8)
    keep[5 if masked else 4] = 0
    return [np.ones((8, 4), np.float32), np.full((1, 4), 7, np.float32), keep, np.array([[5]], np.int32)]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("writer", [0, 1])
def test_a_row_that_is_masked_may_race(writer: int, late: bool) -> None:
    """Whichever core runs first in the simulator, and whatever the row held when it was read."""
    kernel, (cache, new, keep, at) = attend[2], cache_of(masked=True)
    wanted = np.where(keep > 0, cache, -1)
    program = kernel.compile(cache, new, keep, at, writer, late).kernel
    for out, after in (
        nki.simulate(kernel)(cache.copy(), new, keep, at, writer, late),
        simulated_run.run(program, [cache.copy(), new, keep, at]),
    ):
        assert np.array_equal(out[1 - writer], wanted)
        assert (after[5] == 7).all()
    with pytest.raises(CoreRaceError) as caught:
        nki.simulate(kernel)(*cache_of(masked=False), writer, late)
    line = attend.func.__code__.co_firstlineno
    text = str(caught.value)
    assert "bytes 80 to 95 from element [5, 0] on" in text
    assert f"line {line + 8}" in text or f":{line + 8}" in text
    assert f"line {line + 17}" in text or f":{line + 17}" in text


@nki.jit
def weigh(cache, new, weights, at, writer):
    """The core ``writer`` writes row ``at`` of a cache; the other one sums its rows with ``weights``, one of them 0."""
    columns = cache.shape[1]
    core = nl.program_id(0)
    out = nl.ndarray((2, 1, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, factors = nl.load(cache), nl.load(weights)
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=factors, moving=tile)
    result = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out[core], src=result)
    if core == writer:
        row, fresh = nisa.register_alloc(nl.load(at)), nl.load(new)
        nisa.dma_copy(dst=cache.ap(pattern=[[columns, 1], [1, columns]], scalar_offset=row, indirect_dim=0), src=fresh)
    return out, cache


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2], ids=str)
def test_a_row_with_the_weight_zero_may_race_in_each_dtype(dtype: Any) -> None:
    """Attention reads the slot of the cache that the other core fills, and multiplies it with a probability of 0."""
    weights = np.ones((8, 1), np.float32)
    weights[5] = 0
    arrays = [np.ones((8, 4), np.float32), np.full((1, 4), 7, np.float32), weights]
    cache, new, factors = (each.astype(np.dtype(dtype)) for each in arrays)
    out, after = nki.simulate(weigh[2])(cache, new, factors, np.array([[5]], np.int32), 0)
    assert (out[1] == 7).all() and (after[5].astype(np.float32) == 7).all()
    with pytest.raises(CoreRaceError):
        nki.simulate(weigh[2])(arrays[0].astype(cache.dtype), new, factors, np.array([[4]], np.int32), 0)


@nki.jit
def both_write(a, read):
    """Both cores write numbers of their own to one row of a tensor; the result has all rows, or the others."""
    core = nl.program_id(0)
    shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="shared")
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(shared, nl.load(a))
    nisa.core_barrier(data=shared, cores=(0, 1))
    nl.store(shared[1:2], nl.full((1, 4), 5.0 + core, dtype=a.dtype))
    nisa.core_barrier(data=shared, cores=(0, 1))
    if core == 0:
        nl.store(out[2 - read : 4], nl.load(shared[2 - read : 4]))
        nl.store(out[0 : 2 - read], nl.load(a[0 : 2 - read]))
    return out


def test_what_two_cores_leave_different_may_be_unused() -> None:
    assert np.array_equal(nki.simulate(both_write[2])(A, 0), A)
    with pytest.raises(CoreRaceError, match=r"'shared' .* with other numbers, on core 1"):
        nki.simulate(both_write[2])(A, 1)


@nki.jit
def indexed(a, at, writer):
    """The core ``writer`` writes the index by which the other one reads."""
    core = nl.program_id(0)
    out = nl.ndarray((2, 1, 4), dtype=a.dtype, buffer=nl.shared_hbm)
    place = nl.load(at)
    if core == writer:
        nl.store(at, nl.full((1, 1), 2, dtype=at.dtype))
    row = nl.ndarray((1, 4), a.dtype)
    nisa.dma_copy(row, a.ap([[4, 1], [1, 4]], scalar_offset=place, indirect_dim=0))
    nl.store(out[core], nl.zeros((1, 4), a.dtype))
    return out, at


@pytest.mark.parametrize("writer", [0, 1])
def test_a_raced_index_is_an_error_though_no_output_shows_it(writer: int) -> None:
    with pytest.raises(CoreRaceError, match="is undefined since"):
        nki.simulate(indexed[2])(A, np.array([[1]], np.int32), writer)


@nki.jit
def sent(a, masks, writer, masked):
    """The core ``writer`` writes a row, and gets from the other one what that has read of it."""
    core = nl.program_id(0)
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    tile, got, mask = nl.load(a), nl.ndarray(a.shape, a.dtype), nl.load(masks)
    if core == writer:
        nl.store(a[1:2], nl.full((1, 4), 9.0, dtype=a.dtype))
    nisa.sendrecv(src=tile, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    if masked:
        nisa.tensor_copy_predicated(got, 5.0, mask[:, 4:8], reverse_pred=True)
    nl.store(out[core], got)
    return out, a


@pytest.mark.parametrize("writer", [0, 1])
def test_raced_bytes_stay_so_on_their_way_to_the_other_core(writer: int) -> None:
    nki.simulate(sent[2])(A.copy(), MASKS, writer, True)
    with pytest.raises(CoreRaceError):
        nki.simulate(sent[2])(A.copy(), MASKS, writer, False)


def test_the_error_is_of_the_bytes_that_matter() -> None:
    """Beside a race that nothing shows lies memory that nothing wrote, in the same tile, and the other way round."""

    @nki.jit
    def kernel(a, masks, kept):
        core = nl.program_id(0)
        shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="shared")
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile, mask = nl.ndarray(a.shape, a.dtype), nl.load(masks)
        if core == 0:
            nl.store(shared[0:1], nl.load(a[0:1]))
            nl.store(out, nl.load(a))
        else:
            nisa.dma_copy(tile[0:3], shared[0:3])
            nisa.dma_copy(tile[3:4], a[3:4])
            nisa.tensor_copy_predicated(tile, 1.0, mask[:, 4 * (1 - kept) : 4 * (1 - kept) + 4], reverse_pred=True)
            nisa.dma_copy(out[0:2], tile[0:2])
        return out

    with pytest.raises(CoreRaceError):
        nki.simulate(kernel[2])(A, MASKS, 0)


@nki.jit
def stepped(a, masks, plans, returned):
    core = nl.program_id(0)
    shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="shared")
    if core == 0:
        nl.store(shared, nl.load(a))
    nisa.core_barrier(data=shared, cores=(0, 1))
    tile, mask = nl.load(a), nl.load(masks)
    for what, first, count, number in plans[core]:
        rows, unmasked = shared[first : first + count], mask[:, 4 * first : 4 * first + 4]
        if what == "meet":
            nisa.core_barrier(data=shared, cores=(0, 1))
        elif what == "read":
            nisa.dma_copy(tile[first : first + count], rows)
        elif what == "write":
            nl.store(rows, nl.full((count, 4), float(number), dtype=a.dtype))
        elif what == "put":
            nisa.dma_copy(rows, tile[first : first + count])
        elif what == "mask":
            nisa.select_reduce(dst=tile, predicate=unmasked, on_true=tile, on_false=-1.0)
        elif what == "replace":
            nisa.tensor_copy_predicated(tile, 5.0, unmasked, reverse_pred=True)
        elif what == "add":
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        else:
            turned = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(turned, tile)
            nisa.tensor_copy(tile, turned)
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out[core], tile)
    return (out, shared) if returned else out


def after(step: Step, shared: Array, tile: Array) -> tuple[Array, Array]:
    """The shared tensor and the tile of a core after one of its steps."""
    what, first, count, number = step
    shared, tile, rows = shared.copy(), tile.copy(), slice(first, first + count)
    if what == "read":
        tile[rows] = shared[rows]
    elif what == "write":
        shared[rows] = number
    elif what == "put":
        shared[rows] = tile[rows]
    elif what in ("mask", "replace"):
        tile[first] = -1 if what == "mask" else 5
    elif what == "add":
        tile += 1
    else:
        tile = tile.T.copy()
    return shared, tile


def orders(parts: tuple[list[Step], list[Step]], state: State) -> set[State]:
    """The states in which two cores may leave, between two barriers, what was ``state``."""
    found, seen = set[State](), set[tuple[int, int, State]]()
    waiting = [(0, 0, state)]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        waiting += following(parts, *here)
        if here[:2] == (len(parts[0]), len(parts[1])):
            found.add(here[2])
    return found


def following(
    parts: tuple[list[Step], list[Step]], one: int, two: int, state: State
) -> Iterator[tuple[int, int, State]]:
    """The states that may come next after as many steps of each core."""
    shared, *tiles = (np.frombuffer(part, np.float32).reshape(4, 4) for part in state)
    for core, done in enumerate((one, two)):
        if done < len(parts[core]):
            left, tile = after(parts[core][done], shared, tiles[core])
            kept = [t.tobytes() for t in tiles]
            kept[core] = tile.tobytes()
            yield one + (core == 0), two + (core == 1), (left.tobytes(), kept[0], kept[1])


def outcomes(plans: list[list[list[Step]]], returned: bool) -> int:
    """The number of different results that all orders of the cores give."""
    states = {(A.tobytes(), A.tobytes(), A.tobytes())}
    for parts in zip(*plans, strict=True):
        states = {left for state in states for left in orders(parts, state)}
    return len({state if returned else state[1:] for state in states})


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "write", "write", "put", "mask", "replace", "add", "turn"]),
        st.integers(0, 3),
        st.integers(1, 4),
        st.integers(0, 2),
    ).map(lambda step: (step[0], step[1], min(step[2], 4 - step[1]), step[3])),
    max_size=4,
)


@given(
    st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(STEPS, min_size=n, max_size=n), min_size=2, max_size=2)),
    st.booleans(),
)
def test_a_race_is_an_error_where_the_result_depends_on_the_order(
    plans: list[list[list[Step]]], returned: bool
) -> None:
    flat = tuple(
        tuple(step for number, part in enumerate(plan) for step in ([("meet", 0, 1, 0)] if number else []) + part)
        for plan in plans
    )
    refused = False
    try:
        nki.simulate(stepped[2])(A, MASKS, flat, returned)
    except CoreRaceError:
        refused = True
    assert refused == (outcomes(plans, returned) > 1)
