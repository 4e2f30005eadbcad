"""A view that a plan makes equals the one of the general way, also where an index leaves the tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki.base import element_types as dt
from nki.base.errors import NkiError
from nki.beta1 import view as views
from nki.beta1 import view_plans
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
    plans: dict[Any, Any] = {}
    monkeypatch.setattr(view_plans, "_plans", plans)
    compared = 0
    for _ in range(4000):
        shape = tuple(int(n) for n in generator.integers(1, 5, int(generator.integers(2, 4))))
        blocks = ((3, 1),) if generator.random() < 0.3 else ()
        view = View(0, blocks, int(generator.integers(0, 5)), shape, row_major(shape), dt.float32)
        entries = [*([int(generator.integers(0, 3))] if blocks else []), *_entries(generator, shape)]
        planned = len(plans)
        short, general = (_outcome(index, view, entries, on_chip) for index in (view_plans.indexed, views.indexed))
        assert short == general
        compared += len(plans) == planned and isinstance(short, View) and not short.bounds
    assert compared > 200  # of views that an earlier plan made


def _outcome(index: Any, view: View, entries: list[Any], on_chip: bool) -> Any:
    try:
        found = index("t", view, tuple(entries), on_chip=on_chip)
    except (NkiError, ValueError) as error:
        return str(error)
    return repr(found) if found.bounds else found
