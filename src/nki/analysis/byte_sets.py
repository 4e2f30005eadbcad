"""Sets of bytes of one tensor, such as the bytes that a program has written so far.

A set holds the access patterns that were added. A question that these cannot answer makes a grid: the tensor is rows of
bytes, cut into ranges of rows and ranges of columns where the members of the set begin and end, with a truth value for
each pair. So the memory depends on how many ends there are and not on the size of the tensor.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import (
    AccessPattern,
    AxisPattern,
    Box,
    ByteRanges,
    Ints,
    pattern_of,
    sorted_unique,
)
from nki.ir.types import Access, Tensor

Mask = NDArray[np.bool_]
MOST_CELLS: Final = 1 << 22
"""Cells of a grid, and runs of a pattern on one axis. Beyond it a set is approximate: see :class:`ByteSet`."""


class ByteSet:
    """A set of bytes of ``tensor``, empty at first.

    All accesses are to ``tensor`` and have no run-time index. The answers are exact while the grid has at most
    :data:`MOST_CELLS` cells. Beyond that a set may seem to lack bytes in :meth:`contains`, :meth:`missing` and
    :meth:`is_full`, and to contain some in :meth:`intersects`; never the other way round.
    """

    __slots__ = ("_approximate", "_grid", "_is_full", "_pending", "patterns", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.patterns: dict[AccessPattern, Access] = {}
        """Accesses that the set contains; since the last removal, the accesses that were added."""
        self._pending: list[AccessPattern] = []
        """Patterns that the grid does not have yet."""
        self._grid: _Grid | None = None
        self._is_full = False
        self._approximate = False
        """Some pattern is too large for the grid."""

    def add(self, access: Access) -> None:
        """Add the bytes of ``access`` (union)."""
        pattern = pattern_of(access)
        if self._is_full or pattern in self.patterns:
            self.patterns.setdefault(pattern, access)
            return
        self.patterns[pattern] = access
        nbytes = self.tensor.nbytes
        if access.size * access.dtype.itemsize >= nbytes and ByteRanges.of(pattern) == (0, nbytes, ()):
            self._is_full, self._grid, self._pending = True, None, []
        else:
            self._pending.append(pattern)

    def subtract(self, access: Access) -> None:
        """Remove the bytes of ``access``."""
        if self._is_empty():
            return
        pattern, nbytes = pattern_of(access), self.tensor.nbytes
        if access.size * access.dtype.itemsize >= nbytes and ByteRanges.of(pattern) == (0, nbytes, ()):
            self.clear()
            return
        grid = self._current().changed([pattern], False)
        if grid is None:
            self._approximate = True
        self._grid = grid or _Grid.whole(self.tensor, False)
        self.patterns, self._is_full = {}, False

    def clear(self) -> None:
        """Remove all bytes."""
        self.patterns, self._grid, self._pending = {}, None, []
        self._is_full = self._approximate = False

    def contains(self, access: Access) -> bool:
        """True if the set contains every byte of ``access``."""
        pattern = pattern_of(access)
        if self._is_full or pattern in self.patterns:
            return True
        if self._is_empty():
            return False
        if self.is_full():
            return True
        cells = self._current_for(pattern).cells_of(pattern)
        return cells is not None and bool(cells.all())

    def intersects(self, access: Access) -> bool:
        """True if the set contains some byte of ``access``."""
        pattern = pattern_of(access)
        if self._is_full or pattern in self.patterns:
            return True
        if self._is_empty():
            return False
        cells = self._current_for(pattern).cells_of(pattern)
        return self._approximate or cells is None or bool(cells.any())

    def missing(self, access: Access) -> Mask | None:
        """The elements of ``access``, in its shape, that the set does not contain whole; None if it contains all."""
        pattern = pattern_of(access)
        if self._is_full or pattern in self.patterns:
            return None
        if self._is_empty():
            return np.ones(access.shape, np.bool_)
        missing = np.logical_not(self._current_for(pattern).elements_of(pattern))
        return missing if missing.any() else None

    @property
    def is_known_full(self) -> bool:
        """True if the set is certain to contain every byte of the tensor, without a look at the grid."""
        return self._is_full

    def is_full(self) -> bool:
        """True if the set contains every byte of the tensor."""
        if not self._is_full and not self._is_empty():
            self._is_full = bool(self._current().cells.all())
        return self._is_full

    def is_empty(self) -> bool:
        """True if the set certainly contains no byte."""
        if self._is_full or self.patterns or self._approximate:
            return False
        return self._grid is None or not self._grid.cells.any()

    def mask(self) -> Mask:
        """An entry for each byte of the tensor, in row-major order: memory of the size of the tensor."""
        if self._is_full or self._is_empty():
            return np.full(self.tensor.nbytes, self._is_full)
        return self._current().mask()

    def copy(self) -> ByteSet:
        """A set of the same bytes that changes on its own."""
        duplicate = ByteSet(self.tensor)
        duplicate.patterns, duplicate._pending = dict(self.patterns), list(self._pending)
        duplicate._grid = self._grid  # grids never change
        duplicate._is_full, duplicate._approximate = self._is_full, self._approximate
        return duplicate

    def _is_empty(self) -> bool:
        return not self.patterns and self._grid is None

    def _current(self) -> _Grid:
        """The grid with all patterns in it."""
        grid = self._grid or _Grid.whole(self.tensor, self._is_full)
        if self._pending:
            changed = grid.changed(self._pending, True)
            if changed is None:
                self._approximate = True
            grid, self._pending = changed or grid, []
        self._grid = grid
        return grid

    def _current_for(self, pattern: AccessPattern) -> _Grid:
        """The grid, in one row if ``pattern`` does not keep to its rows and that is possible."""
        grid = self._current()
        if grid.box(pattern) is None:
            flat = grid.flat()
            if flat is None:
                self._approximate = True
            self._grid = grid = flat or _Grid.flat_empty(self.tensor)
        return grid


class _Grid:
    """``cells[i, j]`` holds for bytes ``columns[j]`` to ``columns[j + 1]`` of rows ``rows[i]`` to ``rows[i + 1]``.

    A grid never changes. Neighbouring rows or columns of it differ.
    """

    __slots__ = ("cells", "columns", "rows")

    def __init__(self, rows: Ints, columns: Ints, cells: Mask) -> None:
        self.rows = rows
        self.columns = columns
        self.cells = cells

    @classmethod
    def whole(cls, tensor: Tensor, value: bool) -> _Grid:
        """The grid of one cell. Rows are partitions; in HBM, runs of the last dimension."""
        length = tensor.bytes_per_partition if tensor.buffer.on_chip else tensor.shape[-1] * tensor.dtype.itemsize
        return cls(_cuts(0, tensor.nbytes // length), _cuts(0, length), np.full((1, 1), value))

    @classmethod
    def flat_empty(cls, tensor: Tensor) -> _Grid:
        """The grid of one cell and one row, without bytes."""
        return cls(_cuts(0, 1), _cuts(0, tensor.nbytes), np.zeros((1, 1), np.bool_))

    def box(self, pattern: AccessPattern) -> Box | None:
        """The pattern as rows by columns; None if it does not keep to the rows."""
        return ByteRanges.of(pattern).box(int(self.columns[-1]))

    def changed(self, patterns: Sequence[AccessPattern], value: bool) -> _Grid | None:
        """The grid with ``value`` for all bytes of ``patterns``; None if that has too many cells."""
        boxes = [self.box(pattern) for pattern in patterns]
        if None in boxes:
            flat = self.flat()
            return None if flat is None else flat.changed(patterns, value)
        pairs = [box for box in boxes if box is not None]
        if any(_run_count(axis) > MOST_CELLS for box in pairs for axis in box):
            return None
        rows = _joined(self.rows, (row for row, _ in pairs))
        columns = _joined(self.columns, (column for _, column in pairs))
        if len(rows) * len(columns) > MOST_CELLS:
            return None
        cells = self.cells[_cell_numbers(self.rows, rows[:-1])][:, _cell_numbers(self.columns, columns[:-1])]
        row_cuts, column_cuts = rows.tolist(), columns.tolist()
        for row, column in pairs:
            in_rows = _covered(rows, row) if row.dims else _covered_run(row_cuts, row)
            _select(
                cells, in_rows, _covered(columns, column) if column.dims else _covered_run(column_cuts, column), value
            )
        return _compact(rows, columns, cells)

    def cells_of(self, pattern: AccessPattern) -> Mask | None:
        """The cells that have bytes of ``pattern``, which keeps to the rows; None if that takes too long to tell."""
        box = self.box(pattern)
        if box is None or any(_run_count(axis) > MOST_CELLS for axis in box):
            return None
        return self.cells[_covered(self.rows, box[0])][:, _covered(self.columns, box[1])]

    def elements_of(self, pattern: AccessPattern) -> Mask:
        """For each element of ``pattern``, in its shape: True if all bytes of the element are true."""
        _, shape, strides, size = pattern
        length, ndim = int(self.columns[-1]), len(shape) + 1
        row, column = divmod(ByteRanges.of(pattern).start, length)
        in_rows = np.full((1,) * ndim, row)
        # The first byte of an element speaks for all of them, unless cuts go through elements.
        looked_at = 1 if column % size == 0 and length % size == 0 and not (self.columns % size).any() else size
        in_columns = np.arange(column, column + looked_at).reshape(*[1] * (ndim - 1), looked_at)
        for dim, (count, step) in enumerate(zip(shape, strides, strict=True)):
            steps = np.arange(count) * (step * size)
            steps = (steps - steps.min()).reshape([count if d == dim else 1 for d in range(ndim)])
            if step * size % length:
                in_columns = in_columns + steps
            else:
                in_rows = in_rows + steps // length
        in_rows, in_columns = in_rows + in_columns // length, in_columns % length  # a run of several whole rows
        values = self.cells[_cell_numbers(self.rows, in_rows), _cell_numbers(self.columns, in_columns)]
        return np.broadcast_to(values.all(axis=-1) if looked_at > 1 else values[..., 0], shape)

    def flat(self) -> _Grid | None:
        """The same bytes as one row; None if that has too many cells."""
        length, count = int(self.columns[-1]), int(self.rows[-1])
        if count * (len(self.columns) - 1) > MOST_CELLS:
            return None
        cuts = (np.arange(count)[:, None] * length + self.columns[:-1]).reshape(-1)
        cells = np.repeat(self.cells, np.diff(self.rows), axis=0).reshape(1, -1)
        return _compact(_cuts(0, 1), np.append(cuts, count * length), cells)

    def mask(self) -> Mask:
        """An entry for each byte."""
        by_row = np.repeat(self.cells, np.diff(self.columns), axis=1)
        return np.repeat(by_row, np.diff(self.rows), axis=0).reshape(-1)


def _cuts(first: int, last: int) -> Ints:
    return np.array([first, last], np.int64)


def _run_count(axis: AxisPattern) -> int:
    return math.prod(count for count, _ in axis.dims)


def _joined(cuts: Ints, axes: Iterable[AxisPattern]) -> Ints:
    """``cuts`` and all ends of runs, in order."""
    parts = [cuts]
    ends: list[int] = []
    for axis in dict.fromkeys(axes):
        if axis.dims:
            starts = axis.run_starts()
            parts += [starts, starts + axis.run]
        else:
            ends += axis.start, axis.start + axis.run
    return sorted_unique(np.concatenate([*parts, np.array(ends, np.int64)]))


def _cell_numbers(cuts: Ints, places: Ints) -> Ints:
    """The number of the range between ``cuts`` that each place is in."""
    return np.searchsorted(cuts, places, "right") - 1


def _covered(cuts: Ints, axis: AxisPattern) -> slice | Ints:
    """The ranges between ``cuts`` that have a part of ``axis``."""
    starts = axis.run_starts()
    first, last = _cell_numbers(cuts, starts), np.searchsorted(cuts, starts + axis.run, "left")
    if len(starts) == 1:
        return slice(int(first[0]), int(last[0]))
    count = len(cuts)
    change = np.bincount(first, minlength=count) - np.bincount(last, minlength=count)
    return np.flatnonzero(np.cumsum(change)[:-1])


def _covered_run(cuts: Sequence[int], axis: AxisPattern) -> slice:
    """As :func:`_covered`, for an axis of one run; of one number NumPy's search takes ten times as long."""
    return slice(bisect_right(cuts, axis.start) - 1, bisect_left(cuts, axis.start + axis.run))


def _select(cells: Mask, rows: slice | Ints, columns: slice | Ints, value: bool) -> None:
    if isinstance(rows, slice) or isinstance(columns, slice):
        cells[rows, columns] = value
    else:
        cells[np.ix_(rows, columns)] = value


def _compact(rows: Ints, columns: Ints, cells: Mask) -> _Grid:
    """The grid without cuts between equal rows and between equal columns."""
    row_cuts = np.append(True, (cells[1:] != cells[:-1]).any(axis=1))
    cells = cells[row_cuts]
    column_cuts = np.append(True, (cells[:, 1:] != cells[:, :-1]).any(axis=0))
    return _Grid(
        np.append(rows[:-1][row_cuts], rows[-1]),
        np.append(columns[:-1][column_cuts], columns[-1]),
        cells[:, column_cuts],
    )
