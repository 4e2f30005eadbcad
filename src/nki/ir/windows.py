"""Windows of tensors: which part of its tensor an access is, and where the same elements are in another tensor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from nki.ir.types import Access, Tensor, coalesced, row_major

Parts = Sequence[tuple[int, Access]]
"""The places of the columns of a tile, by the number of the first one, in order: each part has two dimensions."""


def is_all(access: Access) -> bool:
    """True if ``access`` is all of its tensor in order, as elements of its dtype; the shape may be another one."""
    tensor = access.tensor
    if access.dtype is not tensor.dtype or access.dynamic is not None or access.strides != row_major(access.shape):
        return False
    return access.shape == tensor.shape or access.size == tensor.elements


def first_of_rows(access: Access) -> tuple[int, int] | None:
    """Row and column of the first element, if ``access`` is columns of rows of its tensor; else None."""
    tensor = access.tensor
    if len(access.shape) != 2 or access.strides != (tensor.free_size, 1):
        return None
    if access.dtype is not tensor.dtype or access.dynamic is not None:
        return None
    return divmod(access.offset, tensor.free_size)


def has_dense_rows(access: Access) -> bool:
    """True if the rows are dense, whatever lies between them."""
    return len(access.shape) == 2 and access.strides[1] == 1 and not access.dtype.is_packed


def transposed(access: Access) -> Access:
    """The same elements with rows and columns exchanged."""
    return Access(access.tensor, access.offset, access.shape[::-1], access.strides[::-1], access.dtype)


def in_tensor(access: Access, tensor: Tensor) -> Access:
    """The same window of another tensor of the same shape."""
    moved = Access(tensor, access.offset, access.shape, access.strides, access.dtype)
    if tensor.form is access.tensor.form:
        moved.known_form = access.known_form or access.form
    return moved


def side_by_side(windows: Iterable[tuple[Access, Access]]) -> Parts:
    """The parts of a tile: each of the ``windows``, which start at the first row, with its place, of the same shape.

    No parts if they are no such windows, or share columns.
    """
    parts: list[tuple[int, Access]] = []
    for window, place in windows:
        row, column = first_of_rows(window) or (-1, -1)
        if row != 0 or place.shape != window.shape:
            return ()
        parts.append((column, place))
    parts.sort(key=lambda part: part[0])
    return () if any(at + part.shape[1] > after for (at, part), (after, _) in pairwise(parts)) else parts


def in_parts(access: Access, parts: Parts) -> Access | None:
    """The elements of ``access`` to a tile that is in ``parts``; None if no part has them all in rows."""
    first = first_of_rows(access)
    if first is None:
        return None
    row, column = first
    number = bisect_right(parts, column, key=lambda part: part[0]) - 1
    if number < 0:
        return None
    start, part = parts[number]
    column -= start
    (rows, columns), (row_step, column_step) = part.shape, part.strides
    if row + access.shape[0] > rows or column + access.shape[1] > columns:
        return None
    return Access(
        part.tensor, part.offset + row * row_step + column * column_step, access.shape, part.strides, part.dtype
    )


def in_window(access: Access, window: Access) -> tuple[int, tuple[int, ...]] | None:
    """Offset in the tensor of ``window``, and strides there, of an ``access`` to a dense tile of its elements.

    Both have the same elements, element number by element number. None if strides cannot say where they are.
    """
    dims = coalesced(zip(window.strides, window.shape, strict=True))
    blocks: list[tuple[int, int, int]] = []  # size of the block, step in the window, count; innermost first
    size = 1
    for step, count in reversed(dims):
        blocks.append((size, step, count))
        size *= count
    digits = [access.offset // block % count for block, _, count in blocks]
    highest = list(digits)
    steps: list[int] = []
    for stride, count in zip(access.strides, access.shape, strict=True):
        if count == 1 or stride == 0:
            steps.append(0 if stride == 0 else 1)
            continue
        level = max((i for i, (block, _, _) in enumerate(blocks) if block <= stride), default=-1)
        if level < 0 or stride % blocks[level][0]:
            return None
        factor = stride // blocks[level][0]
        highest[level] += factor * (count - 1)
        steps.append(factor * blocks[level][1])
    if any(digit >= count for digit, (_, _, count) in zip(highest, blocks, strict=True)):
        return None
    return sum(d * step for d, (_, step, _) in zip(digits, blocks, strict=True)), tuple(steps)
