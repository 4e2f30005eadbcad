"""The events of a profile for the script of the report: a description in JSON, and columns of numbers in base64.

The columns are written one after the other as variable-length integers (7 bits in each byte, the lowest first), signed
ones in zigzag, times in ticks of :data:`TICK` ns, as differences where that is shorter. The bytes are compressed by
zlib. ``assets/decode.js`` reads them in the same order.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.terms import Cause
from nki.ir.estimate import Compute, Dma, Matmul
from nki.ir.types import Access
from nki.profiling.events import CoreEvents
from nki.profiling.html.source_listing import Listing
from nki.profiling.metrics import MemoryUse, Step
from nki.profiling.predicted_run import PredictedRun

TICK = 0.1
"""Resolution of the times in the report, ns: less than a cycle of any engine."""
MEMORY_POINTS = 4000
"""Most points of a curve of memory in use."""

Integers = NDArray[np.int64]


class Names:
    """Texts by number, each of them once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._accesses: dict[tuple[Any, ...], int] = {}

    def access(self, access: Access) -> int:
        """The number of the text of an operand."""
        key = (access.tensor, access.shape, access.dtype)
        number = self._accesses.get(key)
        if number is None:
            number = self._accesses[key] = self(_label(access))
        return number

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def __iter__(self) -> Any:
        return iter(self.numbers)


def encoded(profile: PredictedRun, listing: Listing) -> tuple[str, str]:
    """The description, as JSON that may stand in a script element, and the columns in base64."""
    mnemonics, operands, sources = Names(), Names(), Names()
    stream: list[bytes] = []
    cores = [_core(profile, core, listing, mnemonics, operands, sources, stream) for core in profile.cores]
    path = profile.critical_path
    indices = {core.rank: index for index, core in enumerate(profile.cores)}
    _write_path(path, indices, stream)
    description: dict[str, Any] = {
        "name": profile.name,
        "target": str(profile.target),
        "tick": TICK,
        "end": _tick(profile.timeline.ns),
        "cores": cores,
        "path": {"steps": len(path)},
        "mnemonics": list(mnemonics),
        "operands": list(operands),
        "sources": list(sources),
        "reasons": [Cause(number).reason for number in range(len(Cause))],
        "lines": [{"label": place.label, "code": place.code} for place in listing.places],
    }
    text = json.dumps(description, separators=(",", ":"), ensure_ascii=True)
    # A script element ends at "</script" and turns odd at "<!--", whatever the JSON means.
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text, base64.b64encode(zlib.compress(b"".join(stream), 9)).decode("ascii")


def _core(
    profile: PredictedRun,
    core: CoreEvents,
    listing: Listing,
    mnemonics: Names,
    operands: Names,
    sources: Names,
    stream: list[bytes],
) -> dict[str, Any]:
    estimates, of_instruction = _estimates(core, sources)
    _write_rows(core, stream)
    count = _write_instructions(core, listing, mnemonics, operands, of_instruction, stream)
    skipped = [(skip.begin, skip.end, skip.iterations) for skip in core.timeline.skips]
    tables, slow = core.timeline.replay.resources.tables.loads, throttled(core, skipped)
    _write_stretches(tables, stream)
    _write_stretches(slow, stream)
    return {
        "rank": core.rank,
        "rows": len(core),
        "instructions": len(core.instructions),
        "operands": count,
        "queues": core.queues,
        "estimates": estimates,
        "tables": len(tables),
        "slow": len(slow),
        "meetings": _meetings(core, profile),
        "skips": [[_tick(begin), _tick(end), times] for begin, end, times in skipped],
        "memory": [_curve(use, profile) for use in profile.memory if use.core == core.rank],
    }


def _meetings(core: CoreEvents, profile: PredictedRun) -> list[tuple[int, int, int]]:
    """The rows that waited for another core, each with the index and the row of the core that came last."""
    indices = {other.rank: index for index, other in enumerate(profile.cores)}
    return [(row, indices[meeting.last.core], meeting.last.record) for row, meeting in core.waiting_meetings()]


def _write_rows(core: CoreEvents, stream: list[bytes]) -> None:
    start, release, end = _rounded(core.start), _rounded(core.release), _rounded(core.end)
    first, last = _rounded(core.data_start), _rounded(core.data_end)
    rows = np.arange(len(core), dtype=np.int64)
    stream += [
        varints(zigzag(differences(core.number))),
        varints(zigzag(differences(start))),
        varints(release - start),
        varints(zigzag(end - release)),
        varints(np.where(core.is_dma, np.maximum(first - start, 0) + 1, 0)),  # 0: no data
        varints(np.maximum(last - first, 0)),
        varints(core.cause),
        varints(np.where(core.blocker >= 0, rows - core.blocker, 0)),
        varints(core.weight - 1),
        varints(_rounded(core.throttled)),
    ]


