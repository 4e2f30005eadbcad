"""Access patterns of tensors, and the byte ranges and boxes that they cover."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.ir.types import Access

Ints = NDArray[np.int64]
AccessPattern = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""Offset, shape and strides of an access in elements, and the bytes of an element; a key without the tensor."""
_MOST_KEPT = 1 << 13
"""Patterns with bytes that are kept: the tiles of unrolled loops have the same few over and over."""
MAX_RUNS = 1 << 14
"""Runs of one axis pattern; a pattern with more counts as everything from its first to its last byte."""


class AxisPattern(NamedTuple):
    """``run`` neighbours at ``start``, repeated ``count`` times every ``step`` for each of ``dims``."""

    start: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()

    def run_starts(self) -> Ints:
        """Start of each run."""
        starts = np.array([self.start], np.int64)
        for count, step in self.dims:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
        return starts

    def runs(self) -> int:
        """Number of runs."""
        return math.prod(count for count, _ in self.dims)

    def bounded(self) -> AxisPattern:
        """The same pattern, or its hull where the pattern has more than :data:`MAX_RUNS` runs."""
        if not self.dims or self.runs() <= MAX_RUNS:
            return self
        return AxisPattern(self.start, self.run + sum((count - 1) * step for count, step in self.dims))


Box = tuple[AxisPattern, AxisPattern]
"""Rows and columns (bytes of a row) of an access: every row of the first pattern has every column of the second."""


class ByteRanges(NamedTuple):
    """An access as bytes of its tensor: ``size`` at ``start``, repeated for each of ``dims``, longest step first."""

    start: int
    size: int
    dims: tuple[tuple[int, int], ...]

    @staticmethod
    @lru_cache(maxsize=_MOST_KEPT)
    def of(pattern: AccessPattern) -> ByteRanges:
        """The bytes of an access with that pattern."""
        offset, shape, strides, size = pattern
        first, run, dims = _bytes_of_window(shape, strides, size)
        return ByteRanges(offset * size + first, run, dims)

    @lru_cache(maxsize=_MOST_KEPT)  # noqa: B019  # of a tuple of numbers
    def box(self, row_bytes: int) -> Box | None:
        """The same bytes as rows by columns; None if the access does not keep to rows of ``row_bytes``."""
        first, column = divmod(self.start, row_bytes)
        found = _box_of_window(column, self.size, self.dims, row_bytes)
        return found and (AxisPattern(first, *found[0]), found[1])


# A kernel has windows of few shapes in many places, so most of the work is kept by shape, for however many places.


@lru_cache(maxsize=_MOST_KEPT)
def _bytes_of_window(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> ByteRanges:
    """The bytes of a window at offset 0, of elements of ``size`` bytes."""
    start, dims = 0, list[tuple[int, int]]()
    for count, step in zip(shape, strides, strict=True):
        if count > 1 and step:
            if step < 0:
                start += step * (count - 1) * size
            dims.append((count, abs(step) * size))
    dims.sort(key=_step, reverse=True)
    while dims and dims[-1][1] <= size:
        count, step = dims.pop()
        size += (count - 1) * step
    return ByteRanges(start, size, tuple(dims))


@lru_cache(maxsize=_MOST_KEPT)
def _box_of_window(
    column: int, run: int, dims: tuple[tuple[int, int], ...], row_bytes: int
) -> tuple[tuple[int, tuple[tuple[int, int], ...]], AxisPattern] | None:
    """Rows, without the first one, and columns of runs of bytes that begin at ``column``; None as
    :meth:`ByteRanges.box`.
    """
    outer = [(count, step // row_bytes) for count, step in dims if step >= row_bytes]
    inner = tuple((count, step) for count, step in dims if step < row_bytes)
    if any(step % row_bytes for _, step in dims if step >= row_bytes):
        return None
    if run > row_bytes and not inner and column == 0 and run % row_bytes == 0:
        outer.append((run // row_bytes, 1))
        run = row_bytes
    if column + run + sum((count - 1) * step for count, step in inner) > row_bytes:
        return None
    rows = 1
    while outer and outer[-1][1] <= rows:
        count, step = outer.pop()
        rows += (count - 1) * step
    return (rows, tuple(outer)), AxisPattern(column, run, inner)


def sorted_unique(values: Ints) -> Ints:
    """The different numbers among ``values``, in order.

    ``np.unique`` of NumPy 2.4 hashes: of five million numbers it takes 150 times as long.
    """
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))] if len(values) else values


def _step(dim: tuple[int, int]) -> int:
    return dim[1]


def pattern_of(access: Access) -> AccessPattern:
    """The pattern of ``access``, without its run-time index."""
    return (access.offset, access.shape, access.strides, access.dtype.itemsize)


def conservative_pattern(access: Access) -> AccessPattern:
    """The pattern of ``access``; the whole tensor where a run-time index moves the access."""
    if access.dynamic is not None:
        return (0, (access.tensor.nbytes,), (1,), 1)
    return (access.offset, access.shape, access.strides, access.dtype.itemsize)
