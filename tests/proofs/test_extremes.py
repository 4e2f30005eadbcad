"""Sets of the members of maxima, against the sets of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.proofs.extremes import Sets
from nki.proofs.field import mixed
from nki.proofs.word_numbers import WordNumbers

KEY = 7


class Reference:
    """Sets as frozensets; a maximum of several members has a word of its own."""

    def __init__(self) -> None:
        self.sets = Sets()
        self.members: dict[int, frozenset[int]] = {}
        self.hashes: dict[frozenset[int], int] = {}

    def maxima(self, rows: list[list[int]]) -> list[int]:
        """The words of the maxima of ``rows``, each of as many words; checks what ``Sets`` says of them."""
        unions = self.sets.unions(np.array(rows, np.uint64))
        wanted = [frozenset[int]().union(*(self.members.get(word, {word}) for word in row)) for row in rows]
        assert unions.counts.tolist() == [len(each) for each in wanted]
        for one, digest in zip(wanted, unions.hashes.tolist(), strict=True):
            assert self.hashes.setdefault(one, digest) == digest
        assert len(set(self.hashes.values())) == len(self.hashes)
        single = np.array([min(each) for each in wanted], np.uint64)
        words = np.where(unions.counts == 1, single, mixed(unions.hashes, KEY))
        self.sets.keep(words, unions)
        self.members |= dict(zip(words.tolist(), wanted, strict=True))
        return words.tolist()


@given(st.data())
def test_maxima_of_maxima_are_sets_of_members(data):
    reference, known = Reference(), list(range(12))
    for _ in range(data.draw(st.integers(1, 8))):
        row_of = st.lists(st.sampled_from(known), min_size=(width := data.draw(st.integers(1, 5))), max_size=width)
        known += reference.maxima(data.draw(st.lists(row_of, min_size=1, max_size=4)))


def running(reference, scores, tile):
    """The word of the maximum of each row of ``scores``, which runs over tiles of ``tile`` columns."""
    best = None
    for start in range(0, scores.shape[1], tile):
        words = reference.maxima(scores[:, start : start + tile].tolist())
        best = words if best is None else reference.maxima([list(pair) for pair in zip(words, best, strict=True)])
    return best


def atoms(reference):
    return len(reference.sets._atoms.values)


def test_a_running_maximum_keeps_blocks_and_not_members():
    scores = np.arange(8 * 256).reshape(8, 256)
    reference = Reference()
    best = running(reference, scores, 32)
    assert len(reference.members[best[0]]) == 256
    # Eight tiles of a row, and unions of 2 to 8 of these.
    assert atoms(reference) == 8 * (8 + sum(range(2, 9)))
    assert running(reference, scores, 32) == best
    assert atoms(reference) == 8 * (8 + sum(range(2, 9)))  # the same tiles again need no new note


def test_other_tiles_of_the_same_scores_have_the_same_maximum():
    scores = np.arange(8 * 96).reshape(8, 96)
    reference = Reference()
    assert running(reference, scores, 32) == running(reference, scores, 16) == running(reference, scores, 48)
    assert reference.maxima(scores.tolist()) == running(reference, scores, 32)


@pytest.mark.parametrize("count", [1, 2, 1000, 5000])
def test_numbers_of_words_are_in_order_of_their_addition(count):
    numbers = WordNumbers()
    words = mixed(np.arange(3 * count, dtype=np.uint64), KEY)
    words[: count // 2] = np.arange(count // 2, dtype=np.uint64) << np.uint64(40)  # many of one slot
    np.testing.assert_array_equal(numbers.add(words[:count]), np.arange(count))
    np.testing.assert_array_equal(numbers.add(words[count : 2 * count]), np.arange(count, 2 * count))
    wanted = np.where(np.arange(3 * count) < 2 * count, np.arange(3 * count), -1)
    np.testing.assert_array_equal(numbers.find(words), wanted)
