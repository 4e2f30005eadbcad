"""Sets of numbers, for their maximum: max is associative, commutative and idempotent.

The maximum of several numbers is an unknown number that depends on the set of them. So that the maximum of a maximum
and a third number depends on the set of all three, the members of each set are kept, by the word of its maximum.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs.field import Words, mixed

Places = NDArray[np.int64]

_SUM_SALT: Final = 0x2545F4914F6CDD1D


_BITS: Final = np.uint64(22)
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class Sets:
    """The members of each maximum, by its word."""

    def __init__(self) -> None:
        self._words: list[Words] = []
        self._starts: list[Words] = []
        self._members: list[Words] = []
        self._count = 0
        self._maybe = np.zeros(1 << int(_BITS), np.bool_)
        """By the hash of a word: false if it is no maximum."""

    def canonical(self, words: Words) -> tuple[Words, Words, Words]:
        """The sets of the rows of ``words``: members of maxima in place of these, each once, sorted.

        Returns a hash for each row, the members of all rows one after the other, and where each row starts.
        """
        if not self._count or not (maybe := self._maybe[_place(words)]).any():
            return _of_rows(words)
        row_of, column_of = np.nonzero(maybe)
        starts, lengths = self._find(words[row_of, column_of])
        found = lengths > 0
        row_of, column_of, starts, lengths = row_of[found], column_of[found], starts[found], lengths[found]
        if not len(row_of):
            return _of_rows(words)
        members = self._all_members()
        # A member twice changes no set: it fills the rows up to one length, and stands in for the maximum itself.
        rest = np.zeros(len(words), np.int64)
        np.add.at(rest, row_of, lengths)
        wide = np.repeat(members[starts[_first_of_each(row_of, len(words))]][:, None], int(rest.max()), axis=1)
        wide[rest == 0] = words[rest == 0, :1]
        owners = np.repeat(row_of, lengths)
        inner: Places = np.arange(lengths.sum(), dtype=np.int64)
        within = inner - np.repeat(np.cumsum(lengths) - lengths, lengths)
        before = np.repeat(_before_in_row(row_of, lengths), lengths)
        wide[owners, before + within] = members[within + np.repeat(starts, lengths)]
        plain = words.copy()
        plain[row_of, column_of] = members[starts]
        return _of_rows(np.concatenate([plain, wide], axis=1))

    def keep(self, words: Words, members: Words, starts: Words) -> None:
        """Note that ``words`` are the maxima of sets; ``starts`` has one entry more than these."""
        self._maybe[_place(words)] = True
        self._words.append(words)
        self._starts.append(starts + np.uint64(self._count))
        self._members.append(members)
        self._count += len(members)

    def _all_members(self) -> Words:
        self._members = [np.concatenate(self._members)]
        return self._members[0]

    def _find(self, words: Words) -> tuple[Places, Places]:
        """Start and length of the members of each word; a length of 0 for one that is no maximum."""
        starts, lengths = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
        for known, first in zip(self._words, self._starts, strict=True):
            order = np.argsort(known)
            places = np.minimum(np.searchsorted(known[order], words), len(known) - 1)
            here = order[places]
            hit = known[here] == words
            starts[hit] = first[here[hit]]
            lengths[hit] = (first[here[hit] + 1] - first[here[hit]]).astype(np.int64)
        return starts, lengths


def _place(words: Words) -> Words:
    return words * _SPREAD >> (np.uint64(64) - _BITS)


def _first_of_each(row_of: Places, rows: int) -> Places:
    """The first place of each row in ``row_of``, which ascends; 0 for rows that are not in it."""
    first: Places = np.searchsorted(row_of, np.arange(rows))
    return np.where(first < len(row_of), first, 0)


def _before_in_row(row_of: Places, lengths: Places) -> Places:
    """For each entry the lengths of the entries before it in the same row."""
    before = np.cumsum(lengths) - lengths
    return before - before[np.searchsorted(row_of, row_of)]


def _of_rows(words: Words) -> tuple[Words, Words, Words]:
    members = np.sort(words, axis=1)
    first = np.ones(members.shape, np.bool_)
    first[:, 1:] = members[:, 1:] != members[:, :-1]
    starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(first.sum(axis=1), dtype=np.uint64)])
    hashes = (mixed(members, _SUM_SALT) * first).sum(axis=1, dtype=np.uint64)
    return hashes, members[first], starts


__all__ = ["Sets"]
