"""Address reuse: the map from the classes of a placed tile to the classes of earlier tiles in the same bytes.

An allocator gives the bytes of a tile to another one after the last access to the first tile. So each tile can have
classes of its own (:class:`TileLayout`), and only the first accesses to a class meet accesses to earlier tiles. Tiles
are visited in the order of their first accesses, with a map of the memory that holds the last tile of each place, as
ranges of columns by ranges of rows.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from nki.analysis.access_pattern import AccessPattern, AxisPattern, Box, ByteRanges
from nki.analysis.alias_classes import MAX_CLASSES
from nki.analysis.interval_partition import NO_PARTITION, IntervalPartition, overlapping_classes, partition_axis
from nki.ir.types import Tensor


class TileLayout:
    """The alias classes of the accesses to one tile, and the smallest box around them."""

    __slots__ = (
        "cells",
        "classes",
        "column_partition",
        "columns",
        "count",
        "is_filled",
        "is_plain",
        "most",
        "row_partition",
        "rows",
    )

    def __init__(self) -> None:
        self.classes: dict[AccessPattern, tuple[int, ...]] = {}
        """Of each pattern; empty if a pattern does not keep to rows, none writes, or there may be too many classes."""
        self.count = 0
        """Number of classes."""
        self.most = 1
        """Classes of the pattern that has most."""
        self.rows: tuple[int, int] = (0, 1)
        self.columns: tuple[int, int] = (0, 1)
        self.is_filled = False
        """Every byte of the box is written."""
        self.is_plain = False
        """There is one class, which is all of the box."""
        self.row_partition: IntervalPartition = NO_PARTITION
        self.column_partition: IntervalPartition = NO_PARTITION
        self.cells: list[list[int]] = []
        """By class of rows and class of columns: the class of the bytes that have both, or -1."""


def tile_layout(tensor: Tensor, patterns: Mapping[AccessPattern, bool]) -> TileLayout:
    """The layout of a tile that is accessed with ``patterns``, each with True if it is written.

    Equal patterns give equal layouts, in whatever order they come.
    """
    layout = TileLayout()
    length = tensor.bytes_per_partition
    ordered = sorted(patterns)
    boxes = [box for pattern in ordered if (box := ByteRanges.of(pattern).box(length)) is not None]
    if len(boxes) < len(ordered) or not any(patterns.values()) or not _is_exact(boxes):
        return layout
    layout.rows, layout.columns = (
        (min(box[axis].start for box in boxes), max(_end(box[axis]) for box in boxes)) for axis in (0, 1)
    )
    row_masks, column_masks = _masks(boxes, 0), _masks(boxes, 1)
    layout.row_partition, rows = partition_axis(row_masks, *layout.rows)
    layout.column_partition, columns = partition_axis(column_masks, *layout.columns)
    numbers: dict[int, int] = {}
    layout.cells = [
        [numbers.setdefault(cell, len(numbers)) if (cell := row & column) else -1 for column in columns] for row in rows
    ]
    written = sum(1 << number for number, pattern in enumerate(ordered) if patterns[pattern])
    layout.is_filled = all(row & column & written for row in rows for column in columns)
    members: list[list[int]] = [[] for _ in ordered]
    for mask, number in numbers.items():
        while mask:
            lowest = mask & -mask
            members[lowest.bit_length() - 1].append(number)
            mask ^= lowest
    layout.classes = dict(zip(ordered, map(tuple, members), strict=True))
    layout.count = len(numbers)
    layout.most = max(map(len, members))
    layout.is_plain = layout.is_filled and layout.count == 1
    return layout


def _masks(boxes: Sequence[Box], axis: int) -> dict[AxisPattern, int]:
    """The different patterns of the boxes on an axis, each with the set of the boxes that have it."""
    masks: dict[AxisPattern, int] = {}
    for number, box in enumerate(boxes):
        pattern = box[axis]
        masks[pattern] = masks.get(pattern, 0) | 1 << number
    return masks


def _is_exact(boxes: Sequence[Box]) -> bool:
    """True if the boxes, and one around them, certainly have so few classes that none counts as larger than it is."""
    axes = [{box[axis] for box in boxes} for axis in (0, 1)]
    if any(pattern.bounded() is not pattern for patterns in axes for pattern in patterns):
        return False
    ends = [2 + 2 * sum(math.prod(count for count, _ in p.dims) for p in patterns) for patterns in axes]
    has_one_range_of_rows = len(axes[0]) == 1 and not boxes[0][0].dims
    return has_one_range_of_rows or ends[0] * ends[1] <= MAX_CLASSES


def _end(axis: AxisPattern) -> int:
    return axis.start + axis.run + sum((count - 1) * step for count, step in axis.dims)


PlacedTile = tuple[TileLayout, int, int, int, int, int, int, int]
"""A tile at an address: its layout; the first row of its box and the row behind it; the first byte in each row, and the
byte behind; the number of its first class; the dense numbers of the first and the last instruction that accesses it."""
_Area = tuple[PlacedTile, int, int]
"""A tile, the first row in which it is the last tile of a range of columns, and the row behind the last one."""
_Groups = list[tuple[tuple[int, ...], list[int]]]
"""Classes of an earlier tile, and all classes of a tile that share bytes with just these; as their layouts number them.
"""
_IDENTITY: Final[_Groups] = []
"""Each class of the new tile shares bytes with the class of its number only: so do tiles in turns of a loop."""


class AddressReuse:
    """For each class: the classes of earlier tiles in its bytes that no tile in between has overwritten."""

    __slots__ = ("by_class", "runs")

    def __init__(self) -> None:
        self.by_class: dict[int, tuple[int, ...]] = {}
        self.runs: list[tuple[int, int, int]] = []
        """Tiles with classes that have one earlier class each, in the same order: first class, their count, and the
        first earlier class. None is in ``by_class``.
        """

    def of(self, alias_class: int) -> tuple[int, ...]:
        """The earlier classes of one class. Whoever asks often makes a list of the runs."""
        for first, count, earlier in self.runs:
            if first <= alias_class < first + count:
                return (alias_class - first + earlier,)
        return self.by_class.get(alias_class, ())

    def has_entered(self, first: int) -> bool:
        """Test if the tile with the class ``first``, which is the last one, has any earlier classes yet."""
        return (bool(self.runs) and self.runs[-1][0] == first) or next(reversed(self.by_class), 0) >= first

    def take_apart(self, first: int) -> None:
        """Enter the run of the tile with the class ``first``, if it has one, class by class."""
        if self.runs and self.runs[-1][0] == first:
            _, count, earlier = self.runs.pop()
            olds = zip(range(earlier, earlier + count), strict=True)
            self.by_class.update(zip(range(first, first + count), olds, strict=True))


def reused_addresses(tiles: Sequence[PlacedTile]) -> AddressReuse | None:
    """For each class: the classes of earlier tiles in its bytes that no tile in between has overwritten.

    ``tiles`` are in the order of their first accesses. None if accesses to two tiles that share a byte alternate, or if
    a tile reuses bytes that its accesses do not all overwrite: classes of single tiles then do not tell enough.
    """
    reuse = AddressReuse()
    starts: list[int] = [0]
    columns: list[tuple[_Area, ...]] = [()]
    known: dict[object, _Groups] = {}
    for tile in tiles:
        layout, top, bottom, left, right, first_class, begin, _ = tile
        is_plain, is_filled = layout.is_plain, layout.is_filled
        found: tuple[int, ...] = ()
        own = ((tile, top, bottom),)
        first = bisect_right(starts, left) - 1
        if starts[first] == left and len(columns[first]) == 1 and starts[first + 1 : first + 2] == [right]:
            ((old, old_top, old_bottom),) = columns[first]
            if old_top == top and old_bottom == bottom and old[7] < begin and is_filled:  # as in turns of a loop
                if is_plain and old[0].is_plain:
                    reuse.by_class[first_class] = (old[5],)
                else:
                    _add(reuse, old, tile, (top, bottom, left, right), known)
                columns[first] = own
                continue
        end = bisect_left(starts, right, first)
        cut_starts: list[int] = [left]
        cut: list[tuple[_Area, ...]] = [own]
        if starts[first] < left:
            cut_starts, cut = [starts[first], left], [columns[first], own]
        for k in range(first, end):
            rest = own
            for area in columns[k]:
                old, old_top, old_bottom = area
                if old_top >= bottom or old_bottom <= top:
                    rest = (*rest, area)
                    continue
                if old[7] >= begin or not is_filled:
                    return None
                if is_plain and old[0].is_plain:
                    found += (old[5],)
                else:
                    start, stop = max(left, starts[k]), right if k + 1 == end else starts[k + 1]
                    _add(reuse, old, tile, (max(top, old_top), min(bottom, old_bottom), start, stop), known)
                if old_top < top:
                    rest = (*rest, (old, old_top, top))
                if old_bottom > bottom:
                    rest = (*rest, (old, bottom, old_bottom))
            if rest is own and cut[-1] is own:
                continue
            if k == first:
                cut[-1] = rest
            else:
                cut_starts.append(starts[k])
                cut.append(rest)
        if found:
            reuse.take_apart(first_class)
            reuse.by_class[first_class] = (*reuse.by_class.get(first_class, ()), *found)
        if end == len(starts) or starts[end] > right:
            cut_starts.append(right)
            cut.append(columns[end - 1])
        starts[first:end], columns[first:end] = cut_starts, cut
    return reuse


def _add(
    reuse: AddressReuse,
    old: PlacedTile,
    new: PlacedTile,
    area: tuple[int, int, int, int],
    known: dict[object, _Groups],
) -> None:
    """Enter the classes of ``old`` that the classes of ``new`` meet in the rows and columns ``area``."""
    old_layout, old_top, _, old_left, _, first_old, *_ = old
    layout, new_top, _, new_left, _, first, *_ = new
    top, bottom, left, right = area
    down, along = new_top - old_top, new_left - old_left
    rows, columns = (top - old_top, bottom - old_top), (left - old_left, right - old_left)
    key = (id(old_layout), id(layout), down, along, rows, columns)
    groups = known.get(key)
    if groups is None:
        groups = known[key] = _meetings(old_layout, layout, (down, along), rows, columns)
    if groups is _IDENTITY:
        if not reuse.has_entered(first):
            reuse.runs.append((first, layout.count, first_old))
            return
        groups = [((each,), [each]) for each in range(layout.count)]
    reuse.take_apart(first)
    by_class = reuse.by_class
    for olds, news in groups:
        numbers = tuple([first_old + one for one in olds])
        for each in news:
            number = first + each
            by_class[number] = by_class[number] + numbers if number in by_class else numbers


def _meetings(
    old: TileLayout, new: TileLayout, shift: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]
) -> _Groups:
    """The classes that have a common byte in an area of ``old``, with ``new`` moved by ``shift`` rows and bytes."""
    row_pairs = overlapping_classes(old.row_partition, new.row_partition, shift[0], *rows)
    column_pairs = overlapping_classes(old.column_partition, new.column_partition, shift[1], *columns)
    found: dict[int, set[int]] = {}
    for old_row, new_row in row_pairs:
        old_cells, new_cells = old.cells[old_row], new.cells[new_row]
        for one, each in column_pairs:
            old_class, new_class = old_cells[one], new_cells[each]
            if old_class >= 0 and new_class >= 0:
                found.setdefault(new_class, set()).add(old_class)
    groups: dict[tuple[int, ...], list[int]] = {}
    for each, olds in found.items():
        groups.setdefault(tuple(sorted(olds)), []).append(each)
    if len(groups) == new.count and all(olds == tuple(news) for olds, news in groups.items()):
        return _IDENTITY
    return list(groups.items())
