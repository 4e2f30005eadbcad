"""Data races between the cores of a launch: unordered accesses to the same bytes of shared memory.

Only ``nisa.core_barrier`` orders accesses of several cores, and only to the tensor that it names. So the accesses of a
core to a tensor belong to an epoch, the number of barriers on that tensor that the core has passed. In one epoch, cores
may do anything to bytes of their own, and may read bytes that neither writes. Cores that write the same values to the
same bytes, as kernels do that do not ask for their rank, do not race: the result is the same in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import CoreRaceError, NkiError
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.sim.hazards.messages import ExecutionLog, describe_tensor, first_box, operand_name
from nki.sim.hazards.shadow import AccessTimes

_FIX: Final = "let the cores meet between the two with nisa.core_barrier(data=…, cores=(0, 1)), on this very tensor"
ByteArray = NDArray[np.uint8]


class _AccessHistory:
    """Accesses of one core to one tensor in one epoch."""

    def __init__(self, tensor: Tensor) -> None:
        self.reads = AccessTimes(tensor)
        self.writes = AccessTimes(tensor)
        self.last_bytes: ByteArray = np.zeros(tensor.nbytes, np.uint8)
        """Contents that the core has written last."""
        self.rewritten = np.zeros(tensor.nbytes, np.bool_)
        """Bytes to which the core has written different values."""

    def write(self, access: Access, contents: ByteArray, time: int) -> None:
        """Record a write of ``contents`` to ``access``."""
        last = byte_window(self.last_bytes, access)
        if self.writes.last:
            before = per_byte(self.writes.times_of(access) > 0, access)
            byte_window(self.rewritten, access)[...] |= before & (last != contents)
        last[...] = contents
        self.writes.record(access, time)


def per_byte(chosen: NDArray[np.bool_], access: Access) -> NDArray[np.bool_]:
    """``chosen``, entries of :meth:`AccessTimes.times_of` ``access``, for each byte of ``access``."""
    shape = (*access.shape, access.dtype.itemsize)
    entries = chosen.shape[-1] if chosen.ndim > access.ndim else 1
    return np.repeat(chosen.reshape(*access.shape, entries), shape[-1] // entries, axis=-1)


class CoreRaces:
    """Accesses of all cores to each shared tensor. Cores run in turns, so ``log`` has one time for all."""

    def __init__(self, log: ExecutionLog) -> None:
        self._log = log
        self._epoch: dict[tuple[int, Tensor], int] = {}
        self._histories: dict[tuple[int, Tensor, int], _AccessHistory] = {}

    def pass_barrier(self, core: int, tensor: Tensor) -> None:
        """``core`` passes a barrier on ``tensor``. Raises if the cores have left different values in the epoch."""
        epoch = self._epoch.get((core, tensor), 0)
        self._epoch[core, tensor] = epoch + 1
        if self._epoch.get((1 - core, tensor), 0) > epoch:
            self.compare(tensor, epoch)

    def finish(self) -> None:
        """All cores have ended. Raises if they have left different values."""
        for tensor, epoch in dict.fromkeys((tensor, epoch) for _, tensor, epoch in self._histories):
            self.compare(tensor, epoch)

    def reads(self, core: int, inst: Inst, access: Access, time: int, contents: Callable[[], ByteArray]) -> None:
        """``core`` reads ``access``. Raises for bytes that the other core changes in the same epoch."""
        own = self.own_history(core, access.tensor)
        own.reads.record_read(access, time)
        other = self.other_history(core, access.tensor)
        if other is None or not other.writes.last:
            return
        race = per_byte(other.writes.times_of(access) > 0, access)
        if race.any() and own.writes.last:
            same = per_byte(own.writes.times_of(access) > 0, access) & (
                byte_window(other.last_bytes, access) == contents()
            )
            race = race & ~(same & ~byte_window(other.rewritten, access))
        if race.any():
            raise self.error(core, inst, access, other.writes, race, "is read", "wrote")

    def writes(
        self, core: int, inst: Inst, access: Access, time: int, changed: NDArray[np.bool_], now: ByteArray
    ) -> None:
        """``core`` has written ``access``, which holds ``now``; ``changed`` are the bytes that differ from before.

        Raises for changed bytes that the other core reads in the same epoch.
        """
        self.own_history(core, access.tensor).write(access, now, time)
        other = self.other_history(core, access.tensor)
        if other is not None and other.reads.last:
            race = per_byte(other.reads.times_of(access) > 0, access) & changed
            if race.any():
                raise self.error(core, inst, access, other.reads, race, "is written", "read")

    def other_history(self, core: int, tensor: Tensor) -> _AccessHistory | None:
        """Accesses of the other core to ``tensor`` in the epoch of ``core``."""
        return self._histories.get((1 - core, tensor, self._epoch.get((core, tensor), 0)))

    def own_history(self, core: int, tensor: Tensor) -> _AccessHistory:
        key = (core, tensor, self._epoch.get((core, tensor), 0))
        if key not in self._histories:
            self._histories[key] = _AccessHistory(tensor)
        return self._histories[key]

    def compare(self, tensor: Tensor, epoch: int) -> None:
        """Raise if the cores have written different values to ``tensor`` in this epoch, which both have ended."""
        first, second = (self._histories.pop((core, tensor, epoch), None) for core in (0, 1))
        if first is None or second is None or not first.writes.last or not second.writes.last:
            return
        whole = Access.whole(tensor)
        both = per_byte(first.writes.times_of(whole) > 0, whole) & per_byte(second.writes.times_of(whole) > 0, whole)
        differing = (
            (both.reshape(-1) & (first.last_bytes != second.last_bytes)).reshape(-1, tensor.dtype.itemsize).any(axis=-1)
        )
        if not differing.any():
            return
        race = np.repeat(differing, tensor.dtype.itemsize)  # whole elements, not only their differing bytes
        chosen = race.reshape(*whole.shape, -1)
        times = [_last_time(history.writes, whole, chosen) for history in (first, second)]
        where = self._log.where(times[1])
        writers = [self._log.describe(time, where.span) for time in times]
        raise CoreRaceError(
            f"{describe_tensor(tensor)} is written on core 0 ({writers[0]}) and, with other numbers, on core 1 "
            f"({writers[1]}), {first_box(tensor, race)}, and nothing says which comes first",
            fix=_FIX,
        ).at(where.span, where.stack)

    def error(
        self, core: int, inst: Inst, access: Access, times: AccessTimes, race: NDArray[np.bool_], does: str, did: str
    ) -> NkiError:
        near = inst.where.span
        chosen = np.zeros(access.tensor.nbytes, np.bool_)
        whole_elements = race.any(axis=-1, keepdims=True)  # not only their differing bytes
        byte_window(chosen, access)[...] = whole_elements
        subject, other = f"{operand_name(inst, access)} {describe_tensor(access.tensor)}", 1 - core
        action = self._log.describe(_last_time(times, access, race), near)
        return CoreRaceError(
            f"{subject} {does} on core {core} where core {other} {did} it ({action}), "
            f"{first_box(access.tensor, chosen)}, and nothing says which comes first",
            fix=_FIX,
        ).at(near, inst.where.stack)


def _last_time(times: AccessTimes, access: Access, race: NDArray[np.bool_]) -> int:
    """The time of the last access to one of these bytes."""
    entries: Any = times.times_of(access)
    return int(entries[race.reshape(*entries.shape, -1).any(axis=-1)].max())
