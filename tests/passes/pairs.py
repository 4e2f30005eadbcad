"""Programs for two cores: they share tensors in HBM, take turns at them, and exchange tiles."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl

ROWS, WIDTH, TILES, SHARED = 4, 8, 3, 2
INPUTS = (np.arange(2 * TILES * ROWS * WIDTH, dtype=np.float32).reshape(2 * TILES * ROWS, WIDTH),)
ENGINES = (nisa.engine.unknown, nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd)


@nki.jit
def program(x, plan):
    """``plan``: phases of steps for each core, and what the cores do together at the end of each.

    The halves of a shared tensor change owners at each barrier about it: first each core has its own, then the
    other's, then both may read all of it. So there are no races if both are told of the same barriers.
    """
    core = nl.program_id(0)
    tiles = [nl.load(x[(core * TILES + n) * ROWS : (core * TILES + n + 1) * ROWS]) for n in range(TILES)]
    shared = [nl.ndarray((2 * ROWS, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm, name=f"shared{n}") for n in range(2)]
    out = nl.ndarray((2 * TILES * ROWS, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm)
    for n in range(SHARED):
        nl.store(half(shared[n], core), tiles[n])
    passed = [0] * SHARED
    for steps, (kind, number, one, two) in plan:
        for step in steps[core]:
            step_of(core, tiles, shared, passed, *step)
        if kind == "barrier":
            nisa.core_barrier(shared[number], (0, 1), engine=ENGINES[1 + one])
            passed[number] += 1
        elif kind == "exchange":
            nisa.sendrecv(tiles[one], tiles[two], send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=number)
    for n in range(TILES):
        nl.store(out[(core * TILES + n) * ROWS : (core * TILES + n + 1) * ROWS], tiles[n])
    return out


def half(tensor, number):
    return tensor[number * ROWS : (number + 1) * ROWS]


def step_of(core, tiles, shared, passed, kind, number, engine, one, two):
    """One instruction of one core."""
    state = passed[number] % 3
    mine = half(shared[number], one % 2 if state == 2 else core ^ state)
    if kind == 0:
        nisa.tensor_tensor(tiles[one], tiles[two], tiles[number], op=nl.add)
    elif kind == 1:
        nisa.tensor_scalar(tiles[one], tiles[two], op0=nl.multiply, operand0=0.5, op1=nl.add, operand1=1.0)
    elif kind == 2:
        nisa.tensor_copy(tiles[one], tiles[two], engine=ENGINES[engine])
    elif kind == 3 and state < 2:
        nisa.dma_copy(mine, tiles[two])
    else:
        nisa.dma_copy(tiles[two], mine)


tile = st.integers(0, TILES - 1)
step = st.tuples(st.integers(0, 5), st.integers(0, SHARED - 1), st.integers(0, 3), tile, tile)
meeting = st.tuples(st.sampled_from(["barrier", "barrier", "exchange", "none"]), st.integers(0, SHARED - 1), tile, tile)
each = st.lists(step, max_size=4).map(tuple)
programs = st.lists(st.tuples(st.tuples(each, each), meeting), min_size=1, max_size=5).map(tuple)


def exchange(x, between, barrier):
    """Each core writes its half of a tensor and reads the other's: ``barrier`` makes them meet, about ``between``."""
    core = nl.program_id(0)
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="shared")
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="other")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // 2
    nl.store(shared[core * rows : (core + 1) * rows], nl.load(x[core * rows : (core + 1) * rows]))
    nl.store(other[core * rows : (core + 1) * rows], nl.load(x[core * rows : (core + 1) * rows]))
    if barrier:
        nisa.core_barrier(shared if between == "shared" else other, (0, 1))
    nl.store(out[core * rows : (core + 1) * rows], nl.load(shared[(1 - core) * rows : (2 - core) * rows]))
    return out


@nki.jit
def meets(x):
    """No race: the cores meet about the tensor that they share."""
    return exchange(x, "shared", True)


@nki.jit
def never_meets(x):
    """A race: one core reads what the other may not have written yet."""
    return exchange(x, "shared", False)


@nki.jit
def meets_elsewhere(x):
    """A race: the cores meet about another tensor than the one that they share."""
    return exchange(x, "other", True)


@nki.jit
def both_write(x):
    """A race: two cores write other numbers to one place."""
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    if core == 1:
        nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
    nl.store(out, tile)
    return out


@nki.jit
def overwrites(x):
    """A race: after the barrier, one core overwrites what the other still reads."""
    core, rows = nl.program_id(0), x.shape[0] // 2
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="shared")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[core * rows : (core + 1) * rows])
    nl.store(shared[core * rows : (core + 1) * rows], tile)
    nisa.core_barrier(shared, (0, 1))
    got = nl.load(shared[(1 - core) * rows : (2 - core) * rows])
    nl.store(out[core * rows : (core + 1) * rows], got)
    nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
    nl.store(shared[core * rows : (core + 1) * rows], tile)
    return out


RACES = (never_meets, meets_elsewhere, both_write, overwrites)
