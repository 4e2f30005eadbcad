"""Data races between the cores of a launch: unordered accesses to the same bytes of shared memory.

Only ``nisa.core_barrier`` orders accesses of several cores, and only to the tensor that it names. So the accesses of a
core to a tensor belong to an epoch, the number of barriers on that tensor that the core has passed. All cores that
share a tensor pass its barriers. In one epoch, cores may do anything to bytes of their own, and may read bytes that no
core writes. Cores that write the same values to the same bytes, as kernels do that do not ask for their rank, do not
race: the result is the same in any order.

A race makes bytes undefined: those that a core has read, and those that two cores have left different. A read is often
found to race only by a write that comes later; then the run is repeated, and knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nki.analysis.byte_grid import ByteGrid
from nki.base.errors import CoreRaceError, NkiError
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.sim.hazards.messages import ExecutionLog, describe_tensor, first_box, operand_name
from nki.sim.hazards.shadow import AccessTimes, Times

ByteArray = NDArray[np.uint8]
T = TypeVar("T", bound=np.generic)


class Race(NamedTuple):
    """Bytes of an access that another order of the cores would change, in its shape and one dimension more."""

    bytes: NDArray[np.bool_]
    other: ByteArray
    """Their contents in that order."""
    error: NkiError


class Write(NamedTuple):
    """A write to ``access``, byte by byte, in its shape and one dimension more."""

    access: Access
    before: ByteArray
    """The contents of memory before."""
    other_before: ByteArray
    """The same in the other order of the cores."""
    now: ByteArray
    unsure: NDArray[np.bool_]
    """Bytes that are undefined now."""
    changes: NDArray[np.bool_]
    """Bytes that do not certainly hold what they held."""


class _AccessHistory:
    """Accesses of one core to one tensor in one epoch."""

    def __init__(self, tensor: Tensor) -> None:
        self.reads = AccessTimes(tensor)
        self.writes = AccessTimes(tensor)
        self.read_log: list[tuple[int, int, Access]] = []
        """Number, time and bytes of each read."""
        self.before: ByteArray = np.zeros(tensor.nbytes, np.uint8)
        """Contents before the first write of the core."""
        self.last_bytes: ByteArray = np.zeros(tensor.nbytes, np.uint8)
        """Contents that the core has written last."""
        self.unsure = np.zeros(tensor.nbytes, np.bool_)
        """Bytes with an undefined last write of the core."""
        self.rewritten = np.zeros(tensor.nbytes, np.bool_)
        """Bytes to which the core has written different values."""
        self.changed = np.zeros(tensor.nbytes, np.bool_)
        """Bytes that the core has changed."""
        self.updates = AccessTimes(tensor)
        """The first changes of elements that the core had read."""
        self.seen: ByteArray = np.zeros(tensor.nbytes, np.uint8)
        """The contents that it had read there."""

    def read(self, access: Access, time: int, number: int) -> None:
        """Record the read with this ``number``."""
        self.reads.record_read(access, time)
        self.read_log.append((number, time, access))

    def written(self, access: Access) -> NDArray[np.bool_]:
        """The bytes of ``access`` that the core has written."""
        return _bytewise(self.writes, access) > 0

    def write(self, write: Write, time: int) -> None:
        """Record a write."""
        access, now = write.access, write.now
        written = self.written(access)
        last, unsure = byte_window(self.last_bytes, access), byte_window(self.unsure, access)
        byte_window(self.rewritten, access)[...] |= written & ((last != now) | unsure | write.unsure)
        np.copyto(byte_window(self.before, access), write.other_before, where=~written)
        last[...], unsure[...] = now, write.unsure
        byte_window(self.changed, access)[...] |= write.changes
        if self.reads.last:
            read, updated = _bytewise(self.reads, access), _bytewise(self.updates, access)
            first = (write.changes & (read > 0) & (updated == 0)).any(axis=-1)
            np.copyto(byte_window(self.seen, access), write.before, where=first[..., None])
            self.updates.record_some(access, first, time)
        self.writes.record(access, time)


def per_byte(chosen: NDArray[T], access: Access) -> NDArray[T]:
    """``chosen``, entries of :meth:`AccessTimes.times_of` ``access``, for each byte of ``access``."""
    shape = (*access.shape, access.dtype.itemsize)
    entries = chosen.shape[-1] if chosen.ndim > access.ndim else 1
    return np.repeat(chosen.reshape(*access.shape, entries), shape[-1] // entries, axis=-1)


class CoreRaces:
    """Accesses of all cores to each shared tensor. Cores run in turns, so ``log`` has one time for all."""

    def __init__(self, log: ExecutionLog) -> None:
        self._log = log
        self._epoch: dict[tuple[int, Tensor], int] = {}
        self._histories: dict[tuple[Tensor, int], dict[int, _AccessHistory]] = {}
        """By tensor and epoch: the accesses of each core."""
        self._reads: Counter[int] = Counter()
        self.late: dict[tuple[int, int], list[Race]] = {}
        """Races of reads with writes that came later, by core and by the number of the read."""
        self.known: Mapping[tuple[int, int], list[Race]] = {}
        """The late races of the same run, the first time."""

    def pass_barrier(self, core: int, tensor: Tensor) -> Iterable[Race]:
        """``core`` passes a barrier on ``tensor``. All have come to it: what they have left different in the epoch."""
        epoch = self._epoch.get((core, tensor), 0)
        self._epoch[core, tensor] = epoch + 1
        return self.compare(tensor, epoch)

    def finish(self) -> Iterator[tuple[Tensor, Race]]:
        """All cores have ended: the tensors in which they have left different values."""
        for tensor, epoch in list(self._histories):
            for race in self.compare(tensor, epoch):
                yield tensor, race

    def reads(
        self, core: int, inst: Inst, access: Access, time: int, contents: Callable[[], ByteArray]
    ) -> Sequence[Race]:
        """``core`` reads ``access``: its races with writes of other cores in the same epoch, where they are known."""
        number = self.count_read(core)
        own = self.own_history(core, access.tensor)
        own.read(access, time, number)
        found = [*self.known.get((core, number), ())]
        for rank, other in self.other_histories(core, access.tensor):
            if not other.writes.last:
                continue
            written, left = own.written(access), byte_window(other.last_bytes, access)
            mine = byte_window(own.last_bytes, access)
            unsure = byte_window(other.unsure, access) & ~byte_window(own.unsure, access)
            apart = byte_window(other.rewritten, access) | (left != mine) | unsure
            race = other.written(access) & np.where(written, apart, byte_window(other.changed, access))
            if race.any():
                alone = np.where(written, mine, byte_window(other.before, access))
                alternative = np.where(contents() == left, alone, left)
                error = self.error((core, rank), inst, access, other.writes, race, "is read", "wrote")
                found.append(Race(race, alternative, error))
        return found

    def count_read(self, core: int) -> int:
        """The number of the next read of shared memory by ``core``."""
        number = self._reads[core]
        self._reads[core] += 1
        return number

    def writes(self, core: int, inst: Inst, write: Write, time: int) -> None:
        """``core`` has written. Reads of other cores in the same epoch race with it if it is not what they found."""
        access = write.access
        own = self.own_history(core, access.tensor)
        changed = byte_window(own.changed, access).copy()
        own.write(write, time)
        for rank, other in self.other_histories(core, access.tensor):
            if not other.reads.last:
                continue
            # The reads before that first change are late already, those after it are races.
            raced = changed & ~other.written(access)
            read, updated = _bytewise(other.reads, access), _bytewise(other.updates, access)
            missed = (byte_window(other.seen, access) != write.now) | write.unsure
            first = np.where(updated > 0, missed, write.changes) & ~raced
            later = (write.changes | byte_window(other.rewritten, access)) & ~raced
            race = ((read > 0) & first) | ((read > updated) & later)
            if race.any():
                error = self.error((core, rank), inst, access, other.reads, race, "is written", "read")
                self._report_late(rank, other, access, (first, later), own.last_bytes, error)

    def _report_late(
        self,
        core: int,
        history: _AccessHistory,
        access: Access,
        raced: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        left: ByteArray,
        error: NkiError,
    ) -> None:
        """Reads of ``core`` race with a write to ``access``; the writer leaves ``left``.

        ``raced``: the bytes that race with reads before the core has changed them itself, and with later ones.
        """
        first, later = (np.zeros(access.tensor.nbytes, np.bool_) for _ in raced)
        byte_window(first, access)[...], byte_window(later, access)[...] = raced
        for number, time, read in history.read_log:
            is_first = _bytewise(history.updates, read) > time
            race = np.where(is_first, byte_window(first, read), byte_window(later, read))
            if race.any():
                self.late.setdefault((core, number), []).append(Race(race, byte_window(left, read), error))

    def other_histories(self, core: int, tensor: Tensor) -> list[tuple[int, _AccessHistory]]:
        """Accesses of each other core to ``tensor`` in the epoch of ``core``."""
        histories = self._histories.get((tensor, self.epoch(core, tensor)), {})
        return [(rank, history) for rank, history in histories.items() if rank != core]

    def epoch(self, core: int, tensor: Tensor) -> int:
        """Number of barriers on ``tensor`` that ``core`` has passed."""
        return self._epoch.get((core, tensor), 0)

    def own_history(self, core: int, tensor: Tensor) -> _AccessHistory:
        histories = self._histories.setdefault((tensor, self.epoch(core, tensor)), {})
        if core not in histories:
            histories[core] = _AccessHistory(tensor)
        return histories[core]

    def compare(self, tensor: Tensor, epoch: int) -> Iterable[Race]:
        """The bytes of ``tensor`` that two cores have left different in this epoch, which all have ended."""
        histories = self._histories.pop((tensor, epoch), {})
        writers = sorted(rank for rank, history in histories.items() if history.writes.last)
        races = (self._compare(tensor, pair, [histories[rank] for rank in pair]) for pair in combinations(writers, 2))
        return [race for race in races if race is not None]

    def _compare(self, tensor: Tensor, cores: tuple[int, int], histories: Sequence[_AccessHistory]) -> Race | None:
        """The bytes of ``tensor`` that these two ``cores`` have left different."""
        whole = Access.whole(tensor)
        first, second = histories
        left = [byte_window(history.last_bytes, whole) for history in histories]
        unsure = [byte_window(history.unsure, whole) for history in histories]
        is_later = per_byte(second.writes.times_of(whole) > first.writes.times_of(whole), whole)
        hidden = np.where(is_later, unsure[0] & ~unsure[1], unsure[1] & ~unsure[0])
        both = first.written(whole) & second.written(whole)
        differing = (both & ((left[0] != left[1]) | hidden)).any(axis=-1)
        if not differing.any():
            return None
        race = np.repeat(differing[..., None], tensor.dtype.itemsize, axis=-1)  # not only their differing bytes
        times = [_last_time(history.writes, whole, race) for history in histories]
        where = self._log.where(times[1])
        writers = [self._log.describe(time, where.span) for time in times]
        where_bytes = first_box(tensor, ByteGrid.of_bytes(tensor, race.reshape(-1)))
        error = CoreRaceError(
            f"{describe_tensor(tensor)} is written on core {cores[0]} ({writers[0]}) and, with other numbers, on core "
            f"{cores[1]} ({writers[1]}), {where_bytes}, and nothing says which comes first",
            fix=_fix(cores),
        ).at(where.span, where.stack)
        return Race(race, np.where(is_later, *left), error)

    def error(
        self,
        cores: tuple[int, int],
        inst: Inst,
        access: Access,
        times: AccessTimes,
        race: NDArray[np.bool_],
        does: str,
        did: str,
    ) -> NkiError:
        """The first of ``cores`` ``does`` something to ``access`` where the second ``did`` something at ``times``."""
        near = inst.where.span
        chosen = np.zeros(access.tensor.nbytes, np.bool_)
        whole_elements = race.any(axis=-1, keepdims=True)  # not only their differing bytes
        byte_window(chosen, access)[...] = whole_elements
        subject = f"{operand_name(inst, access)} {describe_tensor(access.tensor)}"
        action = self._log.describe(_last_time(times, access, race), near)
        return CoreRaceError(
            f"{subject} {does} on core {cores[0]} where core {cores[1]} {did} it ({action}), "
            f"{first_box(access.tensor, ByteGrid.of_bytes(access.tensor, chosen))}, and nothing says which comes first",
            fix=_fix(cores),
        ).at(near, inst.where.stack)


def _fix(cores: tuple[int, int]) -> str:
    return f"let the cores meet between the two with {barrier_of(cores)}, on this very tensor"


def barrier_of(cores: tuple[int, int]) -> str:
    """The call in which two cores meet, for messages."""
    return f"nisa.core_barrier(data=…, cores={tuple(sorted(cores))})"


def _bytewise(times: AccessTimes, access: Access) -> Times:
    """The ``times`` of the bytes of ``access``."""
    if not times.last:
        return np.zeros((*access.shape, access.dtype.itemsize), np.int32)
    return per_byte(times.times_of(access), access)


def _last_time(times: AccessTimes, access: Access, race: NDArray[np.bool_]) -> int:
    """The time of the last access to one of these bytes."""
    entries: Any = times.times_of(access)
    return int(entries[race.reshape(*entries.shape, -1).any(axis=-1)].max())
