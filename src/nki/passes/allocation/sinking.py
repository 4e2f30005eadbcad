"""Sinking: instructions that fill a tile move down to its first use where memory would not suffice otherwise.

A kernel often loads, or clears, more tiles ahead than fit, and reads them one after the other. A load of HBM, and an
instruction without inputs, may run later as long as nobody has read the tile and nobody writes what the load reads;
until then the tile needs no memory. Where tiles in use would exceed the memory, those go down whose first use is
farthest. Nothing is stored, and no instruction is added: unlike a spill (:mod:`nki.passes.allocation.spilling`) this
costs no transfer, but only the time by which a load would be ahead.

Only statements of the core itself move: what a loop on the device accesses is one use. Instructions with an edge of
the user (``name=``, ``after``) stay, and so do tiles with an address.
"""

from __future__ import annotations

import heapq
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nki.analysis.liveness import LiveRange, live_ranges, pressure_in_loops
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions, touched, with_numbers
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Tensor
from nki.passes.allocation.packing import pack
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

_NEVER: Final = sys.maxsize
_SHARES: Final = (1.0, 0.95, 0.9, 0.8)
"""Parts of the memory that live tiles may take, tried in turn: with less than all an arrangement is easier to find."""


@dataclass(slots=True, eq=False)
class _Filled:
    """A tile of ``size`` bytes. The statements ``fills`` write it before its first use, and may wait until ``sink``."""

    size: int
    fills: list[int]
    sink: int


def sunk(core: CoreProgram, target: Target) -> CoreProgram | None:
    """``core`` with fills moved down, so that tiles fit into SBUF and PSUM; None if that is not enough."""
    result = core
    for space in memory_spaces(target):
        ranges = live_ranges(result, target)[Buffer[space.name]]
        if ranges and pack(ranges, space.usable, []) is None:
            fitting = _fitting(result, space, target)
            if fitting is None:
                return None
            result = fitting
    return None if result is core else result


def _fitting(core: CoreProgram, space: MemorySpace, target: Target) -> CoreProgram | None:
    ranges = live_ranges(core, target)[Buffer[space.name]]
    if any(live.tensor.address is not None or live.tensor in core.placement for live in ranges):
        return None
    filled = _filled(core, ranges)
    for share in _SHARES:
        sinks = _sinks(core, ranges, filled, int(space.usable * share))
        if not sinks:
            continue
        moved = core.with_body(_moved(core.body, sinks))
        if pack(live_ranges(moved, target)[Buffer[space.name]], space.usable, []) is not None:
            return moved
    return None


def _filled(core: CoreProgram, ranges: Sequence[LiveRange]) -> dict[Tensor, _Filled]:
    """The tiles of ``ranges`` whose fills can move down, and how far."""
    sizes = {live.tensor: live.size for live in ranges if not live.loop_local}
    fills: dict[Tensor, list[int]] = {}
    first_use: dict[Tensor, int] = {}
    writes: dict[Tensor, list[int]] = defaultdict(list)
    meetings: list[int] = []
    for number, statement in enumerate(core.body):
        tile = _fill(statement)
        if tile not in sizes or tile in first_use:
            tile = None
        if tile is not None:
            fills.setdefault(tile, []).append(number)
        for access in touched(statement):
            if access.tensor is not tile:
                first_use.setdefault(access.tensor, number)
        for inst in instructions([statement]):
            for access in inst.changes():
                writes[access.tensor].append(number)
            if inst.effects.external:
                meetings.append(number)
    result: dict[Tensor, _Filled] = {}
    for tile, numbers in fills.items():
        sink = min(_limit(core.body[number], number, writes, meetings) for number in numbers)
        sink = min(sink, first_use.get(tile, 0))
        if sink > numbers[-1] + 1:
            result[tile] = _Filled(sizes[tile], numbers, sink)
    return result


def _fill(statement: Statement) -> Tensor | None:
    """The tensor that ``statement`` writes without data from any tile; None if it does something else as well."""
    if not isinstance(statement, Inst) or statement.effects.external or statement.label or statement.ordered_after:
        return None
    written = {access.tensor for access in statement.changes()}
    if len(written) != 1 or any(not access.buffer.is_hbm for access in statement.read_operands()):
        return None
    tensor = written.pop()
    indices = statement.indexed_by()
    return None if any(access.tensor is tensor for access in (*statement.orders(), *indices)) else tensor


def _limit(statement: Statement, number: int, writes: Mapping[Tensor, Sequence[int]], meetings: Sequence[int]) -> int:
    """The statement that the fill ``statement`` must not pass: one that changes what it reads.

    A load passes no meeting of cores either: behind that, another core may write what it reads.
    """
    reads = statement.reads()
    of_reads = [writes.get(access.tensor, ()) for access in reads]
    limit = _NEVER
    for numbers in (*of_reads, meetings if reads else ()):
        later = bisect_right(numbers, number)
        if later < len(numbers):
            limit = min(limit, numbers[later])
    return limit


def _sinks(
    core: CoreProgram, ranges: Sequence[LiveRange], filled: Mapping[Tensor, _Filled], capacity: int
) -> list[_Filled]:
    """The tiles that have to wait so that no more than ``capacity`` bytes are live; none if that is not enough."""
    starts = [number for number, _ in with_numbers(core.body)]
    enters, leaves = [0] * len(starts), [0] * len(starts)
    beginning: dict[int, list[_Filled]] = defaultdict(list)
    for live in ranges:
        if live.loop_local:
            continue
        enters[bisect_right(starts, live.first) - 1] += live.size
        leaves[bisect_right(starts, live.last) - 1] += live.size
        if live.tensor in filled:
            beginning[filled[live.tensor].fills[0]].append(filled[live.tensor])
    loops = pressure_in_loops(core, ranges)
    waiting: list[tuple[int, int, _Filled]] = []
    chosen: list[_Filled] = []
    used = 0
    for number in range(len(starts)):
        used += enters[number]
        for tile in beginning[number]:
            heapq.heappush(waiting, (-tile.sink, -number, tile))
        while used + loops.get(number, 0) > capacity:
            if not waiting or -waiting[0][0] <= number:
                return []
            tile = heapq.heappop(waiting)[2]
            used -= tile.size
            enters[tile.sink] += tile.size
            chosen.append(tile)
        used -= leaves[number]
    return chosen


def _moved(body: Sequence[Statement], tiles: Sequence[_Filled]) -> list[Statement]:
    """``body`` with the fills of ``tiles`` where they sink to, in their order."""
    before: dict[int, list[int]] = defaultdict(list)
    for tile in tiles:
        before[tile.sink] += tile.fills
    gone = {number for numbers in before.values() for number in numbers}
    result: list[Statement] = []
    for number, statement in enumerate(body):
        result += [body[fill] for fill in sorted(before.get(number, ()))]
        if number not in gone:
            result.append(statement)
    return result
