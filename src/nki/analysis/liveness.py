"""When each tensor on chip is in use, and how much of its memory it takes.

A moment is the number of an instruction in the order of :meth:`Kernel.instructions`. A tensor lives from the first
instruction that touches it to the last, both included: an instruction reads and writes at its own pace, so what it
reads last and what it writes first cannot share a place. What a run-time loop touches and did not make lives over the
whole loop, because every round finds it. What a loop's body makes is new in each round and lives within the body;
unless a round may read bytes of it that it has not written, which then are what the round before left there. A tile
that the user has placed lives anew from each write to all of it: what it held before is needed up to its last use; then
others may lie there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import cast

from nki.analysis.definite_initialization import exposed
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, instructions, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target

Place = tuple[int, int]
"""First partition, and byte offset in the partition."""


@dataclass(frozen=True, slots=True)
class Region:
    """A memory of one core, as one partition sees it, in bytes.

    ``size`` is what it has, ``usable`` what the runtime leaves of that. Tensors start at a multiple of ``align``
    and take a multiple of it, which in PSUM is a bank (NKI migration guide, Improved allocation API).
    """

    buffer: Buffer
    size: int
    usable: int
    align: int
    partitions: int


def regions(target: Target) -> tuple[Region, Region]:
    """The memories that tensors are placed in."""
    sbuf, psum, count = target.sbuf_partition_bytes, target.psum_partition_bytes, target.partitions
    return (
        Region(Buffer.sbuf, sbuf, target.sbuf_usable_partition_bytes, target.sbuf_align_bytes, count),
        Region(Buffer.psum, psum, psum, target.psum_bank_bytes, count),
    )


@dataclass(slots=True)
class Life:
    """A tensor's first and last moment, the bytes that it takes per partition, and what its offset is a multiple of.

    ``align`` begins as the largest element as which the tensor is seen. ``renewed``: it was made in the body of a loop.
    """

    tensor: Tensor
    first: int
    last: int
    size: int = 0
    align: int = 1
    renewed: bool = False


_Lives = dict[Tensor, Life]


def _touched(body: tuple[Statement, ...], start: int) -> tuple[_Lives, int]:
    """The moments from ``start`` on at which ``body`` touches each tensor; and the moment behind it."""
    found: _Lives = {}
    moment = start
    for statement in body:
        if not isinstance(statement, Inst):
            moment = _loop(statement, found, moment)
            continue
        values = statement.__dict__
        for name in statement.operand_names:
            value = values[name]
            if isinstance(value, Access):
                tensor = value.tensor
                life = found.get(tensor)
                if life is None:
                    life = found[tensor] = Life(tensor, moment, moment)
                else:
                    life.last = moment
                if value.dtype is not tensor.dtype:
                    life.align = max(life.align, value.dtype.itemsize)
                if value.dynamic is not None:
                    _touch(value.dynamic.source, found, moment)
            elif isinstance(value, tuple):
                for access in cast("tuple[Access, ...]", value):
                    _touch(access, found, moment)
        moment += 1
    return found, moment


def _touch(access: Access, found: _Lives, moment: int) -> None:
    life = found.get(access.tensor)
    if life is None:
        life = found[access.tensor] = Life(access.tensor, moment, moment)
    life.last = moment
    life.align = max(life.align, access.dtype.itemsize)
    if access.dynamic is not None:
        _touch(access.dynamic.source, found, moment)


def _loop(loop: Loop, found: _Lives, start: int) -> int:
    """Add what a loop touches; the moment behind it."""
    inner, end = _touched(loop.body, start)
    carried = exposed(loop)
    for tensor in loop.tensors:
        if tensor in inner:
            inner[tensor].renewed = True
    for tensor, life in inner.items():
        if tensor in carried or not life.renewed:
            life.first, life.last = start, end - 1
        before = found.setdefault(tensor, life)
        before.last = life.last
        before.align = max(before.align, life.align)
    return end


def lives(kernel: CoreProgram, target: Target) -> dict[Buffer, list[Life]]:
    """The lives of what is placed in each memory, in the order in which they begin. What nothing touches has none."""
    touched, _ = _touched(kernel.body, 0)
    result: dict[Buffer, list[Life]] = {region.buffer: [] for region in regions(target)}
    placed: _Lives = {}
    for life in touched.values():
        its = result.get(life.tensor.buffer)
        if its is not None and life.tensor.address is None:
            its.append(life)
        elif its is not None:
            placed[life.tensor] = life
    if placed:
        for life in _parts(kernel, placed):
            result[life.tensor.buffer].append(life)
    for region in regions(target):
        its = result[region.buffer]
        for life in its:
            _measure(life, region)
        its.sort(key=_first)
    return result


def _parts(kernel: CoreProgram, placed: _Lives) -> list[Life]:
    """The lives of tiles that the user has placed: each from a write to all of it to the last use before the next."""
    found: dict[Tensor, list[Life]] = {}
    moment = 0
    for statement in kernel.body:
        count = sum(1 for _ in instructions([statement]))
        filled: set[Tensor] = set()
        if isinstance(statement, Inst):
            filled = {a.tensor for a in statement.writes() if _fills(a)} - {a.tensor for a in statement.reads()}
        for tensor in dict.fromkeys(access.tensor for access in touched(statement) if access.tensor in placed):
            its = found.setdefault(tensor, [])
            if not its or tensor in filled:
                its.append(Life(tensor, moment, moment, align=placed[tensor].align))
            its[-1].last = moment + count - 1
        moment += count
    return [life for its in found.values() for life in its]


def _fills(access: Access) -> bool:
    """Whether a write to ``access`` leaves nothing of what its tile held."""
    return access.dynamic is None and access.size == access.tensor.elements and 0 not in access.strides


def _first(life: Life) -> int:
    return life.first


def _measure(life: Life, region: Region) -> None:
    size = life.tensor.free_size * life.tensor.dtype.itemsize
    if region.buffer is Buffer.psum:
        size += -size % region.align
        life.align = region.align
    else:
        life.align = max(life.align, life.tensor.dtype.itemsize, region.align)
    life.size = size


def largest_sum(lives: Sequence[Life]) -> tuple[int, int]:
    """The most bytes per partition that live at one moment, and the first such moment: no plan needs less."""
    most = at = now = 0
    ends = sorted((life.last, life.size) for life in lives)
    gone = 0
    for life in sorted(lives, key=_first):
        while ends[gone][0] < life.first:
            now -= ends[gone][1]
            gone += 1
        now += life.size
        if now > most:
            most, at = now, life.first
    return most, at


def collision(lives: Sequence[Life], places: Mapping[Tensor, Place]) -> tuple[Life, Life] | None:
    """Two lives, in the order of their beginning, whose places overlap while both last; None if there are none.

    Two places that overlap have a partition in common, so also the first partition of one of the two: it is enough to
    look there, where those in use at one moment are disjoint ranges of bytes, in order.
    """
    for lane in sorted({places[life.tensor][0] for life in lives}):
        starts: list[int] = []
        using: list[Life] = []
        ends: list[tuple[int, int]] = []
        for life in lives:
            partition, offset = places[life.tensor]
            if not partition <= lane < partition + life.tensor.shape[0]:
                continue
            while ends and ends[0][0] < life.first:
                gone = bisect_left(starts, heappop(ends)[1])
                del starts[gone], using[gone]
            i = bisect_left(starts, offset)
            if i < len(starts) and starts[i] < offset + life.size:
                return using[i], life
            if i and starts[i - 1] + using[i - 1].size > offset:
                return using[i - 1], life
            starts.insert(i, offset)
            using.insert(i, life)
            heappush(ends, (life.last, offset))
    return None
