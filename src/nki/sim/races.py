"""Races between the cores of a launch: they touch the same bytes of shared memory, and nothing says who is first.

Only ``nisa.core_barrier`` orders what cores do to a tensor, and only to the one that it names. So what a core does to a
tensor is counted by the barriers about that tensor that it has passed: between the same two barriers, cores may do
anything to bytes of their own, and may read what neither writes. Cores that write the same numbers to the same place,
as kernels do that do not ask for their number, leave these whoever is first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import CoreRaceError
from nki.ir.inst import Inst
from nki.ir.types import Access, Tensor
from nki.sim.report import Log, box_of, named, shown
from nki.sim.shadow import Trace

_FIX: Final = "let the cores meet between the two with nisa.core_barrier(data=…, cores=(0, 1)), on this very tensor"


@dataclass(slots=True)
class _Deeds:
    """What one core did to one tensor between two barriers."""

    reads: Trace
    writes: Trace


class Races:
    """What the cores did to each tensor that they share. They run in turns, so ``log`` has one time for all."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._passed: dict[tuple[int, Tensor], int] = {}
        self._deeds: dict[tuple[int, Tensor, int], _Deeds] = {}

    def met(self, core: int, tensor: Tensor) -> None:
        """``core`` has passed a barrier about ``tensor``."""
        here = self._passed.get((core, tensor), 0)
        self._passed[core, tensor] = here + 1
        if self._passed.get((1 - core, tensor), 0) > here:
            for number in (0, 1):
                self._deeds.pop((number, tensor, here), None)

    def _here(self, core: int, of: int, tensor: Tensor) -> _Deeds | None:
        """What core ``of`` did to ``tensor`` between the same two barriers that ``core`` is between."""
        return self._deeds.get((of, tensor, self._passed.get((core, tensor), 0)))

    def _own(self, core: int, tensor: Tensor) -> _Deeds:
        key = (core, tensor, self._passed.get((core, tensor), 0))
        if key not in self._deeds:
            self._deeds[key] = _Deeds(Trace(tensor), Trace(tensor))
        return self._deeds[key]

    def reads(self, core: int, inst: Inst, access: Access, time: int) -> None:
        """``core`` reads ``access``. Raises :class:`CoreRaceError` for bytes that the other one writes meanwhile."""
        own = self._own(core, access.tensor)
        own.reads.note_read(access, time)
        other = self._here(core, 1 - core, access.tensor)
        if other is None or not other.writes.last:
            return
        theirs = other.writes.at(access)
        race = (theirs > 0) & ~(own.writes.at(access) > 0 if own.writes.last else np.zeros(theirs.shape, np.bool_))
        if race.any():
            raise self._error(core, inst, access, other.writes, race, "is read", "wrote")

    def meets(self, core: int, access: Access) -> bool:
        """Whether the other core has touched some of ``access``: what is there before and after a write then counts."""
        other = self._here(core, 1 - core, access.tensor)
        return other is not None and any(t.last and bool((t.at(access) > 0).any()) for t in (other.writes, other.reads))

    def writes(self, core: int, inst: Inst, access: Access, time: int, changed: NDArray[np.bool_] | None) -> None:
        """``core`` has written ``access``, the ``changed`` bytes of it (in its shape, and bytes) not as they were.

        Raises :class:`CoreRaceError` for changed bytes that the other core reads or writes meanwhile.
        """
        self._own(core, access.tensor).writes.note(access, time)
        other = self._here(core, 1 - core, access.tensor)
        if other is None or changed is None:
            return
        for trace, what in ((other.writes, "wrote"), (other.reads, "read")):
            if trace.last:
                theirs = trace.at(access)
                race = (theirs > 0) & changed.reshape(*theirs.shape, -1).any(axis=-1)
                if race.any():
                    raise self._error(core, inst, access, trace, race, "is written", what)

    def _error(
        self, core: int, inst: Inst, access: Access, trace: Trace, race: NDArray[np.bool_], does: str, did: str
    ) -> Any:
        near = inst.where.span
        time = int(trace.at(access)[race].max())
        where = box_of(access.tensor, trace.bytes_of(access, race))
        return CoreRaceError(
            f"{named(inst, access)} {shown(access.tensor)} {does} on core {core} where core {1 - core} {did} it "
            f"({self._log.said(time, near)}), {where}, and nothing says which comes first",
            fix=_FIX,
        ).at(near, inst.where.stack)
