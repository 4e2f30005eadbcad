"""Succession of placed tiles: which classes of earlier tiles lie in the bytes of a class of a tile.

Tiles that share bytes follow one another: an allocator gives the bytes of a tile to another one when nobody accesses
the first tile any more. So the accesses of a tile have classes of their own (:class:`TileLayout`), and only who comes
to a class first meets accesses to earlier tiles. A map of the memory, ranges of columns by ranges of rows, holds the
tile that lies in each place, while tiles come in the order of their first accesses.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence

from nki.analysis.access_pattern import AccessPattern, AxisPattern, Box, ByteRanges, Ints
from nki.analysis.alias_classes import MAX_CLASSES, alias_classes
from nki.ir.types import Tensor

_Line = list[tuple[int, int]]
"""Ranges of columns side by side: the end of each, and its class, or -1."""


class TileLayout:
    """The alias classes of the accesses to one tile, and the smallest box around them."""

    __slots__ = ("_grid", "boxes", "classes", "columns", "is_filled", "is_plain", "most", "numbers", "rows")

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        """Of each access pattern, in the tile."""
        self.numbers: dict[frozenset[int], int] = {}
        """The class of the bytes that these patterns have, and no others."""
        self.classes: list[tuple[int, ...]] = []
        """Of each pattern; empty if a pattern does not keep to rows, none writes, or there may be too many classes."""
        self.most = 1
        """Classes of the pattern that has most."""
        self.rows: tuple[int, int] = (0, 1)
        self.columns: tuple[int, int] = (0, 1)
        self.is_filled = False
        """Every byte of the box is written."""
        self.is_plain = False
        """There is one class, which is all of the box."""
        self._grid: tuple[list[int], list[int], list[list[int]]] | None = None

    def lines(self, rows: tuple[int, int], columns: tuple[int, int]) -> Iterator[tuple[range, _Line]]:
        """The ranges of equal rows in an area, which is counted from the first row and byte, each with its columns."""
        top, bottom = rows
        left, right = columns
        if self._grid is None:
            self._grid = self._make_grid()
        row_ends, ends, grid = self._grid
        start = top
        while start < bottom:
            row = bisect_right(row_ends, start)
            first, last = bisect_right(ends, left), bisect_left(ends, right)
            stop = min(row_ends[row], bottom)
            line = grid[row]
            yield range(start, stop), [*zip(ends[first:last], line[first:last], strict=True), (right, line[last])]
            start = stop

    def _make_grid(self) -> tuple[list[int], list[int], list[list[int]]]:
        """The ends of the ranges of rows and of columns that the patterns make, and the class of each pair, or -1."""
        row_ends, of_rows = _ranges([rows for rows, _ in self.boxes], self.rows)
        ends, of_columns = _ranges([columns for _, columns in self.boxes], self.columns)
        grid = [[self.numbers.get(row & column, -1) for column in of_columns] for row in of_rows]
        return row_ends, ends, grid


def tile_layout(tensor: Tensor, patterns: Sequence[AccessPattern], written: set[int]) -> TileLayout:
    """The layout of a tile that is accessed with ``patterns``, of which those with the numbers ``written`` write."""
    layout = TileLayout()
    length = tensor.bytes_per_partition
    boxes = [box for pattern in patterns if (box := ByteRanges.of(pattern).box(length)) is not None]
    if len(boxes) < len(patterns) or not written or not _is_exact(boxes):
        return layout
    layout.boxes = boxes
    layout.rows, layout.columns = (
        (min(box[axis].start for box in boxes), max(_end(box[axis]) for box in boxes)) for axis in (0, 1)
    )
    (top, bottom), (left, right) = layout.rows, layout.columns
    hull = (AxisPattern(top, bottom - top), AxisPattern(left, right - left))
    if len(boxes) == 1:
        layout.numbers, layout.classes = {frozenset((0,)): 0}, [(0,)]
        layout.is_filled = layout.is_plain = boxes[0] == hull
        return layout
    _, members = alias_classes([*boxes, hull])
    everything = set(members[-1].tolist())
    by_class = _by_class(members[:-1], everything)
    layout.is_filled = all(not written.isdisjoint(by_class.get(each, ())) for each in everything)
    classes: list[dict[int, None]] = [{} for _ in boxes]
    for numbers in by_class.values():
        own = layout.numbers.setdefault(frozenset(numbers), len(layout.numbers))
        for number in numbers:
            classes[number][own] = None
    layout.classes = list(map(tuple, classes))
    layout.most = max(map(len, classes))
    layout.is_plain = layout.is_filled and len(layout.numbers) == 1
    return layout


def _is_exact(boxes: Sequence[Box]) -> bool:
    """True if the boxes, and one around them, certainly have so few classes that none counts as larger than it is."""
    axes = [{box[axis] for box in boxes} for axis in (0, 1)]
    if any(pattern.bounded() is not pattern for patterns in axes for pattern in patterns):
        return False
    ends = [2 + 2 * sum(math.prod(count for count, _ in p.dims) for p in patterns) for patterns in axes]
    has_one_range_of_rows = len(axes[0]) == 1 and not boxes[0][0].dims
    return has_one_range_of_rows or ends[0] * ends[1] <= MAX_CLASSES


def _by_class(members: Sequence[Ints], wanted: Collection[int]) -> dict[int, list[int]]:
    """Of each class in ``wanted``: the numbers of the patterns that have it."""
    result: dict[int, list[int]] = {}
    for number, classes in enumerate(members):
        for each in classes.tolist():
            if each in wanted:
                result.setdefault(each, []).append(number)
    return result


def _ranges(patterns: Sequence[AxisPattern], hull: tuple[int, int]) -> tuple[list[int], list[frozenset[int]]]:
    """The ranges into which the patterns cut their hull: the ends, counted from its start, and who has each."""
    first, last = hull
    runs = [(number, start, start + p.run) for number, p in enumerate(patterns) for start in p.run_starts().tolist()]
    points = sorted({first, last, *(start for _, start, _ in runs), *(end for _, _, end in runs)})
    place = {point: number for number, point in enumerate(points)}
    owners: list[set[int]] = [set() for _ in points[1:]]
    for number, start, end in runs:
        for each in range(place[start], place[end]):
            owners[each].add(number)
    return [point - first for point in points[1:]], list(map(frozenset, owners))


def _end(axis: AxisPattern) -> int:
    return axis.start + axis.run + sum((count - 1) * step for count, step in axis.dims)


PlacedTile = tuple[TileLayout, int, int, int, int, int, int, int]
"""A tile at an address: its layout; the first row of its box and the row behind it; the first byte in each row, and the
byte behind; the number of its first class; the dense numbers of the first and the last instruction that accesses it."""
_Area = tuple[PlacedTile, int, int]
"""A tile, the first row in which it is the last tile of a range of columns, and the row behind the last one."""
_Pairs = list[tuple[int, list[int]]]
"""Classes of a tile, each with the classes of an earlier tile that have a byte of it; as their layouts number them."""
Before = dict[int, tuple[int, ...]]


def tiles_before(tiles: Sequence[PlacedTile]) -> Before | None:
    """Of each class: the classes of earlier tiles in its bytes that no tile between has overwritten.

    ``tiles`` come in the order of their first accesses. None if two tiles that share a byte are accessed in turns, or
    if a tile comes upon others of which it overwrites a part only: classes of single tiles then do not tell enough.
    """
    before: Before = {}
    starts: list[int] = [0]
    columns: list[tuple[_Area, ...]] = [()]
    known: dict[object, _Pairs] = {}
    for tile in tiles:
        layout, top, bottom, left, right, first_class, begin, _ = tile
        is_plain, is_filled = layout.is_plain, layout.is_filled
        found: tuple[int, ...] = ()
        own = ((tile, top, bottom),)
        first = bisect_right(starts, left) - 1
        end = bisect_left(starts, right, first)
        cut_starts: list[int] = []
        cut: list[tuple[_Area, ...]] = []
        if starts[first] < left:
            cut_starts.append(starts[first])
            cut.append(columns[first])
        cut_starts.append(left)
        cut.append(own)
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
                    _add(before, old, tile, (max(top, old_top), min(bottom, old_bottom), start, stop), known)
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
            before[first_class] = (*before.get(first_class, ()), *found)
        if end == len(starts) or starts[end] > right:
            cut_starts.append(right)
            cut.append(columns[end - 1])
        starts[first:end], columns[first:end] = cut_starts, cut
    return before


def _add(
    before: Before, old: PlacedTile, new: PlacedTile, area: tuple[int, int, int, int], known: dict[object, _Pairs]
) -> None:
    """Enter the classes of ``old`` that the classes of ``new`` meet in the rows and columns ``area``."""
    old_layout, old_top, _, old_left, _, first_old, *_ = old
    layout, new_top, _, new_left, _, first, *_ = new
    top, bottom, left, right = area
    down, along = new_top - old_top, new_left - old_left
    top, bottom, left, right = top - old_top, bottom - old_top, left - old_left, right - old_left
    key = (id(old_layout), id(layout), down, along, top, bottom, left, right)
    pairs = known.get(key)
    if pairs is None:
        found: dict[int, set[int]] = {}
        for row, old_line in old_layout.lines((top, bottom), (left, right)):
            for _, line in layout.lines((row.start - down, row.stop - down), (left - along, right - along)):
                _meet(line, along, old_line, found)
        pairs = known[key] = [(each, sorted(olds)) for each, olds in found.items()]
    shifted = list(range(first_old, first_old + len(old_layout.numbers)))  # one object each for all classes
    for each, olds in pairs:
        number, numbers = first + each, tuple([shifted[one] for one in olds])
        before[number] = before[number] + numbers if number in before else numbers


def _meet(line: _Line, along: int, old_line: _Line, found: dict[int, set[int]]) -> None:
    """Enter the pairs of classes in two lines, the first one moved by ``along`` bytes, that have a common byte."""
    i = j = 0
    while i < len(line) and j < len(old_line):
        end, each = line[i]
        old_end, one = old_line[j]
        if each >= 0 and one >= 0:
            found.setdefault(each, set()).add(one)
        i += end + along <= old_end
        j += old_end <= end + along
