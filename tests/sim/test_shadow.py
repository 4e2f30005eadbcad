"""Random programs of copies between tiles, some laid over others, against sets of bytes kept by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ClobberedReadError, NkiError, StaleReadError, UnwrittenReadError

ROWS, COLUMNS = 6, 8
ADDRESSES: tuple[tuple[int, int] | None, ...] = (None, None, (0, 0), (2, 8), (0, 16), (0, 0))
UNWRITTEN, THERE, SPOILT, BURIED = range(4)


@nki.jit
def program(a, steps):
    """Each step is (destination, row, column, rows, columns, source or -1, row, column)."""
    out = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm)
    tiles = tuple(
        [nl.ndarray((ROWS, COLUMNS), nl.float32, name=f"t{i}", address=ADDRESSES[i]) for i in range(len(ADDRESSES))]
    )
    for i in range(len(steps)):
        to, r, c, rows, columns, source, sr, sc = steps[i]
        target = tiles[to][r : r + rows, c : c + columns]
        if source < 0:
            nisa.dma_copy(target, a[r : r + rows, c : c + columns])
        else:
            nisa.dma_copy(target, tiles[source][sr : sr + rows, sc : sc + columns])
    nisa.dma_copy(out, a)
    return out


def where(tile: int, row: int, column: int) -> tuple[int, int] | None:
    address = ADDRESSES[tile]
    return None if address is None else (address[0] + row, address[1] // 4 + column)


def expected(steps: Any) -> tuple[int, type[NkiError]] | None:
    """The first step that is refused, and how."""
    state = [[[UNWRITTEN] * COLUMNS for _ in range(ROWS)] for _ in ADDRESSES]
    places = {(t, r, c): where(t, r, c) for t in range(len(ADDRESSES)) for r in range(ROWS) for c in range(COLUMNS)}
    for number, (to, r, c, rows, columns, source, sr, sc) in enumerate(steps):
        cells = [(i, j) for i in range(rows) for j in range(columns)]
        read = {(i, j): state[source][sr + i][sc + j] if source >= 0 else THERE for i, j in cells}
        if BURIED in read.values():
            return number, ClobberedReadError
        if THERE not in read.values():
            spots = {places[source, sr + i, sc + j] for i, j in cells} - {None}
            beneath = any(places[p] in spots and state[p[0]][p[1]][p[2]] == THERE and p[0] != source for p in places)
            stale = beneath and SPOILT not in read.values()
            return number, StaleReadError if stale else UnwrittenReadError
        written = {places[to, r + i, c + j] for i, j in cells} - {None}
        for t, i, j in places:
            if t != to and places[t, i, j] in written and state[t][i][j] == THERE:
                state[t][i][j] = BURIED
        for (i, j), kind in read.items():
            state[to][r + i][c + j] = THERE if kind == THERE else SPOILT
    return None


@st.composite
def steps(draw: Any) -> Any:
    made = []
    for _ in range(draw(st.integers(1, 14))):
        rows, columns = draw(st.sampled_from((1, 3, ROWS))), draw(st.sampled_from((1, 4, COLUMNS)))
        row, column = st.integers(0, ROWS - rows), st.integers(0, COLUMNS - columns)
        tile = st.integers(0, len(ADDRESSES) - 1)
        source = draw(st.one_of(st.just(-1), tile))
        made.append((draw(tile), draw(row), draw(column), rows, columns, source, draw(row), draw(column)))
    return tuple(made)


A = np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32).reshape(ROWS, COLUMNS)


@settings(max_examples=150, deadline=None)
@given(steps())
def test_the_first_hazard_is_found_and_nothing_else(made: Any) -> None:
    found = expected(made)
    legal = made if found is None else made[: found[0]]
    np.testing.assert_array_equal(nki.simulate(program)(A, legal), A)
    if found is not None:
        with pytest.raises(found[1]) as caught:
            nki.simulate(program)(A, made[: found[0] + 1])
        assert type(caught.value) is found[1]
        assert f"'t{made[found[0]][5]}'" in caught.value.message
