"""The host's time by entry of the dispatch table: each calls a native routine that looks at the clock before and after.

Only launches of an executable that asks for it pay: its tables are replaced by others, in which each entry calls the
timing routine; that calls the routine of the entry. Times are added atomically, since several threads may run one
entry, a chunk of partitions each; the first chunk counts as the call. The entries of loops and of regions contain
others and are left out. A look at the clock takes about 30 ns, which counts for the entry.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki.backend.cpu.kernel_ir.lower import Composite
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime.link import LinkedCore
from nki.ir.instruction import Inst

_WORDS: Final = 3
"""Arguments of a timed entry: its routine, the displacement of its arguments in bytes, and where its times are."""


@dataclass(frozen=True, slots=True)
class EntryTime:
    """Calls of one entry and the nanoseconds that they took; ``inst`` is None for an entry that fills memory."""

    inst: Inst | None
    routine: int
    calls: int
    nanoseconds: int

    @property
    def parts(self) -> tuple[Inst, ...]:
        """The user's instructions that the entry runs: several if they share one loop: nothing divides its time."""
        if self.inst is None:
            return ()
        parts = self.inst.parts if isinstance(self.inst, Composite) else (self.inst,)
        return tuple(part.origin or part for part in parts)


class EntryTimes:
    """The times of all entries of one core, since they were last :meth:`cleared <clear>`."""

    def __init__(self, core: LinkedCore) -> None:
        self._starts = [start for start, _ in core.origins]
        self._statements = [statement for _, statement in core.origins]
        self._entries = core.table.tolist()
        self._containers = {library.address(name) for name in ("for", "while", "region")}
        self._totals = np.zeros((len(core.table), 2), np.int64)
        count = len(core.args)
        args = np.zeros(count + _WORDS * len(core.table), np.int64)
        args[:count] = core.args
        table = np.empty_like(core.table)
        for number, (routine, first) in enumerate(self._entries):
            at = count + _WORDS * number
            args[at : at + _WORDS] = routine, 8 * (first - at), self._totals.ctypes.data + 16 * number
            table[number] = library.address("timed"), at
        core.table, core.args = table, args

    def clear(self) -> None:
        """Begin anew."""
        self._totals[:] = 0

    def entries(self) -> list[EntryTime]:
        """The entries that ran, but for loops."""
        result: list[EntryTime] = []
        for (routine, first), (nanoseconds, calls) in zip(self._entries, self._totals.tolist(), strict=True):
            if calls and routine not in self._containers:
                number = bisect_right(self._starts, first) - 1
                statement = self._statements[number] if number >= 0 else None
                inst = statement if isinstance(statement, Inst) else None
                result.append(EntryTime(inst, routine, calls, nanoseconds))
        return result
