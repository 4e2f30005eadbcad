"""Sets of bytes of one tensor, such as the bytes that a program has written so far.

A set holds the access patterns that were added. A question that these cannot answer makes a grid: the tensor is rows of
bytes, cut into ranges of rows and ranges of columns where the members of the set begin and end, with a truth value for
each pair (:mod:`nki.analysis.byte_grid`). So the memory depends on how many ends there are and not on the size of the
tensor.

Tiles of unrolled loops are accessed alike. So equal grids are one, if they are small, and what comes of a grid by a
change, and the answer to a question, is kept for all tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, ByteRanges, pattern_of
from nki.analysis.byte_grid import ByteGrid, Cells, row_form
from nki.ir.types import Access, Tensor

Mask = NDArray[np.bool_]
MOST_CELLS: Final = 1 << 22
"""Cells of a grid, and runs of a pattern on one axis. Beyond it a set is approximate: see :class:`ByteSet`."""
_MOST_KEPT: Final = 1 << 13
"""Small grids, changes and answers that are kept."""
_SMALL: Final = 1 << 8
"""Cells of a small grid, and patterns of a change that is kept."""


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
        self._grid: ByteGrid | None = None
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
        grid = _changed(self._current(), (pattern,), False)
        if grid is None:
            self._approximate = True
        self._grid = grid or _uniform(*row_form(self.tensor), False)
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
        found = _values(self._current_for(pattern), pattern)
        return found is not None and found.all_true

    def intersects(self, access: Access) -> bool:
        """True if the set contains some byte of ``access``."""
        pattern = pattern_of(access)
        if self._is_full or pattern in self.patterns:
            return True
        if self._is_empty():
            return False
        found = _values(self._current_for(pattern), pattern)
        return self._approximate or found is None or found.any_true

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
            self._is_full = self._current().is_uniform(True)
        return self._is_full

    def is_empty(self) -> bool:
        """True if the set certainly contains no byte."""
        if self._is_full or self.patterns or self._approximate:
            return False
        return self._grid is None or self._grid.is_uniform(False)

    def mask(self) -> Mask:
        """An entry for each byte of the tensor, in row-major order: memory of the size of the tensor."""
        if self._is_full or self._is_empty():
            return np.full(self.tensor.nbytes, self._is_full)
        return self._current().entries()

    def copy(self) -> ByteSet:
        """A set of the same bytes that changes on its own."""
        duplicate = ByteSet(self.tensor)
        duplicate.patterns, duplicate._pending = dict(self.patterns), list(self._pending)
        duplicate._grid = self._grid  # grids never change
        duplicate._is_full, duplicate._approximate = self._is_full, self._approximate
        return duplicate

    def _is_empty(self) -> bool:
        return not self.patterns and self._grid is None

    def _current(self) -> ByteGrid:
        """The grid with all patterns in it."""
        grid = self._grid or _uniform(*row_form(self.tensor), self._is_full)
        if self._pending:
            changed = _changed(grid, tuple(self._pending), True)
            if changed is None:
                self._approximate = True
            grid, self._pending = changed or grid, []
        self._grid = grid
        return grid

    def _current_for(self, pattern: AccessPattern) -> ByteGrid:
        """The grid, in one row if ``pattern`` does not keep to its rows and that is possible."""
        grid = self._current()
        if grid.box(pattern) is None:
            flat = grid.flat(MOST_CELLS)
            if flat is None:
                self._approximate = True
            self._grid = grid = flat or _uniform(1, self.tensor.nbytes, False)
        return grid


class _Values(NamedTuple):
    """The values of some cells."""

    any_true: bool
    all_true: bool


_GRIDS: Final[dict[tuple[bytes, bytes, bytes], ByteGrid]] = {}
"""One grid of each kind, among small ones."""


def _shared(grid: ByteGrid) -> ByteGrid:
    """The grid of :data:`_GRIDS` that equals ``grid``, which is small."""
    if len(_GRIDS) >= _MOST_KEPT:
        _GRIDS.clear()
    return _GRIDS.setdefault((grid.rows.tobytes(), grid.columns.tobytes(), grid.cells.tobytes()), grid)


@lru_cache(maxsize=_MOST_KEPT)
def _uniform(rows: int, length: int, value: bool) -> ByteGrid:
    """The grid of one cell."""
    return _shared(ByteGrid.uniform(rows, length, value))


def _changed(grid: ByteGrid, patterns: tuple[AccessPattern, ...], value: bool) -> ByteGrid | None:
    """``grid`` with ``value`` for all bytes of ``patterns``; None if that has too many cells."""
    if grid.cells.size > _SMALL or len(patterns) > _SMALL:
        return grid.changed([(pattern, value) for pattern in patterns], MOST_CELLS)
    return _changed_small(grid, patterns, value, MOST_CELLS)


@lru_cache(maxsize=_MOST_KEPT)
def _changed_small(grid: ByteGrid, patterns: Sequence[AccessPattern], value: bool, most: int) -> ByteGrid | None:
    changed = grid.changed([(pattern, value) for pattern in patterns], most)
    return changed if changed is None or changed.cells.size > _SMALL else _shared(changed)


def _values(grid: ByteGrid, pattern: AccessPattern) -> _Values | None:
    """The values of the bytes of ``pattern``, which keeps to the rows; None if that takes too long to tell."""
    if grid.cells.size > _SMALL:
        return _of_cells(grid.cells_of(pattern, MOST_CELLS))
    return _values_small(grid, pattern, MOST_CELLS)


@lru_cache(maxsize=_MOST_KEPT)
def _values_small(grid: ByteGrid, pattern: AccessPattern, most: int) -> _Values | None:
    return _of_cells(grid.cells_of(pattern, most))


def _of_cells(cells: Cells | None) -> _Values | None:
    return None if cells is None else _Values(bool(cells.any()), bool(cells.all()))
