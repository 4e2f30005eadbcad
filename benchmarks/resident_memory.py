"""Peak resident memory of a launch in a new process, beside its tensors and its arena; and of a first call.

The peak is Linux's (``VmHWM``), set back before the launch, minus what was resident then. Inputs are resident before;
so the bar of the first launch of a compiled kernel is its outputs, its arena and scratch memory, and 64 MiB. A first
call compiles as well, with empty and with full caches on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.timing import Row

BAR = 64.0
"""MiB beyond tensors and arena."""
SIZES = {
    "matmul": (("float32", 2048, 2048), ("float32", 2048, 2048)),
    "attention": (("float32", 2048, 128),) * 3,
    "softmax": (("float32", 4096, 4096),),
    "layer_norm": (("float32", 4096, 4096), ("float32", 1, 4096), ("float32", 1, 4096)),
    "swiglu": (("float32", 4096, 4096),) * 2,
}
"""Inputs of kernels of :mod:`benchmarks.tutorial_kernels`: dtype, rows and columns."""

CALL = """
import sys
import numpy as np
from benchmarks import resident_memory, tutorial_kernels
shapes = resident_memory.SIZES[sys.argv[1]]
kernel = getattr(tutorial_kernels, sys.argv[1])
inputs = [np.random.default_rng(0).random(shape, np.dtype(dtype)) for dtype, *shape in shapes]
start = resident_memory.begin()
executable = kernel.compile(*inputs)
compilation = resident_memory.peak() - start
before = resident_memory.begin()
result = kernel(*inputs)
peak = resident_memory.peak()
arena = sum(core.arena + core.scratch for core in executable.linked.cores)
print(peak - before, max(compilation, peak - start), result.nbytes, arena)
"""


def _status(name: str) -> int:
    """A number of bytes in the status of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        (line,) = (line for line in file if line.startswith(name + ":"))
    return int(line.split()[1]) << 10


def begin() -> int:
    """Set the peak back to what is resident now, which this returns, in bytes."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since :func:`begin`."""
    return _status("VmHWM")


def rows(_runs: int) -> Iterator[Row]:
    """Three rows for each kernel: the launch of a compiled kernel, and first calls."""
    if not sys.platform.startswith("linux"):
        return
    for kernel in SIZES:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = _measured(kernel, cache), _measured(kernel, cache)
        launch, first, outputs, arena = warm
        yield _row(f"{kernel}, launch", launch, outputs, arena)
        yield _row(f"{kernel}, first call, cached", first, outputs, arena)
        yield _row(f"{kernel}, first call, no cache", cold[1], outputs, arena)


def _measured(kernel: str, cache: str) -> tuple[int, ...]:
    environment = {name: value for name, value in os.environ.items() if name != "OPEN_NKI_CACHE_DISABLE"}
    environment |= {"OPEN_NKI_CACHE": cache, "NKI_NUM_THREADS": "2"}
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    command = [sys.executable, "-c", CALL, kernel]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return tuple(map(int, text.split()))


def _row(what: str, peak: int, outputs: int, arena: int) -> Row:
    measured, tensors, tiles = (number / 2**20 for number in (peak, outputs, arena))
    beyond = measured - tensors - tiles
    mark = "" if beyond <= BAR else ", over the bar"
    return Row(what, f"{measured:.1f} MiB", f"{tensors:.1f} + {tiles:.1f} MiB", f"{beyond:+.1f} MiB{mark}")
