"""Stage ``allocate``: what it needs of SBUF and PSUM against the most that is in use at one moment, and its time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row
from examples.minilm import encoder, kernels, main
from examples.minilm.model import load_model, make_batch
from nki import target as targets
from nki.analysis.liveness import LiveRange, live_ranges, peak_pressure
from nki.base import gc_pause
from nki.ir.program import Program
from nki.ir.types import Buffer
from nki.jit import Kernel as Jitted
from nki.passes.allocate import Allocate
from nki.passes.allocation.packing import pack
from nki.target.memory_spaces import memory_spaces


@nki.jit
def tiles(a: Any, count: int) -> Any:
    """Two tiles for every three instructions."""
    out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 128), dtype=nl.float32)
    nisa.memset(total, 0.0)
    for _ in range(count // 3):
        tile = nl.ndarray((128, 128), dtype=a.dtype)
        sums = nl.ndarray((128, 1), dtype=nl.float32)
        nisa.dma_copy(tile, a)
        nisa.tensor_reduce(sums, nl.add, tile, 1)
        nisa.tensor_scalar(total, total, nl.add, sums)
    nisa.dma_copy(out, total)
    return out


def rows(runs: int) -> Iterator[Row]:
    """Every kernel of the example's model, and a loop of many small tiles."""
    model = load_model()
    encoder.embed(model, make_batch(model.tokenizer, main.SENTENCES))
    made = [kernel for kernel in vars(kernels).values() if isinstance(kernel, Jitted)]
    for kernel in made:
        for executable in kernel._executables.values():
            yield from peaks(executable.kernel)
    for count in (10_000, 100_000):
        program = tiles.compile(np.zeros((128, 128), np.float32), count).kernel
        yield from peaks(program)
        yield speed(program, runs)


def peaks(kernel: Program) -> Iterator[Row]:
    """Bytes per partition: as placed, and as little as a plan needs, over the most in use at one moment."""
    core, target = kernel.core, targets.find(kernel.target)
    found = live_ranges(core, target)
    for space in memory_spaces(target):
        its = found[Buffer[space.name]]
        if its:
            need, _ = peak_pressure(its)
            placed = max(core.placement[life.tensor][1] + life.size for life in its)
            tight = tightest(its, need)
            what = f"{space.name} of {kernel.name}, {len(its)} tiles"
            yield Row(what, f"{placed:,} B placed", f"{tight:,} B tight", f"{tight / need:.3f} x need")


def tightest(its: Sequence[LiveRange], need: int) -> int:
    """The smallest memory, to half a hundredth, for which a plan is found."""
    size = need
    while pack(its, size) is None:
        size += max(1, need // 200)
    return size


def speed(kernel: Program, runs: int) -> Row:
    """Time of the stage, and of checking what it leaves, for each instruction."""
    bare = kernel.with_cores(replace(core, placement={}) for core in kernel.cores)
    target = targets.find(kernel.target)
    best = [float("inf"), float("inf")]
    with gc_pause.paused():
        for _ in range(max(1, min(runs, 5))):
            start = time.perf_counter()
            made = Allocate().run(bare, target)
            middle = time.perf_counter()
            Allocate().check(bare, made, target)
            best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
    each = [f"{seconds / kernel.size * 1e6:.2f} µs" for seconds in best]
    return Row(f"allocate {kernel.size:,} instructions", f"{each[0]} each", f"{each[1]} to verify", "")
