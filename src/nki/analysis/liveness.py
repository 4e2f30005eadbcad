"""Live ranges of tensors: of all of them, and of those on chip with the bytes per partition that each takes.

A program point is the number of an instruction in the order of :meth:`CoreProgram.instructions`. A tensor is live from
the first instruction that accesses it to the last, both included: an instruction reads and writes at its own pace, so
the last operand that it reads and the first that it writes cannot share an address.

A tensor from outside a run-time loop that the loop accesses is live over the whole loop, because every iteration needs
it. A tensor that the loop's body makes is loop-local: it is new in each iteration and live within the body, unless an
iteration may read bytes that it has not written (an upward-exposed read), which the iteration before has left there. A
tile that the user has placed has a live range for each of its webs (:mod:`nki.analysis.webs`); between two of them
other tiles may take its bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, TypeVar, cast

import numpy as np

from nki.analysis.definite_initialization import upward_exposed_reads
from nki.analysis.webs import webs
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, declared, instructions, touched
from nki.ir.program import AnalysisResult, CoreProgram
from nki.ir.types import Access, Buffer, Tensor, TileAddress
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

_T = TypeVar("_T")
Span = tuple[int, int, int]
"""The positions of the first and of the last statement that a tile is for, and its bytes."""


@dataclass(slots=True)
class LiveRange:
    """First and last program point of a tensor, its bytes per partition, and the alignment of its byte offset.

    ``align`` begins as the size of the largest element as which the tensor is accessed. ``loop_local``: the body of a
    loop makes the tensor.
    """

    tensor: Tensor
    first: int
    last: int
    size: int = 0
    align: int = 1
    loop_local: bool = False


_Ranges = dict[Tensor, LiveRange]
_LIVE_RANGES: Final = AnalysisResult[tuple[Target, dict[Buffer, list[LiveRange]]]]("live ranges", of_addresses=False)
"""Live ranges, and the target for which they are."""


def tensor_ranges(core: CoreProgram, retained: Collection[Tensor] = ()) -> Mapping[Tensor, LiveRange]:
    """The live range of every tensor that ``core`` accesses, whatever its memory; placed tiles have one each.

    A tensor in ``retained`` keeps its bytes over a whole loop that accesses it, even if it is loop-local.
    """
    ranges, _ = _body_ranges(core.body, 0, retained)
    return ranges


def _body_ranges(body: tuple[Statement, ...], start: int, retained: Collection[Tensor] = ()) -> tuple[_Ranges, int]:
    """Live ranges of the tensors that ``body``, which begins at point ``start``, accesses; and the point after it."""
    ranges: _Ranges = {}
    point = start
    for statement in body:
        if not isinstance(statement, Inst):
            point = _extend_over_loop(statement, ranges, point, retained)
            continue
        values = statement.__dict__
        for name in statement.operand_names:
            value = values[name]
            if isinstance(value, Access):
                tensor = value.tensor
                live = ranges.get(tensor)
                if live is None:
                    live = ranges[tensor] = LiveRange(tensor, point, point)
                else:
                    live.last = point
                if value.dtype is not tensor.dtype:
                    live.align = max(live.align, value.dtype.itemsize)
                if value.dynamic is not None:
                    _extend(value.dynamic.source, ranges, point)
            elif isinstance(value, tuple):
                for access in cast("tuple[Access, ...]", value):
                    _extend(access, ranges, point)
        point += 1
    return ranges, point


def _extend(access: Access, ranges: _Ranges, point: int) -> None:
    """Extend the live range of the tensor of ``access`` to ``point``."""
    live = ranges.get(access.tensor)
    if live is None:
        live = ranges[access.tensor] = LiveRange(access.tensor, point, point)
    live.last = point
    live.align = max(live.align, access.dtype.itemsize)
    if access.dynamic is not None:
        _extend(access.dynamic.source, ranges, point)


def _extend_over_loop(loop: Loop, ranges: _Ranges, start: int, retained: Collection[Tensor]) -> int:
    """Add the live ranges of a loop's body to ``ranges``; the point after the loop."""
    inner, end = _body_ranges(loop.body, start, retained)
    carried = upward_exposed_reads(loop)
    for tensor in loop.tensors:
        if tensor in inner:
            inner[tensor].loop_local = True
    for tensor, live in inner.items():
        if tensor in carried or tensor in retained or not live.loop_local:
            live.first, live.last = start, end - 1
        outer = ranges.setdefault(tensor, live)
        outer.last = live.last
        outer.align = max(outer.align, live.align)
    for register in (loop.register, *loop.reads()):
        _extend(register, ranges, start)
        _extend(register, ranges, max(start, end - 1))
    return end


def live_ranges(core: CoreProgram, target: Target) -> dict[Buffer, list[LiveRange]]:
    """The live ranges in SBUF and in PSUM, in the order of their first points.

    A tensor that no instruction accesses has no live range. A tile that the user has placed may have several.
    The result is kept with ``core`` and its copies with other addresses, and is not to be changed.
    """
    result = core.result(_LIVE_RANGES)
    if result is None or result[0] is not target:
        result = core.keep(_LIVE_RANGES, (target, _live_ranges(core, target)))
    return result[1]


