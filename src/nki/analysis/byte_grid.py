"""Grids of bytes: rows of bytes of one tensor, cut where accesses begin and end, with a value for each cell.

The memory of a grid depends on how many ends there are and not on the size of the tensor. Values are truth values
(:mod:`nki.analysis.byte_sets`) or times (:mod:`nki.sim.hazards.shadow`).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, AxisPattern, Box, ByteRanges, Ints, sorted_unique
from nki.ir.types import Tensor

Cells = NDArray[Any]
Change = Any | Callable[[Cells], Cells]
"""A new value, or a function from the values of some cells to the new ones."""
NO_LIMIT: Final = 1 << 62


class ByteGrid:
    """``cells[i, j]`` is of bytes ``columns[j]`` to ``columns[j + 1]`` of rows ``rows[i]`` to ``rows[i + 1]``.

    A grid never changes. Neighbouring rows or columns of it differ.
    """

    __slots__ = ("cells", "columns", "rows")

    def __init__(self, rows: Ints, columns: Ints, cells: Cells) -> None:
        self.rows = rows
        self.columns = columns
        self.cells = cells

    @classmethod
    def uniform(cls, rows: int, length: int, value: Any) -> ByteGrid:
        """The grid of one cell, ``rows`` of ``length`` bytes. ``value`` is a bool or a NumPy scalar."""
        return cls(_cuts(0, rows), _cuts(0, length), np.full((1, 1), value))

    @classmethod
    def of_bytes(cls, tensor: Tensor, values: Cells) -> ByteGrid:
        """The grid with these values of all bytes of ``tensor``, in order."""
        rows, length = row_form(tensor)
        return _compact(np.arange(rows + 1), np.arange(length + 1), values.reshape(rows, length))

    def is_uniform(self, value: Any) -> bool:
        """True if all bytes have that value."""
        return self.cells.size == 1 and bool(self.cells[0, 0] == value)

    def box(self, pattern: AccessPattern) -> Box | None:
        """The pattern as rows by columns; None if it does not keep to the rows."""
        return ByteRanges.of(pattern).box(int(self.columns[-1]))

    def changed(self, changes: Sequence[tuple[AccessPattern, Change]], most: int = NO_LIMIT) -> ByteGrid | None:
        """The grid with one change after the other, each of all bytes of a pattern.

        None if that has more than ``most`` cells, or a pattern more runs than that on one axis.
        """
        boxes = [self.box(pattern) for pattern, _ in changes]
        if None in boxes:
            flat = self.flat(most)
            return None if flat is None else flat.changed(changes, most)
        pairs = [box for box in boxes if box is not None]
        if any(_run_count(axis) > most for box in pairs for axis in box):
            return None
        rows = _joined(self.rows, (row for row, _ in pairs))
        columns = _joined(self.columns, (column for _, column in pairs))
        if len(rows) * len(columns) > most:
            return None
        cells = self._refined(rows, columns)
        row_cuts, column_cuts = rows.tolist(), columns.tolist()
        for (row, column), (_, value) in zip(pairs, changes, strict=True):
            in_rows = _covered(rows, row) if row.dims else _covered_run(row_cuts, row)
            in_columns = _covered(columns, column) if column.dims else _covered_run(column_cuts, column)
            if not isinstance(in_rows, slice) and not isinstance(in_columns, slice):
                place: Any = np.ix_(in_rows, in_columns)
            else:
                place = in_rows, in_columns
            cells[place] = value(cells[place]) if callable(value) else value
        return _compact(rows, columns, cells)

    def with_entries(self, pattern: AccessPattern, grain: int, values: Cells) -> ByteGrid:
        """The grid with those ``values`` of the entries of ``pattern`` (:meth:`entries_of`) that are not 0."""
        rows_of, columns_of = self._positions(pattern, grain)
        places = _axes_apart(rows_of, columns_of, values.shape)
        if places is not None:
            return self._with_runs(places, grain, values.reshape(len(places[0]), len(places[1])))
        rows, columns = (
            sorted_unique(np.concatenate([cuts, places.reshape(-1), places.reshape(-1) + size]))
            for cuts, places, size in ((self.rows, rows_of, 1), (self.columns, columns_of, grain))
        )
        cells, chosen = self._refined(rows, columns), values != 0
        in_rows, in_columns = (
            np.broadcast_to(_cell_numbers(cuts, places), values.shape)[chosen]
            for cuts, places in ((rows, rows_of), (columns, columns_of))
        )
        cells[in_rows, in_columns] = values[chosen]
        return _compact(rows, columns, cells)

    def _with_runs(self, places: tuple[Ints, Ints], grain: int, values: Cells) -> ByteGrid:
        """:meth:`with_entries` at all rows by all columns: neighbours that are alike count once."""
        sizes = 1, grain
        first_rows = _differ_from_last(places[0], 1, values)
        values = values[first_rows]
        first_columns = _differ_from_last(places[1], grain, values.T)
        values = values[:, first_columns]
        firsts = first_rows, first_columns
        starts = [place[first] for place, first in zip(places, firsts, strict=True)]
        ends = [
            place[np.append(first[1:], len(place)) - 1] + size
            for place, first, size in zip(places, firsts, sizes, strict=True)
        ]
        rows, columns = cuts = [
            sorted_unique(np.concatenate([own, start, end]))
            for own, start, end in zip((self.rows, self.columns), starts, ends, strict=True)
        ]
        cells = self._refined(rows, columns)
        runs = [_cell_numbers(start, each[:-1]) for start, each in zip(starts, cuts, strict=True)]
        inside = [
            np.flatnonzero((run >= 0) & (each[:-1] < end[run])) for run, each, end in zip(runs, cuts, ends, strict=True)
        ]
        given, place = values[np.ix_(runs[0][inside[0]], runs[1][inside[1]])], np.ix_(*inside)
        cells[place] = np.where(given, given, cells[place])
        return _compact(rows, columns, cells)

    def cells_of(self, pattern: AccessPattern, most: int = NO_LIMIT) -> Cells | None:
        """The cells that have bytes of ``pattern``; None if it does not keep to the rows, or has more than ``most``
        runs on one axis.
        """
        box = self.box(pattern)
        if box is None or any(_run_count(axis) > most for axis in box):
            return None
        return self.cells[_covered(self.rows, box[0])][:, _covered(self.columns, box[1])]

    def has_any(self, pattern: AccessPattern) -> bool:
        """True if a byte of ``pattern`` is true."""
        cells = self.cells_of(pattern)
        return bool((self.entries_of(pattern, 1) if cells is None else cells).any())

    def mapped(self, function: Callable[[Cells], Cells]) -> ByteGrid:
        """The grid with ``function`` of its values."""
        return _compact(self.rows, self.columns, function(self.cells))

    def elements_of(self, pattern: AccessPattern) -> NDArray[np.bool_]:
        """For each element of ``pattern``, in its shape: True if all bytes of the element are true."""
        size, length, start = pattern[3], int(self.columns[-1]), ByteRanges.of(pattern).start
        # The first byte of an element speaks for all of them, unless cuts go through elements.
        aligned = start % length % size == 0 and length % size == 0 and not (self.columns % size).any()
        values = self.entries_of(pattern, size if aligned else 1)
        return np.asarray(values[..., 0] if aligned else values.all(axis=-1))

    def entries_of(self, pattern: AccessPattern, grain: int) -> Cells:
        """For each ``grain`` bytes of each element of ``pattern``, in its shape and one dimension more, the value of
        the first of these bytes.
        """
        in_rows, in_columns = self._positions(pattern, grain)
        shape = np.broadcast_shapes(in_rows.shape, in_columns.shape)
        places = _axes_apart(in_rows, in_columns, shape)
        if places is not None:
            numbers = _cell_numbers(self.rows, places[0]), _cell_numbers(self.columns, places[1])
            values = self.cells[:, numbers[1]][numbers[0]].reshape(shape)  # a grid has few rows and columns
        else:
            values = self.cells[_cell_numbers(self.rows, in_rows), _cell_numbers(self.columns, in_columns)]
        return np.broadcast_to(values, (*pattern[1], pattern[3] // grain))

    def _positions(self, pattern: AccessPattern, grain: int) -> tuple[Ints, Ints]:
        """Row and column of each entry of :meth:`entries_of`: arrays that are broadcast to its shape."""
        _, shape, strides, size = pattern
        length, ndim = int(self.columns[-1]), len(shape) + 1
        row, column = divmod(ByteRanges.of(pattern).start, length)
        in_rows = np.full((1,) * ndim, row)
        in_columns = np.arange(column, column + size, grain).reshape(*[1] * (ndim - 1), size // grain)
        for dim, (count, step) in enumerate(zip(shape, strides, strict=True)):
            if count == 1 or not step:
                continue
            steps = np.arange(count) * (step * size)
            if step < 0:
                steps -= steps[-1]
            steps = steps.reshape([count if d == dim else 1 for d in range(ndim)])
            if step * size % length:
                in_columns = in_columns + steps
            else:
                in_rows = in_rows + steps // length
        if in_columns.max() < length:
            return in_rows, in_columns
        return in_rows + in_columns // length, in_columns % length

    def flat(self, most: int = NO_LIMIT) -> ByteGrid | None:
        """The same bytes as one row; None if that has more than ``most`` cells."""
        length, count = int(self.columns[-1]), int(self.rows[-1])
        if count * (len(self.columns) - 1) > most:
            return None
        cuts = (np.arange(count)[:, None] * length + self.columns[:-1]).reshape(-1)
        cells = np.repeat(self.cells, np.diff(self.rows), axis=0).reshape(1, -1)
        return _compact(_cuts(0, 1), np.append(cuts, count * length), cells)

    def count(self, chosen: NDArray[np.bool_] | None = None) -> int:
        """The number of bytes in the ``chosen`` cells, or in those that are true."""
        cells = self.cells if chosen is None else chosen
        return int(np.diff(self.rows) @ cells @ np.diff(self.columns))

    def entries(self, grain: int = 1) -> Cells:
        """A value for each ``grain`` bytes of the tensor, in order; all cuts are at multiples of ``grain``."""
        by_row = np.repeat(self.cells, np.diff(self.columns) // grain, axis=1)
        return np.repeat(by_row, np.diff(self.rows), axis=0).reshape(-1)

    def _refined(self, rows: Ints, columns: Ints) -> Cells:
        """The cells between these cuts, which are cuts of the grid and others."""
        return self.cells[_cell_numbers(self.rows, rows[:-1])][:, _cell_numbers(self.columns, columns[:-1])]


def row_form(tensor: Tensor) -> tuple[int, int]:
    """Number of rows, and bytes of each: rows are partitions; in HBM, runs of the last dimension."""
    length = tensor.bytes_per_partition if tensor.buffer.on_chip else tensor.shape[-1] * tensor.dtype.itemsize
    return tensor.nbytes // length, length


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


def _axes_apart(rows: Ints, columns: Ints, shape: tuple[int, ...]) -> tuple[Ints, Ints] | None:
    """The rows and the columns of entries in ``shape`` that are all rows by all columns, each in order; else None."""
    if rows.size * columns.size != math.prod(shape):
        return None
    behind = max((axis for axis, size in enumerate(rows.shape) if size > 1), default=-1)
    if any(size > 1 for size in columns.shape[: behind + 1]):
        return None
    rows, columns = rows.reshape(-1), columns.reshape(-1)
    is_in_order = bool((rows[1:] > rows[:-1]).all()) and bool((columns[1:] > columns[:-1]).all())
    return (rows, columns) if is_in_order else None


def _differ_from_last(places: Ints, size: int, values: Cells) -> Ints:
    """The numbers of the places that are no neighbours of those before, or have other rows of ``values``."""
    first = np.ones(len(places), np.bool_)
    first[1:] = (places[1:] != places[:-1] + size) | (values[1:] != values[:-1]).any(axis=1)
    return np.flatnonzero(first)


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


def _compact(rows: Ints, columns: Ints, cells: Cells) -> ByteGrid:
    """The grid without cuts between equal rows and between equal columns."""
    if len(cells) > 1:
        kept = np.append(True, (cells[1:] != cells[:-1]).any(axis=1))
        rows, cells = np.append(rows[:-1][kept], rows[-1]), cells[kept]
    if len(columns) > 2:
        kept = np.append(True, (cells[:, 1:] != cells[:, :-1]).any(axis=0))
        columns, cells = np.append(columns[:-1][kept], columns[-1]), cells[:, kept]
    return ByteGrid(rows, columns, cells)
