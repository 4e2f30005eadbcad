"""Measures of a predicted run: engines, bytes, lines, instructions, transfers, the critical path, memory over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from nki.base.source import Span
from nki.base.terms import Cause
from nki.cost.dma_costs import bandwidth
from nki.ir.estimate import Dma, Matmul
from nki.profiling.events import MEMORIES, CoreEvents
from nki.target.model import Target

LEAST_WORTH = 0.02
"""Least part of the latency that advice is worth."""
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma", "collectives")
MOVING = ("dma", "collectives")


@dataclass(slots=True)
class EngineUse:
    """Use of one engine of one core, in ns. ``busy`` is the time in which it works at all; ``throttled`` the part of it
    that a slower clock costs. ``stalls`` are the times between, by cause; ``idle`` is the rest: the time before its
    first and after its last instruction. Of ``dma``, the DMA engines, ``busy`` is the time with data on the way; of
    ``collectives``, the time in which at least one is under way.
    ``longest`` has the row that ended the longest stall of each cause.
    """

    core: int
    engine: str
    busy: float
    idle: float
    throttled: float
    instructions: int
    stalls: dict[str, float] = field(default_factory=dict[str, float])
    longest: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def stalled(self) -> float:
        return sum(self.stalls.values())

    @property
    def causes(self) -> list[tuple[str, float]]:
        """The stalls, the largest first."""
        return sorted(self.stalls.items(), key=lambda stall: -stall[1])


@dataclass(slots=True)
class Cost:
    """Cost of one source line, or of one kind of instruction.

    ``busy`` sums the times of its executions on their engines (overlaps count twice); ``critical`` is its part of the
    critical path. ns and bytes of HBM traffic.
    """

    busy: float = 0.0
    critical: float = 0.0
    executions: int = 0
    hbm_bytes: int = 0
    engines: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class TransferSize:
    """The DMA transfers of at most ``up_to`` bytes, and of more than the row before it has."""

    up_to: int
    count: int
    bytes: int
    busy: float


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of the critical path: from ``begin`` to ``end`` (ns) it consists of row ``row`` of core ``core``.

    ``ns`` is its part of the path: with the part of the iterations for which the row stands. The time in which such
    iterations pass counts for the one step in front of what follows the loop.
    """

    core: int
    row: int
    begin: float
    end: float
    ns: float


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes per partition in use on one core, as steps: from ``times[i]`` (ns) on, ``used[i]`` bytes."""

    core: int
    memory: str
    times: tuple[float, ...]
    used: tuple[int, ...]

    @property
    def peak(self) -> int:
        return max(self.used, default=0)


def engine_of(queue: str) -> str:
    """The engine of a queue: all rings are ``dma``."""
    return queue.partition(".")[0]


def covered(begins: Any, ends: Any) -> float:
    """Length of the union of intervals."""
    if not len(begins):
        return 0.0
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    fresh = np.maximum(begins[1:], reach[:-1])
    return float(ends[0] - begins[0] + np.maximum(reach[1:] - fresh, 0.0).sum())


def engine_uses(events: CoreEvents, total: float) -> list[EngineUse]:
    """The use of every engine that has instructions; loops that stand for many count by their weights."""
    uses: list[EngineUse] = []
    engines = np.array([ENGINES.index(engine_of(queue)) for queue in events.queues], np.int64)
    of_row = engines[events.queue]
    for index, engine in enumerate(ENGINES):
        rows = np.flatnonzero(of_row == index)
        if not len(rows):
            continue
        count = int(events.weight[rows].sum())
        if engine in MOVING:
            once = covered(events.data_start[rows], events.data_end[rows])
            busy = once + _moving_in_skips(events, rows)
            stalls = _waits_of_rings(events, rows, once)
            idle = max(total - busy - sum(stalls.values()), 0.0)
            uses.append(EngineUse(events.rank, engine, busy, idle, 0.0, count, stalls))
            continue
        gaps, weights = _gaps(events, rows)
        busy = float((weights * events.busy[rows]).sum())
        throttled = float((weights * events.throttled[rows]).sum())
        stalls, longest = _stalls(events, rows, gaps, weights)
        idle = max(total - busy - sum(stalls.values()), 0.0)
        uses.append(EngineUse(events.rank, engine, busy, idle, throttled, count, stalls, longest))
    return uses


def _gaps(events: CoreEvents, rows: Any) -> tuple[Any, Any]:
    """Of each row of one queue: the time since the one before, and how often its times count.

    Iterations that were not replayed pass in the time in which the last one did what it does: as often as that fits.
    So all times, each as often as it counts, are the time from the first row to the last and the iterations behind it.
    """
    before = np.concatenate(([0.0], events.release[rows][:-1]))
    gaps = np.maximum(events.start[rows] - before, 0.0)
    gaps[0] = 0.0  # before the first instruction the engine is idle
    weights = np.ones(len(rows))
    for skip in events.timeline.skips:
        first, last = np.searchsorted(rows, (skip.first, skip.last))
        within = slice(int(first), int(last))
        passed = float((weights[within] * (gaps[within] + events.busy[rows[within]])).sum())
        if passed <= 0.0:
            continue  # the queue waits until the loop is over
        weights[within] *= 1.0 + skip.ns / passed
        if last < len(rows):
            gaps[last] = max(gaps[last] - skip.ns, 0.0)
    return gaps, weights


def _moving_in_skips(events: CoreEvents, rows: Any) -> float:
    """The time in which data moves in iterations that were not replayed: the same part of it as in the last one."""
    more: list[tuple[float, float]] = []
    for skip in events.timeline.skips:
        first, last = np.searchsorted(rows, (skip.first, skip.last))
        within = rows[first:last]
        moving = covered(events.data_start[within], events.data_end[within])
        moving += sum(ns for begin, ns in more if begin >= skip.start)
        more.append((skip.begin, skip.ns * moving / (skip.begin - skip.start)))
    return sum(ns for _, ns in more)


def _stalls(events: CoreEvents, rows: Any, gaps: Any, weights: Any) -> tuple[dict[str, float], dict[str, int]]:
    """Times between the instructions of one queue, by cause; and for other cores, also before the first one.

    Then the row that ended the longest of each cause.
    """
    stalls: dict[str, float] = {}
    most: dict[str, tuple[float, int]] = {}

    def add(name: str, row: int, ns: float, weight: float) -> None:
        stalls[name] = stalls.get(name, 0.0) + ns * weight
        if ns > most.get(name, (0.0, -1))[0]:
            most[name] = ns, row

    meetings = events.meetings
    for row, gap, weight in zip(rows.tolist(), gaps.tolist(), weights.tolist(), strict=True):
        cause, blocker = events.cause_of(row), int(events.blocker[row])
        if (meeting := meetings.get(row)) is not None and meeting.last.time > meeting.time:
            wait = meeting.last.time - meeting.time
            add(Cause.meeting.word, row, wait, weight)
            gap = max(gap - wait, 0.0)
            if cause is Cause.meeting:
                cause, blocker = Cause(meeting.cause), meeting.blocker
        if gap <= 0.0:
            continue
        if cause is Cause.dependence and blocker >= 0:
            name = f"waits for {engine_of(events.queues[int(events.queue[blocker])])}"
        else:
            name = cause.word or Cause.queue.word
        add(name, row, gap, weight)
    return stalls, {name: row for name, (_, row) in most.items()}


def _waits_of_rings(events: CoreEvents, rows: Any, moving: float) -> dict[str, float]:
    """Time in which a DMA ring waits for another core, or for a collective under way, and no data moves, by cause;
    ``moving``: the time in which data does.
    """
    waits = {Cause.meeting.word: [(m.time, m.last.time) for row in rows.tolist() if (m := events.meetings.get(row))]}
    if "collectives" in events.queues:
        blockers = np.where(events.cause[rows] == int(Cause.dependence), events.blocker[rows], -1)
        is_one = (blockers >= 0) & (events.queue[blockers] == events.queues.index("collectives"))
        waits["waits for collectives"] = np.stack((events.start[blockers], events.start[rows]), 1)[is_one].tolist()
    stalls: dict[str, float] = {}
    begins, ends = events.data_start[rows], events.data_end[rows]
    for cause, spans in waits.items():
        if spans:
            begins, ends = (np.concatenate(pair) for pair in zip((begins, ends), np.array(spans).T, strict=True))
            if (stalled := covered(begins, ends) - moving - sum(stalls.values())) > 0:
                stalls[cause] = stalled
    return stalls


def waits_for_others(events: CoreEvents, engine: str) -> float:
    """Time in which a core waits for another one at a meeting while its ``engine`` does nothing."""
    if not events.meetings:
        return 0.0
    waits = np.array([(meeting.time, meeting.last.time) for meeting in events.meetings.values()])
    own = np.array([engine_of(queue) == engine for queue in events.queues], bool)[events.queue]
    times = (events.data_start, events.data_end) if engine in MOVING else (events.start, events.release)
    begins, ends = (each[own] for each in times)
    work = covered(begins, ends)
    return covered(np.concatenate((begins, waits[:, 0])), np.concatenate((ends, waits[:, 1]))) - work


def uneven_work(cores: Sequence[CoreEvents], engine: str) -> float:
    """Time in which an engine works longer on one core than in the mean, summed up over the parts between meetings."""
    meetings = sorted({meeting.last.time for core in cores for meeting in core.meetings.values()})
    busy = np.zeros((len(cores), len(meetings) + 1))
    for core, part in zip(cores, busy, strict=True):
        own = np.array([engine_of(queue) == engine for queue in core.queues], bool)[core.queue]
        np.add.at(part, np.searchsorted(meetings, core.start[own], side="right"), core.busy[own])
    return float((busy.max(axis=0) - busy.mean(axis=0)).sum())


def memory_bytes(cores: Sequence[CoreEvents]) -> dict[str, int]:
    """Bytes read and written by memory, over all cores, such as ``hbm_read`` and ``sbuf_write``."""
    result: dict[str, int] = {}
    for memory in MEMORIES:
        result[f"{memory}_read"] = result[f"{memory}_write"] = 0
    for core in cores:
        for traffic, runs in zip(core.traffic, core.runs.tolist(), strict=True):
            for memory, read, written in zip(MEMORIES, traffic.reads, traffic.writes, strict=True):
                result[f"{memory}_read"] += read * runs
                result[f"{memory}_write"] += written * runs
    return result


def hbm_seconds(cores: Sequence[CoreEvents], target: Target) -> float:
    """Seconds in which the DMA engines of a core can move all bytes to, from and within HBM; those within HBM, which
    are read and written, count once.
    """
    loads = stores = 0
    for core in cores:
        for traffic, runs in zip(core.traffic, core.runs.tolist(), strict=True):
            if traffic.reads[0]:
                loads += max(traffic.reads[0], traffic.writes[0]) * runs
            else:
                stores += traffic.writes[0] * runs
    rates = [bandwidth(target, cores=len(cores), stores=stored) for stored in (False, True)]
    return (loads / rates[0] + stores / rates[1]) * 1e-9


def flops(cores: Sequence[CoreEvents], *, moves: bool) -> int:
    """Operations of the Tensor engine; ``moves``: of transposes."""
    each = [
        (estimate.flops, runs)
        for core in cores
        for estimate, runs in zip(core.estimates, core.runs.tolist(), strict=True)
        if isinstance(estimate, Matmul) and estimate.is_data_movement is moves
    ]
    return sum(count * runs for count, runs in each)


def product_slots(cores: Sequence[CoreEvents]) -> float:
    """Operations of matrix products; modes that do several at once count once."""
    return sum(
        estimate.flops * min(1.0, estimate.tensor_passes) * runs
        for core in cores
        for estimate, runs in zip(core.estimates, core.runs.tolist(), strict=True)
        if isinstance(estimate, Matmul) and estimate.is_matmul
    )


def transfer_sizes(cores: Sequence[CoreEvents]) -> list[TransferSize]:
    """The DMA transfers by size, in powers of four from 1 KiB on."""
    rows: dict[int, list[float]] = {}
    for core in cores:
        busy = np.bincount(core.number, core.weight * core.busy, len(core.estimates)).tolist()
        for number, (estimate, runs) in enumerate(zip(core.estimates, core.runs.tolist(), strict=True)):
            if isinstance(estimate, Dma) and runs:
                up_to = 1024
                while up_to < estimate.bytes:
                    up_to *= 4
                row = rows.setdefault(up_to, [0, 0, 0.0])
                row[0] += runs
                row[1] += estimate.bytes * runs
                row[2] += busy[number]
    return [TransferSize(up_to, int(r[0]), int(r[1]), r[2]) for up_to, r in sorted(rows.items())]


def critical_path(cores: Sequence[CoreEvents]) -> list[Step]:
    """The chain of instructions that ends last, from the first to the last; stretches without a reason are left out.

    From an instruction that waited for another core the chain goes on with that core, which came last.
    """
    steps: list[Step] = []
    ends = {core.rank: np.maximum(core.end, core.data_end) for core in cores}
    latest = {rank: _latest_before(of_core) for rank, of_core in ends.items()}
    events = max(cores, key=lambda core: core.timeline.end)
    if not len(events):
        return steps
    row, until = int(np.argmax(ends[events.rank])), float(ends[events.rank].max())
    until = max(until, events.timeline.end)  # a loop at the end of the kernel
    while True:
        start = min(float(events.start[row]), until)
        steps.append(Step(events.rank, row, start, until, until - start))
        until = start
        cause, blocker = events.cause_of(row), int(events.blocker[row])
        if cause is Cause.meeting:
            last = events.meetings[row].last
            events, row = cores[last.core], last.record
            cause, blocker = Cause(events.meetings[row].cause), events.meetings[row].blocker
        if cause is Cause.block or blocker < 0:
            blocker = int(latest[events.rank][row])
        if blocker < 0 or until <= 0:
            break
        row = blocker
    steps.reverse()
    return _with_iterations(steps, cores)


def _with_iterations(steps: list[Step], cores: Sequence[CoreEvents]) -> list[Step]:
    """``steps``, each with its part of the time that passes in iterations of loops that were not replayed.

    A row that stands for n iterations has n times its own time, in proportion; the sum over all steps stays the same.
    """
    skipped = {core.rank: core.timeline.skips for core in cores}
    if not any(skipped.values()):
        return steps
    own: list[float] = []
    for step in steps:
        gaps = skipped[step.core]
        first = bisect_right(gaps, step.begin, key=lambda gap: gap.end)
        within = 0.0
        for gap in gaps[first:]:
            if gap.begin >= step.end:
                break
            within += min(gap.end, step.end) - max(gap.begin, step.begin)
        own.append(step.end - step.begin - within)
    passed = sum(step.end - step.begin for step in steps) - sum(own)
    more = [ns * (int(cores[step.core].weight[step.row]) - 1) for ns, step in zip(own, steps, strict=True)]
    if passed <= 0.0 or sum(more) <= 0.0:
        return steps
    part = passed / sum(more)
    return [replace(step, ns=ns + part * extra) for step, ns, extra in zip(steps, own, more, strict=True)]


def _latest_before(ends: Any) -> Any:
    """For each row, the row before it that ends last; -1 for the first."""
    if not len(ends):
        return ends
    reach = np.maximum.accumulate(ends)
    is_new = np.concatenate(([True], ends[1:] > reach[:-1]))
    index = np.maximum.accumulate(np.where(is_new, np.arange(len(ends)), 0))
    return np.concatenate(([-1], index[:-1]))


def costs(
    cores: Sequence[CoreEvents], path: Iterable[Step], key: Callable[[CoreEvents, int], Hashable]
) -> dict[Any, Cost]:
    """Costs summed by ``key(events, number)`` of each instruction, the greatest first."""
    result: dict[Any, Cost] = {}
    for core in cores:
        busy = np.bincount(core.number, core.weight * core.busy, len(core.estimates)).tolist()
        for number, (estimate, runs) in enumerate(zip(core.estimates, core.runs.tolist(), strict=True)):
            cost = result.setdefault(key(core, number), Cost())
            engine = engine_of(core.timeline.queues[core.timeline.queue_of[number]])
            cost.busy += busy[number]
            cost.executions += runs
            cost.engines[engine] = cost.engines.get(engine, 0.0) + busy[number]
            if isinstance(estimate, Dma):
                traffic = core.traffic[number]
                cost.hbm_bytes += (traffic.reads[0] + traffic.writes[0]) * runs
    for step in path:
        core = cores[step.core]
        result[key(core, int(core.number[step.row]))].critical += step.ns
    return dict(sorted(result.items(), key=lambda item: (-item[1].critical, -item[1].busy)))


def by_line(events: CoreEvents, number: int) -> Span | None:
    """The line of an instruction, without its columns."""
    span = events.span(number)
    return None if span is None else Span(span.file, span.line)


def by_mnemonic(events: CoreEvents, number: int) -> str:
    """The mnemonic of an instruction."""
    return events.instructions[number].mnemonic


def memory_uses(events: CoreEvents) -> list[MemoryUse]:
    """SBUF and PSUM in use over time: the bytes of a partition at which a tile lies that is in use.

    A tile is in use from the first write to its last use. Tiles may lie at the same bytes at one time: side by side in
    partitions, one in the part of the other that is not used any more, or both in a loop that counts as a whole.
    Such bytes count once. Iterations that were not replayed use the most that the one before them did.
    """
    uses: list[MemoryUse] = []
    tiles = list(events.tiles())
    placement = events.timeline.core.placement
    for memory in ("sbuf", "psum"):
        changes: list[tuple[float, int, int, int]] = []
        for tensor, begin, end in tiles:
            if tensor.buffer.value == memory:
                address = placement.get(tensor) or tensor.address
                assert address is not None, f"'{tensor.name}' has no address"
                first, last = address[1], address[1] + tensor.bytes_per_partition
                changes += [(begin, 1, first, last), (end, -1, first, last)]
        changes.sort()
        area = _CoveredBytes([byte for _, _, *ends in changes for byte in ends])
        times: list[float] = []
        used: list[int] = []
        for time, change, first, last in changes:
            area.change(first, last, change)
            if times and times[-1] == time:
                used[-1] = area.covered
            else:
                times.append(time)
                used.append(area.covered)
        repeat(events, times, used)
        uses.append(MemoryUse(events.rank, memory, tuple(times), tuple(used)))
    return uses


def repeat(events: CoreEvents, times: list[float], used: list[Any]) -> None:
    """Let the most that a replayed iteration uses last while others pass that were not replayed."""
    for skip in events.timeline.skips:
        low = bisect_left(times, skip.start)
        high = bisect_left(times, skip.begin)
        after = bisect_right(times, skip.end)
        most = max(used[max(low - 1, 0) : high], default=0)
        last = used[after - 1] if after else 0
        if most > last:
            times[high:after] = [skip.begin, skip.end]
            used[high:after] = [most, last]


def changed_lines(
    first: Mapping[Span | None, Cost], second: Mapping[Span | None, Cost]
) -> list[tuple[Span | None, float]]:
    """The lines of two runs that take more, or less, of the critical path of the second one: the line and the change in
    ns, the greatest first.
    """
    changes = [(span, second[span].critical - first[span].critical) for span in first if span in second]
    return sorted((each for each in changes if abs(each[1]) > 1e-3), key=lambda each: -abs(each[1]))


class _CoveredBytes:
    """Number of bytes that at least one of the present ranges covers; all ranges end at one of ``ends``."""

    def __init__(self, ends: Iterable[int]) -> None:
        cuts = sorted(set(ends))
        self._index = {cut: i for i, cut in enumerate(cuts)}
        self._sizes = [after - before for before, after in pairwise(cuts)]
        self._ranges = [0] * len(self._sizes)
        """Ranges that cover each piece between two of the ends."""
        self.covered = 0

    def change(self, first: int, last: int, count: int) -> None:
        """Add the range from ``first`` to ``last`` (``count`` 1), or remove it (-1)."""
        ranges, sizes = self._ranges, self._sizes
        for piece in range(self._index[first], self._index[last]):
            before = ranges[piece]
            ranges[piece] = before + count
            if not before:
                self.covered += sizes[piece]
            elif not ranges[piece]:
                self.covered -= sizes[piece]
