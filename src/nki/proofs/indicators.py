"""Integer inputs of a known range, as sums of truths: x = sum of v [x = v], where the truths [x = v] sum to 1.

So comparisons with known integers, and elements that are chosen by an index, are exact for all values of the range:
table[x] = sum of table[v] [x = v].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs.field import Words

MOST: Final = 1 << 24
"""Truths of one input, at most: its elements times the numbers of its range."""


@dataclass(frozen=True)
class _Table:
    """Truths of one input: of each element a row; ``above[:, k]`` is the truth that it is at least ``least + k``."""

    least: int
    words: Words
    """The words of the elements, sorted."""
    rows: NDArray[np.int64]
    residues: Words
    exponents: Words
    residues_above: Words
    exponents_above: Words


@dataclass(frozen=True)
class Found:
    """The truths of some elements, in their shape."""

    table: _Table
    rows: NDArray[np.int64]

    @property
    def least(self) -> int:
        return self.table.least

    @property
    def count(self) -> int:
        """Numbers of the range."""
        return self.table.residues.shape[1]

    def equal(self, numbers: NDArray[np.int64]) -> tuple[Words, Words]:
        """Residues and exponents of the truth that each element is its number; 0 outside of the range."""
        places = np.broadcast_to(numbers - self.least, self.rows.shape)
        inside = (places >= 0) & (places < self.count)
        chosen = np.where(inside, places, 0)
        table = self.table
        return table.residues[self.rows, chosen] * inside, table.exponents[self.rows, chosen] * inside

    def at_least(self, numbers: NDArray[np.int64]) -> tuple[Words, Words]:
        """Residues and exponents of the truth that each element is at least its number."""
        places = np.clip(np.broadcast_to(numbers - self.least, self.rows.shape), 0, self.count)
        return self.table.residues_above[self.rows, places], self.table.exponents_above[self.rows, places]


@dataclass
class Indicators:
    """The tables of all inputs."""

    tables: list[_Table] = field(default_factory=list[_Table])

    def add(
        self, words: Words, least: int, residues: Words, exponents: Words, moduli: tuple[np.uint64, np.uint64]
    ) -> None:
        """Note elements by their ``words``; residues and exponents have a column for each number from ``least`` on."""
        order = np.argsort(words)
        above = [_sums_from(part, modulus) for part, modulus in zip((residues, exponents), moduli, strict=True)]
        self.tables.append(_Table(least, words[order], order, residues, exponents, above[0], above[1]))

    def find(self, words: Words) -> Found | None:
        """The truths of elements that are all of one input; None for others."""
        for table in self.tables:
            places = np.minimum(np.searchsorted(table.words, words), len(table.words) - 1)
            if (table.words[places] == words).all():
                return Found(table, table.rows[places])
        return None


def _sums_from(columns: Words, modulus: np.uint64) -> Words:
    """Sums of each row from each column on, and 0 behind the last one."""
    sums = np.zeros((columns.shape[0], columns.shape[1] + 1), np.uint64)
    sums[:, :-1] = np.cumsum(columns[:, ::-1], axis=1, dtype=np.uint64)[:, ::-1] % modulus
    return sums


__all__ = ["MOST", "Found", "Indicators"]
