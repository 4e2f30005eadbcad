"""What may happen before what, found without the compiler's own means: bytes for dependences, sets for orders.

A program of queues and waits is a partial order: an instruction is complete before another one begins if a chain of
queue neighbours and waits leads from it to that one. Two instructions that no chain connects happen in either order in
some run. So the waits of a kernel suffice if every dependence is in the order, and none is too many if each of them,
left out, takes a dependence out of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nki.ir.instruction import Inst
from nki.ir.loop import Statement, basic_blocks
from nki.ir.program import CoreProgram
from nki.ir.types import Access

Wait = tuple[str, int]
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def straight(body: Sequence[Statement]) -> Iterator[list[Inst]]:
    """The basic_blocks between loops, those in loops too."""
    for region in basic_blocks(body):
        if isinstance(region, list):
            yield region
        else:
            yield from straight(region.body)


def dependences(kernel: CoreProgram, region: Sequence[Inst]) -> list[int]:
    """For each instruction the earlier ones of the region that it depends on, as the bits of a number."""
    touched = [(_windows(kernel, inst.reads()), _windows(kernel, [*inst.writes(), *inst.orders()])) for inst in region]
    masks = _numbered([each for pair in touched for each in pair])
    reads, writes = masks[::2], masks[1::2]
    found: list[int] = []
    for i, inst in enumerate(region):
        mine = 0
        for p, other in enumerate(region[:i]):
            meets = writes[p] & (reads[i] | writes[i]) or writes[i] & reads[p]
            drawn = other.label and other.label in inst.ordered_after
            if meets or drawn or (inst.effects.external and other.effects.external):
                mine |= 1 << p
        found.append(mine)
    return found


_ROW = 1 << 20
"""The bytes from a partition to the next one in a memory of tiles with places."""


@dataclass(frozen=True)
class _Window:
    """Runs of ``run`` bytes from byte ``start`` of a tensor on, at steps of so many bytes: (count, step) each.

    A tile with a place has ``row`` bytes in each partition; ``place`` is the place of the first one.
    """

    start: int
    steps: tuple[tuple[int, int], ...]
    run: int
    row: int
    place: tuple[int, int]

    def block(self) -> int:
        """The largest number of bytes so that this is whole blocks of them."""
        placed = (self.row, self.place[1], _ROW) if self.row else ()
        return math.gcd(self.start, self.run, *(step for _, step in self.steps), *placed)

    def blocks(self, size: int) -> Ints:
        """The numbers of the blocks of ``size`` bytes, some of them more than once."""
        numbers = np.arange(self.start // size, (self.start + self.run) // size)
        for count, step in self.steps:
            numbers = (np.arange(count)[:, None] * (step // size) + numbers).reshape(-1)
        if not self.row:
            return numbers
        rows, columns = np.divmod(numbers, self.row // size)
        return (rows + self.place[0]) * (_ROW // size) + columns + self.place[1] // size


def _windows(kernel: CoreProgram, accesses: Sequence[Access]) -> dict[object, list[_Window]]:
    """What the accesses touch, by memory: tiles with a place are in one, every other tensor is one."""
    found: dict[object, list[_Window]] = defaultdict(list)
    for access in accesses:
        tensor = access.tensor
        if access.dynamic is not None:
            access = Access.whole(tensor)
        size = run = access.dtype.itemsize
        steps: list[tuple[int, int]] = []
        for count, step in reversed([*zip(access.shape, access.strides, strict=True)]):
            if step * size == run and not steps:
                run *= count
            elif count > 1:
                steps.append((count, step * size))
        place = kernel.placement.get(tensor) or tensor.address
        if place is None or not tensor.buffer.on_chip:
            found[tensor].append(_Window(access.offset * size, tuple(steps), run, 0, (0, 0)))
        else:
            row = tensor.free_size * tensor.dtype.itemsize
            found[tensor.buffer].append(_Window(access.offset * size, tuple(steps), run, row, place))
    return found


def _numbered(touched: Sequence[dict[object, list[_Window]]]) -> list[int]:
    """Each set of bytes as the bits of a number. Bytes that the same sets have are one bit."""
    words = np.random.default_rng(0).integers(1, 1 << 62, len(touched))
    masks = [0] * len(touched)
    total = 0
    for memory in dict.fromkeys(memory for sets in touched for memory in sets):
        windows = dict.fromkeys(window for sets in touched for window in sets.get(memory, []))
        size = math.gcd(*(window.block() for window in windows))
        blocks = {window: window.blocks(size) for window in windows}
        known = np.unique(np.concatenate([*blocks.values()]))
        places = {window: np.searchsorted(known, each) for window, each in blocks.items()}
        members = [np.concatenate([places[w] for w in sets[memory]]) if memory in sets else None for sets in touched]
        classes_of = np.zeros(len(known), np.int64)
        for word, mine in zip(words, members, strict=True):
            if mine is not None:
                classes_of[mine] += word  # once for each block, however often it is among them
        kinds, kind = np.unique(classes_of, return_inverse=True)
        for number, mine in enumerate(members):
            if mine is not None:
                masks[number] |= sum(1 << int(k) + total for k in np.unique(kind[mine]))
        total += len(kinds)
    return masks


def before(region: Sequence[Inst], without: tuple[int, Wait] | None = None) -> list[int]:
    """For each instruction those that are complete when it begins; ``without`` leaves out one wait of one of them.

    Waits name what stands earlier in the region, as stage ``sync`` makes them.
    """
    lines: dict[str, list[int]] = defaultdict(list)
    found: list[int] = []
    for i, inst in enumerate(region):
        line = lines[inst.queue]
        sources = [line[-1]] if line else []
        sources += [lines[queue][count - 1] for queue, count in inst.waits if (i, (queue, count)) != without]
        mine = 0
        for p in sources:
            mine |= found[p] | 1 << p
        found.append(mine)
        line.append(i)
    return found


def violated(needs: Sequence[int], order: Sequence[int]) -> list[tuple[int, int]]:
    """The dependences (producer, consumer) that the order does not keep."""
    return [
        (p, i)
        for i, (mine, done) in enumerate(zip(needs, order, strict=True))
        for p in range(i)
        if (mine & ~done) >> p & 1
    ]
