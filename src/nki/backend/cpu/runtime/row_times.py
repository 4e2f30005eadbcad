"""The host's time by row of the table: each row calls a native routine that looks at the clock before and after it.

Only launches of an executable that asks for it pay: its tables are replaced by others, whose rows call the timing
routine; that calls the routine of the row. Times are added atomically, since several threads may run one row, a chunk
of partitions each; the first chunk counts as the call. The rows of loops and of regions contain others and are left
out. A look at the clock takes about 30 ns, which counts for the row.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from llvmlite import ir

from nki.backend.cpu.fusion.chain import Chain
from nki.backend.cpu.fusion.consumed_product import ConsumedProduct
from nki.backend.cpu.runtime import parallel_region, poll
from nki.backend.cpu.runtime.dispatch import I8, I64, ROUTINE, element, for_address, while_address
from nki.backend.cpu.runtime.link import LinkedCore
from nki.ir.instruction import Inst
from nki.numerics.jit import engine

_WORDS: Final = 4
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
        parts = self.inst.parts if isinstance(self.inst, Chain | ConsumedProduct) else (self.inst,)
        return tuple(part.origin or part for part in parts)


class RowTimes:
    """The times of all rows of one core, since they were last :meth:`cleared <clear>`."""

    def __init__(self, core: LinkedCore) -> None:
        self._starts = [start for start, _ in core.origins]
        self._statements = [statement for _, statement in core.origins]
        self._rows = core.table.tolist()
        self._containers = {for_address(), while_address(), parallel_region.address()}
        self._totals = np.zeros((len(core.table), 2), np.int64)
        count = len(core.args)
        args = np.zeros(count + _WORDS * len(core.table), np.int64)
        args[:count] = core.args
        table = np.empty_like(core.table)
        for row, (routine, first) in enumerate(self._rows):
            at = count + _WORDS * row
            args[at : at + _WORDS] = routine, 8 * (first - at), self._totals.ctypes.data + 16 * row, 0
            table[row] = _address(), at
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


@cache
def _address() -> int:
    return engine().fixed("nki_timed", _module)["nki_timed"]


def _module() -> ir.Module:
    module = ir.Module("nki_timed")
    function = ir.Function(module, ROUTINE, "nki_timed")
    frame, args, first, last = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    words = [element(b, args, ir.Constant(I64, n), I64) for n in range(3)]
    routine = b.inttoptr(words[0], ROUTINE.as_pointer())
    own_args = b.gep(args, [words[1]], source_etype=I8)
    before = poll.time(b)
    b.call(routine, [frame, own_args, first, last])
    taken = b.sub(poll.time(b), before)
    is_call = b.zext(b.icmp_signed("==", first, ir.Constant(I64, 0)), I64)  # else a later chunk of one
    for number, amount in enumerate((taken, is_call)):
        place = b.inttoptr(b.add(words[2], ir.Constant(I64, 8 * number)), I64.as_pointer())
        b.atomic_rmw("add", place, amount, "monotonic")
    b.ret_void()
    return module
