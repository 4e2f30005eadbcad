"""What is written at one point of a program, of several tensors and around loops, against Python sets of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nki.analysis.written_bytes import WrittenBytes
from nki.base.element_types import float32
from nki.ir.types import Access, Buffer, Tensor
from tests.analysis.byte_model import bytes_of

FIRST, LAST, LEFT, ALL = (0, (2, 6), (6, 1)), (12, (2, 6), (6, 1)), (0, (4, 3), (6, 1)), (0, (24,), (1,))
"""Offset, shape and steps of windows: some rows, the other rows, some columns, and all bytes."""


@given(st.data())
def test_tensors_that_are_written_alike_are_told_from_others(data):
    """Few windows and tensors of one form, so that many have equal writes, in equal or in another order."""
    tensors = [Tensor(f"t{n}", (4, 6), float32, Buffer.sbuf) for n in range(2)]
    windows, empty = st.sampled_from([FIRST, LAST, LEFT]), frozenset[object]()
    written, model, before = WrittenBytes(), dict.fromkeys(tensors, empty), list[dict[Tensor, frozenset[object]]]()
    for _ in range(data.draw(st.integers(8, 24))):
        tensor = data.draw(st.sampled_from(tensors))
        match data.draw(st.sampled_from(["add", "add", "add", "enter", "leave"])):
            case "add":
                access = Access(tensor, *data.draw(windows), float32)
                written.add(access)
                model[tensor] |= bytes_of(access)
            case "enter":
                written.enter_loop()
                before.append(dict(model))
            case "leave" if before:
                runs, earlier = data.draw(st.booleans()), before.pop()
                dropped = written.leave_loop(runs=runs)
                assert runs or {each for each in model if model[each] != earlier[each]} <= {*dropped}
                model = model if runs else earlier
            case _:
                pass
        for access in (Access(each, *window, float32) for each in tensors for window in (FIRST, LAST, LEFT, ALL)):
            assert written.contains(access) == (bytes_of(access) <= model[access.tensor])
