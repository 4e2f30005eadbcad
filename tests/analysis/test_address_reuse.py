"""The layouts of tiles, and what two of them share at an offset, against sets of bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nki.analysis import interval_partition
from nki.analysis.access_pattern import AxisPattern, conservative_pattern
from nki.analysis.address_reuse import TileLayout, reused_addresses, tile_layout
from nki.analysis.interval_partition import IntervalPartition, overlapping_classes, partition_axis
from nki.base.element_types import uint8
from nki.ir.types import Access, Buffer, Tensor
from tests.analysis.byte_model import accesses, bytes_of

AXIS = 120

patterns = st.builds(
    AxisPattern,
    st.integers(0, 20),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(2, 5), st.integers(1, 12)), max_size=2).map(
        lambda dims: tuple(sorted(dims, key=lambda dim: -dim[1]))
    ),
)


def places(pattern: AxisPattern) -> set[int]:
    """Every place of the axis that the pattern has."""
    found = {pattern.start}
    for count, step in pattern.dims:
        found = {start + i * step for start in found for i in range(count)}
    return {start + i for start in found for i in range(pattern.run)}


def spread(cut: IntervalPartition) -> list[int]:
    """The class of each place of a cut."""
    return np.repeat(cut.classes, np.diff(cut.ends, prepend=0)).tolist()


def cut_of(seen: list[AxisPattern]) -> tuple[IntervalPartition, list[int]]:
    return partition_axis({pattern: 1 << i for i, pattern in enumerate(seen)}, 0, AXIS + 10)


@given(st.lists(patterns, min_size=1, max_size=6, unique=True))
@example([AxisPattern(0, 2, ((3, 5), (2, 4)))])
@example([AxisPattern(0, 1, ((3, 3), (2, 6)))])
def test_a_class_of_an_axis_has_the_places_of_just_its_patterns(seen):
    cut, sets = cut_of(seen)
    truth = [sum(1 << i for i, pattern in enumerate(seen) if place in places(pattern)) for place in range(AXIS + 10)]
    assert [sets[each] for each in spread(cut)] == truth
    assert len(set(sets)) == len(sets) == len({*cut.classes.tolist()})


@pytest.mark.parametrize("large", [0, 1 << 30])
@given(st.data())
def test_pieces_of_two_axes_meet_where_they_share_a_place(large, data):
    one, other = (cut_of(data.draw(st.lists(patterns, min_size=1, max_size=4, unique=True)))[0] for _ in range(2))
    shift = data.draw(st.integers(-AXIS // 2, AXIS // 2))
    last = min(AXIS, AXIS + shift)
    start = data.draw(st.integers(max(0, shift), last - 1))
    stop = data.draw(st.integers(start + 1, last))
    classes, others = spread(one), spread(other)
    truth = {(classes[place], others[place - shift]) for place in range(start, stop)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_partition, "LARGE_PARTITION", large)
        found = overlapping_classes(one, other, shift, start, stop)
    assert sorted(found) == sorted(truth)


def layout_of(seen: list[Access], written: set[int]) -> TileLayout:
    return tile_layout(
        seen[0].tensor,
        {conservative_pattern(a): False for a in seen} | {conservative_pattern(seen[i]): True for i in written},
    )


def drawn(data: Any, shape: tuple[int, int], name: str, *, whole: bool) -> tuple[list[Access], TileLayout]:
    """Accesses to a tile, with a write first, and its layout."""
    tensor = Tensor(name, shape, uint8, Buffer.sbuf)
    seen = [*([Access.whole(tensor)] if whole else []), *data.draw(st.lists(accesses(tensor), min_size=1, max_size=6))]
    return seen, layout_of(seen, {0})


def bytes_by_class(seen: list[Access], layout: TileLayout) -> dict[int, set[tuple[int, int]]]:
    """The bytes of each class: those that its accesses have, and no others."""
    numbers: dict[tuple[int, ...], int] = {}
    members = [set(layout.classes[conservative_pattern(access)]) for access in seen]
    for number in range(layout.count):
        key = tuple(i for i, own in enumerate(members) if number in own)
        assert key and key not in numbers
        numbers[key] = number
    result: dict[int, set[tuple[int, int]]] = {number: set() for number in numbers.values()}
    sets = [{(row, byte) for _, row, byte in bytes_of(access)} for access in seen]
    for place in set().union(*sets):
        result[numbers[tuple(i for i, own in enumerate(sets) if place in own)]].add(place)
    return result


@given(st.data())
def test_a_layout_has_the_classes_of_the_bytes_in_any_order(data):
    seen, layout = drawn(data, (5, 24), "t", whole=data.draw(st.booleans()))
    found = bytes_by_class(seen, layout)
    assert all(found.values())
    everything, box = set().union(*found.values()), {*np.ndindex(5, 24)}
    box = {
        (r, c) for r, c in box if layout.rows[0] <= r < layout.rows[1] and layout.columns[0] <= c < layout.columns[1]
    }
    assert layout.rows == (min(r for r, _ in everything), 1 + max(r for r, _ in everything))
    assert layout.columns == (min(c for _, c in everything), 1 + max(c for _, c in everything))
    assert layout.is_filled == ({(r, c) for _, r, c in bytes_of(seen[0])} == box)
    assert layout.most == max(map(len, layout.classes.values()))
    shuffled = random.Random(0).sample(seen, len(seen))
    again = layout_of(shuffled, {shuffled.index(seen[0])})
    assert again.classes == layout.classes


@given(st.data())
def test_classes_of_two_tiles_meet_where_they_share_a_byte(data):
    """Three tiles of two layouts: the relation of each is found anew, and where it is known."""
    seen = [drawn(data, (4, 24), "one", whole=True)]
    seen.append(seen[0] if data.draw(st.booleans()) else drawn(data, (4, 16), "other", whole=True))
    kinds = [0, *data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=2))]
    places_of: dict[int, set[tuple[int, int]]] = {}
    tiles: list[Any] = []
    first = 1
    for number, kind in enumerate(kinds):
        used, layout = seen[kind]
        down, along = data.draw(st.sampled_from([0, 0, 2])), data.draw(st.sampled_from([0, 0, 4, 9]))
        (top, bottom), (left, right) = layout.rows, layout.columns
        tiles.append((layout, down + top, down + bottom, along + left, along + right, first, number, number))
        for each, own in bytes_by_class(used, layout).items():
            places_of[first + each] = {(r + down, c + along) for r, c in own}
        first += layout.count
    before = reused_addresses(tiles)
    assert before is not None
    last: dict[tuple[int, int], int] = {}
    for each in sorted(places_of):
        olds = {last[place] for place in places_of[each] & last.keys()}
        assert set(before.of(each)) == olds
        tile = max(t[5] for t in tiles if t[5] <= each)
        if each + 1 == tile + next(t[0].count for t in tiles if t[5] == tile):
            last.update({place: number for number in range(tile, each + 1) for place in places_of[number]})


def test_a_tile_in_the_place_of_two_of_its_kind_comes_after_both():
    tensor = Tensor("t", (4, 8), uint8, Buffer.sbuf)
    halves = [Access(tensor, start, (4, 4), (8, 2), uint8) for start in (0, 1)]
    layout = layout_of(halves, {0, 1})
    tiles = [(layout, row, row + 4, 0, 8, 1 + 2 * i, i, i) for i, row in enumerate((0, 4, 2))]
    before = reused_addresses(tiles)
    assert before is not None
    assert {number: set(before.of(number)) for number in range(1, 7) if before.of(number)} == {5: {1, 3}, 6: {2, 4}}
