"""A hash table of words, many at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs.field import Words

Places = NDArray[np.int64]

_LEAST_BITS: Final = 10
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class Column:
    """An array that grows at its end; it doubles when it is full, so that an element costs the same however many."""

    def __init__(self, dtype: type[Any]) -> None:
        self._room: NDArray[Any] = np.empty(1 << _LEAST_BITS, dtype)
        self.values: NDArray[Any] = self._room[:0]

    def extend(self, values: NDArray[Any]) -> None:
        count, end = len(self.values), len(self.values) + len(values)
        if end > len(self._room):
            room = np.empty(max(2 * len(self._room), end), self._room.dtype)
            room[:count] = self.values
            self._room = room
        self._room[count:end] = values
        self.values = self._room[:end]


class WordNumbers:
    """Numbers of different words, from 0 in the order in which they came: open addressing with linear probes."""

    def __init__(self) -> None:
        self._words = Column(np.uint64)
        self._bits = _LEAST_BITS
        self._slots: NDArray[np.int32] = np.full(1 << self._bits, -1, np.int32)

    @property
    def words(self) -> Words:
        """The word of each number."""
        return self._words.values

    def find(self, words: Words) -> Places:
        """The number of each word; -1 for one that has none."""
        numbers: Places = np.full(len(words), -1, np.int64)
        if not len(self.words):
            return numbers
        waiting, slots = np.arange(len(words)), self._place(words)
        while len(waiting):
            found = self._slots[slots]
            is_hit = (found >= 0) & (self.words[found] == words[waiting])
            numbers[waiting[is_hit]] = found[is_hit]
            goes_on = (found >= 0) & ~is_hit
            waiting, slots = waiting[goes_on], (slots[goes_on] + 1) % len(self._slots)
        return numbers

    def add(self, words: Words) -> Places:
        """New numbers for words that have none, all different."""
        first = len(self.words)
        self._words.extend(words)
        numbers = np.arange(first, len(self.words))
        if 2 * len(self.words) > len(self._slots):
            self._bits = int(4 * len(self.words)).bit_length()
            self._slots = np.full(1 << self._bits, -1, np.int32)
            self._insert(np.arange(len(self.words)))
        else:
            self._insert(numbers)
        return numbers

    def _insert(self, numbers: Places) -> None:
        slots = self._place(self.words[numbers])
        while len(numbers):
            is_free = self._slots[slots] < 0
            self._slots[slots[is_free]] = numbers[is_free]  # of several for one slot the last one has it
            goes_on = self._slots[slots] != numbers
            numbers, slots = numbers[goes_on], (slots[goes_on] + 1) % len(self._slots)

    def _place(self, words: Words) -> Places:
        return (words * _SPREAD >> np.uint64(64 - self._bits)).astype(np.int64)


__all__ = ["Column", "Places", "WordNumbers"]
