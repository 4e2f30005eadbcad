"""Sums in PSUM on what another engine wrote, element by element: against the last writer of each element."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import AccumulationError
from nki.base.warning import NkiWarning
from nki.target import ENVIRONMENT

COLUMNS = 8
ONES, IDENTITY = np.ones((4, COLUMNS), np.float32), np.eye(4, dtype=np.float32)
Step = tuple[str, int, int]
"""Kind, first column and number of columns: another engine writes, or a product overwrites or is added."""


@pytest.fixture(autouse=True)
def on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "trn2")


@nki.jit
def stepped(x, eye, half, steps):
    """``half`` holds a one in its odd columns and zeros in the others."""
    row, turned, mixed = nl.load(x), nl.load(eye), nl.load(half)
    total = nl.ndarray((4, COLUMNS), nl.float32, buffer=nl.psum)
    for what, first, count in steps:
        columns = total[:, first : first + count]
        if what == "zeros":
            nisa.memset(columns, 0.0)
        elif what == "numbers":
            nisa.memset(columns, 3.0)
        elif what == "mixed":
            nisa.tensor_copy(columns, mixed[:, first : first + count])
        else:
            nisa.nc_matmul(columns, turned, row[:, first : first + count], accumulate=what == "add")
    out = nl.ndarray(total.shape, nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(total))
    return out


def observed(steps: list[Step]) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The sums, and the warnings of foreign zeros; an error of the run is raised."""
    half = np.tile(np.arange(COLUMNS, dtype=np.float32) % 2, (4, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = nki.simulate(stepped)(ONES, IDENTITY, half, tuple(steps))
    return out, [str(w.message) for w in caught if w.category is NkiWarning and "wrote zeros" in str(w.message)]


def expected(steps: list[Step]) -> tuple[list[float], str]:
    """The sum of each column, and what the last writers of columns say: "", "zeros", or "error"."""
    value, by_matmul = [float("nan")] * COLUMNS, [True] * COLUMNS
    found = ""
    for what, first, count in steps:
        for column in range(first, first + count):
            if what == "add":
                if not by_matmul[column] and value[column]:
                    return value, "error"
                found = found if by_matmul[column] else "zeros"
                value[column] += 1.0
            else:
                value[column] = {"zeros": 0.0, "numbers": 3.0, "mixed": column % 2, "product": 1.0}[what]
            by_matmul[column] = what in ("add", "product")
    return value, found


def test_products_that_overlap_on_zeros_are_a_sum_on_zeros() -> None:
    """As a convolution: the second product adds to zeros of the memset and to the numbers of the first."""
    taps: list[Step] = [("zeros", 0, COLUMNS), ("add", 0, 6), ("add", 1, 6), ("add", 2, 6)]
    out, found = observed(taps)
    assert out[0].tolist() == [1, 2, 3, 3, 3, 3, 2, 1]
    assert found and all("wrote zeros" in text for text in found)


def test_the_message_names_the_writer_of_the_numbers_and_their_place() -> None:
    with pytest.raises(AccumulationError) as caught:
        observed([("zeros", 0, COLUMNS), ("numbers", 2, 2), ("add", 0, 1), ("zeros", 6, 2), ("add", 0, COLUMNS)])
    line = stepped.func.__code__.co_firstlineno + 10
    where = r"partitions 0 to 3, bytes 8 to 15 \(32 of 128 bytes\)"
    assert re.search(f"memset in line {line} has written numbers other than 0, {where}", caught.value.message)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["zeros", "zeros", "numbers", "mixed", "product", "add", "add", "add"]),
            st.integers(0, COLUMNS - 1),
            st.integers(1, COLUMNS),
        ),
        max_size=8,
    )
)
def test_each_element_is_judged_by_its_last_writer(drawn: list[Step]) -> None:
    steps = [("zeros", 0, COLUMNS), *((what, first, min(count, COLUMNS - first)) for what, first, count in drawn)]
    value, found = expected(steps)
    if found == "error":
        with pytest.raises(AccumulationError, match="has written numbers other than 0"):
            observed(steps)
        return
    out, said = observed(steps)
    assert out[0].tolist() == value
    assert bool(said) is (found == "zeros")
