"""Intervals of many random programs: 18 of them, or 500 and more under ``make nightly`` (``NKI_TEST_EXAMPLES=500``).

By construction the interval holds the latency, grows with each assumption, and is no narrower on a target that was
derived from another one by less certain facts (``Target.with_facts``). A range that is edited in the table has no
narrower target to compare with: there a faster resource may make a kernel slower (Graham), and an end may move inwards
by a little. Here that is a number: of 1,512 edits on 504 programs 32 do, one by 1.7 %, all others by 0.16 % at most.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from nki.profiling.kernel_profile import Profile
from nki.target import GEN2, GEN3, GEN4, Target
from tests.profiling.test_interval import less_certain, older_program, program, with_assumptions

PROGRAMS = int(os.environ.get("NKI_TEST_EXAMPLES", "18"))
EDITS = 3
"""Ranges of each program's target that are doubled, one at a time."""
MOST, OFTEN = 0.03, 0.05
"""By which part an end may move inwards if the table is edited, and in which part of all edits."""
SEED = os.environ.get("NKI_TEST_SEED", "0")
KINDS = [(target, make) for target in (GEN2, GEN3, GEN4) for make in (program, older_program)]


def seeds() -> range:
    first = Random().randrange(10**6) if SEED == "random" else int(SEED)
    return range(first, first + -(-PROGRAMS // len(KINDS)))


def edits(target: Target, seed: int) -> Iterator[tuple[Target, Target]]:
    """Doubles of some ranges: of a target that is derived from ``target``, and of one with another table."""
    numbers = {n: f for n, f in target.facts().items() if f.range is not None and type(f.value) in (int, float)}
    for name in Random(seed).sample(sorted(numbers), EDITS):
        facts = {name: less_certain(numbers[name])}
        edited = Target(target.name, target.generation, target.aliases, target.core, {**target.facts(), **facts})
        yield target.with_facts(facts), edited


@pytest.mark.parametrize(("target", "make"), KINDS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_intervals(target: Target, make: Any) -> None:
    inwards: list[float] = []
    for seed in seeds():
        profile: Profile = make(target, seed)
        least, most = profile.interval
        assert least <= profile.latency <= most, f"seed {seed}"
        grown = [
            with_assumptions(profile, profile.assumptions[:n]).interval for n in range(len(profile.assumptions) + 1)
        ]
        assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in pairwise(grown)), f"seed {seed}"
        assert grown[-1] == (least, most)
        for derived, edited in edits(target, seed):
            one, other = with_assumptions(profile, profile.assumptions, derived).interval
            assert one <= least and most <= other, f"seed {seed}"
            one, other = with_assumptions(profile, profile.assumptions, edited).interval
            inwards.append(max(one / least - 1, 1 - other / most, 0.0))
    assert max(inwards) <= MOST, f"seeds {seeds()}"
    assert sum(part > 1e-9 for part in inwards) <= max(2, OFTEN * len(inwards)), f"seeds {seeds()}"
