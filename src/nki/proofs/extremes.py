"""Sets of numbers, for their maximum: max is associative, commutative and idempotent.

The maximum of several numbers is an unknown number that depends on the set of them. So that the maximum of a maximum
and a third number depends on the set of all three, the atoms of each set are kept, by the word of its maximum.

An atom is one member, or a block of members that came together, as a row of scores does. Atoms have no member in
common, so a union compares atoms only: the maximum that runs over n scores in tiles of 128 costs n/128 of each of its
steps, and not n. If a part of a block comes again without the rest, its members become atoms of their own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.proofs.field import Words, mixed
from nki.proofs.word_numbers import Column, Places, WordNumbers

_SUM_SALT: Final = 0x2545F4914F6CDD1D


class Unions(NamedTuple):
    """The sets of some rows: a hash, which only equal sets share; how many members; and their atoms."""

    hashes: Words
    counts: Places
    atoms: Places
    """The atoms of all rows, one row after the other."""
    starts: Places
    """The start of each row in ``atoms``."""
    lengths: Places


class _Parts(NamedTuple):
    """Different members of rows, one row after the other; no row is empty."""

    words: Words
    rows: Places
    starts: Places
    lengths: Places

    @classmethod
    def of(cls, words: Words, rows: Places) -> _Parts:
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        return cls(words, rows, starts, np.diff(starts, append=len(rows)))

    def chosen(self, which: NDArray[np.bool_]) -> _Parts:
        """Some of the rows, by their order."""
        each = np.repeat(which, self.lengths)
        return _Parts.of(self.words[each], self.rows[each])

    @property
    def first_rows(self) -> Places:
        """The row of each part."""
        return self.rows[self.starts]


class Sets:
    """The atoms of each maximum, by its word."""

    def __init__(self) -> None:
        self._members = WordNumbers()
        self._owners = Column(np.int64)
        """The atom of each member."""
        self._firsts = Column(np.int64)
        """Of each atom its first member; the others of a block follow it."""
        self._sizes = Column(np.int64)
        self._hashes = Column(np.uint64)
        self._is_split = Column(np.bool_)
        """Blocks with members that are atoms of their own by now."""
        self._maxima = WordNumbers()
        self._starts = Column(np.int64)
        self._lengths = Column(np.int64)
        self._atoms = Column(np.int64)

    def unions(self, words: Words) -> Unions:
        """The set of each row of ``words``, with the members of maxima in place of these."""
        members = np.sort(words, axis=1)
        is_first = np.ones(members.shape, np.bool_)
        is_first[:, 1:] = members[:, 1:] != members[:, :-1]
        rows, each = np.nonzero(is_first)[0], members[is_first]
        maxima = self._maxima.find(each)
        is_plain = maxima < 0
        of_plain = self._plain(_Parts.of(each[is_plain], rows[is_plain]))
        maxima, rows = maxima[~is_plain], rows[~is_plain]
        starts, lengths = self._starts.values[maxima], self._lengths.values[maxima]
        of_maxima = np.repeat(rows, lengths), self._atoms.values[_ranges(starts, lengths)]
        return self._joined(*(np.concatenate(pair) for pair in zip(of_plain, of_maxima, strict=True)))

    def keep(self, words: Words, unions: Unions) -> None:
        """Note that ``words`` are the maxima of ``unions``."""
        new, first = np.unique(words, return_index=True)
        # A set of one is its member, which needs no note.
        is_chosen = (unions.counts[first] > 1) & (self._maxima.find(new) < 0)
        new, first = new[is_chosen], first[is_chosen]
        lengths = unions.lengths[first]
        self._maxima.add(new)
        self._starts.extend(len(self._atoms.values) + _before(lengths))
        self._lengths.extend(lengths)
        self._atoms.extend(unions.atoms[_ranges(unions.starts[first], lengths)])

    def _joined(self, rows: Places, atoms: Places) -> Unions:
        is_split = self._is_split.values[atoms]
        if is_split.any():
            blocks = atoms[is_split]
            firsts, sizes = self._firsts.values[blocks], self._sizes.values[blocks]
            rows = np.concatenate([rows[~is_split], np.repeat(rows[is_split], sizes)])
            atoms = np.concatenate([atoms[~is_split], self._owners.values[_ranges(firsts, sizes)]])
        count = len(self._sizes.values)
        rows, atoms = np.divmod(np.unique(rows * count + atoms), count)
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        hashes = np.add.reduceat(self._hashes.values[atoms], starts)
        counts = np.add.reduceat(self._sizes.values[atoms], starts)
        return Unions(hashes, counts, atoms, starts, np.diff(starts, append=len(rows)))

    # -- atoms of members that are no maxima

    def _plain(self, parts: _Parts) -> tuple[Places, Places]:
        """Rows and their atoms."""
        if not len(parts.rows):
            return parts.rows, parts.rows
        numbers = self._members.find(parts.words)
        is_new = np.logical_and.reduceat(numbers < 0, parts.starts)
        atoms: Places = np.full(len(parts.starts), -1, np.int64)
        if is_new.any():
            atoms[is_new] = self._blocks(parts.chosen(is_new))
        if not is_new.all():
            atoms[~is_new] = self._known_blocks(parts.chosen(~is_new), numbers[np.repeat(~is_new, parts.lengths)])
        if (has := atoms >= 0).all():
            return parts.first_rows, atoms
        rest = parts.chosen(~has)
        return (
            np.concatenate([parts.first_rows[has], rest.rows]),
            np.concatenate([atoms[has], self._single(rest.words)]),
        )

    def _blocks(self, parts: _Parts) -> Places:
        """A new block for each row of new members; -1 for rows that share members with others, but are not the same."""
        hashes = np.add.reduceat(mixed(parts.words, _SUM_SALT), parts.starts)
        _, at, same_as = np.unique(hashes, return_index=True, return_inverse=True)
        is_chosen = np.zeros(len(parts.starts), np.bool_)
        is_chosen[at] = True
        ordered = parts.chosen(is_chosen)
        _, where, counts = np.unique(ordered.words, return_inverse=True, return_counts=True)
        is_apart = np.logical_and.reduceat(counts[where] == 1, ordered.starts)
        blocks = ordered.chosen(is_apart)
        atoms: Places = np.full(len(parts.starts), -1, np.int64)
        if len(blocks.words):
            firsts = self._members.add(blocks.words)[blocks.starts]
            of_rows = self._new_atoms(firsts, blocks.lengths, hashes[is_chosen][is_apart])
            atoms[np.flatnonzero(is_chosen)[is_apart]] = of_rows
            self._owners.extend(np.repeat(of_rows, blocks.lengths))
        return atoms[at][same_as]

    def _known_blocks(self, parts: _Parts, numbers: Places) -> Places:
        """The atom that each row is as a whole; -1 if there is none."""
        owners = np.where(numbers < 0, -1, self._owners.values[numbers])
        first = owners[parts.starts]
        is_one = np.logical_and.reduceat(owners == np.repeat(first, parts.lengths), parts.starts)
        return np.where(is_one & (first >= 0) & (self._sizes.values[first] == parts.lengths), first, -1)

    def _single(self, words: Words) -> Places:
        """The atoms of members by themselves."""
        different, where = np.unique(words, return_inverse=True)
        numbers = self._members.find(different)
        is_new = numbers < 0
        numbers[is_new] = self._members.add(different[is_new])
        self._owners.extend(self._new_members(numbers[is_new]))
        owners = self._owners.values[numbers]
        blocks = np.unique(owners[self._sizes.values[owners] > 1])
        if len(blocks):
            self._is_split.values[blocks] = True
            split = _ranges(self._firsts.values[blocks], self._sizes.values[blocks])
            self._owners.values[split] = self._new_members(split)
        return self._owners.values[numbers][where]

    def _new_members(self, numbers: Places) -> Places:
        hashes = mixed(self._members.words[numbers], _SUM_SALT)
        return self._new_atoms(numbers, np.ones(len(numbers), np.int64), hashes)

    def _new_atoms(self, firsts: Places, sizes: Places, hashes: Words) -> Places:
        count = len(self._sizes.values)
        self._firsts.extend(firsts)
        self._sizes.extend(sizes)
        self._hashes.extend(hashes)
        self._is_split.extend(np.zeros(len(sizes), np.bool_))
        return np.arange(count, count + len(sizes))


def _before(lengths: Places) -> Places:
    return np.cumsum(lengths) - lengths


def _ranges(starts: Places, lengths: Places) -> Places:
    """The places of ranges, one range after the other."""
    inner: Places = np.arange(lengths.sum(), dtype=np.int64)
    return inner + np.repeat(starts - _before(lengths), lengths)


__all__ = ["Sets", "Unions"]
