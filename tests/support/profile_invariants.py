"""What holds for every profile, whatever the kernel: counted from the program without the profile's own measures."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np

from nki.ir.estimate import Dma
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.types import Access, Buffer
from nki.profiling import draws
from nki.profiling.kernel_profile import Profile
from nki.profiling.trace import trace
from nki.profiling.what_if import DELAYS, RESOURCES
from tests.support.decoded_trace import DecodedTrace

SLACK = 1e-9
"""Relative error of sums of floats."""
ANOMALY = 0.02
"""How much slower a kernel may get with a faster resource: queues are in order, but who comes first to a shared
resource changes (Graham's anomaly).
"""
MEMORY = {Buffer.hbm: "hbm", Buffer.shared_hbm: "hbm", Buffer.sbuf: "sbuf", Buffer.psum: "psum"}


def violations(profile: Profile, *, deep: bool = True, anomaly: float = ANOMALY) -> list[str]:
    """One sentence for each property that ``profile`` does not have; ``deep``: also properties of further
    replays, where a faster resource may slow the kernel by the part ``anomaly``.
    """
    found = [*_times(profile), *_engines(profile), *_bandwidth(profile), *_parts(profile), *_counts(profile)]
    found += _output(profile)
    if deep:
        found += [*_advice(profile), *_trace(profile), *_what_ifs(profile, anomaly)]
    return found


def _times(profile: Profile) -> Iterator[str]:
    least, most = profile.interval
    bound = profile.lower_bound.seconds
    numbers = [profile.latency, profile.device_time, least, most, bound, profile.mfu, profile.mbu, profile.intensity]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        yield f"a number is negative or not finite: {numbers}"
    if not least <= profile.latency <= most:
        yield f"latency {profile.latency} outside {least} to {most}"
    if bound > profile.latency * (1 + SLACK):
        yield f"latency {profile.latency} below its bound {bound} ({profile.lower_bound.resource})"
    if bound < profile.launch_time:
        yield f"bound {bound} below the launch {profile.launch_time}"
    target = profile.target
    capacity = {"sbuf": target.sbuf_partition_bytes, "psum": target.psum_partition_bytes}
    if any(used > capacity[memory] for memory, used in profile.peak_memory.items()):
        yield f"memory in use is {profile.peak_memory} of {capacity}"
    if max(profile.mfu, profile.mbu) > 1 + SLACK:
        yield f"MFU {profile.mfu}, MBU {profile.mbu}"


def _engines(profile: Profile) -> Iterator[str]:
    total = profile.timeline.ns
    for use in profile.engines:
        where = f"{use.core}.{use.engine}"
        sums = use.busy + use.idle + sum(use.stalls.values())
        if abs(sums - total) > SLACK * total + 1e-3:
            yield f"{where}: busy, stalled and idle are {sums} of {total}"
        if min(use.busy, use.idle, use.throttled, *use.stalls.values(), 0) < 0 or use.throttled > use.busy + 1e-6:
            yield f"{where}: {use}"
    for core in profile.cores:
        for row in range(len(core)):
            blocker = int(core.blocker[row])
            if core.release[row] < core.start[row] - 1e-6 or core.end[row] < core.release[row] - 1e-6:
                yield f"row {row} of core {core.rank}: times not in order"
                break
            if blocker >= row:
                yield f"row {row} of core {core.rank} waits for row {blocker}"
                break


def _bandwidth(profile: Profile) -> Iterator[str]:
    """Transfers that begin and end in a span of time take no more of the DMA engines than the span has."""
    for core in profile.timeline.cores:
        estimates = [core.estimates[number] for number in core.numbers]
        transfers = [
            (end, begin, estimate.occupancy)
            for (begin, end), estimate in zip(core.replay.data, estimates, strict=True)
            if isinstance(estimate, Dma) and estimate.occupancy
        ]
        ends, begins, shares = np.array(sorted(transfers)).reshape(-1, 3).T
        for first in np.unique(begins)[:: 1 + len(begins) // 500]:
            inside = begins >= first
            excess = np.cumsum(shares[inside]) - (ends[inside] - first)
            if excess.max() > 1e-3 + SLACK * profile.timeline.ns:
                yield f"transfers of core {core.core.rank} from {first} ns on take {excess.max()} ns too much"
                break


def _parts(profile: Profile) -> Iterator[str]:
    total = profile.timeline.ns
    path = profile.critical_path
    if any(two.begin < one.end - 1e-3 or one.end < one.begin - 1e-3 for one, two in itertools.pairwise(path)):
        yield "steps of the critical path overlap or go back"
    for name, costs in (("lines", profile.lines), ("instructions", profile.by_instruction)):
        critical = sum(cost.critical for cost in costs.values())
        if critical > total * (1 + SLACK) + 1e-3:
            yield f"critical times of {name} are {critical} of {total}"
        if sum(cost.executions for cost in costs.values()) != profile.instructions:
            yield f"executions of {name} do not sum to {profile.instructions}"
    for memory, use in profile.peak_memory.items():
        room = profile.target.sbuf_partition_bytes if memory == "sbuf" else profile.target.psum_partition_bytes
        if use > room:
            yield f"{use} of {room} bytes of {memory} in use"
    for use in profile.memory:
        if any(value < 0 for value in use.used) or (use.used and use.used[-1] != 0):
            yield f"{use.memory} of core {use.core} does not return to nothing"
    if sum(row.count for row in profile.transfers) != sum(e.instructions for e in profile.engines if e.engine == "dma"):
        yield "transfers by size and by queue differ"


def executions(profile: Profile) -> dict[int, Counter[int]]:
    """By core: how often each instruction runs, by its dense number, counted along the body of the program."""
    result: dict[int, Counter[int]] = {}
    for core in profile.program.cores:
        numbers = {id(inst): number for number, inst in enumerate(core.numbered)}
        counts: Counter[int] = Counter()
        entered: Counter[int] = Counter()
        _walk(core.body, 1, counts, numbers, profile.timed.trips, entered)
        result[core.rank] = counts
    return result


def _walk(
    body: Iterable[Any],
    times: int,
    counts: Counter[int],
    numbers: Mapping[int, int],
    trips: Mapping[int, Any],
    entered: Counter[int],
) -> None:
    for statement in body:
        if isinstance(statement, Inst):
            counts[numbers[id(statement)]] += times
            continue
        loop: Loop = statement
        recorded = trips.get(id(loop))
        if recorded is not None:
            first = entered[id(loop)]
            entered[id(loop)] += times
            rounds = sum(recorded[min(turn, len(recorded) - 1)] for turn in range(first, first + times))
        else:
            assert isinstance(loop, For) and isinstance(loop.start, int) and isinstance(loop.stop, int)
            rounds = times * max(0, -((loop.start - loop.stop) // loop.step))
        _walk(loop.body, rounds, counts, numbers, trips, entered)


def traffic(profile: Profile) -> Counter[str]:
    """Bytes by memory and direction, such as ``hbm_read``."""
    total: Counter[str] = Counter()
    runs = executions(profile)
    for core in profile.program.cores:
        for number, inst in enumerate(core.numbered):
            for direction, accesses in (("read", inst.reads()), ("write", inst.writes())):
                for access in accesses:
                    if (memory := MEMORY.get(access.buffer)) is not None:
                        total[f"{memory}_{direction}"] += _size(access) * runs[core.rank][number]
    return total


def _size(access: Access) -> int:
    return math.prod(access.shape) * access.dtype.itemsize


def _counts(profile: Profile) -> Iterator[str]:
    counted = sum(sum(counts.values()) for counts in executions(profile).values())
    if counted != profile.instructions:
        yield f"{profile.instructions} instructions, the program runs {counted}"
    wanted = traffic(profile)
    different = {name: (size, wanted[name]) for name, size in profile.bytes.items() if size != wanted[name]}
    if different:
        yield f"bytes, and the program's: {different}"


def _output(profile: Profile) -> Iterator[str]:
    summary = profile.summary()
    if json.loads(json.dumps(summary, allow_nan=False)) != summary:
        yield "the summary changes on its way through JSON"
    negative = {name: value for name, value in summary.items() if isinstance(value, int | float) and value < 0}
    if negative:
        yield f"negative fields of the summary: {negative}"
    parts = {n: v for n, v in summary.items() if n.endswith("_percent") and isinstance(v, float) and v > 1 + SLACK}
    if parts:
        yield f"fractions above 1: {parts}"
    if not str(profile) or not profile._repr_html_():  # pyright: ignore[reportPrivateUsage]
        yield "no text"
    with mock.patch.object(draws, "MOST", 4):  # both sides are the same in every draw
        backward, forward = profile.compare(profile), str(profile.compare(profile))
    if backward.speedup != 1 or not forward:
        yield "not equal to itself"


def _advice(profile: Profile) -> Iterator[str]:
    for advice in profile.advice:
        if not 0 < advice.seconds <= profile.device_time * (1 + SLACK) and not advice.condition:
            yield f"advice '{advice.title}' is worth {advice.seconds} of {profile.device_time}"


def _trace(profile: Profile) -> Iterator[str]:
    decoded = DecodedTrace(trace(profile))
    yield from decoded.errors
    data = [each for each in decoded.slices if decoded.track_of(each).startswith("DMA queue")]
    moved = sum(each.arguments["bytes"] * each.arguments.get("executions", 1) for each in data)
    if moved != sum(row.bytes for row in profile.transfers):
        yield f"the trace moves {moved} bytes"
    rows = {each.arguments["id"] for each in decoded.slices}
    if rows != set(range(sum(map(len, profile.cores)))):
        yield "the trace does not have every instruction"
    if any(each.end > round(profile.timeline.ns) for each in decoded.slices):
        yield "the trace goes on behind the end"


def _what_ifs(profile: Profile, anomaly: float) -> Iterator[str]:
    total = profile.timeline.ns
    if profile.what_if(dma_bandwidth=1.0).timeline.ns != total:
        yield "a what-if that changes nothing changes the time"
    # A throttled clock breaks the order: slower transfers leave products to be run in one go, and the clock rises.
    profile = profile.what_if(tensor_throttle_fraction=1.0)
    total = profile.timeline.ns
    changes = {**dict.fromkeys(RESOURCES, 2.0), **dict.fromkeys(DELAYS, 0.5)}
    for name, factor in changes.items():
        for value, sign in ((factor, -1), (1 / factor, 1)):
            changed = profile.what_if(**{name: value})
            worse = sign * (total - changed.timeline.ns) / total if total else 0.0
            if worse > anomaly:
                yield f"{name}={value} {'slows' if sign < 0 else 'speeds'} the kernel by {worse:.2%}"
            one, two = profile.compare(changed).speedup, changed.compare(profile).speedup
            if abs(one * two - 1) > 1e-9:
                yield f"{name}: comparisons of two directions disagree"
