"""Tiles that stay for later loads: as many as any choice has, never more than fit, and the published count."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki import target
from nki.passes.load_reuse import Gap, kept
from tests.passes.test_load_reuse import loads, ordered, reused, shapes_of_states, states


@st.composite
def gaps_of_loads(draw: st.DrawFn) -> list[Gap]:
    """The gaps of a random sequence of loads, with a random number of uses behind each."""
    windows = draw(st.lists(st.integers(0, 4), min_size=2, max_size=11))
    statement, last, gaps = 0, dict[int, int](), list[Gap]()
    for window in windows:
        if window in last:
            gaps.append(Gap(last[window], statement, 1))
        statement += 1 + draw(st.integers(0, 2))
        last[window] = statement - 1
    return gaps


def fits(gaps: tuple[Gap, ...], capacity: int) -> bool:
    statements = range(max((gap.last for gap in gaps), default=0))
    return all(sum(gap.size for gap in gaps if gap.first < n < gap.last) <= capacity for n in statements)


@settings(max_examples=200)
@given(gaps_of_loads(), st.integers(0, 3))
def test_no_choice_of_tiles_leaves_out_more_loads(gaps: list[Gap], capacity: int) -> None:
    chosen = kept(gaps, capacity)
    assert fits(tuple(chosen), capacity)
    best = max(
        count
        for count in range(len(gaps) + 1)
        if any(fits(choice, capacity) for choice in itertools.combinations(gaps, count))
    )
    assert len(chosen) == best


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, 5)), max_size=12), st.integers(0, 12))
def test_tiles_of_several_sizes_fit(drawn_gaps: list[tuple[int, int, int]], capacity: int) -> None:
    ends = {first + length: Gap(first, first + length, size) for first, length, size in drawn_gaps}
    assert fits(tuple(kept(ends.values(), capacity)), capacity)


def test_the_published_count() -> None:
    """227 of the 512 loads of ``u`` remain in the profile of the performance guide: 4096 channels, 16 states."""
    machine = target.find("trn1")
    before = ordered(states, machine, **shapes_of_states(4096, 512, 16))
    after = reused(before, machine)
    assert loads(before)["u"] == 512
    assert loads(after)["u"] == pytest.approx(227, rel=0.1)
    assert loads(after)["delta"] == pytest.approx(227, rel=0.1)
    assert loads(after)["a"] == 512
