"""Shadow memory: the time of the last access to each byte of a tensor.

Kernels access the same few patterns again and again, so the patterns are kept, in order; only a question that they
cannot answer makes a map of the tensor, a grid (:mod:`nki.analysis.byte_grid`) of times. So the memory grows with the
number of accesses and not with the size of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, ByteRanges, pattern_of
from nki.analysis.byte_grid import ByteGrid, Cells, Change, row_form
from nki.ir.types import Access, Tensor
from nki.ir.windows import repeats

Times = NDArray[np.int32]
_TYPE: Final = np.dtype(np.int32)
_CHOSEN: Final = _TYPE.type(np.iinfo(_TYPE).max)
"""A time that comes in no run."""
READY: Final = 1
"""The time before the first instruction, when inputs and constants have been written."""
_FEW_PATTERNS: Final = 32
"""Patterns up to which a search for later ones takes less time than a map."""
_MOST_PENDING: Final = 32
"""Overwrites that wait for a question; behind them, the tile may have no contents left."""
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


class _Entries(NamedTuple):
    """Times of the entries of a pattern, each of ``grain`` bytes; 0: as before."""

    grain: int
    times: Times

    def put(self, grid: ByteGrid, pattern: AccessPattern) -> ByteGrid:
        """``grid`` with these times."""
        first = self.times.flat[0]
        if first and (self.times == first).all():
            return _changed(grid, [(pattern, first)])
        return grid.with_entries(pattern, self.grain, self.times)


class AccessTimes:
    """The time of the last access to each byte of one tensor, from :data:`READY` on; 0 for bytes without any.

    A negative time is the time, negated, at which another tile overwrote the bytes, or the number of an origin.
    """

    __slots__ = (
        "_background",
        "_buried",
        "_bytes_left",
        "_covered",
        "_granularity",
        "_last_overwrite",
        "_map",
        "_map_is_newer",
        "_overwrites_pending",
        "_pending",
        "_poisoned",
        "_poisons_pending",
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
        self._map: ByteGrid | None = None
        self._pending: dict[object, tuple[AccessPattern, Change | _Entries]] = {}
        """Times by pattern, overwrites by time, and poisoned elements, in order, that the map does not have yet."""
        self._overwrites_pending = self._last_overwrite = self._poisons_pending = 0
        self._poisoned: tuple[AccessPattern, Times] | None = None
        """The pattern that was accessed last, if some of its elements were poisoned then: the times of all of them."""
        self._buried: set[AccessPattern] = set()
        """Patterns without a positive time at any byte, since another tile has overwritten them."""
        self._map_is_newer = False
        """The map holds times that the patterns do not."""
        self._granularity = tensor.dtype.itemsize
        """Bytes per entry of an answer: the size of the smallest element of any access."""
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
            self._buried.clear()
            self._set_map(None)
            return
        self._keep(pattern, time)
        self._bytes_left -= covered

    def record_some(self, access: Access, chosen: NDArray[np.bool_], time: int) -> None:
        """Record an access at ``time`` to the ``chosen`` elements of ``access``, in its shape."""
        times = np.where(chosen, _TYPE.type(time), _TYPE.type(0))
        self._map = self._entries(access, times).put(self._times(), pattern_of(access))
        self.last, self._map_is_newer = time, True
        self._recount()

    def record_read(self, access: Access, time: int) -> None:
        """Record a read at ``time``, which may contain an element more than once; leaves ``is_whole`` unset."""
        self.last = time
        self._keep(pattern_of(access), time)

    def _keep(self, pattern: AccessPattern, time: int) -> None:
        """Remember the time of the last access by ``pattern``."""
        self._poisoned = None
        self._granularity = min(self._granularity, pattern[3])
        self._buried.clear()
        self.patterns.pop(pattern, None)
        self.patterns[pattern] = time
        if self._map is not None or self._pending:
            self._pending.pop(pattern, None)
            self._pending[pattern] = pattern, time

    def reset(self) -> None:
        """Forget all accesses."""
        self.is_whole, self.last, self.overwritten = False, 0, {}
        self._set_map(None)
        self._background, self._bytes_left = 0, self.tensor.nbytes
        self.patterns, self._covered, self._buried = {}, set(), set()

    def poison(self, access: Access, origins: Times) -> None:
        """Mark elements of ``access`` as undefined; ``origins``, in its shape, has numbers of origins, or 0.

        Most poisoned tiles are read once, as they were written: that needs no map.
        """
        pattern, origins = pattern_of(access), origins.astype(_TYPE, copy=False)
        time = self.patterns.get(pattern, 0)
        self._wait_for_map()
        self._pending[pattern, self._poisons_pending] = pattern, self._entries(access, origins)
        self._poisons_pending += 1
        self._drop_patterns()
        if time == self.last > 0 and origins.any() and not repeats(access):
            self._poisoned = pattern, np.where(origins, origins, _TYPE.type(time))
        if self._poisons_pending > _MOST_PENDING:
            self._times()

    def _wait_for_map(self) -> None:
        """Let the patterns wait for a map, too, in front of what only a map can hold."""
        if self._map is None and not self._pending:
            self._pending = {each: (each, at) for each, at in self.patterns.items()}

    def single_time(self, access: Access) -> int:
        """The one time of all bytes of ``access``, if it is known without a map; else 0."""
        pattern = pattern_of(access)
        time = self.patterns.get(pattern, 0)
        if time == self.last or not time:
            return time
        if self._map_is_newer or len(self.patterns) > _FEW_PATTERNS:
            return 0
        columns = self._columns(pattern)
        for other, later in reversed(self.patterns.items()):
            if later <= time:
                break
            first, end = self._columns(other)
            if first < columns[1] and columns[0] < end:
                return 0
        return time

    def _columns(self, pattern: AccessPattern) -> tuple[int, int]:
        """Begin and end of the bytes of a row between which ``pattern`` lies in all of its rows."""
        _, length = row_form(self.tensor)
        box = ByteRanges.of(pattern).box(length)
        if box is None:
            return 0, length
        start, run, dims = box[1]
        return start, start + run + sum((count - 1) * step for count, step in dims)

    def is_defined(self, access: Access) -> bool:
        """True if every byte of ``access`` has a positive time: accessed, and not overwritten since."""
        if self.is_whole:
            return True
        pattern = pattern_of(access)
        if pattern in self.patterns or pattern in self._covered:
            return True
        if self._poisoned is not None and self._poisoned[0] == pattern:
            return False
        if not self.last or not (self._cells_of(pattern) > 0).all():
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
        """Count the bytes without a positive time."""
        times = self._times()
        self._bytes_left = times.count(times.cells <= 0)
        self.is_whole = not self._bytes_left
        if self.is_whole and not self._map_is_newer:
            self._set_map(None)

    def times_of(self, access: Access) -> Times:
        """Times of the elements of ``access``, in its shape, for wide elements with one dimension more; read-only."""
        size = access.dtype.itemsize
        self._granularity = min(self._granularity, size)
        if self._poisoned is not None and size == self._granularity and self._poisoned[0] == pattern_of(access):
            return self._poisoned[1]
        times = self._times().entries_of(pattern_of(access), self._granularity)
        return times[..., 0] if size == self._granularity else times

    def distinct_times(self, access: Access) -> list[int]:
        """The different times of the elements of ``access``, in order."""
        return np.unique(self._cells_of(pattern_of(access))).tolist()

    def all_times(self) -> Times:
        """Times of all elements of the tensor, in row-major order: memory of the size of the tensor."""
        return self._times().entries(self._granularity)

    def _times(self) -> ByteGrid:
        """The map, with all patterns in it."""
        grid, changes = self._map, self._pending.values()
        overwrites, poisons = self._overwrites_pending, self._poisons_pending
        if grid is None:
            grid = ByteGrid.uniform(*row_form(self.tensor), _TYPE.type(self._background))
            changes = changes or self.patterns.items()
        self._map = grid = _changed(grid, changes)
        self._pending, self._overwrites_pending, self._poisons_pending = {}, 0, 0
        if poisons and not overwrites:
            self._recount()
        if overwrites:
            self._recount()
            if self._bytes_left >= self.tensor.nbytes:
                self._buried.clear()
                if grid.cells.size == 1:  # one number says the same
                    self._set_map(None)
                    self._background = int(grid.cells[0, 0])
        return grid

    def _cells_of(self, pattern: AccessPattern) -> Cells:
        """The times of all bytes of ``pattern``, of many neighbours once."""
        cells = self._times().cells_of(pattern)
        return self._times().entries_of(pattern, min(self._granularity, pattern[3])) if cells is None else cells

    def _set_map(self, grid: ByteGrid | None) -> None:
        self._map, self._pending, self._poisoned = grid, {}, None
        self._overwrites_pending = self._poisons_pending = 0
        self._map_is_newer &= grid is not None

    def _entries(self, access: Access, times: Times) -> _Entries:
        """``times``, in the shape of ``access``, which its elements will have; 0: as before."""
        size, shape = access.dtype.itemsize, access.shape
        self._granularity = grain = min(self._granularity, size)
        self._buried.clear()
        self._poisoned = None
        return _Entries(grain, np.broadcast_to(times.reshape(*shape, 1), (*shape, size // grain)))

    def overwrite(self, time: int, by: Tensor) -> None:
        """The tile ``by`` was written over the whole tensor at ``time``."""
        if self.is_whole:
            self.overwritten[time] = (self.last, by)
            self._drop_patterns()
            self._set_map(None)
            self._background, self._bytes_left = -time, self.tensor.nbytes
        else:
            self._overwrite((0, (self.tensor.nbytes,), (1,), 1), time, by)

    def overwrite_block(self, partitions: slice, bytes_: slice, time: int, by: Tensor) -> None:
        """The tile ``by`` was written over these bytes of these partitions at ``time``."""
        if bytes_.start % self._granularity or bytes_.stop % self._granularity:
            self._granularity = 1
        pitch = self.tensor.bytes_per_partition
        shape = (partitions.stop - partitions.start, bytes_.stop - bytes_.start)
        self._overwrite((partitions.start * pitch + bytes_.start, shape, (pitch, 1), 1), time, by)

    def overwrite_bytes(self, chosen: NDArray[np.bool_], time: int, by: Tensor) -> None:
        """The tile ``by`` was written over the chosen bytes, (partitions, bytes of a partition), at ``time``."""
        self._granularity = 1
        times = self._times().entries()
        defined = (times > 0) & chosen.reshape(-1)
        if defined.any():
            self.overwritten[time] = (self.last, by)
            self._map = ByteGrid.of_bytes(self.tensor, np.where(defined, _TYPE.type(-time), times))
            self._drop_patterns()
            self._recount()

    def _overwrite(self, pattern: AccessPattern, time: int, by: Tensor) -> None:
        """Negate the positive times of ``pattern``; bytes without an access, or already overwritten, keep theirs.

        Tiles are overwritten part by part, and no question comes in between: the map gets many parts at once.
        """
        if pattern in self._buried:
            self._overwrites_pending += bool(self._overwrites_pending)  # so that an empty tile is found in the end
            return
        self._buried.add(pattern)
        last = self.last

        def negated(times: Cells) -> Cells:
            if not (times > 0).any():
                return times
            self.overwritten[time] = (last, by)
            return np.where(times > 0, _TYPE.type(-time), times)

        self._wait_for_map()
        self._pending[pattern, -time] = pattern, negated
        self._overwrites_pending += 1
        self._last_overwrite = time
        self._drop_patterns()

    def was_overwritten(self, time: int) -> bool:
        """True if another tile was written over bytes with a positive time at ``time``."""
        if self._overwrites_pending and time == self._last_overwrite:
            self._times()
        return time in self.overwritten

    def is_empty(self) -> bool:
        """True if no byte has a positive time; False where it takes a look at the map, which is not due yet."""
        if self._overwrites_pending > _MOST_PENDING or self._poisons_pending:
            self._times()
        if self._overwrites_pending or self.is_whole or self.patterns:
            return False
        return self._bytes_left >= self.tensor.nbytes

    def times_by_byte(self) -> Times:
        """Times of all bytes, with a row for each partition."""
        return self._times().entries().reshape(self.tensor.shape[0], -1)

    def byte_mask(self, access: Access, chosen: NDArray[np.bool_]) -> ByteGrid:
        """The ``chosen`` entries of :meth:`times_of`, as bytes of the tensor."""
        pattern, none = pattern_of(access), ByteGrid.uniform(*row_form(self.tensor), False)
        entries = chosen.reshape(*access.shape, pattern[3] // self._granularity)
        return none.with_entries(pattern, self._granularity, entries)

    def bytes_of(self, access: Access, choice: Callable[[Times], NDArray[np.bool_]]) -> ByteGrid:
        """The bytes of ``access`` with times that are the ``choice``; of neighbours with one time it is asked once."""
        return self.bytes_as_now(access, choice)()

    def bytes_as_now(self, access: Access, choice: Callable[[Times], NDArray[np.bool_]]) -> Callable[[], ByteGrid]:
        """A function that finds :meth:`bytes_of` as they are now, whatever comes."""
        grid, pattern = self._times(), pattern_of(access)

        def marked(times: Times) -> Times:
            return np.where(choice(times), _CHOSEN, times)

        return lambda: _changed(grid, [(pattern, marked)]).mapped(lambda times: times == _CHOSEN)

    def _drop_patterns(self) -> None:
        """The map holds all times from now on."""
        self._poisoned = None
        self.is_whole = False
        self._map_is_newer = True
        self.patterns = {}
        self._covered = set()


def _changed(grid: ByteGrid, changes: Iterable[tuple[AccessPattern, Change | _Entries]]) -> ByteGrid:
    """``grid`` with one change after the other."""
    at_once: list[tuple[AccessPattern, Change]] = []
    for pattern, change in changes:
        if not isinstance(change, _Entries):
            at_once.append((pattern, change))
            continue
        grid, at_once = change.put(_changed(grid, at_once), pattern), []
    if not at_once:
        return grid
    changed = grid.changed(at_once)
    assert changed is not None, "no limit"
    return changed
