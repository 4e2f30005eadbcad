"""Specialising and compiling an unrolled loop of tensor_tensor on slices, in instructions per second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row


@nki.jit
def unrolled(a: Any, count: int) -> Any:
    """``count`` additions on quarters of one tile."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    for i in range(count):
        j = i % 4
        piece = tile[:, j * 128 : (j + 1) * 128]
        nisa.tensor_tensor(dst=piece, data1=piece, data2=tile[:, 0:128], op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


def rows(runs: int) -> Iterator[Row]:
    """1k, 10k and 100k instructions: source to verified IR, and on to native code."""
    a = np.zeros((128, 512), np.float32)
    unrolled.compile(a, 16)  # routines and caches that are not about the loop
    per_instruction: dict[int, float] = {}
    for count in (1_000, 10_000, 100_000):
        best_ir = best = float("inf")
        for _ in range(max(1, min(runs, 100_000 // count, 5))):
            start = time.perf_counter()
            reached: dict[str, float] = {}
            unrolled.compile(a, count, observe=lambda stage, _, at=reached: at.update({stage: time.perf_counter()}))
            best = min(best, time.perf_counter() - start)
            best_ir = min(best_ir, reached["accumulate"] - start)
        per_instruction[count] = best / count
        growth = per_instruction[count] / per_instruction[1_000]
        yield Row(
            f"compile {count:,} instructions",
            f"{count / best_ir:,.0f}/s to IR",
            f"{count / best:,.0f}/s to native",
            f"{growth:.2f} x time each",
        )
