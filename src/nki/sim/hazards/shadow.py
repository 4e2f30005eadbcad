"""When each byte of a tensor was last touched.

Kernels touch the same few windows again and again, so those that were touched are kept as they are, in order; only a
question that they cannot answer makes a map of the tensor, with a time for each element.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.ir.types import Access, Tensor

Times = NDArray[np.int32]
Key = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""A window: offset, shape and steps in elements of so many bytes."""
_TYPE: Final = np.dtype(np.int32)
SPOILT: Final = -(1 << 31)
"""The time of places that hold what came of undefined bytes."""


def key_of(access: Access) -> Key:
    """What tells windows of one tensor apart."""
    return (access.offset, access.shape, access.strides, access.dtype.itemsize)


class Trace:
    """The times at which the bytes of one tensor were last touched, counted from 1; 0 where they never were.

    A negative time says when another tile was laid over them, or that they are :data:`SPOILT`.
    """

    __slots__ = ("_alone", "_due", "_grain", "_known", "_map", "_under", "buried", "last", "tensor", "whole", "windows")

    def __init__(self, tensor: Tensor, *, whole: bool = False) -> None:
        self.tensor = tensor
        self.whole = whole
        """All of it was touched, and is still there."""
        self.windows: dict[Key, int] = {}
        """By window the time it was touched, in the order of these times; nothing was laid over them since."""
        self.last = 0
        """When anything of it was touched last."""
        self.buried: dict[int, tuple[int, Tensor]] = {}
        """By time at which something was buried: when it was touched last before, and the tile laid over it."""
        self._known: set[Key] = set()
        """Other windows that were found to be touched entirely."""
        self._map: Times | None = None
        self._alone = False
        """The map knows what the windows do not."""
        self._grain = tensor.dtype.itemsize
        """Bytes for which the map has one time: as many as the narrowest windows have in an element."""
        self._under = 0
        """When all of it that is in no window was buried, as a negative time."""
        self._due = tensor.nbytes
        """How many bytes are to be touched before it can be whole."""

    def note(self, access: Access, time: int) -> None:
        """``access`` is touched at ``time``, later than anything before."""
        key = key_of(access)
        size = access.dtype.itemsize
        covered = access.size * size
        self.last = time
        if covered == self.tensor.nbytes and 0 not in access.strides:
            self.whole = True
            self.windows = {key: time}
            self._map, self._alone = None, False
            return
        if size < self._grain:
            self._refine(size)
        self.windows.pop(key, None)
        self.windows[key] = time
        self._due -= covered
        if self._map is not None:
            self._window(self._map, key)[...] = time

    def note_some(self, access: Access, chosen: NDArray[np.bool_], time: int) -> None:
        """The ``chosen`` places of ``access``, in its shape, are touched at ``time``."""
        if access.dtype.itemsize < self._grain:
            self._refine(access.dtype.itemsize)
        places = self._window(self.times(), key_of(access))
        np.copyto(places, time, where=chosen.reshape(*access.shape, *[1] * (places.ndim - access.ndim)))
        self.last, self._alone = time, True
        self._count()

    def note_read(self, access: Access, time: int) -> None:
        """``access`` is touched at ``time``; it may hold a place more than once. Such a trace is never whole."""
        key = key_of(access)
        if access.dtype.itemsize < self._grain:
            self._refine(access.dtype.itemsize)
        self.last = time
        self.windows.pop(key, None)
        self.windows[key] = time
        if self._map is not None:
            self._window(self._map, key)[...] = time

    def forget(self) -> None:
        """Nothing of it is touched, as in the beginning."""
        self.whole, self.last, self.buried = False, 0, {}
        self._map, self._alone, self._under, self._due = None, False, 0, self.tensor.nbytes
        self.windows, self._known = {}, set()

    def spoil(self, access: Access, chosen: NDArray[np.bool_]) -> None:
        """The ``chosen`` places of ``access``, in its shape, hold nothing that is defined."""
        if access.dtype.itemsize < self._grain:
            self._refine(access.dtype.itemsize)
        self._map = self.times()
        places = self._window(self._map, key_of(access))
        np.copyto(places, SPOILT, where=chosen.reshape(*access.shape, *[1] * (places.ndim - access.ndim)))
        self._forget()
        self._count()

    def exact(self, access: Access) -> int:
        """When all of ``access`` was touched last, where that is known without a map; else 0."""
        time = self.windows.get(key_of(access), 0)
        return time if time == self.last else 0

    def touched(self, access: Access) -> bool:
        """Whether every byte of ``access`` is touched and not buried."""
        if self.whole:
            return True
        key = key_of(access)
        if key in self.windows or key in self._known:
            return True
        if not self.last or not (self.at(access) > 0).all():
            return False
        self._known.add(key)
        if self._due <= 0:
            self._count()
        return True

    def _count(self) -> None:
        """Find out how much is missing."""
        missing = int(np.count_nonzero(self.times() <= 0))
        self.whole = not missing
        self._due = missing * self._grain
        if self.whole and not self._alone:
            self._map = None

    def at(self, access: Access) -> Times:
        """The time of each place of ``access``, in its shape, for wide elements one dimension more. To be read only."""
        size = access.dtype.itemsize
        if size < self._grain:
            self._refine(size)
        return self._window(self.times(), key_of(access))

    def times(self) -> Times:
        """The time of each place of the tensor, in row-major order."""
        if self._map is None:
            self._map = np.full(self.tensor.nbytes // self._grain, self._under, _TYPE)
            for key, time in self.windows.items():
                self._window(self._map, key)[...] = time
        return self._map

    def rows(self) -> Times:
        """The same, a row for each partition."""
        return self.times().reshape(self.tensor.shape[0], -1)

    def bury(self, time: int, by: Tensor) -> None:
        """The tile ``by`` was laid over all of it at ``time``."""
        if self.whole:
            self.buried[time] = (self.last, by)
            self._forget()
            self._map, self._alone = None, False
            self._under, self._due = -time, self.tensor.nbytes
        else:
            self._bury(self.times(), time, by)

    def bury_block(self, partitions: slice, bytes_: slice, time: int, by: Tensor) -> None:
        """The tile ``by`` was laid over these bytes of these partitions at ``time``."""
        if bytes_.start % self._grain or bytes_.stop % self._grain:
            self._refine(1)
        grain = self._grain
        self._bury(self.rows()[partitions, bytes_.start // grain : bytes_.stop // grain], time, by)

    def bury_bytes(self, chosen: NDArray[np.bool_], time: int, by: Tensor) -> None:
        """The tile ``by`` was laid over the chosen bytes, (partitions, bytes of a partition), at ``time``."""
        self._refine(1)
        self._bury(self.rows(), time, by, chosen)

    def _bury(self, times: Times, time: int, by: Tensor, chosen: NDArray[np.bool_] | None = None) -> None:
        """What was never written stays so, and what is buried is as it was."""
        there = times > 0 if chosen is None else (times > 0) & chosen
        if there.any():
            self.buried[time] = (self.last, by)
            self._forget()
            np.copyto(times, -time, where=there)
            self._count()

    def gone(self) -> bool:
        """Whether nothing of it is left that was touched and not buried."""
        return not self.whole and not self.windows and self._due >= self.tensor.nbytes

    def bytewise(self) -> Times:
        """The time of each byte, a row for each partition."""
        return np.repeat(self.times(), self._grain).reshape(self.tensor.shape[0], -1)

    def bytes_of(self, access: Access, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The ``chosen`` places of ``access``, as :meth:`at` gives them, among all bytes of the tensor."""
        mask = np.zeros(self.times().shape, np.int32)
        self._window(mask, key_of(access))[...] = chosen
        return np.repeat(mask.astype(np.bool_), self._grain)

    def _forget(self) -> None:
        """What is known of windows no longer holds."""
        self.whole = False
        self._alone = True
        self.windows = {}
        self._known = set()

    def _refine(self, grain: int) -> None:
        if self._map is not None:
            self._map = np.repeat(self._map, self._grain // grain)
        self._grain = grain

    def _window(self, times: Times, key: Key) -> Times:
        offset, shape, strides, size = key
        many = size // self._grain
        steps = tuple(step * size // self._grain * 4 for step in strides)
        start = offset * size // self._grain * 4
        if many == 1:
            return np.ndarray(shape, _TYPE, times, start, steps)
        return np.ndarray((*shape, many), _TYPE, times, start, (*steps, 4))
