"""The times that a profile shows: means of instructions by engine, opcode and source line, of the gaps before them,
and of transfers. :func:`observe` asks the same of a capture and of a replay, so the two compare key by key.

A time counts the more, the better it is known: a mean of *n* times is known to :data:`NOISE` of one of them by the
root of *n*, and no better than :data:`FLOOR` of it. Clocks of profiles count whole ns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from nki.base.source import Span
from nki.ir.estimate import Dma
from nki.profiling.engine_rows import TITLES, EngineRows
from nki.profiling.events import Column, CoreEvents
from nki.profiling.parquet_events import transfer_columns
from nki.profiling.summary import times
from nki.sim.timing import Timeline

NOISE: Final = 0.01
"""The scatter of times of one instruction in a profile that no fact explains, as a part of the time."""
FLOOR: Final = 1e-3
"""No mean is known better, however many times it is of."""
TICK: Final = 0.6
"""ns: the rounding of two time stamps to whole ns, and of their difference."""


WHOLE: Final = ("total_time", "device_time")
"""The fields of a summary that are one time and no sum."""


class Key(NamedTuple):
    """The subject of a time: ``what`` (``duration``, ``gap``, ``start`` of data behind its trigger, ``completion``,
    ``busy`` of the device, ``field`` of a summary), engine, opcode and ``place``: ``file:line``, or the bytes of a
    transfer.
    """

    what: str
    engine: str
    opcode: str = ""
    place: str = ""


class Seen(NamedTuple):
    """A mean in ns, of ``number`` times; ``known``: the error that it may have, in ns."""

    mean: float
    number: float
    known: float


Observation = dict[Key, Seen]
"""The times that a profile shows, by what they are of."""


def shortened(key: tuple[str, str, str], level: int) -> tuple[str, str, str]:
    """The first ``level`` parts of a key."""
    engine, opcode, place = key
    return engine, opcode * (level > 1), place * (level > 2)


@dataclass
class Instructions:
    """Instructions of a profile as columns, in any order: ``group`` counts in ``keys`` (engine, opcode, place), times
    are ns, ``weight`` the executions that a row stands for.
    """

    keys: Sequence[tuple[str, str, str]]
    group: Column
    core: Column
    start: Column
    end: Column
    weight: Column

    def regrouped(self, level: int) -> Instructions:
        """The same by the first ``level`` parts of the keys."""
        short = [shortened(key, level) for key in self.keys]
        keys = list(dict.fromkeys(short))
        number = {key: place for place, key in enumerate(keys)}
        to = np.array([number[key] for key in short], np.int64)
        return Instructions(keys, to[self.group], self.core, self.start, self.end, self.weight)

    def only(self, keys: Collection[tuple[str, str, str]]) -> Instructions:
        """The rows with one of ``keys``."""
        at = np.flatnonzero(np.array([key in keys for key in self.keys], bool)[self.group])
        return Instructions(
            self.keys, *(each[at] for each in (self.group, self.core, self.start, self.end, self.weight))
        )

    def busy(self) -> dict[tuple[str, str, str], float]:
        """The times of all instructions of each key, added up; ns."""
        sums = np.bincount(self.group, self.weight * (self.end - self.start), len(self.keys))
        return dict(zip(self.keys, sums.tolist(), strict=True))


@dataclass
class Transfers:
    """DMA transfers as columns: as :class:`Instructions`, with the time of the ``trigger`` and of the ``completion``,
    NaN where it is not known.
    """

    keys: Sequence[tuple[str, str, str]]
    group: Column
    start: Column
    end: Column
    weight: Column
    trigger: Column
    completion: Column


@dataclass
class Events:
    """The events of a profile, and other times of it in ns by name (``fields``)."""

    instructions: Instructions | None = None
    transfers: Transfers | None = None
    fields: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def span(self) -> float:
        """The time from the first instruction to the last one, or to the last data; ns."""
        begins = [each.start.min() for each in (self.instructions, self.transfers) if each and len(each.start)]
        ends = [each.end.max() for each in (self.instructions, self.transfers) if each and len(each.end)]
        return float(max(ends) - min(begins)) if ends else 0.0


def observe(events: Events, level: int = 3, counts: Mapping[str, float] = MappingProxyType({})) -> Observation:
    """The times that ``events`` show, instructions by the first ``level`` parts of their keys; ``counts``: the
    instructions of each engine, and the transfers (``dma``), that the fields of a summary are sums of.
    """
    seen: Observation = {}
    if events.instructions is not None:
        seen |= _of_instructions(events.instructions.regrouped(level))
    if events.transfers is not None:
        seen |= _of_transfers(events.transfers)
    if events.span:
        seen[Key("busy", "device")] = Seen(events.span, 1, FLOOR * events.span + TICK)
    for name, ns in events.fields.items():
        count = max(1.0, counts.get(name.partition("_")[0], 1.0))
        part = FLOOR if name in WHOLE else max(NOISE / count**0.5, FLOOR)
        seen[Key("field", name)] = Seen(ns, count, part * abs(ns) + 1e-3)
    return seen


def _of_instructions(rows: Instructions) -> Observation:
    lengths = rows.end - rows.start
    seen = _means("duration", rows.keys, rows.group, lengths, rows.weight, lengths)
    engines = list(dict.fromkeys(engine for engine, _, _ in rows.keys))
    of_key = np.array([engines.index(engine) for engine, _, _ in rows.keys], np.int64)
    engine = of_key[rows.group]
    order = np.lexsort((rows.end, rows.start, engine, rows.core))
    before, after = order[:-1], order[1:]
    # The row behind iterations that were not replayed begins behind all of them.
    joined = (engine[before] == engine[after]) & (rows.core[before] == rows.core[after])
    joined &= rows.weight[before] == rows.weight[after]
    before, after = before[joined], after[joined]
    gaps = rows.start[after] - rows.end[before]
    seen |= _means("gap", rows.keys, rows.group[after], gaps, rows.weight[after], np.abs(gaps) + lengths[before])
    return seen


def _of_transfers(rows: Transfers) -> Observation:
    lengths = rows.end - rows.start
    seen = _means("duration", rows.keys, rows.group, lengths, rows.weight, lengths)
    for what, delay, more in (
        ("start", rows.start - rows.trigger, 0.0 * lengths),
        ("completion", rows.completion - rows.end, lengths),
    ):
        at = np.flatnonzero(np.isfinite(delay))
        seen |= _means(what, rows.keys, rows.group[at], delay[at], rows.weight[at], (delay + more)[at])
    return seen


def _means(
    what: str, keys: Sequence[tuple[str, str, str]], group: Column, times: Column, weight: Column, scale: Column
) -> Observation:
    """The mean of ``times`` of each group; ``scale``: the times that may be wrong by :data:`NOISE` of them."""
    size = len(keys)
    count = np.bincount(group, weight, size)
    some = np.maximum(count, 1.0)
    means, scales = (np.bincount(group, weight * each, size) / some for each in (times, np.abs(scale)))
    known = (NOISE * scales + TICK) / np.sqrt(some) + FLOOR * np.abs(means)
    rows = zip(keys, means.tolist(), count.tolist(), known.tolist(), strict=True)
    return {Key(what, *key): Seen(mean, n, error) for key, mean, n, error in rows if n}


class Observer:
    """Reads replays of one program; what does not depend on times is worked out once."""

    def __init__(self, timeline: Timeline) -> None:
        self.keys: dict[tuple[str, str, str], int] = {}
        self.transfer_keys: dict[tuple[str, str, str], int] = {}
        self.groups: list[Column] = []
        self.transfer_groups: list[Column] = []
        self.counts: dict[str, float] = {"dma": 0.0}
        for rows in _rows(timeline):
            core = rows.events
            titles = (TITLES[engine] for engine in rows.engines)
            places = (place_of(core.span(number)) for number in range(len(rows.engines)))
            self.groups.append(_numbers(zip(titles, rows.opcodes, places, strict=True), self.keys))
            pairs = zip(core.instructions, core.estimates, strict=True)
            moves = (("DMA", *_transfer(inst, e)) if isinstance(e, Dma) else ("", "", "") for inst, e in pairs)
            self.transfer_groups.append(_numbers(moves, self.transfer_keys))
            for engine, runs in zip(rows.engines, core.runs.tolist(), strict=True):
                self.counts[engine] = self.counts.get(engine, 0.0) + runs
            self.counts["dma"] += float(core.weight[core.is_dma].sum())

    def events(self, timeline: Timeline) -> Events:
        """The events of a replay of the program."""
        parts: list[list[Column]] = []
        moved: list[list[Column]] = []
        for rows, groups, transfers in zip(_rows(timeline), self.groups, self.transfer_groups, strict=True):
            core = rows.events
            rank, weight = np.full(len(core), core.rank, np.int64), core.weight.astype(np.float64)
            parts.append([groups[core.number], rank, core.start, rows.done, weight])
            at = np.flatnonzero(core.is_dma)
            times = (core.data_start[at], core.data_end[at], weight[at], core.start[at], core.end[at])
            moved.append([transfers[core.number[at]], *times])
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        of_transfers = [np.concatenate(column) for column in zip(*moved, strict=True)]
        return Events(Instructions(list(self.keys), *columns), Transfers(list(self.transfer_keys), *of_transfers))

    def fields(self, timeline: Timeline) -> dict[str, float]:
        """The times of a summary, ns by name."""
        device, capture = timeline.ns, timeline.target.capture_ns
        seconds = times(_rows(timeline))
        return {
            "total_time": device + capture,
            "device_time": device,
            **{name: each * 1e9 for name, each in seconds.items()},
        }


def _rows(timeline: Timeline) -> list[EngineRows]:
    """The events of each core, as the profiler counts them."""
    return [EngineRows(CoreEvents.of(core)) for core in timeline.cores]


def _numbers(keys: Any, known: dict[tuple[str, str, str], int]) -> Column:
    """The number of each key in ``known``, which new ones are added to."""
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def _transfer(inst: Any, estimate: Dma) -> tuple[str, str]:
    columns = transfer_columns(inst, estimate)
    return transfer_key(columns["queue_type"], columns["source"], columns["dest"], columns["transfer_bytes"])


def transfer_key(queue_type: str, source: str, dest: str, size: int) -> tuple[str, str]:
    """The opcode and the place of the key of a transfer, from the columns of ``DmaPacketAggregated``."""
    source, dest = ("SBUF" if "SB" in end else "HBM" for end in (source, dest))
    return f"{queue_type} {source} to {dest}", f"{size} bytes"


def place_of(span: Span | None) -> str:
    """The name of a line that two machines have in common: file without folders, and line."""
    return "" if span is None else short_place(f"{span.file}:{span.line}")


def short_place(text: str) -> str:
    """``file:line`` without the folders of the file, which are others on another machine."""
    return text.replace("\\", "/").rpartition("/")[2]
