"""The map of a kernel's memories over time: bytes from bottom to top, instructions from left to right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from nki.analysis.liveness import LiveRange, live_ranges, peak_pressure
from nki.base.source import Span
from nki.base.wording import plural
from nki.cli.output.documents import TileMap
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Buffer, TileAddress
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

_ROWS: Final = 24
_SYMBOLS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_REST: Final = "+"
_EMPTY: Final = "·"
_NAME: Final = 8
"""Letters of a name that are always shown."""
_LABEL: Final = 9
"""Columns in front of the map: a number of bytes."""


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Tiles of one memory, or of those ``partitions`` of it, over time. ``lives`` are ordered by their first point;
    ``need`` is the peak pressure, at point ``moment``; ``top`` is the highest byte in use.
    """

    program: Program
    core: CoreProgram
    space: MemorySpace
    partitions: range | None
    lives: list[LiveRange]
    instructions: list[Inst]
    need: int
    moment: int
    top: int

    def place(self, live: LiveRange) -> TileAddress:
        return self.core.placement[live.tensor]

    def line(self, moment: int) -> str:
        """Source line of the instruction of that number, or the number."""
        span = self.instructions[moment].where.span
        return f"#{moment}" if span is None else _short(span)

    def summary(self) -> str:
        """The numbers of this memory, in two lines."""
        space, part = self.space, self.partitions
        core = f", core {self.core.rank}" if self.program.grid > (1,) else ""
        core += f", partitions {part.start} to {part.stop - 1}" if part is not None else ""
        return (
            f"{space.name} of {self.program.target}{core}: {plural(len(self.lives), 'tensor')}, {self.top} of "
            f"{space.usable} bytes per partition\nat most {self.need} bytes in use at one moment, "
            f"at {self.line(self.moment)}"
        )


def _short(span: Span) -> str:
    return f"{Path(span.file).name}:{span.line}"


def maps(kernel: Program, target: Target) -> list[MemoryMap]:
    """A map of each memory that each core of a placed ``kernel`` uses.

    If tiles start at different partitions, the partitions from one start to the next get a map of their own.
    """
    result: list[MemoryMap] = []
    for core in kernel.cores:
        ranges = live_ranges(core, target)
        insts = list(core.numbered)
        for space in memory_spaces(target):
            for part, lives in _parts(core, space, ranges[Buffer[space.name]]):
                need, moment = peak_pressure(lives)
                top = max(core.placement[live.tensor][1] + live.size for live in lives)
                result.append(MemoryMap(kernel, core, space, part, lives, insts, need, moment, top))
    return result


def _parts(
    core: CoreProgram, space: MemorySpace, lives: list[LiveRange]
) -> Iterator[tuple[range | None, list[LiveRange]]]:
    """The partitions from one start of a tile to the next, with their tiles; all if every tile starts at 0."""
    starts = sorted({0, *(core.placement[live.tensor][0] for live in lives)})
    if len(starts) == 1:
        starts = []
    for first, end in pairwise([*starts, space.partitions]):
        here = [
            live
            for live in lives
            if core.placement[live.tensor][0] < end and core.placement[live.tensor][0] + live.tensor.shape[0] > first
        ]
        if here:
            yield range(first, end), here
    if not starts and lives:
        yield None, lives


def drawn(kernel: Program, target: Target, width: int) -> str:
    """The maps as text, at most ``width`` columns: each memory with its tensors."""
    parts = [f"{kernel.name}: {kernel.size} instructions", ""]
    for memory in maps(kernel, target):
        parts += [memory.summary() + "\n", *_grid(memory, width), "", *_legend(memory, width), ""]
    return "\n".join(parts if len(parts) > 2 else [*parts, "no tensor lies in sbuf or psum", ""])


def _symbols(memory: MemoryMap) -> dict[int, str]:
    """A letter for each of the largest tensors, in the order of their beginning, by its number among the lives."""
    weight = [(live.last - live.first + 1) * live.size for live in memory.lives]
    largest = sorted(range(len(weight)), key=lambda i: -weight[i])[: len(_SYMBOLS)]
    return dict(zip(sorted(largest), _SYMBOLS, strict=False))


