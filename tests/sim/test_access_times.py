"""Times of accesses against an array with a time for each byte."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki.base.element_types import float32
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.core_races import per_byte
from nki.sim.hazards.shadow import FIRST_ORIGIN, AccessTimes
from tests.analysis.byte_model import views

OTHER = Tensor("other", (6, 20), float32, Buffer.sbuf)
STEPS = (
    "record",
    "record",
    "record",
    "record_some",
    "poison",
    "record_and_poison",
    "overwrite",
    "overwrite_block",
    "overwrite_bytes",
    "reset",
)


def places(access: Access) -> np.ndarray:
    """The numbers of the bytes of ``access``, in its shape and one dimension more."""
    size = access.dtype.itemsize
    result = np.full((1,) * access.ndim, access.offset)
    for dim, (count, step) in enumerate(zip(access.shape, access.strides, strict=True)):
        result = result + (np.arange(count) * step).reshape([count if d == dim else 1 for d in range(access.ndim)])
    return result[..., None] * size + np.arange(size)


def negated(model: np.ndarray, chosen: np.ndarray, time: int) -> None:
    """What an overwrite of the ``chosen`` bytes does."""
    model[chosen & (model > 0)] = -time


@given(st.data())
def test_times_are_those_of_the_last_access_to_each_byte(data):
    tensor = Tensor("t", (6, 20), float32, Buffer.sbuf)
    times, model = AccessTimes(tensor), np.zeros(tensor.nbytes, np.int64)
    for time in range(2, 2 + data.draw(st.integers(1, 12))):
        access = data.draw(st.one_of(views(tensor), st.just(Access.whole(tensor))))
        chosen = np.array(data.draw(st.lists(st.booleans(), min_size=access.size, max_size=access.size)))
        chosen, own = chosen.reshape(access.shape), places(access)
        first, second = sorted(data.draw(st.tuples(st.integers(0, 6), st.integers(0, 6))))
        rows, columns = slice(first, second + 1), slice(4 * first, 4 * second + 7)
        step = data.draw(st.sampled_from(STEPS))
        by_row = model.reshape(6, -1)
        if step == "record" and 0 not in access.strides:
            times.record(access, time)
            model[own] = time
        elif step == "record_some" and 0 not in access.strides:
            times.record_some(access, chosen, time)
            model[own[chosen]] = time
        elif step == "poison" and 0 not in access.strides:
            times.poison(access, np.where(chosen, FIRST_ORIGIN + 1, 0).astype(np.int32))
            model[own[chosen]] = FIRST_ORIGIN + 1
        elif step == "record_and_poison" and 0 not in access.strides:  # as an instruction with undefined operands does
            times.record(access, time)
            times.poison(access, np.where(chosen, FIRST_ORIGIN + 1, 0).astype(np.int32))
            model[own] = time
            model[own[chosen]] = FIRST_ORIGIN + 1
        elif step == "overwrite":
            times.overwrite(time, OTHER)
            negated(model, np.ones(model.shape, np.bool_), time)
        elif step == "overwrite_block" and second < 6:
            times.overwrite_block(rows, columns, time, OTHER)
            part = np.zeros(by_row.shape, np.bool_)
            part[rows, columns] = True
            hit = bool((by_row[part] > 0).any())
            negated(model, part.reshape(-1), time)
            assert not data.draw(st.booleans()) or times.was_overwritten(time) == hit
        elif step == "overwrite_bytes":
            part = np.zeros(model.shape, np.bool_)
            part[own[chosen]] = True
            times.overwrite_bytes(part.reshape(by_row.shape), time, OTHER)
            negated(model, part, time)
        elif step == "reset":
            times.reset()
            model[:] = 0
        if data.draw(st.booleans()):  # changes wait for a question
            continue
        question = data.draw(st.one_of(views(tensor), st.just(access)))
        asked = model[places(question)]
        assert times.is_defined(question) == bool((asked > 0).all())
        assert not times.is_empty() or not (model > 0).any()
        assert not (single := times.single_time(question)) or bool((asked == single).all())
        assert np.array_equal(per_byte(times.times_of(question), question), asked)
        assert times.distinct_times(question) == np.unique(asked).tolist()


def test_memory_does_not_grow_with_the_tensor():
    tensor = Tensor("t", (128, 1 << 22), float32, Buffer.shared_hbm)
    tracemalloc.start()
    times = AccessTimes(tensor)
    for i in range(64):
        times.record(Access(tensor, i << 16, (128, 1 << 16), (1 << 22, 1), float32), i + 2)
    assert times.is_defined(Access(tensor, 5, (128, 1 << 10), (1 << 22, 1 << 11), float32))
    assert times.is_whole
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@given(st.data())
def test_chosen_bytes_are_a_grid_of_the_bytes_of_an_access(data):
    """By their times, or element by element."""
    tensor = Tensor("t", (6, 20), float32, Buffer.sbuf)
    times = AccessTimes(tensor)
    for time in range(2, 2 + data.draw(st.integers(0, 4))):
        written = data.draw(views(tensor))
        if 0 not in written.strides:
            times.record(written, time)
    access = data.draw(views(tensor))
    expected, own = np.zeros(tensor.nbytes, np.bool_), places(access)
    is_unwritten = per_byte(times.times_of(access) == 0, access)
    expected[own[is_unwritten]] = True
    for found in (
        times.bytes_of(access, lambda each: each == 0),
        times.byte_mask(access, times.times_of(access) == 0),
    ):
        assert found.entries().tolist() == expected.tolist()
        assert found.count() == np.count_nonzero(expected)


def test_bytes_of_a_large_tile_are_counted_without_a_mask_of_it() -> None:
    tile = Tensor("tile", (128, 1 << 14), float32, Buffer.sbuf)
    times = AccessTimes(tile)
    times.record(Access(tile, 0, (128, 64), (1 << 14, 1), float32), 2)
    tracemalloc.start()
    missing = times.bytes_of(Access.whole(tile), lambda each: each == 0)
    count = missing.count()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == tile.nbytes - 128 * 64 * 4
    assert peak < tile.nbytes // 64
