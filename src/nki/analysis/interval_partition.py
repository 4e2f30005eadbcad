"""Interval partitions: the patterns on an axis cut it into intervals, and intervals with the same patterns are a class.

Unlike alias classes, a partition keeps the places of its intervals. So two partitions can be compared at any distance:
:func:`overlapping_classes` has the pairs of classes that share a place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from nki.analysis.access_pattern import AxisPattern, Ints, sorted_unique

LARGE_PARTITION: Final = 64
"""Pieces of both axes from which arrays are faster than Python ints."""


class IntervalPartition(NamedTuple):
    """The pieces of an axis side by side: the end of each, counted from the start of the first one, and its class."""

    ends: Ints
    classes: Ints


NO_PARTITION: Final = IntervalPartition(np.zeros(0, np.int64), np.zeros(0, np.int64))


def partition_axis(patterns: Mapping[AxisPattern, int], first: int, last: int) -> tuple[IntervalPartition, list[int]]:
    """The partition of the range from ``first`` to ``last``, in which all patterns lie, and the set of each class.

    Each pattern comes with a set, as bits, that has no member of another one. The set of a class is the union of the
    sets of its patterns: 0 where there is no pattern.
    """
    change: dict[int, int] = {first: 0, last: 0}
    known = change.get
    for pattern, bits in patterns.items():
        for start, end in _runs(pattern):
            change[start] = known(start, 0) ^ bits
            change[end] = known(end, 0) ^ bits
    points = sorted(change)
    sets: dict[int, int] = {}
    classes: list[int] = []
    covering = 0
    for point in points[:-1]:
        covering ^= change[point]
        classes.append(sets.setdefault(covering, len(sets)))
    return IntervalPartition(np.array(points[1:], np.int64) - first, np.array(classes, np.int64)), list(sets)


def _runs(pattern: AxisPattern) -> list[tuple[int, int]]:
    """Start and end of the runs of the pattern; those that overlap are one."""
    start, run, dims = pattern
    if not dims:
        return [(start, start + run)]
    if len(dims) == 1:
        ((count, step),) = dims
        if step >= run:
            return [(first, first + run) for first in range(start, start + count * step, step)]
    joined: list[tuple[int, int]] = []
    for first in sorted_unique(pattern.run_starts()).tolist():
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], first + run)
        else:
            joined.append((first, first + run))
    return joined


def overlapping_classes(
    one: IntervalPartition, other: IntervalPartition, shift: int, start: int, stop: int
) -> list[tuple[int, int]]:
    """The pairs of classes of two partitions that share a place from ``start`` to ``stop``, if ``other`` is moved by
    ``shift``.

    All positions are counted from the start of ``one``. Both partitions cover the whole range.
    """
    one_first, one_last = np.searchsorted(one.ends, (start, stop - 1), "right").tolist()
    other_first, other_last = np.searchsorted(other.ends, (start - shift, stop - 1 - shift), "right").tolist()
    ends, classes = one.ends[one_first : one_last + 1], one.classes[one_first : one_last + 1]
    other_ends = other.ends[other_first : other_last + 1] + shift
    other_classes = other.classes[other_first : other_last + 1]
    if len(ends) + len(other_ends) < LARGE_PARTITION:
        return _few_meet(ends.tolist(), classes.tolist(), other_ends.tolist(), other_classes.tolist())
    # The last byte before each end, up to the end of the range, is in one interval of each partition.
    points = sorted_unique(np.concatenate((ends[:-1], other_ends[:-1], (stop,)))) - 1
    classes = classes[np.searchsorted(ends, points, "right")]
    other_classes = other_classes[np.searchsorted(other_ends, points, "right")]
    count = int(other_classes.max()) + 1
    pairs, others = np.divmod(sorted_unique(classes * count + other_classes), count)
    return list(zip(pairs.tolist(), others.tolist(), strict=True))


def _few_meet(ends: list[int], classes: list[int], other_ends: list[int], others: list[int]) -> list[tuple[int, int]]:
    """The pairs of classes of two lists of pieces, which begin at the same place, up to the end of the shorter one."""
    found: dict[tuple[int, int], None] = {}
    i = j = 0
    while i < len(ends) and j < len(other_ends):
        found[classes[i], others[j]] = None
        end, other_end = ends[i], other_ends[j]
        i += end <= other_end
        j += other_end <= end
    return list(found)
