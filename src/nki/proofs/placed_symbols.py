"""Numbers that are not known in the bytes of SBUF and PSUM, which tiles share: for programs after ``allocate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from nki.backend.numpy.placed_memory import PlacedMemory
from nki.ir.types import Access, Buffer, Tensor
from nki.proofs.memory import KNOWN, SymbolMemory, Words, new_words
from nki.proofs.symbols import Symbols, UndecidedError
from nki.target.model import Target


class PlacedSymbols(PlacedMemory, SymbolMemory):
    """A memory in which each byte of a tile on chip names its number, and its place in it.

    So a tile that lies over another one destroys it here as it does on the chip.
    """

    def __init__(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> None:
        super().__init__(target, placement)
        self._by_byte: dict[Buffer, tuple[Words, ...]] = {}
        """The words of :class:`SymbolMemory` for each byte, and a stamp: the number of the store, bytes and place."""
        self._stores = 0

    def other_core(self, target: Target, placement: Mapping[Tensor, tuple[int, int]]) -> Self:
        other = super().other_core(target, placement)
        other._symbols, other._facts, other._numbers = self._symbols, self._facts, self._numbers
        return other

    def _is_placed(self, access: Access) -> bool:
        return self._place(access.tensor) is not None

    def _has_words(self, access: Access) -> bool:
        return access.buffer in self._by_byte if self._is_placed(access) else super()._has_words(access)

    def _make_words(self, access: Access) -> None:
        if not self._is_placed(access):
            super()._make_words(access)
        elif access.buffer not in self._by_byte:
            count = len(self._bytes[access.buffer])
            self._by_byte[access.buffer] = (*new_words(count), np.zeros(count, np.uint32))

    def _view(self, part: int, access: Access) -> Words:
        return self._of_byte(part, access, 0) if self._is_placed(access) else super()._view(part, access)

    def _of_byte(self, part: int, access: Access, byte: int) -> Words:
        """Words of one byte of each element."""
        _, offset, strides = self.address(access)
        words = self._by_byte[access.buffer][part]
        return np.ndarray(access.shape, np.uint32, words, (offset + byte) * 4, tuple([step * 4 for step in strides]))

    def is_symbolic(self, access: Access) -> bool:
        """True if an element is not known. Raises :class:`UndecidedError` if bytes are parts of several numbers."""
        if not self._is_placed(access):
            return super().is_symbolic(access)
        if not self._has_words(access):
            return False
        size = access.dtype.itemsize
        known = [self._of_byte(0, access, byte) == KNOWN for byte in range(size)]
        if all(each.all() for each in known):
            return False
        first = self._of_byte(5, access, 0)
        wanted = [np.where(known[0], 0, first + byte) for byte in range(size)]
        whole = all((self._of_byte(5, access, byte) == each).all() for byte, each in enumerate(wanted))
        if not whole or (first[~known[0]] & 0xFF != size << 4).any():
            raise UndecidedError(f"{access.tensor.name!r} is read where other numbers were stored over a part of it")
        return True

    def note_known(self, access: Access) -> None:
        if not self._is_placed(access):
            super().note_known(access)
        elif self._has_words(access):
            for byte in range(access.dtype.itemsize):
                self._of_byte(0, access, byte)[...] = KNOWN
                self._of_byte(5, access, byte)[...] = 0

    def store(self, access: Access, value: Symbols) -> None:
        super().store(access, value)
        if not self._is_placed(access):
            return
        self._stores += 1
        size = access.dtype.itemsize
        for byte in range(size):
            for part in range(5 if byte else 0):
                self._of_byte(part, access, byte)[...] = self._of_byte(part, access, 0)
            self._of_byte(5, access, byte)[...] = self._stores << 8 | size << 4 | byte


__all__ = ["PlacedSymbols"]
