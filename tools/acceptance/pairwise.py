"""Cases that hold each pair of values of each two parameters: for ``allpairspy``, where that is not installed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

_TRIES: Final = 24
"""Cases around a pair that is left; the one with the most new pairs is taken."""
_ALL: Final = 20_000
"""Up to so many cases in all, the allowed ones are listed; of more, random ones are tried."""
_Case = Sequence[int]
"""The number of a value for each parameter."""
_Pair = tuple[tuple[int, int], tuple[int, int]]


def all_pairs(
    parameters: Sequence[Sequence[Any]], filter_func: Callable[[list[Any]], bool] | None = None
) -> list[list[Any]]:
    """Cases, each a value for every one of ``parameters``, that cover the pairs which ``filter_func`` allows.

    The cases are the same each time. Their number is not the least.
    """
    numbers = random.Random(0)
    lengths = [range(len(values)) for values in parameters]

    def values_of(case: _Case) -> list[Any]:
        return [values[number] for values, number in zip(parameters, case, strict=True)]

    def allowed(case: _Case) -> bool:
        return filter_func is None or filter_func(values_of(case))

    listed = None
    if math.prod(map(len, lengths)) <= _ALL:
        listed = [case for case in itertools.product(*lengths) if allowed(case)]

    def around(pair: _Pair) -> list[_Case]:
        if listed is not None:
            fitting = [case for case in listed if all(case[i] == a for i, a in pair)]
            return numbers.sample(fitting, min(_TRIES, len(fitting)))
        fixed = dict(pair)
        tried = ([fixed.get(i, numbers.choice(length)) for i, length in enumerate(lengths)] for _ in range(_TRIES))
        return [case for case in tried if allowed(case)]

    left: dict[_Pair, None] = {}
    for (i, first), (j, second) in itertools.combinations(enumerate(lengths), 2):
        left.update({((i, a), (j, b)): None for a in first for b in second})
    cases: list[list[Any]] = []
    while left:
        pair = next(iter(left))
        found = around(pair)
        if not found:  # no case, as a rule: the filter allows none
            del left[pair]
            continue
        best = max(found, key=lambda case: sum(p in left for p in _pairs(case)))
        for p in _pairs(best):
            left.pop(p, None)
        cases.append(values_of(best))
    return cases


def _pairs(case: _Case) -> list[_Pair]:
    return list(itertools.combinations(enumerate(case), 2))