def _grid(memory: MemoryMap, width: int) -> list[str]:
    count = len(memory.instructions)
    columns = max(1, width - _LABEL - 3)
    if count <= columns:  # as many for each instruction
        columns = columns // count * count
    banks = memory.space.name == "psum"
    step = memory.space.align if banks else max(1, math.ceil(memory.top / _ROWS))
    rows = memory.space.usable // step if banks else math.ceil(memory.top / step)
    most = np.zeros((rows, columns))
    shown = np.full((rows, columns), _EMPTY)
    letters = _symbols(memory)
    for number, live in enumerate(memory.lives):
        offset = memory.place(live)[1]
        high = _shares(offset, offset + live.size, step, rows)
        wide = _shares(live.first, live.last + 1, count / columns, columns)
        cover = np.outer(high, wide)
        wins = cover > most
        most[wins], shown[wins] = cover[wins], letters.get(number, _REST)
    lines = [f"{row * step:>{_LABEL}} |{''.join(shown[row])}|" for row in reversed(range(rows))]
    return [f"{'byte':>{_LABEL}}", *lines, *_axis(memory, columns)]


def _shares(low: float, high: float, step: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Covered part of each of ``count`` cells of ``step``."""
    edges = np.arange(count) * step
    return np.clip(np.minimum(high, edges + step) - np.maximum(low, edges), 0, None) / step


def _axis(memory: MemoryMap, columns: int) -> list[str]:
    """Ticks under the map, with the source lines of the instructions there."""
    count = len(memory.instructions)
    ticks = labels = ""
    for column in range(columns):
        label = memory.line(column * count // columns)
        if len(labels) <= column and column + len(label) <= columns:
            ticks = ticks.ljust(column, "-") + "^"
            labels = labels.ljust(column) + label + " "
    edge = " " * (_LABEL + 1)
    return [f"{edge}+{ticks.ljust(columns, '-')}+", f"{edge} {labels.rstrip()}"]


def described(memory: MemoryMap, live: LiveRange, room: int | None = None) -> str:
    """A tensor in words: type, address and live range; a long name is shortened."""
    tensor, (partition, offset) = live.tensor, memory.place(live)
    where = f"partition {partition}, byte " if partition else ""
    given = "" if tensor.address is None else ", given"
    what = f" {tensor.shape} {tensor.dtype}: {live.size} bytes at {where}{offset}{given}, {memory.line(live.first)} to "
    what += memory.line(live.last)
    left = len(tensor.name) if room is None else max(_NAME, room - len(what))
    return (tensor.name if len(tensor.name) <= left else tensor.name[: left - 1] + "…") + what


def _legend(memory: MemoryMap, width: int) -> list[str]:
    letters = _symbols(memory)
    lines: list[str] = []
    for number, live in enumerate(memory.lives):
        if number not in letters:
            continue
        line = f"  {letters[number]} {described(memory, live, width - 4)}"
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    if len(memory.lives) > len(letters):
        lines.append(f"  {_REST} {len(memory.lives) - len(letters)} others, smaller or in use for a shorter time")
    return lines


def described_map(memory: MemoryMap) -> TileMap:
    """A map as a record."""
    part = memory.partitions
    return {
        "core": memory.core.rank,
        "memory": memory.space.name,
        "partitions": None if part is None else [part.start, part.stop - 1],
        "usable": memory.space.usable,
        "top": memory.top,
        "peak": memory.need,
        "moment": memory.moment,
        "tensors": [
            {
                "name": live.tensor.name,
                "shape": list(live.tensor.shape),
                "dtype": live.tensor.dtype.name,
                "partition": memory.place(live)[0],
                "offset": memory.place(live)[1],
                "bytes": live.size,
                "first": live.first,
                "last": live.last,
            }
            for live in memory.lives
        ],
    }
