"""Random kernels on few tiles of SBUF and PSUM, which are written anew, in part, or where a mask is set.

An operation is one of OPERATIONS. It gets what the kernel has, the numbers of two tiles, and of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import nki.isa as nisa
import nki.language as nl

SIDE = 64
"""Rows and columns of a tile."""
BYTES = SIDE * 4
"""Bytes per partition of a tile."""
TILES, SUMS, PARTS = 6, 3, 4
SHAPE = (TILES, SIDE, SIDE)
"""Of the argument of a kernel."""
Step = tuple[str, int, int, int]


def new_tile() -> Any:
    return nl.ndarray((SIDE, SIDE), dtype=nl.float32, buffer=nl.sbuf)


@dataclass
class Memory:
    """What a kernel has: its argument, memory in HBM that it changes, a mask, tiles, and sums of ``columns``."""

    x: Any
    held: Any
    mask: Any
    tiles: list[Any]
    sums: list[Any]
    columns: int

    def sum_of(self, number: int) -> Any:
        """The columns of a sum that products fill."""
        return self.sums[number % len(self.sums)][:, 0 : self.width]

    @property
    def width(self) -> int:
        return min(self.columns, SIDE)


def quarter(tile: Any, part: int) -> Any:
    return tile[:, part * SIDE // PARTS : (part + 1) * SIDE // PARTS]


def load(m: Memory, one: int, two: int, part: int) -> None:
    nisa.dma_copy(dst=m.tiles[one], src=m.x[two])


def load_part(m: Memory, one: int, two: int, part: int) -> None:
    nisa.dma_copy(dst=quarter(m.tiles[one], part), src=quarter(m.x[two], part))


def load_anew(m: Memory, one: int, two: int, part: int) -> None:
    m.tiles[one] = new_tile()
    load(m, one, two, part)


def reload(m: Memory, one: int, two: int, part: int) -> None:
    """A new tile, of memory that changes."""
    m.tiles[one] = new_tile()
    nisa.dma_copy(dst=m.tiles[one], src=m.held[part])


def reload_part(m: Memory, one: int, two: int, part: int) -> None:
    nisa.dma_copy(dst=quarter(m.tiles[one], part), src=quarter(m.held[two % PARTS], part))


def store_part(m: Memory, one: int, two: int, part: int) -> None:
    nisa.dma_copy(dst=quarter(m.held[two % PARTS], part), src=quarter(m.tiles[one], part))


def fill_part(m: Memory, one: int, two: int, part: int) -> None:
    nisa.memset(quarter(m.tiles[one], part), value=float(two))


def add(m: Memory, one: int, two: int, part: int) -> None:
    nisa.tensor_tensor(m.tiles[one], m.tiles[one], m.tiles[two], nl.add)


def scale_part(m: Memory, one: int, two: int, part: int) -> None:
    nisa.tensor_scalar(quarter(m.tiles[one], part), quarter(m.tiles[two], part), nl.multiply, 0.5)


def scale_anew(m: Memory, one: int, two: int, part: int) -> None:
    source = m.tiles[two]
    m.tiles[one] = new_tile()
    nisa.tensor_scalar(m.tiles[one], source, nl.multiply, 0.5)


def exchange(m: Memory, one: int, two: int, part: int) -> None:
    """The halves of one tile become the other halves of another."""
    nisa.tensor_copy(m.tiles[one][:, 0 : SIDE // 2], m.tiles[two][:, SIDE // 2 :])
    nisa.tensor_copy(m.tiles[one][:, SIDE // 2 :], m.tiles[two][:, 0 : SIDE // 2])


def choose(m: Memory, one: int, two: int, part: int) -> None:
    nisa.tensor_copy_predicated(dst=m.tiles[one], src=m.tiles[two], predicate=m.mask)


def multiply(m: Memory, one: int, two: int, part: int) -> None:
    nisa.nc_matmul(m.sum_of(part), m.tiles[one], m.tiles[two][:, 0 : m.width], accumulate=False)


def accumulate(m: Memory, one: int, two: int, part: int) -> None:
    """A sum that nothing reads after the last addition is an error."""
    nisa.nc_matmul(m.sum_of(part), m.tiles[one], m.tiles[two][:, 0 : m.width], accumulate=True)
    take(m, two, one, part)


def multiply_anew(m: Memory, one: int, two: int, part: int) -> None:
    m.sums[part % len(m.sums)] = nl.ndarray((SIDE, m.columns), dtype=nl.float32, buffer=nl.psum)
    multiply(m, one, two, part)


def take(m: Memory, one: int, two: int, part: int) -> None:
    nisa.tensor_copy(m.tiles[one][:, 0 : m.width], m.sum_of(part))


def add_sum(m: Memory, one: int, two: int, part: int) -> None:
    target = m.tiles[one][:, 0 : m.width]
    nisa.tensor_tensor(target, target, m.sum_of(part), nl.add)


TRANSFERS = (load, load_part, load_anew, reload, reload_part, store_part)
IN_SBUF = (fill_part, add, scale_part, scale_anew, exchange, choose)
IN_PSUM = (multiply, accumulate, multiply_anew, take, add_sum)
OPERATIONS = {operation.__name__: operation for operation in (*TRANSFERS, *IN_SBUF, *IN_PSUM)}


def steps(*chosen: Callable[..., None], loops: bool = False, most: int = 24) -> Any:
    """Steps of ``chosen`` operations; a tuple of steps is a loop on the device."""
    tile = st.integers(0, TILES - 1)
    names = st.sampled_from([operation.__name__ for operation in chosen])
    one = st.tuples(names, tile, tile, st.integers(0, PARTS - 1))
    loop = st.lists(one, min_size=1, max_size=8).map(tuple)
    return st.lists(st.one_of(one, one, one, loop) if loops else one, min_size=1, max_size=most).map(tuple)


def drawn_kernel(program: Sequence[Any], columns: int = SIDE) -> Callable[..., Any]:
    """The kernel of these steps, with sums of ``columns`` columns, which returns all tiles, sums and held memory."""

    entries = [entry if isinstance(entry[0], tuple) else (entry,) for entry in program]
    used = {step[0] for entry in entries for step in entry}
    has_choices, has_sums = "choose" in used, bool(used & {operation.__name__ for operation in IN_PSUM})

    def kernel(x):
        m = Memory(x, nl.ndarray((PARTS, SIDE, SIDE), dtype=nl.float32, buffer=nl.shared_hbm), None, [], [], columns)
        for number in range(TILES):
            m.tiles.append(new_tile())
            load(m, number, number, 0)
        if has_choices:
            m.mask = nl.ndarray((SIDE, SIDE), dtype=nl.uint8, buffer=nl.sbuf)
            nisa.memset(m.mask, value=0)
            nisa.memset(m.mask[:, 3:17], value=1)
        for number in range(PARTS):
            nisa.dma_copy(dst=m.held[number], src=x[number])
        for number in range(SUMS if has_sums else 0):
            m.sums.append(nl.ndarray((SIDE, columns), dtype=nl.float32, buffer=nl.psum))
            multiply(m, number, number + 1, number)
        for entry in program:
            if isinstance(entry[0], tuple):
                run_twice(m, entry)
            else:
                run(m, [entry])
        out = nl.ndarray((TILES, SIDE, SIDE), dtype=nl.float32, buffer=nl.shared_hbm)
        for number, tile in enumerate(m.tiles):
            nisa.dma_copy(dst=out[number], src=tile)
        if not m.sums:
            return out, m.held
        results = nl.ndarray((SUMS, SIDE, m.width), dtype=nl.float32, buffer=nl.shared_hbm)
        for number in range(SUMS):
            last = nl.ndarray((SIDE, m.width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(last, m.sum_of(number))
            nisa.dma_copy(dst=results[number], src=last)
        return out, m.held, results

    return kernel


def run(m: Memory, body: Sequence[Step]) -> None:
    for name, *numbers in body:
        OPERATIONS[name](m, *numbers)


def run_twice(m: Memory, body: Sequence[Step]) -> None:
    """A loop on the device; the tiles that it makes end with it."""

    def once(_: Any) -> None:
        outside = m.tiles, m.sums
        m.tiles, m.sums = [*m.tiles], [*m.sums]
        run(m, body)
        m.tiles, m.sums = outside

    nl.fori_loop(0, 2, once)
