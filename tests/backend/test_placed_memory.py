"""Tiles in the bytes of SBUF: each reads and writes what an array of its own would, and shares what it overlaps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki.backend.numpy.memory import Memory
from nki.backend.numpy.placed_memory import PlacedMemory
from nki.base.element_types import bfloat16, float32
from nki.ir.types import Access, Buffer, Tensor
from nki.target import GEN3


@given(st.data())
def test_a_window_of_a_placed_tile_is_that_of_an_array(data):
    dtype = data.draw(st.sampled_from([float32, bfloat16]))
    tensor = Tensor("t", (6, 20), dtype, data.draw(st.sampled_from([Buffer.sbuf, Buffer.psum])))
    memory = PlacedMemory(GEN3, {tensor: (data.draw(st.integers(0, 100)), data.draw(st.integers(0, 999)))})
    plain = Memory()
    first, count = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    start, step = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    access = Access(tensor, 20 * first + start, (count, 5), (20, step), dtype)
    whole = Access.whole(tensor)
    contents = np.arange(120).reshape(6, 20).astype(dtype.dtype)
    for each in (memory, plain):
        each.window(whole)[...] = contents
    assert memory.window(access).tobytes() == plain.window(access).tobytes()
    if step:
        for each in (memory, plain):
            each.window(access)[...] = each.window(access) * each.window(access)
    assert memory.window(whole).tobytes() == plain.window(whole).tobytes()


def test_tiles_that_overlap_share_bytes():
    one, two = (Tensor(name, (4, 8), float32, Buffer.sbuf) for name in "ab")
    memory = PlacedMemory(GEN3, {one: (0, 0), two: (2, 16)})
    memory.window(Access.whole(one))[...] = np.arange(32, dtype=np.float32).reshape(4, 8)
    seen = memory.window(Access.whole(two))
    assert np.array_equal(seen[:2, :4], np.arange(32).reshape(4, 8)[2:, 4:])
    assert np.isnan(seen[2:]).all() and np.isnan(seen[:, 4:]).all()


def test_an_address_is_a_place_and_what_has_neither_is_apart():
    placed, free = Tensor("a", (4, 8), float32, Buffer.sbuf, (0, 0)), Tensor("b", (4, 8), float32, Buffer.sbuf)
    memory = PlacedMemory(GEN3, {})
    memory.window(Access.whole(placed))[...] = 1.0
    assert np.isnan(memory.window(Access.whole(free))).all()
    assert (memory.window(Access(placed, 3, (2, 2), (8, 2), float32)) == 1.0).all()
