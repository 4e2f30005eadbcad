"""Times of one case: least and median CPU time of batches of calls, ours and PyTorch's in turn, on one thread."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.elementary import cases
from benchmarks.elementary.cases import Case
from benchmarks.timing import Row
from nki.base.warning import NkiPortabilityWarning

BATCH = 2e-3
"""Seconds of the calls that are timed together, at least: small kernels take a few microseconds."""


@dataclass(frozen=True)
class Times:
    """Seconds of CPU time of one call: the least and the median of the batches, ours and theirs."""

    ours: float
    theirs: float
    our_median: float
    their_median: float

    @property
    def ratio(self) -> float:
        """Our least time over theirs."""
        return self.ours / self.theirs


def check(case: Case) -> None:
    """Compare the results of both. Raises AssertionError if they differ by more than the bound."""
    ours, theirs = case.ours(), case.theirs()
    if case.bound is None:
        return
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    for one, other in pairs:
        left, right = one.float().reshape(-1), other.float().reshape(-1)
        error = float((left - right).abs().max() / right.abs().max())
        assert error <= case.bound, f"{case.name}: {error:.1e} relative"


def times(case: Case, runs: int) -> Times:
    """Least and median CPU time of one call, of ``runs`` batches of each side in turn."""
    both = (case.ours, case.theirs)
    counts = [max(1, round(BATCH / max(_batch(one, 3), 1e-9))) for one in both]
    batches: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for one, count, its in zip(both, counts, batches, strict=True):
            its.append(_batch(one, count))
    least, middle = [min(its) for its in batches], [statistics.median(its) for its in batches]
    return Times(*least, *middle)


def _batch(work: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count


def rows(runs: int) -> Iterator[Row]:
    """A row for each case."""
    warnings.simplefilter("ignore", NkiPortabilityWarning)  # functions of nl repeat columns here
    torch.manual_seed(0)
    for group in (cases.by_rows, cases.others, cases.multiplied):
        for case in group():
            check(case)
            its = times(case, max(5, runs // 4))
            yield Row(
                case.name,
                f"{its.ours * 1e6:.1f} µs",
                f"{its.theirs * 1e6:.1f} µs PyTorch",
                f"{1 / its.ratio:.2f} x; median {its.their_median / its.our_median:.2f} x",
            )
