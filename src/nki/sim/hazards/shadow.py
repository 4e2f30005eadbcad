"""Shadow memory: the time of the last access to each byte of a tensor.

Kernels access the same few patterns again and again, so the patterns are kept, in order; only a question that they
cannot answer makes a map of the tensor, with a time for each element.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.ir.types import Access, Tensor

Times = NDArray[np.int32]
_TYPE: Final = np.dtype(np.int32)
READY: Final = 1
"""The time before the first instruction, when inputs and constants have been written."""
_MOST_COUNTED: Final = 1 << 28
"""Entries of a map up to which those without a time are counted."""
FIRST_ORIGIN: Final = -(1 << 31)
MOST_ORIGINS: Final = 1 << 20
"""Times from ``FIRST_ORIGIN`` on, as many, are no times: elements that depend on undefined bytes have the number of an
origin instead (:class:`nki.sim.hazards.undefined_bytes.Origins`)."""


def is_poisoned(times: Times) -> NDArray[np.bool_]:
    """True for elements that depend on undefined bytes."""
    return times < FIRST_ORIGIN + MOST_ORIGINS


def is_overwritten(times: Times) -> NDArray[np.bool_]:
    """True for elements that another tile has overwritten."""
    return (times < 0) & ~is_poisoned(times)


class AccessTimes:
    """The time of the last access to each byte of one tensor, from :data:`READY` on; 0 for bytes without any.

    A negative time is the time, negated, at which another tile overwrote the bytes, or the number of an origin.
    """

    __slots__ = (
        "_background",
        "_bytes_left",
        "_covered",
        "_granularity",
        "_map",
        "_map_is_newer",
        "is_whole",
        "last",
        "overwritten",
        "patterns",
        "tensor",
    )

    def __init__(self, tensor: Tensor, *, whole: bool = False) -> None:
        self.tensor = tensor
        self.is_whole = whole
        """Every byte has a positive time."""
        self.patterns: dict[AccessPattern, int] = {}
        """Time of the last access by pattern, in the order of times; of patterns that nothing has overwritten since."""
        self.last = 0
        """Time of the last access to any byte."""
        self.overwritten: dict[int, tuple[int, Tensor]] = {}
        """By the time of an overwrite: the time of the last access before it, and the tile that was written."""
        self._covered: set[AccessPattern] = set()
        """Other patterns with a positive time at every byte."""
        self._map: Times | None = None
        self._map_is_newer = False
        """The map holds times that the patterns do not."""
        self._granularity = tensor.dtype.itemsize
        """Bytes per entry of the map: the size of the smallest element of any access."""
        self._background = READY if whole else 0
        """Time of all bytes that are in no pattern; negated, if it is the time of their overwrite."""
        self._bytes_left = tensor.nbytes
        """Bytes to be accessed before every byte can have a positive time."""

    def record(self, access: Access, time: int) -> None:
        """Record an access at ``time``, later than any before."""
        pattern = pattern_of(access)
        size = access.dtype.itemsize
        covered = access.size * size
        self.last = time
        if covered == self.tensor.nbytes and 0 not in access.strides:
            self.is_whole = True
            self.patterns = {pattern: time}
            self._map, self._map_is_newer = None, False
            return
        if size < self._granularity:
            self._refine(size)
        self.patterns.pop(pattern, None)
        self.patterns[pattern] = time
        self._bytes_left -= covered
        if self._map is not None:
            self._view(self._map, pattern)[...] = time

    def record_some(self, access: Access, chosen: NDArray[np.bool_], time: int) -> None:
        """Record an access at ``time`` to the ``chosen`` elements of ``access``, in its shape."""
        if access.dtype.itemsize < self._granularity:
            self._refine(access.dtype.itemsize)
        times = self._view(self.all_times(), pattern_of(access))
        np.copyto(times, time, where=chosen.reshape(*access.shape, *[1] * (times.ndim - access.ndim)))
        self.last, self._map_is_newer = time, True
        self._recount()

    def record_read(self, access: Access, time: int) -> None:
        """Record a read at ``time``, which may contain an element more than once; leaves ``is_whole`` unset."""
        pattern = pattern_of(access)
        if access.dtype.itemsize < self._granularity:
            self._refine(access.dtype.itemsize)
        self.last = time
        self.patterns.pop(pattern, None)
        self.patterns[pattern] = time
        if self._map is not None:
            self._view(self._map, pattern)[...] = time

    def reset(self) -> None:
        """Forget all accesses."""
        self.is_whole, self.last, self.overwritten = False, 0, {}
        self._map, self._map_is_newer, self._background, self._bytes_left = None, False, 0, self.tensor.nbytes
        self.patterns, self._covered = {}, set()

    def poison(self, access: Access, origins: Times) -> None:
        """Mark elements of ``access`` as undefined; ``origins``, in its shape, has numbers of origins, or 0."""
        if access.dtype.itemsize < self._granularity:
            self._refine(access.dtype.itemsize)
        self._map = self.all_times()
        times = self._view(self._map, pattern_of(access))
        origins = origins.reshape(*access.shape, *[1] * (times.ndim - access.ndim))
        np.copyto(times, origins, where=origins != 0)
        self._drop_patterns()
        self._recount()

    def single_time(self, access: Access) -> int:
        """The one time of all bytes of ``access``, if it is known without a map; else 0."""
        time = self.patterns.get(pattern_of(access), 0)
        return time if time == self.last else 0

    def is_defined(self, access: Access) -> bool:
        """True if every byte of ``access`` has a positive time: accessed, and not overwritten since."""
        if self.is_whole:
            return True
        pattern = pattern_of(access)
        if pattern in self.patterns or pattern in self._covered:
            return True
        if not self.last or not (self.times_of(access) > 0).all():
            return False
        self._covered.add(pattern)
        if self._bytes_left <= 0:
            self._recount()
        return True

    def untouched_bytes(self) -> int:
        """Bytes that certainly have no access and no undefined contents, if the patterns tell."""
        known = not self.is_whole and not self._map_is_newer and not self._background
        return max(0, self._bytes_left) if known else 0

    def _recount(self) -> None:
        """Count the bytes without a positive time, except in tensors for which that takes seconds."""
        if self.all_times().size > _MOST_COUNTED:
            return
        missing = int(np.count_nonzero(self.all_times() <= 0))
        self.is_whole = not missing
        self._bytes_left = missing * self._granularity
        if self.is_whole and not self._map_is_newer:
            self._map = None

    def times_of(self, access: Access) -> Times:
        """Times of the elements of ``access``, in its shape, for wide elements with one dimension more; read-only."""
        size = access.dtype.itemsize
        if size < self._granularity:
            self._refine(size)
        return self._view(self.all_times(), pattern_of(access))

    def all_times(self) -> Times:
        """Times of all elements of the tensor, in row-major order."""
        if self._map is None:
            entries = self.tensor.nbytes // self._granularity
            # Zeros take memory only where times are written: a tensor in HBM may be larger than the host's memory.
            self._map = np.full(entries, self._background, _TYPE) if self._background else np.zeros(entries, _TYPE)
            for pattern, time in self.patterns.items():
                self._view(self._map, pattern)[...] = time
        return self._map

    def times_by_partition(self) -> Times:
        """The same, with a row for each partition."""
        return self.all_times().reshape(self.tensor.shape[0], -1)

    def overwrite(self, time: int, by: Tensor) -> None:
        """The tile ``by`` was written over the whole tensor at ``time``."""
        if self.is_whole:
            self.overwritten[time] = (self.last, by)
            self._drop_patterns()
            self._map, self._map_is_newer = None, False
            self._background, self._bytes_left = -time, self.tensor.nbytes
        else:
            self._overwrite(self.all_times(), time, by)

    def overwrite_block(self, partitions: slice, bytes_: slice, time: int, by: Tensor) -> None:
        """The tile ``by`` was written over these bytes of these partitions at ``time``."""
        if bytes_.start % self._granularity or bytes_.stop % self._granularity:
            self._refine(1)
        grain = self._granularity
        self._overwrite(self.times_by_partition()[partitions, bytes_.start // grain : bytes_.stop // grain], time, by)

    def overwrite_bytes(self, chosen: NDArray[np.bool_], time: int, by: Tensor) -> None:
        """The tile ``by`` was written over the chosen bytes, (partitions, bytes of a partition), at ``time``."""
        self._refine(1)
        self._overwrite(self.times_by_partition(), time, by, chosen)

    def _overwrite(self, times: Times, time: int, by: Tensor, chosen: NDArray[np.bool_] | None = None) -> None:
        """Negate the positive ``times``; bytes without an access and bytes already overwritten keep theirs."""
        defined = times > 0 if chosen is None else (times > 0) & chosen
        if defined.any():
            self.overwritten[time] = (self.last, by)
            self._drop_patterns()
            np.copyto(times, -time, where=defined)
            self._recount()
            if self._bytes_left >= self.tensor.nbytes and (self.all_times() == -time).all():
                self._map, self._map_is_newer, self._background = None, False, -time  # one number says the same

    def is_empty(self) -> bool:
        """True if no byte has a positive time."""
        return not self.is_whole and not self.patterns and self._bytes_left >= self.tensor.nbytes

    def times_by_byte(self) -> Times:
        """Times of all bytes, with a row for each partition."""
        return np.repeat(self.all_times(), self._granularity).reshape(self.tensor.shape[0], -1)

    def byte_mask(self, access: Access, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The ``chosen`` entries of :meth:`times_of` as a mask over all bytes of the tensor."""
        mask = np.zeros(self.all_times().shape, np.int32)
        self._view(mask, pattern_of(access))[...] = chosen
        return np.repeat(mask.astype(np.bool_), self._granularity)

    def _drop_patterns(self) -> None:
        """The map holds all times from now on."""
        self.is_whole = False
        self._map_is_newer = True
        self.patterns = {}
        self._covered = set()

    def _refine(self, grain: int) -> None:
        if self._map is not None:
            self._map = np.repeat(self._map, self._granularity // grain)
        self._granularity = grain

    def _view(self, times: Times, pattern: AccessPattern) -> Times:
        offset, shape, strides, size = pattern
        entries = size // self._granularity
        byte_strides = tuple(step * size // self._granularity * 4 for step in strides)
        start = offset * size // self._granularity * 4
        if entries == 1:
            return np.ndarray(shape, _TYPE, times, start, byte_strides)
        return np.ndarray((*shape, entries), _TYPE, times, start, (*byte_strides, 4))
