"""Races between the cores of a launch: they touch the same bytes of shared memory, and nothing says who is first.

Only ``nisa.core_barrier`` orders what cores do to a tensor, and only to the one that it names. So what a core does to a
tensor is counted by the barriers about that tensor that it has passed: between the same two barriers, cores may do
anything to bytes of their own, and may read what neither writes. Cores that in the end leave the same numbers in the
same place, as kernels do that do not ask for their number, leave these whoever is first.
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
from nki.sim.hazards.messages import Log, box_of, named, shown
from nki.sim.hazards.shadow import Trace

_FIX: Final = "let the cores meet between the two with nisa.core_barrier(data=…, cores=(0, 1)), on this very tensor"
Bytes = NDArray[np.uint8]


class _Deeds:
    """What one core did to one tensor between two barriers."""

    def __init__(self, tensor: Tensor) -> None:
        self.reads = Trace(tensor)
        self.writes = Trace(tensor)
        self.left: Bytes = np.zeros(tensor.nbytes, np.uint8)
        """What it wrote last."""
        self.varied = np.zeros(tensor.nbytes, np.bool_)
        """The bytes of which it wrote one thing and then another."""

    def write(self, access: Access, contents: Bytes, time: int) -> None:
        """Note that ``contents`` were written to ``access``."""
        left = byte_window(self.left, access)
        if self.writes.last:
            before = _spread(self.writes.at(access) > 0, access)
            byte_window(self.varied, access)[...] |= before & (left != contents)
        left[...] = contents
        self.writes.note(access, time)


def _spread(chosen: NDArray[np.bool_], access: Access) -> NDArray[np.bool_]:
    """``chosen``, of the places of ``access`` as a trace gives them, for each of its bytes."""
    shape = (*access.shape, access.dtype.itemsize)
    many = chosen.shape[-1] if chosen.ndim > access.ndim else 1
    return np.repeat(chosen.reshape(*access.shape, many), shape[-1] // many, axis=-1)


class Races:
    """What the cores did to each tensor that they share. They run in turns, so ``log`` has one time for all."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._passed: dict[tuple[int, Tensor], int] = {}
        self._deeds: dict[tuple[int, Tensor, int], _Deeds] = {}

    def met(self, core: int, tensor: Tensor) -> None:
        """``core`` has passed a barrier about ``tensor``. Raises where the cores had left different numbers."""
        here = self._passed.get((core, tensor), 0)
        self._passed[core, tensor] = here + 1
        if self._passed.get((1 - core, tensor), 0) > here:
            self._compare(tensor, here)

    def finish(self) -> None:
        """All cores have ended. Raises where they have left different numbers."""
        for tensor, here in dict.fromkeys((tensor, here) for _, tensor, here in self._deeds):
            self._compare(tensor, here)

    def reads(self, core: int, inst: Inst, access: Access, time: int, contents: Callable[[], Bytes]) -> None:
        """``core`` reads ``access``. Raises for bytes that the other one writes meanwhile, and not as they are."""
        own = self._own(core, access.tensor)
        own.reads.note_read(access, time)
        other = self._other(core, access.tensor)
        if other is None or not other.writes.last:
            return
        race = _spread(other.writes.at(access) > 0, access)
        if race.any() and own.writes.last:
            same = _spread(own.writes.at(access) > 0, access) & (byte_window(other.left, access) == contents())
            race = race & ~(same & ~byte_window(other.varied, access))
        if race.any():
            raise self._error(core, inst, access, other.writes, race, "is read", "wrote")

    def writes(self, core: int, inst: Inst, access: Access, time: int, changed: NDArray[np.bool_], now: Bytes) -> None:
        """``core`` has written ``access``, which holds ``now``: the ``changed`` bytes are not as they were.

        Raises for changed bytes that the other core reads meanwhile.
        """
        self._own(core, access.tensor).write(access, now, time)
        other = self._other(core, access.tensor)
        if other is not None and other.reads.last:
            race = _spread(other.reads.at(access) > 0, access) & changed
            if race.any():
                raise self._error(core, inst, access, other.reads, race, "is written", "read")

    def _other(self, core: int, tensor: Tensor) -> _Deeds | None:
        """What the other core did to ``tensor`` between the same two barriers that ``core`` is between."""
        return self._deeds.get((1 - core, tensor, self._passed.get((core, tensor), 0)))

    def _own(self, core: int, tensor: Tensor) -> _Deeds:
        key = (core, tensor, self._passed.get((core, tensor), 0))
        if key not in self._deeds:
            self._deeds[key] = _Deeds(tensor)
        return self._deeds[key]

    def _compare(self, tensor: Tensor, here: int) -> None:
        """The cores have written what they write to ``tensor`` between these two barriers."""
        first, second = (self._deeds.pop((core, tensor, here), None) for core in (0, 1))
        if first is None or second is None or not first.writes.last or not second.writes.last:
            return
        whole = Access.whole(tensor)
        both = _spread(first.writes.at(whole) > 0, whole) & _spread(second.writes.at(whole) > 0, whole)
        other = (both.reshape(-1) & (first.left != second.left)).reshape(-1, tensor.dtype.itemsize).any(axis=-1)
        if not other.any():
            return
        race = np.repeat(other, tensor.dtype.itemsize)  # numbers that differ, and not the bytes in them that do
        chosen = race.reshape(*whole.shape, -1)
        times = [_last(deeds.writes, whole, chosen) for deeds in (first, second)]
        where = self._log.where(times[1])
        said = [self._log.said(time, where.span) for time in times]
        raise CoreRaceError(
            f"{shown(tensor)} is written on core 0 ({said[0]}) and, with other numbers, on core 1 ({said[1]}), "
            f"{box_of(tensor, race)}, and nothing says which comes first",
            fix=_FIX,
        ).at(where.span, where.stack)

    def _error(
        self, core: int, inst: Inst, access: Access, trace: Trace, race: NDArray[np.bool_], does: str, did: str
    ) -> NkiError:
        near = inst.where.span
        chosen = np.zeros(access.tensor.nbytes, np.bool_)
        byte_window(chosen, access)[...] = race.any(
            axis=-1, keepdims=True
        )  # numbers, not the bytes of them that differ
        return CoreRaceError(
            f"{named(inst, access)} {shown(access.tensor)} {does} on core {core} where core {1 - core} {did} it "
            f"({self._log.said(_last(trace, access, race), near)}), {box_of(access.tensor, chosen)}, and nothing says "
            "which comes first",
            fix=_FIX,
        ).at(near, inst.where.stack)


def _last(trace: Trace, access: Access, race: NDArray[np.bool_]) -> int:
    """When one of these bytes was touched last."""
    times: Any = trace.at(access)
    return int(times[race.reshape(*times.shape, -1).any(axis=-1)].max())
