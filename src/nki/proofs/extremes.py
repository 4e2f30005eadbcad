"""Sets of numbers, of which a maximum is taken: max is associative, commutative and idempotent.

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
        rows, columns = words.shape
        if not self._count or not (maybe := self._maybe[_place(words)]).any():
            return _of_rows(np.repeat(np.arange(rows, dtype=np.int64), columns), words.reshape(-1), rows)
        row_of, column_of = np.nonzero(maybe)
        starts, lengths = self._find(words[row_of, column_of])
        found = lengths > 0
        row_of, column_of, starts, lengths = row_of[found], column_of[found], starts[found], lengths[found]
        plain = np.ones(words.shape, np.bool_)
        plain[row_of, column_of] = False
        inner: Places = (
            np.arange(lengths.sum(), dtype=np.int64)
            - np.repeat(np.cumsum(lengths) - lengths, lengths)
            + np.repeat(starts, lengths)
        )
        members = np.concatenate([words[plain], self._all_members()[inner]])
        owners = np.concatenate([np.nonzero(plain)[0], np.repeat(row_of, lengths)])
        return _of_rows(owners, members, rows)

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


def _of_rows(owners: Places, members: Words, rows: int) -> tuple[Words, Words, Words]:
    order = np.lexsort((members, owners))
    owners, members = owners[order], members[order]
    first = np.ones(len(members), np.bool_)
    first[1:] = (owners[1:] != owners[:-1]) | (members[1:] != members[:-1])
    owners, members = owners[first], members[first]
    starts = np.searchsorted(owners, np.arange(rows + 1)).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(members, _SUM_SALT), dtype=np.uint64)])
    return sums[starts[1:].astype(np.int64)] - sums[starts[:-1].astype(np.int64)], members, starts


__all__ = ["Sets"]
