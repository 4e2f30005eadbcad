"""The timing model: instructions per second, and the time until a profile is there."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import nki
from benchmarks.scheduling import minilm_calls
from benchmarks.timing import Row
from nki import target as targets
from nki.base.warning import NkiPortabilityWarning
from nki.profiling.kernel_profile import profile
from nki.sim.timing import TimedProgram
from validation import matmul

SIZES = (2048, 4096, 6144)


def rows(runs: int) -> Iterator[Row]:
    """Products in tiles of three sizes, then the kernels of the example's model, compilation included."""
    warnings.simplefilter("ignore", NkiPortabilityWarning)
    target = targets.find("trn2")
    for size in SIZES:
        shape = nki.ShapeDtype((size, size), "bfloat16")
        program = profile(matmul.tiled, target="trn2")(shape, shape).program
        seconds = _median(min(runs, 5), lambda program=program: TimedProgram(program).run(target))
        what = f"timing model, {program.size:,} instructions"
        yield Row(what, f"{seconds * 1e3:,.0f} ms", "", f"{program.size / seconds:,.0f}/s")
    for name, (kernel, arguments) in minilm_calls().items():
        seconds = _median(min(runs, 5), lambda k=kernel, a=arguments: profile(k, target="trn2")(*a).interval)
        yield Row(f"nki.profile of MiniLM {name}", f"{seconds * 1e3:,.0f} ms", "compilation included", "")


def _median(runs: int, work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
