"""Byte sets against Python sets of bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki.analysis.byte_sets import ByteSet
from nki.base.dtype import float32
from nki.ir.types import Access, Buffer, Tensor
from tests.analysis.byte_model import accesses, bytes_of


@given(st.data())
def test_a_byte_set_is_a_set_of_bytes(data):
    tensor = Tensor("t", data.draw(st.sampled_from([(6, 20), (4, 3, 5), (31,)])), float32, Buffer.hbm)
    byte_set, model = ByteSet(tensor), set[tuple[str, int, int]]()
    whole = bytes_of(Access.whole(tensor))
    for _ in range(data.draw(st.integers(1, 8))):
        access = data.draw(st.one_of(accesses(tensor), st.just(Access.whole(tensor))))
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
        question = data.draw(accesses(tensor))
        asked = bytes_of(question)
        assert byte_set.contains(question) == (asked <= model)
        assert byte_set.intersects(question) == bool(asked & model)
        assert byte_set.is_full() == (model == whole)
        missing = byte_set.missing(question)
        assert (missing is None) == (asked <= model)
        if missing is not None:
            assert missing.shape == question.shape
        assert set(np.flatnonzero(byte_set.mask()).tolist()) == {number for _, _, number in model}
