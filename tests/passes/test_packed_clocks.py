"""Packed vector clocks against lists of counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nki.passes.sync import _PackedClocks

COUNTS = st.integers(0, 5) | st.integers(0, (1 << 31) - 1)
PAIRS = st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=24)


def packed(counts: list[int]) -> int:
    return sum(count << 32 * queue for queue, count in enumerate(counts))


@given(PAIRS)
def test_a_join_is_the_later_time_of_each_queue(pairs: list[tuple[int, int]]) -> None:
    one, two = map(list, zip(*pairs, strict=True))
    clocks = _PackedClocks(len(pairs), (1 << 31) - 1)
    assert clocks.bits == 32
    joined = clocks.join(packed(one), packed(two))
    assert joined == packed([max(pair) for pair in pairs])
