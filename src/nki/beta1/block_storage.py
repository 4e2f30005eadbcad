"""Storage of tensors: one allocation for each tile of a block tensor, made when the tile is first used.

A tile with an initial value is filled at its first use, unless that overwrites it. In PSUM a tile remembers which of
its elements hold nothing yet, so that ``+=`` of a product overwrites those and adds to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki import isa
from nki.base.element_types import DType
from nki.base.source import Where
from nki.beta1.mask_regions import Region, boxes_of
from nki.frontend.builder import current
from nki.ir.types import Access, Buffer, Tensor

Address = tuple[int, int]


class Place:
    """One allocated tile, with what is known of its contents."""

    __slots__ = ("_fresh", "_untouched", "initial", "tensor")

    def __init__(self, tensor: Tensor, initial: float | None) -> None:
        self.tensor = tensor
        self.initial = initial
        """The value that elements still wait for; None: none do."""
        self._untouched = tensor.buffer is Buffer.psum
        """Nothing has written any element yet: the array of :attr:`fresh` is made when that changes in part."""
        self._fresh: NDArray[np.bool_] | None = None

    @property
    def fresh(self) -> NDArray[np.bool_] | None:
        """In PSUM, the elements that nothing has written; None: all are written, or it does not matter."""
        if self._untouched:
            self.fresh = np.ones((self.tensor.shape[0], self.tensor.free_size), np.bool_)
        return self._fresh

    @fresh.setter
    def fresh(self, fresh: NDArray[np.bool_] | None) -> None:
        self._fresh, self._untouched = fresh, False

    def _covered_by(self, access: Access) -> bool:
        return access.size == self.tensor.elements and 0 not in access.strides

    def window(self, access: Access) -> NDArray[np.bool_] | None:
        """The part of ``fresh`` that ``access`` names; None where the access has another element size."""
        fresh = self.fresh
        if fresh is None or access.dtype.itemsize != self.tensor.dtype.itemsize:
            return None
        return np.ndarray(access.shape, np.bool_, fresh, access.offset, access.strides)

    def before_read(self, access: Access) -> None:
        """Fill what ``access`` is about to read and nothing has written."""
        if self.initial is None:
            return
        window = self.window(access)
        if self.fresh is None or window is None or window.any():
            self._fill()

    def before_write(self, access: Access, *, certain: bool = True) -> None:
        """Fill the tile unless ``access`` covers it; ``certain``: every element of it is written."""
        if self.initial is None and self._fresh is None and not self._untouched:
            return
        covers = certain and self._covered_by(access)
        if covers and access.dtype.itemsize == self.tensor.dtype.itemsize:
            self.fresh = self.initial = None
            return
        if self.initial is not None:
            if covers:
                self.initial = None
            elif self.fresh is None or access.dtype.itemsize != self.tensor.dtype.itemsize:
                self._fill()
        if self.fresh is not None:
            window = self.window(access)
            if window is None:
                self.fresh = None
            elif certain or self.initial is None:
                window[...] = False
            else:
                self._fill()
            self._settle()

    def starts_sum(self, access: Access) -> bool | None:
        """True if a product written to ``access`` starts a sum, False if it goes on with one, None if both."""
        if self._untouched and access.dtype.itemsize == self.tensor.dtype.itemsize and self._covered_by(access):
            self.fresh = self.initial = None
            return True
        window = self.window(access)
        if window is None:
            return False
        if window.all():
            window[...] = False
            self._settle()
            return True
        return None if window.any() else False

    def _settle(self) -> None:
        if self.fresh is not None and not self.fresh.any():
            self.fresh, self.initial = None, None

    def _fill(self) -> None:
        value, self.initial = self.initial, None
        assert value is not None
        if self.fresh is None or self.fresh.all():
            isa.memset(Access.whole(self.tensor), value)
        else:
            shape = self.fresh.shape
            box = tuple((0, n) for n in shape)
            for (first, last), (start, end) in boxes_of(Region(shape, box, self.fresh)):
                step = self.tensor.free_size
                access = Access(
                    self.tensor, first * step + start, (last - first, end - start), (step, 1), self.tensor.dtype
                )
                isa.memset(access, value)
        self.fresh = None


class Storage:
    """A tensor of ``blocks`` tiles of ``shape`` in ``buffer``; ``blocks`` is () for a plain tensor.

    ``address`` gives the place of the tile at an index of its blocks; ``initial`` is the value of all elements.
    """

    __slots__ = ("address", "blocks", "buffer", "dtype", "initial", "mutable", "name", "places", "shape", "where")

    def __init__(
        self,
        name: str,
        blocks: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: DType,
        buffer: Buffer,
        where: Where,
        *,
        address: Callable[[tuple[int, ...]], Address] | None = None,
        initial: float | None = None,
    ) -> None:
        self.name = name
        self.blocks = blocks
        self.shape = shape
        self.dtype = dtype
        self.buffer = buffer
        self.where = where
        self.address = address
        self.initial = initial
        self.mutable = True
        self.places: dict[int, Place] = {}

    @classmethod
    def around(cls, tensor: Tensor) -> Storage:
        """The storage of a tensor that exists already."""
        storage = cls(tensor.name, (), tensor.shape, tensor.dtype, tensor.buffer, Where(()))
        storage.places[0] = Place(tensor, None)
        storage.places[0].fresh = None
        return storage

    def place(self, block: int) -> Place:
        """The tile at ``block``, counted through all blocks, allocated now if it is not yet."""
        place = self.places.get(block)
        if place is None:
            place = self.places[block] = Place(self._allocated(block), self.initial)
        return place

    def _allocated(self, block: int) -> Tensor:
        index: tuple[Any, ...] = tuple(int(i) for i in np.unravel_index(block, self.blocks)) if self.blocks else ()
        address = None if self.address is None else self.address(index)
        return current(self.name).tensor(
            self.name, self.shape, self.dtype, self.buffer, address=address, where=self.where
        )
