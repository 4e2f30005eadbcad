"""Dependences: exactly the instructions with bytes that meet, judged by sets of bytes."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings

from nki.ir.loop import instructions
from nki.passes import order
from tests.analysis.byte_model import depend, touched
from tests.support.interleaved_run import compiled

from . import programs


@settings(max_examples=15)
@given(programs.programs)
def test_dependences_are_those_of_the_bytes(steps):
    kernel = compiled(programs.program, *programs.INPUTS, steps, stop="order")
    found = order.dependences(kernel.core, kernel.core.body)
    bytes_ = [touched(list(instructions([statement]))) for statement in kernel.core.body]
    reached: list[set[int]] = []
    for number, direct in enumerate(found):
        assert all(p < number for p in direct)
        for p in direct:
            assert depend(bytes_[p], bytes_[number]), (p, number)
        reached.append(direct.union(*(reached[p] for p in direct)))
    for p, number in combinations(range(len(bytes_)), 2):
        assert p in reached[number] or not depend(bytes_[p], bytes_[number]), (p, number)
