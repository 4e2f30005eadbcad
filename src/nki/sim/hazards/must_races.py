"""Must-analysis of races: unordered accesses of cores to the same bytes that race whatever the data are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import NkiError
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.ir.windows import may_overlap
from nki.sim.hazards.core_races import ByteArray, CoreRaces, Race, barrier_of, per_byte
from nki.sim.hazards.messages import ExecutionLog, describe_tensor
from nki.sim.hazards.shadow import AccessTimes

_Epoch = tuple[Tensor, int]
"""A tensor, and the number of barriers on it before."""


@dataclass(frozen=True)
class _Read:
    """A read of shared memory, and its number among the reads of its core."""

    access: Access
    time: int
    number: int


class MustRaces(CoreRaces):
    """Races that are races whatever the numbers are: a core reads what other cores alone write.

    A core that has written the bytes itself may have written the same numbers.
    """

    def __init__(self, log: ExecutionLog) -> None:
        super().__init__(log)
        self._undecided: set[Tensor] = set()
        """Tensors with writes that may not happen, or at run-time indices."""
        self._of_epoch: dict[_Epoch, dict[int, list[_Read]]] = defaultdict(lambda: defaultdict(list))
        """Reads of each tensor in each epoch, by core."""
        self._moved: dict[_Epoch, dict[int, int]] = defaultdict(dict)
        """Time of the first write to a tensor in an epoch at places that are not known, by core."""
        self._warned: set[Tensor] = set()

    def reads(
        self, core: int, inst: Inst, access: Access, time: int, contents: Callable[[], ByteArray]
    ) -> Sequence[Race]:
        del contents
        tensor, number = access.tensor, self.count_read(core)
        self._of_epoch[self._now(core, tensor)][core].append(_Read(access, time, number))
        own = self.own_history(core, tensor)
        found = [*self.known.get((core, number), ())]
        if tensor in self._undecided:
            return found
        for rank, other in self.other_histories(core, tensor):
            race = other.written(access) & ~own.written(access)
            if race.any():
                found.append(
                    _race(race, self.error((core, rank), inst, access, other.writes, race, "is read", "wrote"))
                )
        return found

    def writes_somehow(self, core: int, inst: Inst, access: Access, time: int) -> None:
        """``core`` writes ``access``, whatever it writes."""
        tensor = access.tensor
        self.own_history(core, tensor).writes.record(access, time)
        epoch = self._now(core, tensor)
        for rank, moved in self._moved[epoch].items():
            if rank != core:
                self._warn(tensor, (rank, core), moved, time)
        if tensor in self._undecided:
            return
        for rank, reads in self._of_epoch[epoch].items():
            for read in reads if rank != core else ():
                if may_overlap(read.access, access):
                    self._compare_with_read((core, rank), inst, access, read)

    def _compare_with_read(self, cores: tuple[int, int], inst: Inst, access: Access, read: _Read) -> None:
        """The first of ``cores`` writes ``access``, the second has read it: bytes that only the first writes race."""
        writer, reader = cores
        race = _shared(access, read.access)
        for rank, history in self.other_histories(writer, access.tensor):
            if rank == reader:
                race &= ~history.written(read.access)
        if race.any():
            reads = AccessTimes(access.tensor)
            reads.record_read(read.access, read.time)
            error = self.error(cores, inst, access, reads, _shared(read.access, access), "is written", "read")
            self.late.setdefault((reader, read.number), []).append(_race(race, error))

    def writes_somewhere(self, core: int, tensor: Tensor, time: int, *, certain: bool) -> None:
        """``core`` writes ``tensor`` at places that are not known; ``certain``: in every run."""
        self._undecided.add(tensor)
        if not certain:
            return
        moved = self._moved[self._now(core, tensor)]
        times = {rank: other.writes.last for rank, other in self.other_histories(core, tensor)} | moved
        for rank, theirs in times.items():
            if rank != core and theirs:
                self._warn(tensor, (core, rank), time, theirs)
        moved.setdefault(core, time)

    def compare(self, tensor: Tensor, epoch: int) -> Iterable[Race]:  # noqa: ARG002  # as for runs with data
        """Nothing: cores may have written the same numbers."""
        return ()

    def _now(self, core: int, tensor: Tensor) -> _Epoch:
        return tensor, self.epoch(core, tensor)

    def _warn(self, tensor: Tensor, cores: tuple[int, int], time: int, theirs: int) -> None:
        """Warn that the first of ``cores`` writes at unknown places, at ``time``, where the second writes as well."""
        span = self._log.where(time).span
        if span is not None and tensor not in self._warned:
            self._warned.add(tensor)
            warn_at(
                span,
                f"{self._log.mnemonic(time)}: {describe_tensor(tensor)} is written on core {cores[0]} at places "
                f"that are known only when the kernel runs, and core {cores[1]} writes it, too "
                f"({self._log.describe(theirs, span)}), with no barrier between the two: where both write the same "
                f"bytes, either may be the last. If they may, let the cores meet with {barrier_of(cores)}, on this "
                "very tensor; nki.simulate tells for one run's data",
            )


def _shared(written: Access, read: Access) -> NDArray[np.bool_]:
    """The bytes of ``read`` that ``written`` has as well, in the shape of ``read`` and one dimension more."""
    times = AccessTimes(read.tensor)
    times.record_read(written, 1)
    return per_byte(times.times_of(read) > 0, read)


def _race(race: NDArray[np.bool_], error: NkiError) -> Race:
    return Race(race, _NO_DATA, error)


_NO_DATA: Final = np.zeros(0, np.uint8)
