"""Inputs become simple and keep what they show."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nki.proofs.minimise import Minimiser


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 16), places=st.sets(st.integers(0, 63), min_size=1, max_size=4))
def test_only_the_elements_that_matter_stay(seed, places):
    array = np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32) + 5
    at = sorted(places)

    def shows(arrays):
        return bool((arrays[0].reshape(-1)[at] != 0).all())

    simple = Minimiser([array], shows, time.monotonic() + 60).run()
    assert np.flatnonzero(simple[0]).tolist() == at
    assert (simple[0].reshape(-1)[at] == 1).all()


def test_values_become_whole_numbers_where_one_is_too_little():
    array = np.array([[0.3, 7.4, -2.6]], np.float32)
    simple = Minimiser([array], lambda arrays: arrays[0][0, 1] > 4, time.monotonic() + 60).run()
    assert simple[0].tolist() == [[0, 7, 0]]


def test_nothing_is_tried_after_the_deadline():
    array = np.ones((4, 4), np.float32)
    calls = []
    simple = Minimiser([array], lambda arrays: calls.append(1) is None, time.monotonic() - 1).run()
    assert not calls and simple[0].tobytes() == array.tobytes()
