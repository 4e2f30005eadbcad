"""The events of a profile for the script of the report: a description in JSON, and columns of numbers.

The columns are JSON too, compressed by zlib and in base64, since they are long: times in ticks of :data:`TICK` ns, as
differences where columns get shorter by it. ``assets/decode.js`` reads them by their names.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.terms import Cause
from nki.ir.estimate import Compute, Dma, Matmul
from nki.ir.types import Access
from nki.profiling.events import CoreEvents
from nki.profiling.html.source_listing import Listing
from nki.profiling.metrics import MemoryUse
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
    tables = [_estimates(core, sources) for core in profile.cores]
    columns = {
        "cores": [
            {
                "rows": _rows(core),
                "instructions": _instructions(core, listing, mnemonics, operands, numbers),
                "tables": _stretches(core.timeline.replay.resources.tables.loads),
                "slow": _stretches(throttled(core, _skipped(core))),
            }
            for core, (_, numbers) in zip(profile.cores, tables, strict=True)
        ],
        "path": _path(profile),
    }
    cores = [_core(profile, core, table) for core, (table, _) in zip(profile.cores, tables, strict=True)]
    description: dict[str, Any] = {
        "name": profile.name,
        "target": str(profile.target),
        "tick": TICK,
        "end": _tick(profile.timeline.ns),
        "cores": cores,
        "mnemonics": list(mnemonics),
        "operands": list(operands),
        "sources": list(sources),
        "reasons": [Cause(number).reason for number in range(len(Cause))],
        "lines": [{"label": place.label, "code": place.code} for place in listing.places],
    }
    text = _json(description)
    # A script element ends at "</script" and turns odd at "<!--", whatever the JSON means.
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text, base64.b64encode(zlib.compress(_json(columns).encode("ascii"), 9)).decode("ascii")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _core(profile: PredictedRun, core: CoreEvents, estimates: list[list[Any]]) -> dict[str, Any]:
    return {
        "rank": core.rank,
        "queues": core.queues,
        "estimates": estimates,
        "meetings": [(row, m.last.core, m.last.record) for row, m in core.waiting_meetings()],
        "skips": [[_tick(begin), _tick(end), times] for begin, end, times in _skipped(core)],
        "memory": [_curve(use, profile) for use in profile.memory if use.core == core.rank],
    }


def _skipped(core: CoreEvents) -> list[tuple[float, float, int]]:
    return [(skip.begin, skip.end, skip.iterations) for skip in core.timeline.skips]


def _rows(core: CoreEvents) -> dict[str, list[int]]:
    start, release, end = _rounded(core.start), _rounded(core.release), _rounded(core.end)
    first, last = _rounded(core.data_start), _rounded(core.data_end)
    rows = np.arange(len(core), dtype=np.int64)
    columns: dict[str, NDArray[Any]] = {
        "number": differences(core.number),
        "start": differences(start),
        "release": release - start,
        "end": end - release,
        "isDma": core.is_dma.astype(np.int64),
        "dataStart": np.where(core.is_dma, np.maximum(first - start, 0), 0),
        "dataEnd": np.maximum(last - first, 0),
        "cause": core.cause,
        "blocker": np.where(core.blocker >= 0, rows - core.blocker, 0),
        "weight": core.weight,
        "throttled": _rounded(core.throttled),
    }
    return {name: column.tolist() for name, column in columns.items()}


def _instructions(
    core: CoreEvents, listing: Listing, mnemonics: Names, operands: Names, estimates: list[int]
) -> dict[str, Sequence[int]]:
    """Columns of the instructions by dense number; ``operand`` has the results and then the reads of each."""
    accesses = [(inst.writes(), inst.reads()) for inst in core.instructions]
    return {
        "queue": core.timeline.queue_of,
        "mnemonic": [mnemonics(inst.mnemonic) for inst in core.instructions],
        "line": [listing.number(inst.where.span) for inst in core.instructions],
        "estimate": estimates,
        "writes": [len(writes) for writes, _ in accesses],
        "reads": [len(reads) for _, reads in accesses],
        "operand": [operands.access(access) for both in accesses for each in both for access in each],
    }


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


def _stretches(stretches: Sequence[tuple[float, float]]) -> dict[str, list[int]]:
    times = _rounded(np.array(stretches, np.float64).reshape(-1, 2))
    return {"begin": differences(times[:, 0]).tolist(), "length": (times[:, 1] - times[:, 0]).tolist()}


def _path(profile: PredictedRun) -> dict[str, list[int]]:
    path = profile.critical_path
    return {
        "core": [step.core for step in path],
        "row": differences(np.array([step.row for step in path], np.int64)).tolist(),
        **_stretches([(step.begin, step.end) for step in path]),
    }


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
