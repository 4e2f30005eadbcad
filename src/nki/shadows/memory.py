"""Shadow memory: beside the elements of tensors, words that say what another arithmetic has for them.

A plane has a word for each element of a tensor with a block of its own, and for each byte of SBUF and PSUM where tiles
share them: the word of an element is at its first byte. There each byte also has a stamp, its place in the element that
was stored, so that a tile that lies over another one destroys it, and its shadows, as it does on the chip.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.memory import Memory, SharedBytes
from nki.ir.types import Access, Tensor

Words = NDArray[Any]
_STAMP: Final = "stamp"
"""The plane of stamps: bytes of the element times 16, and the place of the byte in it; 0 if the byte has no shadow. No
more is needed: who stores one byte of an element stores all of them."""


class ShadowMemory(Memory):
    """A memory with planes of words; a tensor, or a buffer, has none until one of its elements has a shadow."""

    FILLS: ClassVar[Mapping[Hashable, np.generic]] = {}
    """The planes that each tensor has, and the word of an element without a shadow; the first plane tells which have
    none."""

    def __init__(self) -> None:
        super().__init__()
        self._planes: dict[Tensor | SharedBytes, dict[Hashable, Words]] = {}
        self._fills: dict[Hashable, np.generic] = {}
        """The word without a shadow of each plane of SBUF and PSUM."""
        self._extents: dict[SharedBytes, tuple[int, int]] = {}
        """The partitions, and the columns in each, from the first on that have their words, in all planes of SBUF or
        PSUM: few tiles lie far behind, and to fill all takes 0.5 GB."""
        self._reached: set[Tensor] = set()
        """The tiles that lie there."""

    def share(self, other: Memory) -> None:
        super().share(other)
        assert isinstance(other, ShadowMemory)
        self._planes, self._fills = other._planes, other._fills
        self._extents, self._reached = other._extents, other._reached

    def forget(self, tensor: Tensor) -> None:
        super().forget(tensor)
        self.drop(tensor)

    def drop(self, tensor: Tensor) -> None:
        """Have no shadows of ``tensor``, which has a block of its own."""
        self._planes.pop(tensor, None)

    # -- planes

    def planes(self, tensor: Tensor) -> dict[Hashable, Words]:
        """The planes where ``tensor`` is; empty if nothing there has a shadow."""
        home = self.home(tensor)
        if isinstance(home, SharedBytes) and home in self._planes and tensor not in self._reached:
            self._reach(tensor, home)
        return self._planes.get(home, {})

    def make(self, tensor: Tensor, fills: Mapping[Hashable, np.generic]) -> None:
        """Have these planes where ``tensor`` is, each filled with its word if it is new."""
        home = self.home(tensor)
        planes = self._planes.setdefault(home, {})
        new = {name: fill for name, fill in fills.items() if name not in planes}
        if not isinstance(home, SharedBytes):
            planes |= {name: np.full(tensor.elements, fill) for name, fill in new.items()}
            return
        for name, fill in new.items():
            self._fills[name] = fill
            planes[name] = np.empty(home.size, fill.dtype)
            rows, columns = self._extents.get(home, (0, 0))
            planes[name].reshape(-1, home.pitch)[:rows, :columns] = fill
        if _STAMP not in planes:
            planes[_STAMP] = np.zeros(home.size, np.uint8)

    def _reach(self, tensor: Tensor, home: SharedBytes) -> None:
        """Fill what is before the end of ``tensor``, and twice as many columns as before so that few tiles have to."""
        self._reached.add(tensor)
        whole = Access.whole(tensor)
        first, strides = self.address(whole)
        ends = list(divmod(first, home.pitch))
        for count, step in zip(whole.shape, strides, strict=True):
            partitions, columns = divmod(step, home.pitch)
            ends[0] += (count - 1) * partitions
            ends[1] += (count - 1) * columns
        rows, columns = self._extents.get(home, (0, 0))
        most_rows, most_columns = max(rows, ends[0] + 1), max(columns, ends[1] + tensor.dtype.itemsize)
        if (most_rows, most_columns) == (rows, columns):
            return
        if most_columns > columns:
            most_columns = min(max(most_columns, 2 * columns), home.pitch)
        self._extents[home] = most_rows, most_columns
        for name, plane in self._planes[home].items():
            if name != _STAMP:
                words = plane.reshape(-1, home.pitch)
                words[rows:most_rows, :most_columns] = words[:rows, columns:most_columns] = self._fills[name]

    def words(self, access: Access, name: Hashable) -> Words:
        """A writable view of the words of ``access``, which is in the width of its tensor, in its shape."""
        return self._words(access, name, 0)

    def _words(self, access: Access, name: Hashable, byte: int) -> Words:
        home = self.home(access.tensor)
        plane = self.planes(access.tensor)[name]
        size, offset, strides = plane.itemsize, access.offset, access.strides
        if isinstance(home, SharedBytes):
            offset, strides = self.address(access)
        steps = tuple([step * size for step in strides])
        return np.ndarray(access.shape, plane.dtype, plane, (offset + byte) * size, steps)

    def set_words(self, access: Access, words: Mapping[Hashable, Any]) -> None:
        """Give the elements of ``access``, which have just been stored, words in its shape; planes are there."""
        for name, word in words.items():
            self._words(access, name, 0)[...] = word
        if not isinstance(self.home(access.tensor), SharedBytes):
            return
        size = access.dtype.itemsize
        for byte in range(size):
            self._words(access, _STAMP, byte)[...] = size << 4 | byte

    def clear(self, access: Access) -> None:
        """Take the shadows from the elements of ``access``, which is in the width of its tensor."""
        for byte in self._bytes(access) if self.planes(access.tensor) else ():
            for name, fill in self.FILLS.items():
                self._words(access, name, byte)[...] = fill
            if _STAMP in self.planes(access.tensor):
                self._words(access, _STAMP, byte)[...] = 0

    def _bytes(self, access: Access) -> Iterable[int]:
        """The bytes of an element of ``access`` that have words of their own."""
        return range(access.dtype.itemsize if isinstance(self.home(access.tensor), SharedBytes) else 1)

    # -- other readings of the same bytes

    def as_stored(self, access: Access) -> Access | None:
        """The elements of ``access`` in the dtype of its tensor; None if they are not as wide."""
        own = access.tensor.dtype
        if access.dtype is own:
            return access
        if access.dtype.itemsize != own.itemsize:
            return None
        return Access(access.tensor, access.offset, access.shape, access.strides, own)

    def touched(self, access: Access) -> NDArray[np.bool_]:
        """True for each word of a plane that belongs to a byte of ``access``, of any width."""
        tensor, home = access.tensor, self.home(access.tensor)
        offset, strides = self.address(access)
        mask = np.zeros(home.size if isinstance(home, SharedBytes) else tensor.nbytes, np.bool_)
        np.ndarray((*access.shape, access.dtype.itemsize), np.bool_, mask, offset, (*strides, 1))[...] = True
        if isinstance(home, SharedBytes):
            return mask
        return np.asarray(mask.reshape(-1, tensor.dtype.itemsize).any(axis=1))

    def is_bare(self, access: Access) -> bool:
        """True if no byte of ``access`` belongs to an element with a shadow."""
        planes = self.planes(access.tensor)
        if not planes:
            return True
        if _STAMP in planes:
            return not any(self._words(access, _STAMP, byte).any() for byte in range(access.dtype.itemsize))
        first, fill = next(iter(self.FILLS.items()))
        same = access.dtype.itemsize == access.tensor.dtype.itemsize
        words = self._words(access, first, 0) if same else planes[first][self.touched(access)]
        return bool((words == fill).all())

    def is_torn(self, access: Access) -> bool:
        """True if an element of ``access`` has bytes with a shadow and is not one that was stored as it is read."""
        if _STAMP not in self.planes(access.tensor):
            return access.dtype.itemsize != access.tensor.dtype.itemsize and not self.is_bare(access)
        size = access.dtype.itemsize
        has_shadow = self._words(access, _STAMP, 0) != 0
        return any(
            bool((self._words(access, _STAMP, byte) != np.where(has_shadow, size << 4 | byte, 0)).any())
            for byte in range(size)
        )


__all__ = ["ShadowMemory", "Words"]
