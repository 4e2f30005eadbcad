"""Sets of numbers, of which a maximum is taken: max is associative, commutative and idempotent.

The maximum of several numbers is an unknown number that depends on the set of them. So that the maximum of a maximum
and a third number depends on the set of all three, the members of each set are kept, by the word of its maximum.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nki.proofs.field import Words, mixed

_TAG: Final = np.uint64(0b10110)
_TAG_BITS: Final = np.uint64(5)
_TAG_MASK: Final = np.uint64(31)
"""Low bits of the residue of every maximum, so that few other numbers are looked up."""
_SUM_SALT: Final = 0x2545F4914F6CDD1D


def tagged(residues: Words, modulus: int) -> Words:
    """Residues below ``modulus`` that say that they may be of a maximum."""
    return (residues % np.uint64(modulus >> int(_TAG_BITS))) << _TAG_BITS | _TAG


class Sets:
    """The members of each maximum, by its word."""

    def __init__(self) -> None:
        self._words: list[Words] = []
        self._starts: list[Words] = []
        self._members: list[Words] = []
        self._count = 0

    def canonical(self, words: Words) -> tuple[Words, Words, Words]:
        """The sets of the rows of ``words``: members of maxima in place of these, each once, sorted.

        Returns a hash for each row, the members of all rows one after the other, and where each row starts.
        """
        rows, columns = words.shape
        if not self._count or not (maybe := (words >> np.uint64(32) & _TAG_MASK) == _TAG).any():
            return _of_rows(np.repeat(np.arange(rows), columns), words.reshape(-1), rows)
        row_of, column_of = np.nonzero(maybe)
        starts, lengths = self._find(words[row_of, column_of])
        found = lengths > 0
        row_of, column_of, starts, lengths = row_of[found], column_of[found], starts[found], lengths[found]
        plain = np.ones(words.shape, np.bool_)
        plain[row_of, column_of] = False
        inner = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(starts, lengths)
        members = np.concatenate([words[plain], self._all_members()[inner]])
        owners = np.concatenate([np.nonzero(plain)[0], np.repeat(row_of, lengths)])
        return _of_rows(owners, members, rows)

    def keep(self, words: Words, members: Words, starts: Words) -> None:
        """Note that ``words`` are the maxima of sets; ``starts`` has one entry more than these."""
        self._words.append(words)
        self._starts.append(starts + np.uint64(self._count))
        self._members.append(members)
        self._count += len(members)

    def _all_members(self) -> Words:
        self._members = [np.concatenate(self._members)]
        return self._members[0]

    def _find(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
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


def _of_rows(owners: np.ndarray, members: Words, rows: int) -> tuple[Words, Words, Words]:
    order = np.lexsort((members, owners))
    owners, members = owners[order], members[order]
    first = np.ones(len(members), np.bool_)
    first[1:] = (owners[1:] != owners[:-1]) | (members[1:] != members[:-1])
    owners, members = owners[first], members[first]
    starts = np.searchsorted(owners, np.arange(rows + 1)).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(members, _SUM_SALT), dtype=np.uint64)])
    return sums[starts[1:].astype(np.int64)] - sums[starts[:-1].astype(np.int64)], members, starts


__all__ = ["Sets", "tagged"]
