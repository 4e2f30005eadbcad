"""Certain races: unordered accesses of the cores of a program to the same bytes, whatever the data are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import NkiError
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.ir.windows import may_overlap
from nki.sim.hazards.core_races import ByteArray, CoreRaces, Race, per_byte
from nki.sim.hazards.messages import ExecutionLog, describe_tensor
from nki.sim.hazards.shadow import AccessTimes


@dataclass(frozen=True)
class _Read:
    """A read of shared memory, and its number among those of its core."""

    access: Access
    time: int
    number: int


class CertainRaces(CoreRaces):
    """Races that are races whatever the numbers are: a core reads what the other one alone writes.

    A core that has written the bytes itself may have written the same numbers.
    """

    def __init__(self, log: ExecutionLog) -> None:
        super().__init__(log)
        self._undecided: set[Tensor] = set()
        """Tensors with writes that may not happen, or at run-time indices."""
        self._of_epoch: dict[tuple[int, Tensor, int], list[_Read]] = {}
        """Reads of each core of each tensor in each epoch."""
        self._moved: dict[tuple[int, Tensor, int], int] = {}
        """Time of the first write of a core to a tensor in an epoch at places that are not known."""
        self._warned: set[Tensor] = set()

    def reads(
        self, core: int, inst: Inst, access: Access, time: int, contents: Callable[[], ByteArray]
    ) -> Sequence[Race]:
        del contents
        tensor, number = access.tensor, self.count_read(core)
        self._of_epoch.setdefault(self._now(core, tensor), []).append(_Read(access, time, number))
        own, other = self.own_history(core, tensor), self.other_history(core, tensor)
        known = self.known.get((core, number), [])
        if other is None or tensor in self._undecided:
            return known
        race = other.written(access) & ~own.written(access)
        if not race.any():
            return known
        return [*known, _race(race, self.error(core, inst, access, other.writes, race, "is read", "wrote"))]

    def writes_somehow(self, core: int, inst: Inst, access: Access, time: int) -> None:
        """``core`` writes ``access``, whatever it writes."""
        tensor = access.tensor
        self.own_history(core, tensor).writes.record(access, time)
        epoch = self.epoch(core, tensor)
        if (moved := self._moved.get((1 - core, tensor, epoch))) is not None:
            self._warn(tensor, 1 - core, moved, time)
        if tensor in self._undecided:
            return
        other = self.other_history(core, tensor)
        for read in self._of_epoch.get((1 - core, tensor, epoch), ()):
            if not may_overlap(read.access, access):
                continue
            race = _shared(access, read.access)
            if other is not None:
                race &= ~other.written(read.access)
            if race.any():
                reads = AccessTimes(tensor)
                reads.record_read(read.access, read.time)
                error = self.error(core, inst, access, reads, _shared(read.access, access), "is written", "read")
                self.late.setdefault((1 - core, read.number), []).append(_race(race, error))

    def writes_somewhere(self, core: int, tensor: Tensor, time: int, *, certain: bool) -> None:
        """``core`` writes ``tensor`` at places that are not known; ``certain``: in every run."""
        self._undecided.add(tensor)
        if not certain:
            return
        key = self._now(core, tensor)
        other = self.other_history(core, tensor)
        theirs = self._moved.get((1 - core, tensor, key[2])) or (other and other.writes.last)
        if theirs:
            self._warn(tensor, core, time, theirs)
        self._moved.setdefault(key, time)

    def compare(self, tensor: Tensor, epoch: int) -> None:
        """Nothing: cores may have written the same numbers."""

    def _now(self, core: int, tensor: Tensor) -> tuple[int, Tensor, int]:
        return core, tensor, self.epoch(core, tensor)

    def _warn(self, tensor: Tensor, core: int, time: int, theirs: int) -> None:
        """Warn of a write at places that are not known, at ``time``, where the other core writes too."""
        span = self._log.where(time).span
        if span is not None and tensor not in self._warned:
            self._warned.add(tensor)
            warn_at(
                span,
                f"{self._log.mnemonic(time)}: {describe_tensor(tensor)} is written on core {core} at places that are "
                f"known only when the kernel runs, and core {1 - core} writes it, too "
                f"({self._log.describe(theirs, span)}), with no barrier between the two: where both write the same "
                "bytes, either may be the last. If they may, let the cores meet with "
                "nisa.core_barrier(data=…, cores=(0, 1)), on this very tensor; nki.simulate tells for one run's data",
            )


def _shared(written: Access, read: Access) -> NDArray[np.bool_]:
    """The bytes of ``read`` that ``written`` has as well, in the shape of ``read`` and one dimension more."""
    times = AccessTimes(read.tensor)
    times.record_read(written, 1)
    return per_byte(times.times_of(read) > 0, read)


def _race(race: NDArray[np.bool_], error: NkiError) -> Race:
    return Race(race, _NO_DATA, error)


_NO_DATA: Final = np.zeros(0, np.uint8)
