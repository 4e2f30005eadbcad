"""The host's time by row of the table: each row calls a native routine that looks at the clock before and after it.

Only launches of an executable that asks for it pay: its tables are replaced by others, whose rows call the timing
routine; that calls the routine of the row. Times are added atomically, since several threads may run one row, a chunk
of partitions each; the first chunk counts as the call. The rows of loops and of regions contain others and are left
out. A look at the clock takes about 30 ns, which counts for the row.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki.backend.cpu.fusion.group import Composite
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime.link import LinkedCore
from nki.ir.instruction import Inst

_WORDS: Final = 3
"""Arguments of a timed row: its routine, the displacement of its arguments in bytes, and where its times are."""


@dataclass(frozen=True, slots=True)
class RowTime:
    """Calls of one row and the nanoseconds that they took; ``inst`` is None for a row that fills memory."""

    inst: Inst | None
    routine: int
    calls: int
    nanoseconds: int

    @property
    def parts(self) -> tuple[Inst, ...]:
        """The user's instructions that the row runs: several if they share one loop, whose time nothing divides."""
        if self.inst is None:
            return ()
        parts = self.inst.parts if isinstance(self.inst, Composite) else (self.inst,)
        return tuple(part.origin or part for part in parts)


class RowTimes:
    """The times of all rows of one core, since they were last :meth:`cleared <clear>`."""

    def __init__(self, core: LinkedCore) -> None:
        self._starts = [start for start, _ in core.origins]
        self._statements = [statement for _, statement in core.origins]
        self._rows = core.table.tolist()
        self._containers = {library.address(name) for name in ("for", "while", "region")}
        self._totals = np.zeros((len(core.table), 2), np.int64)
        count = len(core.args)
        args = np.zeros(count + _WORDS * len(core.table), np.int64)
        args[:count] = core.args
        table = np.empty_like(core.table)
        for row, (routine, first) in enumerate(self._rows):
            at = count + _WORDS * row
            args[at : at + _WORDS] = routine, 8 * (first - at), self._totals.ctypes.data + 16 * row
            table[row] = library.address("timed"), at
        core.table, core.args = table, args

    def clear(self) -> None:
        """Begin anew."""
        self._totals[:] = 0

    def rows(self) -> list[RowTime]:
        """The rows that ran, but for loops."""
        result: list[RowTime] = []
        for (routine, first), (nanoseconds, calls) in zip(self._rows, self._totals.tolist(), strict=True):
            if calls and routine not in self._containers:
                number = bisect_right(self._starts, first) - 1
                statement = self._statements[number] if number >= 0 else None
                result.append(RowTime(statement if isinstance(statement, Inst) else None, routine, calls, nanoseconds))
        return result
