"""Cases that hold each pair of values of each two parameters: for ``allpairspy``, where that is not installed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

_TRIES: Final = 24
"""Random cases around a pair that is left; the one with the most new pairs is taken."""
_MISSES: Final = 200
"""Pairs in a row for which the filter lets no case through, after which the rest counts as impossible."""


def all_pairs(
    parameters: Sequence[Sequence[Any]], filter_func: Callable[[list[Any]], bool] | None = None
) -> list[list[Any]]:
    """Cases, each a value for every one of ``parameters``, that cover the pairs which ``filter_func`` allows.

    The cases are the same each time. Their number is not the least.
    """
    numbers = random.Random(0)
    count = range(len(parameters))
    left = {
        ((i, a), (j, b)): None
        for i in count
        for j in range(i + 1, len(parameters))
        for a in range(len(parameters[i]))
        for b in range(len(parameters[j]))
    }
    cases: list[list[Any]] = []
    misses = 0
    while left and misses < _MISSES:
        pair = numbers.choice(list(left))
        best: list[int] = []
        gain: list[Any] = []
        for _ in range(_TRIES):
            case = [numbers.randrange(len(values)) for values in parameters]
            for i, a in pair:
                case[i] = a
            if filter_func is None or filter_func([parameters[i][case[i]] for i in count]):
                new = [p for p in _pairs(case) if p in left]
                if len(new) > len(gain):
                    best, gain = case, new
        if not best:
            misses += 1
            del left[pair]
            continue
        misses = 0
        for p in gain:
            del left[p]
        cases.append([parameters[i][best[i]] for i in count])
    return cases


def _pairs(case: Sequence[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    places = list(enumerate(case))
    return [(a, b) for i, a in enumerate(places) for b in places[i + 1 :]]
