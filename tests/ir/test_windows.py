"""Overlap of accesses, against the sets of their bytes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.base.element_types import DType, bfloat16, float32, uint8
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import covers_tensor, may_overlap
from tests.analysis.byte_model import accesses, bytes_of

SBUF = Tensor("t", (4, 3, 20), float32, Buffer.sbuf)
HBM = Tensor("t", (31,), float32, Buffer.hbm)


def retyped(access: Access, dtype: DType) -> Access:
    """The first bytes of each element, as an element of a narrower type."""
    ratio = access.dtype.itemsize // dtype.itemsize
    return Access(access.tensor, access.offset * ratio, access.shape, tuple(s * ratio for s in access.strides), dtype)


@given(st.data())
def test_accesses_that_share_a_byte_may_overlap(data: st.DataObject) -> None:
    tensor = data.draw(st.sampled_from([SBUF, HBM]))
    one, two = (
        retyped(data.draw(accesses(tensor)), data.draw(st.sampled_from([float32, bfloat16, uint8]))) for _ in range(2)
    )
    if bytes_of(one) & bytes_of(two):
        assert may_overlap(one, two)


@st.composite
def slices(draw: st.DrawFn, tensor: Tensor) -> Access:
    """A slice with steps of each dimension."""
    offset, shape, strides, step = 0, list[int](), list[int](), tensor.elements
    for size in tensor.shape:
        step //= size
        first = draw(st.integers(0, size - 1))
        by = draw(st.integers(1, 4))
        count = draw(st.integers(1, (size - 1 - first) // by + 1))
        offset += first * step
        shape.append(count)
        strides.append(by * step)
    return Access(tensor, offset, tuple(shape), tuple(strides), tensor.dtype)


@given(slices(SBUF), slices(SBUF), st.sampled_from([float32, bfloat16]))
def test_the_test_of_two_slices_is_exact(one: Access, two: Access, dtype: DType) -> None:
    assert may_overlap(retyped(one, dtype), two) is bool(bytes_of(retyped(one, dtype)) & bytes_of(two))


def test_halves_of_elements_are_apart_and_other_tensors_too() -> None:
    low = Access(SBUF, 0, (4, 60), (120, 2), bfloat16)
    high = Access(SBUF, 1, (4, 60), (120, 2), bfloat16)
    assert not may_overlap(low, high)
    assert may_overlap(low, Access.whole(SBUF))
    assert not may_overlap(Access.whole(SBUF), Access.whole(HBM))


def test_too_many_sums_count_as_an_overlap_at_once() -> None:
    """Steps that do not nest: even numbers against odd ones, which no bound tells apart."""
    tensor = Tensor("t", (1 << 24,), uint8, Buffer.hbm)
    steps = (1002, 1004, 1006, 1008)
    one, two = (Access(tensor, start, (1000, 1000, 1000, 1000), steps, uint8) for start in (0, 1))
    start = time.process_time()
    assert may_overlap(one, two)
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "dtype", "covers"),
    [
        (0, (4, 60), (60, 1), float32, True),
        (59, (60, 4), (-1, 60), float32, True),
        (0, (4, 120), (120, 1), bfloat16, True),
        (0, (4, 60), (120, 1), bfloat16, False),  # as many elements as the tensor, half as wide
        (0, (4, 30, 2), (60, 1, 1), float32, False),
        (0, (4, 30), (60, 1), float32, False),
    ],
)
def test_all_bytes_of_a_tensor(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, covers: bool
) -> None:
    access = Access(SBUF, offset, shape, strides, dtype)
    assert covers_tensor(access) is covers
    assert (len(bytes_of(access)) == SBUF.nbytes) is covers
