"""Reference model of accesses: every byte that an access touches, as a Python set."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from nki.base.element_types import DType, bfloat16, float32, uint8
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor

Byte = tuple[str, int, int]


def bytes_of(access: Access) -> set[Byte]:
    """Every byte of a window: its memory, partition (in HBM: 0) and number."""
    tensor = access.tensor
    if access.dynamic is not None:
        access = Access.whole(tensor)
    size = access.dtype.itemsize
    numbers = np.array([access.offset])
    for count, step in zip(access.shape, access.strides, strict=True):
        numbers = (numbers[:, None] + np.arange(count) * step).reshape(-1)
    numbers = (numbers[:, None] * size + np.arange(size)).reshape(-1)
    if not tensor.buffer.on_chip:
        return {(tensor.name, 0, int(n)) for n in numbers}
    row = tensor.free_size * tensor.dtype.itemsize
    if tensor.address is None:
        return {(tensor.name, *divmod(int(n), row)) for n in numbers}
    first, start = tensor.address
    return {(tensor.buffer.word, first + int(n) // row, start + int(n) % row) for n in numbers}


def elements_of(access: Access) -> list[list[Byte]]:
    """The bytes of each element of a window, in row-major order, lowest first."""
    found: list[list[Byte]] = []
    for index in np.ndindex(access.shape):
        offset = access.offset + sum(i * step for i, step in zip(index, access.strides, strict=True))
        found.append(sorted(bytes_of(Access(access.tensor, offset, (1,), (1,), access.dtype))))
    return found


Touched = tuple[set[Byte], set[Byte]]


def touched(insts: list[Inst]) -> Touched:
    """The bytes that the instructions read, and those that they write."""
    reads = set().union(*(bytes_of(access) for inst in insts for access in inst.reads()))
    return reads, set().union(*(bytes_of(access) for inst in insts for access in inst.writes()))


def depend(one: Touched, two: Touched) -> bool:
    """Whether one of them writes a byte that the other one touches."""
    return not (one[1].isdisjoint(two[0]) and one[1].isdisjoint(two[1]) and two[1].isdisjoint(one[0]))


@st.composite
def accesses(draw, tensor: Tensor) -> Access:
    """A window of up to three dimensions, backwards in HBM sometimes, that stays inside the tensor."""
    rows, free = tensor.shape[0], tensor.free_size
    if tensor.buffer.on_chip:
        first, count = draw(st.integers(0, rows - 1)), draw(st.integers(1, rows))
        dims = [(min(count, rows - first), free)]
        offset, room = first * free, free
    else:
        dims, offset, room = [], 0, rows * free
    start = draw(st.integers(0, room - 1))
    left = room - 1 - start
    for _ in range(draw(st.integers(1, 3))):
        step = draw(st.integers(0, max(1, min(left, 9))))
        count = draw(st.integers(1, min(6, 1 + (left // step if step else 5))))
        left -= (count - 1) * step
        if step and not tensor.buffer.on_chip and draw(st.booleans()):
            start, step = start + (count - 1) * step, -step
        dims.append((count, step))
    return Access(tensor, offset + start, tuple(c for c, _ in dims), tuple(s for _, s in dims), tensor.dtype)


@st.composite
def views(draw, tensor: Tensor, dtypes: tuple[DType, ...] = (float32, float32, bfloat16, uint8)) -> Access:
    """A window of ``tensor``, as elements of its own or of another size."""
    dtype = draw(st.sampled_from(dtypes))
    shape = (*tensor.shape[:-1], tensor.shape[-1] * tensor.dtype.itemsize // dtype.itemsize)
    access = draw(accesses(Tensor(tensor.name, shape, dtype, tensor.buffer)))
    return Access(tensor, access.offset, access.shape, access.strides, dtype)