def _live_ranges(core: CoreProgram, target: Target) -> dict[Buffer, list[LiveRange]]:
    ranges, _ = _body_ranges(core.body, 0)
    result: dict[Buffer, list[LiveRange]] = {Buffer[space.name]: [] for space in memory_spaces(target)}
    placed: _Ranges = {}
    for live in ranges.values():
        in_space = result.get(live.tensor.buffer)
        if in_space is None:
            continue
        if live.tensor.address is None:
            in_space.append(live)
        else:
            placed[live.tensor] = live
    if placed:
        for live in _ranges_of_webs(core, placed):
            result[live.tensor.buffer].append(live)
    for space in memory_spaces(target):
        in_space = result[Buffer[space.name]]
        _set_sizes(in_space, space)
        in_space.sort(key=attrgetter("first"))
    return result


def _ranges_of_webs(core: CoreProgram, placed: _Ranges) -> list[LiveRange]:
    """Live ranges of placed tiles: one for each web, outside of loops."""
    begins = webs(core.body, placed.keys()).begins
    ranges: dict[Tensor, list[LiveRange]] = {}
    point = 0
    for number, statement in enumerate(core.body):
        count = 1 if isinstance(statement, Inst) else sum(1 for _ in instructions(statement.body))
        for tensor in dict.fromkeys(access.tensor for access in touched(statement) if access.tensor in placed):
            of_tensor = ranges.setdefault(tensor, [])
            if not of_tensor or tensor in begins.get(number, ()):
                of_tensor.append(LiveRange(tensor, point, point, align=placed[tensor].align))
            of_tensor[-1].last = point + count - 1
        point += count
    return [live for of_tensor in ranges.values() for live in of_tensor]


def _set_sizes(ranges: Iterable[LiveRange], space: MemorySpace) -> None:
    """Set size and alignment of the live ranges in one memory."""
    align, in_banks = space.align, space.name == "psum"
    for live in ranges:
        tensor = live.tensor
        size = tensor.bytes_per_partition
        if in_banks:
            size += -size % align
            live.align = align
        else:
            least = tensor.dtype.itemsize
            least = align if align > least else least
            if live.align < least:
                live.align = least
        live.size = size


def peak_pressure(ranges: Sequence[LiveRange]) -> tuple[int, int]:
    """The most bytes per partition that are live at one program point, and the first such point.

    No allocation needs fewer bytes.
    """
    peak = peak_point = live_bytes = 0
    ends = sorted((live.last, live.size) for live in ranges)
    ended = 0
    for live in sorted(ranges, key=attrgetter("first")):
        while ends[ended][0] < live.first:
            live_bytes -= ends[ended][1]
            ended += 1
        live_bytes += live.size
        if live_bytes > peak:
            peak, peak_point = live_bytes, live.first
    return peak, peak_point


def pressure_in_loops(body: Iterable[Statement], ranges: Iterable[LiveRange]) -> dict[int, int]:
    """By the number of each loop among the statements of ``body``: the most bytes that its own tiles take at once."""
    local = [live for live in ranges if live.loop_local]
    result: dict[int, int] = {}
    for number, statement in enumerate(body if local else ()):
        if not isinstance(statement, Inst):
            own = {*statement.tensors, *declared(statement.body)}
            inside = [live for live in local if live.tensor in own]
            result[number] = peak_pressure(inside)[0] if inside else 0
    return result


def interference(
    ranges: Sequence[LiveRange], addresses: Mapping[Tensor, TileAddress]
) -> tuple[LiveRange, LiveRange] | None:
    """Two live ranges that overlap in time and in bytes, the earlier one first; None if no two do.

    ``ranges`` are in the order of their first points. Two tiles that overlap share a partition, so also the first
    partition of one of the two: it is enough to look at first partitions, where the live tiles of one point are
    disjoint ranges of bytes, kept in order.
    """
    for partition in sorted({addresses[live.tensor][0] for live in ranges}):
        starts: list[int] = []
        active: list[LiveRange] = []
        ends: list[tuple[int, int]] = []
        for live in ranges:
            first_partition, offset = addresses[live.tensor]
            if not first_partition <= partition < first_partition + live.tensor.shape[0]:
                continue
            while ends and ends[0][0] < live.first:
                expired = bisect_left(starts, heappop(ends)[1])
                del starts[expired], active[expired]
            i = bisect_left(starts, offset)
            if i < len(starts) and starts[i] < offset + live.size:
                return active[i], live
            if i and starts[i - 1] + active[i - 1].size > offset:
                return active[i - 1], live
            starts.insert(i, offset)
            active.insert(i, live)
            heappush(ends, (live.last, offset))
    return None


def shortest_that_fit(tiles: Iterable[tuple[Span, _T]], statements: int, most: int) -> list[tuple[Span, _T]]:
    """As many tiles, from the shortest span on, as never take more than ``most`` bytes together."""
    shortest = sorted(tiles, key=lambda tile: tile[0][1] - tile[0][0])
    begins, lasts, sizes = np.array([span for span, _ in shortest], np.int64).reshape(-1, 3).T
    low, high = 0, len(shortest)
    while low < high:
        middle = (low + high + 1) // 2
        changes = np.zeros(statements + 1, np.int64)
        np.add.at(changes, begins[:middle], sizes[:middle])
        np.subtract.at(changes, lasts[:middle] + 1, sizes[:middle])
        low, high = (middle, high) if changes.cumsum().max() <= most else (low, middle - 1)
    return shortest[:low]
