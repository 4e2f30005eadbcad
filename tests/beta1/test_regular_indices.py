"""The short way for regular indices gives what the general one gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki.base import element_types as dt
from nki.beta1 import view as views
from nki.beta1.index import arange
from nki.beta1.view import View
from nki.ir.types import row_major

COLUMN, ROW = (slice(None), None), (None, slice(None))


def _entries(generator: np.random.Generator, sizes: tuple[int, ...]) -> list[Any]:
    entries: list[Any] = []
    for d, size in enumerate(sizes):
        count = int(generator.integers(1, size + 1))
        start = int(generator.integers(-1, size - count + 2))
        step = int(generator.choice([1, 1, 1, 2, -1]))
        index = start + step * arange(count)[COLUMN if generator.random() < (0.9 if d == 0 else 0.1) else ROW]
        entries.append(index if generator.random() < 0.8 else int(generator.integers(-1, size)))
    return entries


@pytest.mark.parametrize("on_chip", [True, False])
def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch, on_chip: bool) -> None:
    generator = np.random.default_rng(5)
    compared = 0
    for _ in range(2000):
        shape = tuple(int(n) for n in generator.integers(1, 9, int(generator.integers(2, 4))))
        blocks = ((3, 1),) if generator.random() < 0.3 else ()
        view = View(0, blocks, int(generator.integers(0, 5)), shape, row_major(shape), dt.float32)
        entries = [*([1] if blocks else []), *_entries(generator, shape)]
        with monkeypatch.context() as patch:
            short = views._regular(view, entries, on_chip=on_chip)
            patch.setattr(views, "_regular", lambda *_, **__: None)
            if short is not None:
                assert short == views.indexed("t", view, tuple(entries), on_chip=on_chip)
                compared += 1
    assert compared > 200
