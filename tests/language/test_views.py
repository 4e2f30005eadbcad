"""Views read what NumPy reads, whatever the chain; what the rules forbid is refused, and nothing else is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.base import element_types as dt
from nki.base.errors import DynamicIndexError, IndexRangeError, ViewError
from nki.ir import windows
from nki.ir.types import Access, Buffer
from nki.language.nki_tensor import NkiTensor
from tests.language import chains

REFUSALS = (ViewError, IndexRangeError, DynamicIndexError)
quiet = pytest.mark.filterwarnings("ignore:ap.offset:nki.NkiWarning")


@quiet
@given(chains.storages(), st.data())
def test_a_chain_reads_what_numpy_reads(state: chains.State, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 6))):
        follow(state, *data.draw(chains.steps(state)))


@quiet
@pytest.mark.parametrize("name", chains.NAMES)
@given(chains.storages(), st.data())
def test_each_operation_after_a_few_others(name: str, state: chains.State, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 2))):
        follow(state, *data.draw(chains.steps(state)))
    follow(state, *chains.step(data.draw, state, name))


def follow(state: chains.State, name: str, arguments: tuple[Any, ...]) -> None:
    """One operation; one that is refused, at once or when it is used, leaves the state as it was."""
    wanted = chains.theirs(state, name, arguments)
    if wanted is None:
        with pytest.raises(REFUSALS):
            assert chains.mine(state, name, arguments).access.signature
        return
    state.view, state.array = chains.mine(state, name, arguments), wanted
    view, read = state.view, state.read()
    assert view.shape == wanted.shape
    assert (view.ndim, view.size) == (wanted.ndim, wanted.size)
    assert view.dtype.dtype == wanted.dtype
    assert read.tobytes() == wanted.tobytes()
    assert view.get_pattern() == [[s, n] for s, n in zip(view.strides, view.shape, strict=True)]
    assert view.is_contiguous() is contiguous(wanted, state.on_chip)
    assert view.is_indirect() is (view.access.dynamic is not None)
    assert windows.repeats(view.access) is repeats(view.access)


def contiguous(array: np.ndarray[Any, Any], on_chip: bool) -> bool:
    inner = array[0] if on_chip else array
    return bool(inner.flags.c_contiguous)


def repeats(view: Access) -> bool:
    places = np.zeros(view.shape, int)
    for dim, (step, count) in enumerate(view.pattern()):
        places = places + (step * np.arange(count)).reshape((-1,) + (1,) * (view.ndim - dim - 1))
    return len(np.unique(places)) < places.size


@quiet
@given(st.booleans(), st.data())
def test_bytes_as_wider_elements(on_chip: bool, data: st.DataObject) -> None:
    """Sizes, starts and steps that fit the wider type, and that nearly do."""
    inner = data.draw(st.sampled_from([2, 4, 6, 8]))
    shape = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5)), inner)
    state = chains.begin(shape, dt.uint8, Buffer.sbuf if on_chip else Buffer.hbm)
    for _ in range(data.draw(st.integers(1, 2))):
        dim = data.draw(st.integers(0, 2))
        size = state.array.shape[dim]
        start = data.draw(st.integers(0, size - 1))
        if dim == 2 and data.draw(st.booleans()):
            start = start // 2 * 2
        end = data.draw(st.sampled_from([size, *range(start + 1, size + 1)]))
        follow(state, "slice", (dim, start, end, data.draw(st.sampled_from([1, 1, 2])) if dim < 2 else 1))
    follow(state, "view", (data.draw(st.sampled_from([dt.int16, dt.int32])),))
    follow(state, "view", (data.draw(st.sampled_from(chains.KINDS)),))


@given(st.data())
def test_rows_chosen_at_run_time(data: st.DataObject) -> None:
    """Row p is the row that index p names, also after views of the other dimensions."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    state = chains.begin(shape, dt.int32, Buffer.hbm)
    rows = data.draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=9))
    column = tile(state, (len(rows), 1))
    state.index[column.name] = rows
    state.view = state.view.vector_select(0, column)
    state.array = state.array[rows]
    assert state.view.is_indirect()
    for _ in range(data.draw(st.integers(0, 4))):
        name, arguments = data.draw(chains.steps(state))
        copied = replace(state, flat=state.array)
        wanted = chains.theirs(copied, name, arguments)
        try:
            view = chains.mine(state, name, arguments)
        except REFUSALS:
            continue
        assert wanted is not None
        state.view, state.array = view, wanted
    assert state.read().tobytes() == state.array.tobytes()
    assert state.view.shape == state.array.shape
    assert state.view.strides[0] == 0


def tile(state: chains.State, shape: tuple[int, ...], dtype: dt.DType = dt.int32) -> NkiTensor:
    return NkiTensor.of(state.builder.tensor("indices", shape, dtype, Buffer.sbuf))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=5))
def test_meeting_an_element_twice(pairs: list[tuple[int, int]]) -> None:
    total = 1 + sum(s * (n - 1) for s, n in pairs)
    view = chains.begin((total,), dt.uint8, Buffer.hbm).view.ap(pairs).access
    assert windows.repeats(view) is repeats(view)
    backwards = Access(view.tensor, total - 1, view.shape, tuple(-s for s in view.strides), view.dtype)
    assert windows.repeats(backwards) is windows.repeats(view)


@given(st.data())
def test_an_access_pattern_with_an_index(data: st.DataObject) -> None:
    """``scalar_offset`` moves by the step of a dimension of the view, counted in bytes where the dtype is another."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    state = chains.begin(shape, dt.float32, Buffer.hbm)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    at = data.draw(st.integers(0, shape[dim] - 1))
    kind = data.draw(st.sampled_from(chains.KINDS))
    step = math.prod(shape[dim % len(shape) + 1 :]) * 4 // kind.itemsize
    view = state.view.ap([[1, step]], scalar_offset=state.register(at), indirect_dim=dim, dtype=kind)
    wanted = state.flat.view(kind.dtype)[at * step : (at + 1) * step]
    assert state.index[view.access.dynamic.source.name] == at
    state.view = view
    assert state.read().tobytes() == wanted.tobytes()
