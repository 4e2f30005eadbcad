"""The simulator: what it costs to look for hazards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nki
from benchmarks.compiling import unrolled
from benchmarks.timing import Row, medians
from examples.minilm.kernels import feed_forward_block


def rows(runs: int) -> Iterator[Row]:
    """Runs that look for hazards against runs that do not, in turns."""
    tile = np.zeros((128, 512), np.float32)
    shapes = ((1536, 384), (384, 1536), 1536, (1536, 384), 384, 384, 384)
    weights = [np.zeros(shape, np.float32) for shape in shapes]
    simulated: dict[str, Callable[[], Any]] = {
        "simulate 10,000 instructions": lambda: nki.simulate(unrolled)(tile, 10_000),
        "simulate the feed-forward block": lambda: nki.simulate(feed_forward_block)(*weights),
    }
    before = os.environ.get("OPEN_NKI_HAZARDS")
    for name, work in simulated.items():
        looking, not_looking = medians(min(runs, 9), _switched("1", work), _switched("0", work))
        yield Row(
            name,
            f"{looking * 1e3:,.0f} ms",
            f"{not_looking * 1e3:,.0f} ms unwatched",
            f"{not_looking / looking:.2f} x",
        )
    os.environ.pop("OPEN_NKI_HAZARDS") if before is None else os.environ.update(OPEN_NKI_HAZARDS=before)


def _switched(value: str, work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> None:
        os.environ["OPEN_NKI_HAZARDS"] = value
        work()

    return run
