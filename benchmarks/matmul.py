"""The native matrix product, on addresses as compiled kernels call it, against NumPy's BLAS with an output array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row, medians
from nki.numerics.matmul.contract import PANEL
from nki.numerics.matmul.host import columns_of_block, routine

# rows, columns, depth: the Tensor engine's own tile first, then smaller and thinner ones.
SHAPES = [
    (128, 512, 128),
    (128, 128, 128),
    (128, 512, 32),
    (64, 512, 64),
    (127, 511, 128),
    (1, 512, 128),
    (128, 1, 128),
]
REPEATS = 10


def rows(runs: int) -> Iterator[Row]:
    """GFLOP/s of both."""
    rng = np.random.default_rng(0)
    for m, n, k in SHAPES:
        left, right = (rng.normal(size=(k, size)).astype(np.float32) for size in (m, n))
        upright, out = np.ascontiguousarray(left.T), np.empty((m, n), np.float32)
        stationary = left.ctypes.data, m, columns_of_block()
        arguments = (out.ctypes.data, n, *stationary, right.ctypes.data, n, PANEL, m, n, k, 0)

        def ours(arguments: tuple[int, ...] = arguments) -> None:
            native = routine()
            for _ in range(REPEATS):
                native(*arguments)

        def theirs(upright: np.ndarray = upright, right: np.ndarray = right, out: np.ndarray = out) -> None:
            for _ in range(REPEATS):
                np.matmul(upright, right, out=out)

        seconds = medians(runs, ours, theirs)
        rates = [2e-9 * m * n * k * REPEATS / s for s in seconds]
        yield Row(
            f"matmul {m} x {n} x {k}",
            f"{rates[0]:.1f} GFLOP/s",
            f"{rates[1]:.1f} GFLOP/s BLAS",
            f"{rates[0] / rates[1]:.2f} x",
        )
