"""Overlap of accesses: the test if two share a byte, if one has an element twice, or every byte of its tensor.

An access is a sum of steps: element ``i`` lies at ``start + sum(i[d] * step[d])``. Each question is then if some sum of
multiples of steps lies in a window, which :func:`_reaches` answers. :mod:`nki.analysis.alias_classes` answers the first
question for all accesses of a program at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from nki.ir.types import Access, is_element_indexed, is_row_indexed

Dims = Iterable[tuple[int, int]]
"""Step, which is at least 1, and count of each dimension: the multiples of the step from 0 to ``count - 1``."""
MAX_SUMS = 1 << 10
"""Sums that the test of two accesses tries; two accesses that take more count as overlapping."""
MAX_SUMS_OF_ONE = 1 << 18
"""Sums that the test of one access tries; an access that takes more counts as one that has an element twice."""


def may_overlap(one: Access, two: Access) -> bool:
    """True if two accesses may share a byte.

    The answer is exact for accesses whose steps nest, as those of slices of one tensor do, for accesses to other
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
    """:func:`may_overlap` for patterns whose first elements are ``apart`` bytes from each other."""
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
    """True if the elements (on chip: those of a partition) lie one behind the other in row-major order."""
    step = 1
    for size, stride in reversed(list(zip(access.shape, access.strides, strict=True))[access.buffer.on_chip :]):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
