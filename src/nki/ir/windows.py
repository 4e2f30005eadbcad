"""Windows of tensors: which part of its tensor an access is, where the same elements are in another tensor, and which
bytes two accesses share.

An access is a sum of steps: element ``i`` lies at ``start + sum(i[d] * step[d])``. If two accesses share a byte, if one
has an element twice, or every byte of its tensor: each is the question if some sum of multiples of steps lies in a
window, which :func:`_reaches` answers. :mod:`nki.analysis.alias_classes` answers the first question for all accesses of
a program at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from nki.ir.types import Access, Tensor, coalesced, is_element_indexed, is_row_indexed, row_major

Parts = Sequence[tuple[int, Access]]
"""The places of the columns of a tile, by the number of the first one, in order: each part has two dimensions."""
Dims = Iterable[tuple[int, int]]
"""Step, which is at least 1, and count of each dimension: the multiples of the step from 0 to ``count - 1``."""
MAX_SUMS = 1 << 10
"""Sums that the test of two accesses tries; two accesses that take more count as overlapping."""
MAX_SUMS_OF_ONE = 1 << 18
"""Sums that the test of one access tries; an access that takes more counts as one that has an element twice."""


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
    return Access(tensor, access.offset, access.shape, access.strides, access.dtype)


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


def may_overlap(one: Access, two: Access) -> bool:
    """True if two accesses may share a byte.

    The answer is exact for accesses with nested steps, such as slices of one tensor, for accesses to other
    partitions or to other columns, and wherever few sums decide. Else it is True, also for run-time indices.
    """
    if one.tensor is not two.tensor:
        return False
    if one.dynamic is not None or two.dynamic is not None:
        return True
    size, other_size = one.dtype.itemsize, two.dtype.itemsize
    apart = two.offset * other_size - one.offset * size
    return _patterns_overlap(apart, one.shape, one.strides, size, two.shape, two.strides, other_size)


@lru_cache(maxsize=1 << 12)
def _patterns_overlap(
    apart: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    size: int,
    other_shape: tuple[int, ...],
    other_strides: tuple[int, ...],
    other_size: int,
) -> bool:
    """:func:`may_overlap` for patterns with first elements ``apart`` bytes from each other."""
    # Some start + sum(one) + byte equals start + sum(two) + byte. Both sums on one side, every step positive:
    # a dimension that is counted from its other end has the same elements.
    dims: list[tuple[int, int]] = []
    for step, count in zip(strides, shape, strict=True):
        if step < 0:
            apart -= step * size * (count - 1)
        if step:
            dims.append((abs(step) * size, count))
    for step, count in zip(other_strides, other_shape, strict=True):
        if step > 0:
            apart += step * other_size * (count - 1)
        if step:
            dims.append((abs(step) * other_size, count))
    return _reaches(dims, apart - size + 1, apart + other_size - 1, MAX_SUMS)


def repeats(access: Access) -> bool:
    """True if two elements of ``access`` are one element of the tensor; run-time indices count as different.

    Exact unless more than :data:`MAX_SUMS_OF_ONE` sums would have to be tried, which takes dozens of dimensions.
    """
    if is_element_indexed(access):
        return False
    first = int(is_row_indexed(access))
    return pattern_repeats(access.shape[first:], access.strides[first:])


@lru_cache(maxsize=1 << 12)
def pattern_repeats(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """:func:`repeats` for a pattern of these counts and steps."""
    steps = sorted(((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1), reverse=True)
    if any(step == 0 for step, _ in steps):
        return True
    # Two elements differ by d[k] steps, 0 < d[k] < n, in the first dimension k in which they differ, and by -n < d < n
    # steps in the shorter ones.
    for k, (step, count) in enumerate(steps):
        shorter = steps[k + 1 :]
        reach = sum(s * (n - 1) for s, n in shorter)
        if step <= reach:
            dims = [(step, count - 1), *((s, 2 * n - 1) for s, n in shorter)]
            if _reaches(dims, reach - step, reach - step, MAX_SUMS_OF_ONE):
                return True
    return False


def covers_tensor(access: Access) -> bool:
    """True if ``access`` certainly has every byte of its tensor."""
    return access.dynamic is None and access.nbytes == access.tensor.nbytes and not repeats(access)


def _reaches(dims: Dims, low: int, high: int, budget: int) -> bool:
    """Test if a sum of one multiple from each dimension lies in the window from ``low`` to ``high``.

    The answer is True also if the search has tried ``budget`` sums in vain.
    """
    counts: dict[int, int] = {}
    for step, count in dims:
        counts[step] = counts.get(step, 1) + count - 1
    steps = sorted(counts.items(), reverse=True)
    while steps and steps[-1][0] <= high - low + 1:  # windows a step apart leave no gap: they are one window
        step, count = steps.pop()
        low -= step * (count - 1)
    levels: list[tuple[int, int, int]] = []
    reach = 0
    for step, count in reversed(steps):
        levels.append((step, count, reach))
        reach += step * (count - 1)
    return low <= reach and high >= 0 and _search(levels, len(levels) - 1, low, high, [budget])


def _search(levels: list[tuple[int, int, int]], top: int, low: int, high: int, budget: list[int]) -> bool:
    """:func:`_reaches` for the levels up to ``top``, shortest step first: step, count, and largest sum of those below.

    The multiples tried are those after which the levels below can reach the window; if steps nest, that is one.
    """
    if top < 0:
        return low <= 0 <= high
    step, count, reach = levels[top]
    for n in range(max(0, (low - reach + step - 1) // step), min(count - 1, high // step) + 1):
        budget[0] -= 1
        if budget[0] < 0 or _search(levels, top - 1, low - n * step, high - n * step, budget):
            return True
    return False


def is_contiguous(access: Access) -> bool:
    """True if the elements (on chip: of a partition) lie one behind the other in row-major order."""
    step = 1
    for size, stride in reversed(list(zip(access.shape, access.strides, strict=True))[access.buffer.on_chip :]):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
