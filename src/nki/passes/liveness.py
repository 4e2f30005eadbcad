"""When each tensor on chip is in use, and how much of its memory it takes.

A moment is the number of an instruction in the order of :meth:`Kernel.instructions`. A tensor lives from the first
instruction that touches it to the last, both included: an instruction reads and writes at its own pace, so what it
reads last and what it writes first cannot share a place. What a run-time loop touches and did not make lives over the
whole loop, because every round finds it. What a loop's body makes is new in each round and lives within the body;
unless its first instruction reads it, which then is what the round before left there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, cast

from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.loop import Statement
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
    """A tensor's first and last moment, the bytes that it takes per partition, and what its offset is a multiple of."""

    tensor: Tensor
    first: int
    last: int
    size: int
    align: int


class _Span:
    """First and last moment; whether the first instruction reads."""

    __slots__ = ("first", "last", "reads")

    def __init__(self, first: int, last: int, reads: bool) -> None:
        self.first = first
        self.last = last
        self.reads = reads


_Spans = dict[Tensor, _Span]


class _Walk:
    """A walk through a program. ``widest``: the largest element as which a tensor is seen, if another than its own."""

    def __init__(self) -> None:
        self.moment = 0
        self.widest: dict[Tensor, int] = {}

    def body(self, body: tuple[Statement, ...], inside: bool) -> _Spans:
        """The moments at which ``body`` touches tensors."""
        spans: _Spans = {}
        for statement in body:
            if not isinstance(statement, Inst):
                self._loop(statement, spans)
                continue
            values = statement.__dict__
            for name in statement.operand_names:
                value = values[name]
                if isinstance(value, Access):
                    span = spans.get(value.tensor)
                    if span is not None and value.dynamic is None and value.dtype is value.tensor.dtype:
                        span.last = self.moment
                    else:
                        self._touch(value, statement, spans, inside)
                elif isinstance(value, tuple):
                    for access in cast("tuple[Access, ...]", value):
                        self._touch(access, statement, spans, inside)
            self.moment += 1
        return spans

    def _touch(self, access: Access, inst: Inst, spans: _Spans, inside: bool) -> None:
        tensor = access.tensor
        if access.dtype is not tensor.dtype:
            self.widest[tensor] = max(self.widest.get(tensor, 0), access.dtype.itemsize)
        span = spans.get(tensor)
        if span is not None:
            span.last = self.moment
        else:
            reads = inside and any(read.tensor is tensor for read in inst.reads())
            spans[tensor] = _Span(self.moment, self.moment, reads)
        if access.dynamic is not None:
            self._touch(access.dynamic.source, inst, spans, inside)

    def _loop(self, loop: Any, spans: _Spans) -> None:
        start = self.moment
        inner = self.body(loop.body, True)
        end = self.moment - 1
        own = set(loop.tensors)
        for tensor, span in inner.items():
            if tensor not in own or span.reads:
                span.first, span.last = start, end
            before = spans.get(tensor)
            if before is None:
                spans[tensor] = span
            else:
                before.last = span.last


def lives(kernel: Kernel, target: Target) -> dict[Buffer, list[Life]]:
    """The lives of what is placed in each memory, in the order in which they begin. What nothing touches has none."""
    walk = _Walk()
    spans = walk.body(kernel.body, False)
    result: dict[Buffer, list[Life]] = {}
    for region in regions(target):
        found = [_life(t, s, region, walk.widest) for t, s in spans.items() if t.buffer is region.buffer]
        found.sort(key=lambda life: life.first)
        result[region.buffer] = found
    return result


def _life(tensor: Tensor, span: _Span, region: Region, widest: Mapping[Tensor, int]) -> Life:
    size = tensor.free_size * tensor.dtype.itemsize
    if region.buffer is Buffer.psum:
        return Life(tensor, span.first, span.last, -(-size // region.align) * region.align, region.align)
    return Life(tensor, span.first, span.last, size, max(region.align, tensor.dtype.itemsize, widest.get(tensor, 0)))


def largest_sum(lives: Sequence[Life]) -> tuple[int, int]:
    """The most bytes per partition that live at one moment, and the first such moment: no plan needs less."""
    most = at = now = 0
    changes = sorted([(life.first, life.size) for life in lives] + [(life.last + 1, -life.size) for life in lives])
    for moment, change in changes:  # of one moment, what ends comes first: its change is below 0
        now += change
        if now > most:
            most, at = now, moment
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
