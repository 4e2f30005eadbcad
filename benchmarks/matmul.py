"""Native matrix product against NumPy's BLAS on one thread: GFLOP/s and their ratio, medians of interleaved runs.

    python benchmarks/matmul.py [--runs N]

"routine" is the native function on addresses, as compiled kernels call it; "arrays" is the Python function that
executors call, which checks its arguments. Per cent are of BLAS, called as ``np.matmul`` with an output array.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # read when NumPy is imported

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from nki.backend.cpu.gemm import matmul, routine

# rows, columns, depth: the tensor engine's own tile first, then smaller and thinner ones.
SHAPES = [
    (128, 512, 128), (128, 128, 128), (128, 512, 32), (64, 512, 64), (127, 511, 128), (100, 100, 100), (16, 64, 64),
    (1, 512, 128), (2, 512, 128), (4, 512, 128), (128, 1, 128), (128, 4, 128), (128, 8, 128), (128, 16, 128),
    (128, 24, 128),
]  # fmt: skip


def medians(runs: int, *work: Callable[[], object]) -> list[float]:
    """Median seconds of each piece of work, run in turns so that a change of clock meets all alike."""
    times: list[list[float]] = [[] for _ in work]
    for _ in range(runs):
        for one, its in zip(work, times, strict=True):
            start = time.perf_counter()
            one()
            its.append(time.perf_counter() - start)
    return [statistics.median(its) for its in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    rng = np.random.default_rng(0)
    print(f"{'rows x columns x depth':>24} {'routine':>8} {'arrays':>8} {'BLAS':>8} {'routine':>9} {'arrays':>9}")
    for rows, columns, depth in SHAPES:
        left, right = (rng.normal(size=(depth, n)).astype(np.float32) for n in (rows, columns))
        upright, out = np.ascontiguousarray(left.T), np.empty((rows, columns), np.float32)
        pointers = out.ctypes.data, columns, left.ctypes.data, rows, right.ctypes.data, columns
        native, arguments = routine(), (*pointers, rows, columns, depth, 0)
        seconds = medians(
            runs,
            lambda native=native, arguments=arguments: native(*arguments),
            lambda left=left, right=right, out=out: matmul(left, right, out, False),
            lambda upright=upright, right=right, out=out: np.matmul(upright, right, out=out),
        )
        rates = "".join(f"{2e-9 * rows * columns * depth / s:9.1f}" for s in seconds)
        ratios = "".join(f"{100 * seconds[2] / s:8.0f} %" for s in seconds[:2])
        print(f"{f'{rows} x {columns} x {depth}':>24}{rates}{ratios}")


if __name__ == "__main__":
    main()
