"""Byte sets against Python sets of bytes."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki.analysis import byte_sets
from nki.analysis.byte_sets import ByteSet
from nki.base.element_types import float32
from nki.ir.types import Access, Buffer, Tensor
from tests.analysis.byte_model import bytes_of, views


def missing_elements(access: Access, model: set[tuple[str, int, int]]) -> np.ndarray:
    """The elements of ``access`` with a byte that ``model`` lacks, one at a time."""
    result = np.ones(access.shape, np.bool_)
    for index in np.ndindex(access.shape):
        offset = access.offset + sum(i * step for i, step in zip(index, access.strides, strict=True))
        result[index] = not bytes_of(Access(access.tensor, offset, (1,), (1,), access.dtype)) <= model
    return result


@given(st.data())
def test_a_byte_set_is_a_set_of_bytes(data):
    tensor = Tensor("t", data.draw(st.sampled_from([(6, 20), (4, 3, 5), (31,)])), float32, Buffer.hbm)
    byte_set, model = ByteSet(tensor), set[tuple[str, int, int]]()
    whole = bytes_of(Access.whole(tensor))
    for _ in range(data.draw(st.integers(1, 8))):
        access = data.draw(st.one_of(views(tensor), st.just(Access.whole(tensor))))
        own = bytes_of(access)
        step = data.draw(st.sampled_from(["add", "add", "add", "subtract", "clear", "copy"]))
        if step == "add":
            byte_set.add(access)
            model |= own
        elif step == "subtract":
            byte_set.subtract(access)
            model -= own
        elif step == "clear":
            byte_set.clear()
            model = set()
        else:
            copied, byte_set = byte_set, byte_set.copy()
            copied.add(access)
        question = data.draw(st.one_of(views(tensor), st.just(Access.whole(tensor))))
        asked = bytes_of(question)
        assert byte_set.contains(question) == (asked <= model)
        assert byte_set.intersects(question) == bool(asked & model)
        assert byte_set.is_full() == (model == whole)
        missing = byte_set.missing(question)
        assert (missing is None) == (asked <= model)
        if missing is not None:
            assert missing.shape == question.shape
            assert np.array_equal(missing, missing_elements(question, model))
        assert set(np.flatnonzero(byte_set.mask()).tolist()) == {number for _, _, number in model}


def test_memory_does_not_grow_with_the_tensor():
    tensor = Tensor("t", (128, 1 << 26), float32, Buffer.shared_hbm)
    tracemalloc.start()
    byte_set = ByteSet(tensor)
    for i in range(64):
        byte_set.add(Access(tensor, i << 20, (128, 1 << 20), (1 << 26, 1), float32))
    assert byte_set.contains(Access(tensor, 5, (128, 1 << 10), (1 << 26, 1 << 15), float32))
    assert byte_set.is_full()
    byte_set.subtract(Access(tensor, 0, (64, 1), (2 << 26, 1), float32))
    assert not byte_set.contains(Access(tensor, 0, (1, 2), (1, 1), float32))
    assert byte_set.contains(Access(tensor, 1 << 26, (1, 2), (1, 1), float32))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_set_that_is_too_large_for_a_grid_is_approximate(monkeypatch):
    monkeypatch.setattr(byte_sets, "MOST_CELLS", 8)
    tensor = Tensor("t", (1, 100), float32, Buffer.hbm)
    byte_set = ByteSet(tensor)
    even = Access(tensor, 0, (1, 50), (100, 2), float32)
    byte_set.add(even)
    byte_set.add(Access(tensor, 1, (1, 50), (100, 2), float32))
    assert byte_set.contains(even) and byte_set.intersects(Access.whole(tensor))
    assert not byte_set.is_full() and not byte_set.contains(Access.whole(tensor))
    byte_set.add(Access.whole(tensor))
    assert byte_set.is_full() and byte_set.contains(Access.whole(tensor))
