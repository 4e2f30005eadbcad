"""Random programs: tiles that overlap, windows with gaps and windows that move, engines of all kinds, and loops."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl

WIDTH = 48
TILES = 5
ROWS = 36
INPUTS = (np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH),)


def piece(tile, start, step, partition):
    """Eight elements of four partitions."""
    return tile[partition : partition + 4, start : start + 8 * step : step]


def step_of(kind, engine, target, source, other):
    """One instruction."""
    if kind == 0:
        nisa.tensor_copy(target, source, engine=engine)
    elif kind == 1:
        nisa.tensor_tensor(target, source, other, op=nl.add)
    elif kind == 2:
        nisa.tensor_scalar(target, source, op0=nl.multiply, operand0=0.5, op1=nl.add, operand1=1.0)
    elif kind == 3:
        nisa.dma_copy(target, source)
    elif kind == 4:
        nisa.activation(target, nl.square, source, scale=0.01)
    else:
        nisa.memset(target, float(kind))


def moved_step(kind, indices, register, scratch, target, source, cell):
    """An index is written, or one that is read at run time moves a window of HBM."""
    tile, start, step, _ = cell
    if kind == 7:
        nisa.memset(indices[:, start : start + 1], tile + step)
        return
    nisa.register_load(register, indices[:, start : start + 1])
    window = scratch.ap([[WIDTH, 4], [1, 8]], scalar_offset=register, indirect_dim=0)
    if kind == 8:
        nisa.dma_copy(target, window)
    else:
        nisa.dma_copy(window, source)


ENGINES = (nisa.engine.unknown, nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd)


def steps(tiles, moving, program):
    """Instructions and loops, as ``program`` has them; the loops' bodies are programs."""
    for entry in program:
        if len(entry) == 2:
            count, body = entry
            nl.fori_loop(0, count, lambda i, body=body: steps(tiles, moving, body))
            continue
        kind, engine, *windows = entry
        chosen = [piece(tiles[tile], start, step, partition) for tile, start, step, partition in windows]
        if kind < 7:
            step_of(kind, ENGINES[engine], *chosen)
        else:
            moved_step(kind, *moving, *chosen[:2], windows[2])


@nki.jit
def program(x, steps_of_it):
    # Tiles 0, 1 and 2 share bytes; the others are memories of their own.
    places = [(0, 0), (0, 100), (32, 8), None, None]
    tiles = [nl.ndarray((ROWS, WIDTH), dtype=nl.float32, address=place) for place in places]
    scratch = nl.ndarray((ROWS, WIDTH), dtype=nl.float32, buffer=nl.private_hbm)
    for tile in tiles:
        nisa.dma_copy(tile, x)
    nisa.dma_copy(scratch, x)
    indices = nl.ndarray((1, 7), dtype=nl.int32)
    nisa.memset(indices, 2)
    steps(tiles, (indices, nisa.register_alloc(0), scratch), steps_of_it)
    out = nl.ndarray((TILES, ROWS, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(TILES):
        nisa.dma_copy(out[i], tiles[i])
    return out


windows = st.tuples(st.integers(0, TILES - 1), st.integers(0, 6), st.integers(1, 5), st.sampled_from((0, 32)))
instructions = st.tuples(st.integers(0, 9), st.integers(0, 3), windows, windows, windows)
bodies = st.lists(instructions, min_size=1, max_size=5).map(tuple)
loops = st.tuples(st.integers(0, 3), bodies)
programs = st.lists(st.one_of(instructions, instructions, instructions, loops), min_size=1, max_size=14).map(tuple)
