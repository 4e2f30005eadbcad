"""Which windows of a memory meet: places that the same windows touch are one atom, and windows are sets of atoms.

Two windows share an element if, and only if, they share an atom. A window is rows by columns: the rows are partitions
(in HBM, the tensor's rows where all windows keep to them), the columns bytes within a row. Each axis is cut into
classes by all the patterns that occur on it; an atom is a class of rows by a class of columns. So strided windows that
interleave have no atom in common, and the work is that of sorting the patterns' ends.

Where that would be too many pieces, windows count as larger than they are: they may then seem to meet, never not to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.ir.types import Access, Tensor

Ints = NDArray[np.int64]
Form = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""Offset, shape and steps of a window in elements, and the bytes of an element."""
MOST_RUNS = 1 << 14
"""Pieces of one pattern, beyond which it counts as everything from its first to its last."""
FEW = 16
"""Patterns without gaps that are cut one by one."""
_ONLY: Ints = np.zeros(1, np.int64)
MOST_CELLS = 1 << 16
"""Atoms of one memory, beyond which only columns are told apart."""


class Pattern(NamedTuple):
    """``run`` neighbours at ``start``, repeated ``count`` times every ``step`` for each of ``dims``."""

    start: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()

    def runs(self) -> Ints:
        """Where its runs start."""
        starts = np.array([self.start], np.int64)
        for count, step in self.dims:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
        return starts

    def bounded(self) -> Pattern:
        """Itself, or without its gaps if it has too many runs."""
        if math.prod(count for count, _ in self.dims) <= MOST_RUNS:
            return self
        return Pattern(self.start, self.run + sum((count - 1) * step for count, step in self.dims))


Window = tuple[Pattern, Pattern]
"""Rows and columns."""


class Bytes(NamedTuple):
    """A window as bytes of its tensor: ``size`` at ``start``, repeated for each of ``dims``, longest step first."""

    start: int
    size: int
    dims: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, form: Form) -> Bytes:
        """The bytes of the window of that form."""
        offset, shape, strides, size = form
        start, dims = offset * size, list[tuple[int, int]]()
        for count, step in zip(shape, strides, strict=True):
            if count > 1 and step:
                if step < 0:
                    start += step * (count - 1) * size
                dims.append((count, abs(step) * size))
        dims.sort(key=_by_step, reverse=True)
        while dims and dims[-1][1] <= size:
            count, step = dims.pop()
            size += (count - 1) * step
        return cls(start, size, tuple(dims))

    def rows(self, row: int) -> Window | None:
        """The same as rows by columns where a row has ``row`` bytes; None if it does not keep to them."""
        first, column = divmod(self.start, row)
        outer = [(count, step // row) for count, step in self.dims if step >= row]
        inner = tuple((count, step) for count, step in self.dims if step < row)
        if any(step % row for _, step in self.dims if step >= row):
            return None
        run = self.size
        if run > row and not inner and column == 0 and run % row == 0:
            outer.append((run // row, 1))
            run = row
        if column + run + sum((count - 1) * step for count, step in inner) > row:
            return None
        lines = 1
        while outer and outer[-1][1] <= lines:
            count, step = outer.pop()
            lines += (count - 1) * step
        return Pattern(first, lines, tuple(outer)), Pattern(column, run, inner)


def _by_step(dim: tuple[int, int]) -> int:
    return dim[1]


def form_of(access: Access) -> Form:
    """The form of ``access``; that of all of its tensor where a run-time index moves it."""
    if access.dynamic is not None:
        return (0, (access.tensor.nbytes,), (1,), 1)
    return (access.offset, access.shape, access.strides, access.dtype.itemsize)


def windows(tensor: Tensor, forms: Sequence[Form]) -> list[Window]:
    """All windows of ``tensor`` as rows by columns, by the longest rows that all of them keep to."""
    seen = [Bytes.of(form) for form in forms]
    if tensor.buffer.on_chip:
        lengths = [tensor.free_size * tensor.dtype.itemsize]
    else:
        last = tensor.shape[-1] * tensor.dtype.itemsize
        lengths = [last, tensor.free_size * tensor.dtype.itemsize]
    for length in dict.fromkeys(lengths):
        found = [window for bytes_ in seen if (window := bytes_.rows(length)) is not None]
        if len(found) == len(seen):
            return found
    return [(Pattern(0, 1), Pattern(b.start, b.size, b.dims)) for b in seen]


def classes(patterns: Sequence[Pattern]) -> tuple[int, list[Ints]]:
    """How many classes the patterns cut an axis into, and the classes that each pattern consists of."""
    if len(patterns) == 1:
        return 1, [_ONLY]
    if len(patterns) <= FEW and not any(pattern.dims for pattern in patterns):
        points = sorted({end for p in patterns for end in (p.start, p.start + p.run)})
        number = {point: i for i, point in enumerate(points)}
        return len(points) - 1, [np.arange(number[p.start], number[p.start + p.run]) for p in patterns]
    starts, owners, runs = _expanded(patterns)
    ends = starts + runs
    points = np.unique(np.concatenate([starts, ends]))
    first, last = np.searchsorted(points, starts), np.searchsorted(points, ends)
    # Every piece between two points gets the sum of the random words of the patterns that cover it.
    words = np.random.default_rng(0).integers(1, 1 << 62, len(patterns), np.int64).view(np.uint64)
    change = np.zeros(len(points), np.uint64)
    np.add.at(change, first, words[owners])
    np.subtract.at(change, last, words[owners])
    cover = np.cumsum(change[:-1], dtype=np.uint64)
    _, number = np.unique(cover, return_inverse=True)  # the pieces that nothing covers are a class, too
    count = int(number.max()) + 1
    lengths = last - first
    pieces = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(int(lengths.sum()))
    pairs = np.unique(np.repeat(owners, lengths) * count + number[pieces])
    bounds = np.searchsorted(pairs, np.arange(1, len(patterns)) * count)
    return count, np.split(pairs % count, bounds)


def _expanded(patterns: Sequence[Pattern]) -> tuple[Ints, Ints, Ints]:
    """Start, pattern and length of every run."""
    plain = np.array([(p.start, i, p.run) for i, p in enumerate(patterns) if not p.dims], np.int64).reshape(-1, 3)
    parts: list[tuple[Ints, Ints, Ints]] = [(plain[:, 0], plain[:, 1], plain[:, 2])]
    for i, pattern in enumerate(patterns):
        if pattern.dims:
            starts = pattern.runs()
            parts.append((starts, np.full(len(starts), i), np.full(len(starts), pattern.run)))
    starts, owners, runs = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return starts, owners, runs


def atoms(seen: Sequence[Window]) -> tuple[int, list[Ints]]:
    """How many atoms the windows of one memory need, and those of each window."""
    rows, columns = dict[Pattern, int](), dict[Pattern, int]()
    pairs = [(rows.setdefault(r.bounded(), len(rows)), columns.setdefault(c.bounded(), len(columns))) for r, c in seen]
    heights, row_classes = classes(list(rows))
    widths, column_classes = classes(list(columns))
    if heights == 1 or heights * widths > MOST_CELLS:
        return widths, [column_classes[c] for _, c in pairs]
    made: dict[tuple[int, int], Ints] = {}
    for pair in pairs:
        if pair not in made:
            r, c = pair
            made[pair] = (row_classes[r][:, None] * widths + column_classes[c]).reshape(-1)
    return heights * widths, [made[pair] for pair in pairs]
