"""Sets of bytes of one tensor, such as the bytes that a program has written so far.

A set holds the access patterns that were added. A mask with an entry per byte is built only when a question needs it,
so that a tensor which is always accessed by the same patterns costs one dictionary entry per pattern.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, ByteRanges, pattern_of
from nki.ir.access_bounds import byte_window
from nki.ir.types import Access, Tensor

Mask = NDArray[np.bool_]


class ByteSet:
    """A set of bytes of ``tensor``, empty at first.

    All accesses are to ``tensor`` and have no run-time index.
    """

    __slots__ = ("_is_full", "_mask", "patterns", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.patterns: dict[AccessPattern, Access] = {}
        """Accesses that the set contains; since the last removal, the accesses that were added."""
        self._mask: Mask | None = None
        self._is_full = False

    def add(self, access: Access) -> None:
        """Add the bytes of ``access`` (union)."""
        pattern = pattern_of(access)
        if self._is_full or pattern in self.patterns:
            self.patterns.setdefault(pattern, access)
            return
        self.patterns[pattern] = access
        nbytes = self.tensor.nbytes
        if access.size * access.dtype.itemsize >= nbytes and ByteRanges.of(pattern) == (0, nbytes, ()):
            self._is_full, self._mask = True, None
        elif self._mask is not None:
            byte_window(self._mask, access)[...] = True

    def subtract(self, access: Access) -> None:
        """Remove the bytes of ``access``."""
        if self.patterns or self._mask is not None:
            byte_window(self.mask(), access)[...] = False
            self.patterns, self._is_full = {}, False

    def clear(self) -> None:
        """Remove all bytes."""
        self.patterns, self._mask, self._is_full = {}, None, False

    def contains(self, access: Access) -> bool:
        """True if the set contains every byte of ``access``."""
        if self._is_full or pattern_of(access) in self.patterns:
            return True
        if not self.patterns and self._mask is None:
            return False
        return bool(byte_window(self.mask(), access).all())

    def intersects(self, access: Access) -> bool:
        """True if the set contains some byte of ``access``."""
        if self._is_full or pattern_of(access) in self.patterns:
            return True
        if not self.patterns and self._mask is None:
            return False
        return bool(byte_window(self.mask(), access).any())

    def missing(self, access: Access) -> Mask | None:
        """The elements of ``access``, in its shape, of which the set lacks a byte; None if the set contains all."""
        if self._is_full or pattern_of(access) in self.patterns:
            return None
        if not self.patterns and self._mask is None:
            return np.ones(access.shape, np.bool_)
        missing = np.asarray(np.logical_not(byte_window(self.mask(), access)).any(axis=-1))
        return missing if missing.any() else None

    def is_full(self) -> bool:
        """True if the set contains every byte of the tensor."""
        if not self._is_full and (self.patterns or self._mask is not None):
            self._is_full = bool(self.mask().all())
        return self._is_full

    def mask(self) -> Mask:
        """An entry for each byte of the tensor, in row-major order; the set's own array, not a copy."""
        if self._mask is None:
            self._mask = np.full(self.tensor.nbytes, self._is_full)
            for access in () if self._is_full else self.patterns.values():
                byte_window(self._mask, access)[...] = True
        return self._mask

    def copy(self) -> ByteSet:
        """A set of the same bytes that changes on its own."""
        duplicate = ByteSet(self.tensor)
        duplicate.patterns = dict(self.patterns)
        duplicate._mask = None if self._mask is None else self._mask.copy()
        duplicate._is_full = self._is_full
        return duplicate
