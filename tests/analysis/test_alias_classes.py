"""Alias classes: two accesses share a class if, and only if, they share a byte."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nki.analysis.access_pattern import MAX_RUNS, AxisPattern, ByteRanges, conservative_pattern
from nki.analysis.alias_classes import alias_classes, axis_classes, boxes_of
from nki.base.element_types import float32
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import may_overlap
from tests.analysis.byte_model import accesses, bytes_of


@given(st.data())
def test_accesses_share_a_class_if_and_only_if_they_share_a_byte(data):
    shape = data.draw(st.sampled_from([(6, 20), (4, 3, 5), (31,)]))
    buffer = Buffer.hbm if len(shape) == 1 else data.draw(st.sampled_from([Buffer.sbuf, Buffer.hbm]))
    tensor = Tensor("t", shape, float32, buffer)
    seen = data.draw(st.lists(accesses(tensor), min_size=2, max_size=24))
    _, found = alias_classes(boxes_of(tensor, [conservative_pattern(access) for access in seen]))
    sets = [set(its.tolist()) for its in found]
    truth = [bytes_of(access) for access in seen]
    for i, j in combinations(range(len(seen)), 2):
        assert bool(sets[i] & sets[j]) == bool(truth[i] & truth[j]), (i, j)
        assert may_overlap(seen[i], seen[j]) >= bool(sets[i] & sets[j]), (i, j)


def test_interleaved_accesses_share_no_class():
    tensor = Tensor("t", (4, 64), float32, Buffer.sbuf)
    even, odd = (Access(tensor, start, (4, 32), (64, 2), float32) for start in (0, 1))
    whole, left = Access.whole(tensor), Access(tensor, 0, (4, 16), (64, 1), float32)
    _, found = alias_classes(boxes_of(tensor, [conservative_pattern(a) for a in (even, odd, whole, left)]))
    sets = [set(its.tolist()) for its in found]
    assert not sets[0] & sets[1]
    assert sets[0] | sets[1] == sets[2]
    assert sets[3] < sets[2]
    assert sets[3] & sets[0] and sets[3] & sets[1]


def test_columns_of_a_matrix_in_hbm_share_no_class():
    tensor = Tensor("t", (4096, 8192), float32, Buffer.hbm)
    blocks = [
        Access(tensor, 128 * i * 8192 + 512 * j, (128, 512), (8192, 1), float32) for i in range(32) for j in range(16)
    ]
    count, found = alias_classes(boxes_of(tensor, [conservative_pattern(a) for a in blocks]))
    assert count == 512
    assert all(len(its) == 1 for its in found)
    assert len({int(its[0]) for its in found}) == 512


def test_windows_of_whole_lines_are_one_piece_per_channel():
    """The lines of eight images in each of 128 channels are neighbours: as rows of their own they were 128 runs."""
    channels, images, line = 256, 128, 64
    tensor = Tensor("t", (channels, images, line), float32, Buffer.hbm)
    step = images * line
    windows = [
        Access(tensor, c * step + n * line, (128, 8, line), (step, line, 1), float32)
        for c in range(0, channels, 128)
        for n in range(0, images, 8)
    ]
    boxes = boxes_of(tensor, [conservative_pattern(window) for window in windows])
    assert not any(pattern.dims for box in boxes for pattern in box)
    count, found = alias_classes(boxes)
    assert count == len(windows) and len({int(own[0]) for own in found}) == count
    # One column of all images needs rows along the last dimension again.
    column = Access(tensor, 3, (channels, images), (step, line), float32)
    _, found = alias_classes(boxes_of(tensor, [conservative_pattern(window) for window in (*windows, column)]))
    assert all(set(own.tolist()) & set(found[-1].tolist()) for own in found)


def test_fewer_pieces_are_not_bought_with_too_many_classes():
    """Rows of whole channels would cut both axes into so many classes that only the columns could be told apart."""
    tensor = Tensor("t", (600, 600, 16), float32, Buffer.hbm)
    step = 600 * 16
    stairs = [Access(tensor, n * (step + 16), (3, 1, 16), (step, 16, 1), float32) for n in range(300)]
    below = Access(tensor, 500 * step + 7 * 16, (3, 1, 16), (step, 16, 1), float32)  # the line of stair 7
    _, found = alias_classes(boxes_of(tensor, [conservative_pattern(window) for window in (*stairs, below)]))
    assert not set(found[-1].tolist()) & {each for own in found[:-1] for each in own.tolist()}


@given(
    sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=24),
    overlap=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_blocks_that_lie_apart_have_the_classes_of_any_pieces(sizes, overlap, order):
    """Blocks with gaps between them, in any order; and one more that overlaps the last one."""
    patterns: list[AxisPattern] = []
    end = 0
    for gap, run in sizes:
        patterns.append(AxisPattern(end + gap, run))
        end += gap + run
    if overlap:
        patterns.append(AxisPattern(end - 1, 2))
    order.shuffle(patterns)
    count, _ = axis_classes(patterns)
    found, members = alias_classes([(AxisPattern(0, 1), pattern) for pattern in patterns])
    assert found == count
    sets = [set(its.tolist()) for its in members]
    assert all(max(its) < count for its in sets)
    for i, j in combinations(range(len(patterns)), 2):
        (start, run, _), (other, length, _) = patterns[i], patterns[j]
        assert bool(sets[i] & sets[j]) == (start < other + length and other < start + run)


def test_a_pattern_of_too_many_pieces_counts_as_all_between_its_ends():
    comb = AxisPattern(0, 1, ((MAX_RUNS + 1, 2),))
    assert comb.bounded() == AxisPattern(0, 2 * MAX_RUNS + 1)
    _, found = axis_classes([comb.bounded(), AxisPattern(1, 1)])
    assert set(found[0].tolist()) & set(found[1].tolist())


def test_overlapping_steps_are_one_piece():
    assert ByteRanges.of((3, (4, 5), (2, 1), 4)) == ByteRanges(12, 4 * 11, ())
