"""Medians of interleaved runs, and the rows of the table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from nki.backend.cpu.native.frame import Frame, FrameLayout
from nki.backend.cpu.native.library import entry
from nki.compilation.executable import Executable


@dataclass(frozen=True)
class Row:
    """One line of the table: our number, the other's, and the ratio that the bar is about (higher is better)."""

    what: str
    ours: str
    theirs: str
    ratio: str


def medians(runs: int, *work: Callable[[], object]) -> list[float]:
    """Median seconds of each piece of work, run in turns so that a change of clock meets all alike."""
    times: list[list[float]] = [[] for _ in work]
    for one in work:
        one()
    for _ in range(runs):
        for one, its in zip(work, times, strict=True):
            start = time.perf_counter()
            one()
            its.append(time.perf_counter() - start)
    return [statistics.median(its) for its in times]


def micro(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:.1f} µs"


def against(what: str, ours: float, theirs: float, name: str) -> Row:
    """A row for two times of the same work."""
    return Row(what, micro(ours), f"{micro(theirs)} {name}", f"{theirs / ours:.2f} x")


def instruction(executable: Executable, index: int, pointers: list[int], repeats: int) -> Callable[[], None]:
    """Run instruction ``index`` of a kernel ``repeats`` times in place, after everything before it ran once."""
    import numpy as np

    core = executable.linked.cores[0]
    timed = np.repeat(core.table[index : index + 1], repeats, axis=0)
    layouts = [
        FrameLayout(table.ctypes.data, core.args.ctypes.data, len(pointers), core.arena, core.scratch)
        for table in (core.table, timed)
    ]
    frame = Frame(layouts[0].nbytes)
    frame.memory[:] = bytes(frame.nbytes)
    layouts[0].write(frame, pointers)
    entry("run")(frame.address, len(core.table))
    layouts[1].write(frame, pointers)

    def run() -> None:
        entry("run")(frame.address, len(timed))

    return run
