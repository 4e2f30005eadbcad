"""Draws of what the timing model does not know, the same for all kernels: how sure it is that one kernel is faster.

Two intervals overlap long before their kernels are equal, for what slows one of them down slows the other one down as
well. So both are replayed under the same draws. A draw has a value for each fact with a range, and says if the compiler
does all that it may do (:mod:`nki.profiling.assumptions`), nothing of it, or keeps what makes kernels slow: a third of
the draws each. A fact is below its value as often as above it, with equal chances for all values between there and the
end of its range. Each fact takes its place in as many equal parts of that as there are draws (a Latin hypercube), in an
order that follows from its name, so the draws of two targets have in common what the targets have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import numpy as np

from nki.profiling.assumptions import Facts
from nki.profiling.predicted_run import PredictedRun
from nki.target.fact_rows import Fact
from nki.target.model import Target

MOST: Final = 64
"""Draws for two small kernels."""
FEWEST: Final = 16
_REPLAYED: Final = 1_000_000
"""Instructions in all replays of a kernel: between the two, draws become fewer for a larger kernel."""
SURE: Final = 0.9
"""The part of all draws in which a kernel must be faster to count as faster; with less the two are a tie."""
_COMPILER: Final = "compiler"
"""The name of the draw of the other compiler's freedoms; no fact has it."""


@dataclass(frozen=True)
class Ranking:
    """The draws in which the second of two kernels is ``faster``, as a part of the ``count`` of all; equal times count
    half.
    """

    faster: float
    count: int

    @property
    def is_tie(self) -> bool:
        """True if neither of them is faster in at least nine of ten draws."""
        return 1 - SURE < self.faster < SURE

    def __str__(self) -> str:
        if self.is_tie:
            return f"a tie: faster in {100 * self.faster:.0f} % of {self.count} draws"
        word, part = ("faster", self.faster) if self.faster >= SURE else ("slower", 1 - self.faster)
        return f"{word} in {100 * part:.0f} % of {self.count} draws"


def ranking_of(first: PredictedRun, second: PredictedRun) -> Ranking | None:
    """Replay two kernels under the same draws: how often the second one is the faster one. None if one of them is a
    what-if, which has other facts on purpose.
    """
    if first.origin.changes or second.origin.changes:
        return None
    count = count_of(max(first.instructions, second.instructions))
    return Ranking(part_faster(latencies(second, count), latencies(first, count)), count)


def count_of(instructions: int) -> int:
    """The number of draws for a kernel of so many executed instructions."""
    return min(MOST, max(FEWEST, _REPLAYED // max(instructions, 1)))


def part_faster(one: Sequence[float], other: Sequence[float]) -> float:
    """The part of draws in which the times ``one`` are less than the times ``other``; equal ones count half."""
    pairs = list(zip(one, other, strict=True))
    return sum(1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def latencies(run: PredictedRun, count: int) -> tuple[float, ...]:
    """The latency in seconds at each of ``count`` draws; replayed once for each number of draws."""
    if count not in run.drawn:
        run.drawn[count] = _replayed(run, count)
    return run.drawn[count]


def _replayed(run: PredictedRun, count: int) -> tuple[float, ...]:
    times: list[float] = []
    compilers = _places(_COMPILER, count)
    for number in range(count):
        target = _target(run.target, number, count)
        end: Facts | None = "fast" if compilers[number] < 1 / 3 else "slow" if compilers[number] > 2 / 3 else None
        changed = [each for each in run.assumptions if each.end == end]
        timeline = changed[-1].run(target) if changed else run.timed.run(target)  # it holds those before it
        times.append((timeline.ns + target.launch_ns) * 1e-9)
    return tuple(times)


@lru_cache(maxsize=256)
def _target(target: Target, number: int, count: int) -> Target:
    facts = target.facts().items()
    return target.with_facts(
        {name: _at(fact, _places(name, count)[number]) for name, fact in facts if fact.range is not None}
    )


@lru_cache(maxsize=1024)
def _places(name: str, count: int) -> list[float]:
    """The place of ``name`` at each draw, from 0 to 1: one in each of ``count`` equal parts, in an order of its own."""
    order = np.random.default_rng(crc32(name.encode())).permutation(count)
    return [(float(part) + 0.5) / count for part in order]


def _at(fact: Fact[Any], place: float) -> Fact[Any]:
    """``fact`` at a place of its range: 0 is its fast end, 1/2 its value, 1 its slow end."""
    assert fact.range is not None
    fast, slow = fact.range
    if isinstance(fact.value, bool) or not isinstance(fact.value, int | float):
        return replace(fact, value=fast if place < 1 / 3 else slow if place > 2 / 3 else fact.value)
    end, part = (fast, 1 - 2 * place) if place < 0.5 else (slow, 2 * place - 1)
    value = fact.value + (end - fact.value) * part
    return replace(fact, value=round(value) if isinstance(fact.value, int) and isinstance(end, int) else value)