def _write_instructions(
    core: CoreEvents,
    listing: Listing,
    mnemonics: Names,
    operands: Names,
    of_instruction: list[int],
    stream: list[bytes],
) -> int:
    """Write the columns of the instructions by dense number; the number of operands in the last one."""
    kinds: list[int] = []
    lines: list[int] = []
    written: list[int] = []
    read: list[int] = []
    flat: list[int] = []
    for inst in core.instructions:
        kinds.append(mnemonics(inst.mnemonic))
        lines.append(listing.number(inst.where.span) + 1)
        writes, reads = inst.writes(), inst.reads()
        written.append(len(writes))
        read.append(len(reads))
        flat += [operands.access(access) for access in writes]
        flat += [operands.access(access) for access in reads]
    columns: list[Sequence[int]] = [core.timeline.queue_of, kinds, lines, of_instruction, written, read, flat]
    stream += [varints(np.array(column, np.int64)) for column in columns]
    return len(flat)


def _label(access: Access) -> str:
    memory = "hbm" if access.buffer.is_hbm else access.buffer.value
    return f"{access.name} {access.shape} {access.dtype} {memory}".replace(",)", ")")


def _estimates(core: CoreEvents, sources: Names) -> tuple[list[list[Any]], list[int]]:
    """The distinct estimates, and the number of the one that each instruction has.

    Each is bytes, operations, time on its resource, kind, source and activation table.
    """
    numbers: dict[int, int] = {}
    table: list[list[Any]] = []
    of_instruction: list[int] = []
    for each in core.estimates:
        number = numbers.setdefault(id(each), len(numbers))
        if number == len(table):
            moved = each.bytes if isinstance(each, Dma) else 0
            flops = each.flops if isinstance(each, Matmul) else 0
            needs = each.table if isinstance(each, Compute) else ""
            table.append([moved, flops, round(each.occupancy, 1), each.kind, sources(each.source), needs])
        of_instruction.append(number)
    return table, of_instruction


def throttled(core: CoreEvents, skipped: Sequence[tuple[float, float, int]]) -> list[tuple[float, float]]:
    """The times, in ns, in which the clock of the Tensor engine is throttled, up to its last instruction.

    A window in which iterations were left out is as much longer.
    """
    clock = core.timeline.replay.resources.array.clock
    if clock is None:
        return []
    result: list[tuple[float, float]] = []
    gaps = list(skipped)
    begin = 0.0
    for rate in clock.windows:
        end = begin + clock.length
        while gaps and gaps[0][0] < end:
            end += gaps[0][1] - gaps[0][0]
            gaps.pop(0)
        if rate < 1.0:
            if result and result[-1][1] == begin:
                result[-1] = (result[-1][0], end)
            else:
                result.append((begin, end))
        begin = end
    return result


def _write_stretches(stretches: Sequence[tuple[float, float]], stream: list[bytes]) -> None:
    times = _rounded(np.array(stretches, np.float64).reshape(-1, 2))
    stream += [varints(zigzag(differences(times[:, 0]))), varints(times[:, 1] - times[:, 0])]


def _write_path(path: Sequence[Step], indices: Mapping[int, int], stream: list[bytes]) -> None:
    cores = np.array([indices[step.core] for step in path], np.int64)
    begins = _rounded(np.array([step.begin for step in path]))
    ends = _rounded(np.array([step.end for step in path]))
    rows = np.array([step.row for step in path], np.int64)
    stream += [varints(cores), varints(zigzag(differences(rows)))]
    stream += [varints(zigzag(differences(begins))), varints(ends - begins)]


def _curve(use: MemoryUse, profile: PredictedRun) -> dict[str, Any]:
    times, used = thinned(use)
    return {
        "name": use.memory,
        "peak": use.peak,
        "capacity": profile.available_memory[use.memory],
        "times": _rounded(np.array(times)).tolist(),
        "used": used,
    }


def thinned(use: MemoryUse, most: int = MEMORY_POINTS) -> tuple[list[float], list[int]]:
    """The curve with at most ``most`` points; a point that stands for several has the greatest value of them."""
    if len(use.times) <= most:
        return list(use.times), list(use.used)
    firsts = np.linspace(0, len(use.times), most, endpoint=False).astype(np.int64)
    used = np.maximum.reduceat(np.array(use.used), firsts)
    used[-1] = use.used[-1]
    return np.array(use.times)[firsts].tolist(), used.tolist()


def _tick(ns: float) -> int:
    return round(ns / TICK)


def _rounded(ns: NDArray[Any]) -> Integers:
    return np.rint(ns / TICK).astype(np.int64)


def differences(values: NDArray[Any]) -> Integers:
    """Each value minus the one before it."""
    return np.diff(values.astype(np.int64), prepend=0)


def zigzag(values: Integers) -> Integers:
    """Signed integers as natural numbers: 0, -1, 1, -2 are 0, 1, 2, 3."""
    return (values << 1) ^ (values >> 63)


def varints(values: NDArray[Any]) -> bytes:
    """Natural numbers with 7 bits in each byte, the lowest first; the highest bit says that another byte follows."""
    if not len(values):
        return b""
    assert values.min() >= 0, "a variable-length integer has no sign"
    bits = values.astype(np.uint64)
    lengths = np.ones(len(bits), np.int64)
    for shift in range(7, 64, 7):
        lengths += bits >= np.uint64(1 << shift)
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    for position in range(int(lengths.max())):
        here = lengths > position
        chunk = (bits[here] >> np.uint64(7 * position)) & np.uint64(127)
        more = (lengths[here] > position + 1).astype(np.uint64) << np.uint64(7)
        out[starts[here] + position] = chunk | more
    return out.tobytes()
