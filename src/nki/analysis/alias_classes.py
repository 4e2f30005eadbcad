"""Alias classes: a partition of a memory's bytes such that every access is a set of classes.

Two accesses share a byte if, and only if, they share a class. An access is rows by columns: the rows are partitions
(in HBM, the tensor's rows where all accesses keep to them), the columns bytes of a row. All patterns that occur on an
axis cut the axis into axis classes; an alias class is a row class by a column class. So strided accesses that
interleave have no class in common. The cost is a sort of the ends of the patterns.

Where the number of pieces would be too large, accesses count as larger than they are: two accesses may then seem to
overlap that do not, never the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from nki.analysis.access_pattern import AccessPattern, AxisPattern, Box, ByteRanges, Ints, sorted_unique
from nki.ir.types import Tensor

MAX_SIMPLE_PATTERNS = 16
"""Patterns without gaps on one axis; up to this many, a Python loop is faster than NumPy."""
MAX_CLASSES = 1 << 16
"""Alias classes of one memory; beyond this number only columns are told apart."""
_FIRST_CLASS: Ints = np.zeros(1, np.int64)


def boxes_of(tensor: Tensor, patterns: Sequence[AccessPattern]) -> list[Box]:
    """All accesses to ``tensor`` as rows by columns, for rows that all of the accesses keep to.

    In HBM those are rows along the last dimension, or along all but the first one where that makes fewer pieces: a
    window of whole lines is then one piece per channel, or one in all.
    """
    ranges = [ByteRanges.of(pattern) for pattern in patterns]
    if tensor.buffer.on_chip:
        row_lengths = [tensor.bytes_per_partition]
    else:
        last = tensor.shape[-1] * tensor.dtype.itemsize
        row_lengths = [last, tensor.bytes_per_partition]
    found: list[list[Box]] = []
    for length in dict.fromkeys(row_lengths):
        boxes = [box for byte_ranges in ranges if (box := byte_ranges.box(length)) is not None]
        if len(boxes) == len(ranges):
            found.append(boxes)
    if found:
        return min(found, key=_pieces) if len(found) > 1 and _most_classes(found[1]) <= MAX_CLASSES else found[0]
    return [(AxisPattern(0, 1), AxisPattern(r.start, r.size, r.dims)) for r in ranges]


def _pieces(boxes: Sequence[Box]) -> int:
    """Number of runs of all patterns on both axes."""
    return sum(pattern.runs() for axis in (0, 1) for pattern in {box[axis] for box in boxes})


def _most_classes(boxes: Sequence[Box]) -> int:
    """A bound of the number of alias classes: every end of a run may begin another class on its axis."""
    rows, columns = (1 + 2 * sum(p.runs() for p in {box[axis] for box in boxes}) for axis in (0, 1))
    return rows * columns


def axis_classes(patterns: Sequence[AxisPattern]) -> tuple[int, list[Ints]]:
    """Number of classes that the patterns cut an axis into, and the classes of each pattern."""
    if len(patterns) == 1:
        return 1, [_FIRST_CLASS]
    if len(patterns) <= MAX_SIMPLE_PATTERNS and not any(pattern.dims for pattern in patterns):
        points = sorted({end for p in patterns for end in (p.start, p.start + p.run)})
        number = {point: i for i, point in enumerate(points)}
        return len(points) - 1, [np.arange(number[p.start], number[p.start + p.run]) for p in patterns]
    starts, owners, runs = _runs(patterns)
    ends = starts + runs
    points = sorted_unique(np.concatenate([starts, ends]))
    first, last = np.searchsorted(points, starts), np.searchsorted(points, ends)
    # Every piece between two points gets the sum of the random words of the patterns that cover it.
    words = np.random.default_rng(0).integers(1, 1 << 62, len(patterns), np.int64).view(np.uint64)
    change = np.zeros(len(points), np.uint64)
    np.add.at(change, first, words[owners])
    np.subtract.at(change, last, words[owners])
    cover = np.cumsum(change[:-1], dtype=np.uint64)
    _, number = np.unique(cover, return_inverse=True)  # pieces that no pattern covers are a class, too
    count = int(number.max()) + 1
    lengths = last - first
    pieces = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(int(lengths.sum()))
    pairs = sorted_unique(np.repeat(owners, lengths) * count + number[pieces])
    bounds = np.searchsorted(pairs, np.arange(1, len(patterns)) * count)
    return count, np.split(pairs % count, bounds)


def _ranges_apart(patterns: Collection[AxisPattern]) -> int:
    """Number of classes of :func:`axis_classes` if each pattern is one range that no other one overlaps, and so is a
    class; else 0.
    """
    if any(pattern.dims for pattern in patterns):
        return 0
    gaps = end = 0
    for start, run, _ in sorted(patterns):
        if start < end or run <= 0:
            return 0
        gaps += start > end > 0
        end = start + run
    return len(patterns) + (gaps if len(patterns) <= MAX_SIMPLE_PATTERNS else gaps > 0)


def _runs(patterns: Sequence[AxisPattern]) -> tuple[Ints, Ints, Ints]:
    """Start, number of the pattern, and length of every run."""
    alike: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for i, (start, run, dims) in enumerate(patterns):
        alike.setdefault((run, dims), []).append((start, i))
    parts: list[tuple[Ints, Ints, Ints]] = []
    for members in alike.values():
        first, numbers = np.array(members, np.int64).T
        _, run, dims = patterns[members[0][1]]
        steps = AxisPattern(0, run, dims).run_starts()
        starts = (first[:, None] + steps).reshape(-1)
        parts.append((starts, np.repeat(numbers, len(steps)), np.full(len(starts), run)))
    starts, owners, runs = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return starts, owners, runs


def alias_classes(boxes: Sequence[Box]) -> tuple[int, list[Ints]]:
    """Number of alias classes that the accesses of one memory need, and the classes of each access."""
    rows, columns = dict[AxisPattern, int](), dict[AxisPattern, int]()
    pairs = [(rows.setdefault(r.bounded(), len(rows)), columns.setdefault(c.bounded(), len(columns))) for r, c in boxes]
    row_count, column_count = _ranges_apart(rows), _ranges_apart(columns)
    if row_count and column_count:
        if row_count * column_count > MAX_CLASSES:
            row_count, pairs = 1, [(0, c) for _, c in pairs]
        numbers = np.array([r * column_count + c for r, c in pairs], np.int64)
        return row_count * column_count, list(numbers.reshape(-1, 1))
    row_count, row_classes = axis_classes(list(rows))
    column_count, column_classes = axis_classes(list(columns))
    if row_count == 1 or row_count * column_count > MAX_CLASSES:
        return column_count, [column_classes[c] for _, c in pairs]
    products: dict[tuple[int, int], Ints] = {}
    for pair in pairs:
        if pair not in products:
            r, c = pair
            products[pair] = (row_classes[r][:, None] * column_count + column_classes[c]).reshape(-1)
    return row_count * column_count, [products[pair] for pair in pairs]
