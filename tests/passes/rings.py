"""Random kernels that use few tiles of SBUF and PSUM in turn, and write them anew, in part, or where a mask is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

import nki.isa as nisa
import nki.language as nl

SIDE = 32
"""Rows and columns of a tile."""
BYTES = SIDE * 4
"""Bytes per partition of a tile."""
SUMS = 6
TILES = 5
PARTS = 4
Step = tuple[int, int, int, int]

_ONE = st.tuples(st.integers(0, 9), st.integers(0, 29), st.integers(0, 29), st.integers(0, PARTS - 1))
STEPS = st.lists(
    st.one_of(_ONE, _ONE, _ONE, st.lists(_ONE, min_size=1, max_size=8).map(tuple)), min_size=1, max_size=30
).map(tuple)
"""Steps of a kernel; a tuple of steps is a loop on the device."""


def drawn_kernel(steps: Sequence[Any], columns: int = SIDE) -> Callable[..., Any]:
    """The kernel of ``steps``, with sums of ``columns`` columns, and at most SIDE sums in use."""
    width = min(columns, SIDE)

    def kernel(x):
        out = nl.ndarray((len(steps) + TILES + SUMS, SIDE, SIDE), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = [new_tile() for _ in range(TILES)]
        mask = nl.ndarray((SIDE, SIDE), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.memset(mask, value=0)
        nisa.memset(mask[:, 3:17], value=1)
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=tile, src=x[i % PARTS])
        sums = [nl.ndarray((SIDE, columns), dtype=nl.float32, buffer=nl.psum) for _ in range(SUMS)]
        for one in sums:
            nisa.nc_matmul(one[:, 0:width], tiles[0], tiles[1][:, 0:width], accumulate=False)
        for number, step in enumerate(steps):
            if isinstance(step[0], tuple):
                nl.fori_loop(0, 2, in_loop(step, tiles, sums, mask, x))
            else:
                do(step, tiles, sums, mask, x)
            nisa.dma_copy(dst=out[number], src=tiles[number % TILES])
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=out[len(steps) + i], src=tile)
        for i, one in enumerate(sums):
            last = new_tile()
            nisa.memset(last, value=0.0)
            nisa.tensor_copy(last[:, 0:width], one[:, 0:width])
            nisa.dma_copy(dst=out[len(steps) + TILES + i], src=last)
        return out

    return kernel


def new_tile() -> Any:
    return nl.ndarray((SIDE, SIDE), dtype=nl.float32, buffer=nl.sbuf)


def in_loop(steps: Sequence[Step], tiles: list[Any], sums: list[Any], mask: Any, x: Any) -> Callable[[Any], None]:
    def body(_: Any) -> None:
        for step in steps:
            do(step, list(tiles), list(sums), mask, x)  # tiles that the loop makes end with it

    return body


def do(step: Step, tiles: list[Any], sums: list[Any], mask: Any, x: Any) -> None:
    """One step: ``step`` is its kind, two numbers of tiles, and the number of a part."""
    kind, first, second, part = step
    one, two = tiles[first % len(tiles)], tiles[second % len(tiles)]
    columns = slice(part * 8, part * 8 + 8)
    width = min(sums[0].shape[1], SIDE)
    total = sums[first % len(sums)][:, 0:width]
    if kind == 0:
        nisa.dma_copy(dst=one, src=x[part])
    elif kind == 1:
        nisa.memset(one[:, columns], value=float(part))
    elif kind == 2:
        nisa.tensor_tensor(one, one, two, nl.add)
    elif kind in (3, 4):
        nisa.nc_matmul(total, one, two[:, 0:width], accumulate=kind == 4)
        if kind == 4:  # a sum that nothing reads after the last addition is an error
            nisa.tensor_copy(two[:, 0:width], total)
    elif kind == 5:
        nisa.tensor_copy(two[:, 0:width], total)
    elif kind == 6:
        nisa.tensor_copy_predicated(dst=one, src=two, predicate=mask)
    elif kind == 7:
        tiles[first % len(tiles)] = new_tile()
        nisa.tensor_scalar(tiles[first % len(tiles)], two, nl.multiply, 0.5)
    elif kind == 8:
        nisa.tensor_copy(one[:, 0:16], two[:, 16:32])
        nisa.tensor_copy(one[:, 16:32], two[:, 0:16])
    else:
        sums[first % len(sums)] = nl.ndarray(sums[0].shape, dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(sums[first % len(sums)][:, 0:width], one, two[:, 0:width], accumulate=False)
