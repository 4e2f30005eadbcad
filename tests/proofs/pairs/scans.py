"""Scans: running sums, decays and maxima, step by step, in chunks, by doubling, and as products."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed

DECAY = 0.5
STEPS = 24
POWERS = np.array(
    [[DECAY ** (j - i) if j >= i else 0.0 for j in range(STEPS)] for i in range(STEPS)],
    np.float32,
)
"""What element i adds to state j."""


@nki.jit
def sums_by_scan(x):
    """state = 1 * state + x[i]."""
    tile = nl.load(x)
    ones, out = nl.ones(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor_scan(out, ones, tile, 0.0, nl.multiply, nl.add)
    return returned(out)


@nki.jit
def sums_by_loop(x):
    tile = nl.load(x)
    for i in range(1, x.shape[1]):
        nisa.tensor_tensor(tile[:, i : i + 1], tile[:, i : i + 1], tile[:, i - 1 : i], nl.add)
    return returned(tile)


@nki.jit
def sums_by_triangle(x):
    """A product with ones on and above the diagonal."""
    width = x.shape[1]
    ones = nl.ones((width, width), nl.float32)
    nisa.affine_select(ones, [[1, width]], -1, ones, 0.0, cmp_op=nl.greater_equal)
    return returned(copied(product(transposed(nl.load(x)), ones)))


@nki.jit
def sums_by_doubling(x):
    """Windows of 1, 2, 4, … elements."""
    tile, other = nl.load(x), nl.ndarray(x.shape, nl.float32)
    width, step = x.shape[1], 1
    while step < width:
        nisa.tensor_copy(other[:, 0:step], tile[:, 0:step])
        nisa.tensor_tensor(other[:, step:width], tile[:, step:width], tile[:, 0 : width - step], nl.add)
        tile, other = other, tile
        step *= 2
    return returned(tile)


@nki.jit
def sums_by_register(x):
    tile = nl.load(x)
    nisa.tensor_scalar_cumulative(tile, tile, nl.multiply, nl.add, 1.0)
    return returned(tile)


@nki.jit
def sums_down_by_triangle(x):
    """Running sums over the partitions."""
    rows = x.shape[0]
    ones, mask = nl.ndarray((rows, rows), nl.float32), nl.ndarray((rows, rows), nl.float32)
    nisa.iota(mask, [[1, rows]], channel_multiplier=-1)
    nisa.tensor_scalar(ones, mask, nl.greater_equal, 0.0)
    return returned(copied(product(ones, nl.load(x))))


@nki.jit
def sums_down_by_rows(x):
    """Each row by DMA, added to the state, and stored."""
    state = nl.zeros((1, x.shape[1]), nl.float32)
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        nisa.tensor_tensor(state, state, nl.load(x[i : i + 1]), nl.add)
        nl.store(out[i : i + 1], state)
    return out


@nki.jit
def decays_by_scan(decay, x, start):
    """state = decay[i] * state + x[i] from start."""
    out = nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor_scan(out, nl.load(decay), nl.load(x), nl.load(start), nl.multiply, nl.add)
    return returned(out)


@nki.jit
def decays_in_chunks(decay, x, start):
    """Chunks of 8, each from the last state of the one before."""
    factors, terms, out = nl.load(decay), nl.load(x), nl.ndarray(x.shape, nl.float32)
    last = nl.load(start)
    for i in range(0, x.shape[1], 8):
        part = slice(i, i + 8)
        nisa.tensor_tensor_scan(out[:, part], factors[:, part], terms[:, part], last, nl.multiply, nl.add)
        nisa.tensor_copy(last, out[:, i + 7 : i + 8])
    return returned(out)


@nki.jit
def decays_by_loop(decay, x, start):
    factors, terms, state = nl.load(decay), nl.load(x), nl.load(start)
    for i in range(x.shape[1]):
        here = slice(i, i + 1)
        nisa.scalar_tensor_tensor(terms[:, here], factors[:, here], nl.multiply, state, nl.add, terms[:, here])
        nisa.tensor_copy(state, terms[:, here])
    return returned(terms)


@nki.jit
def decays_by_doubling(decay, x, start):
    """Two maps a s + b after each other are one map; windows double."""
    a, b, first = nl.load(decay), nl.load(x), nl.load(start)
    _rows, width = x.shape
    step = 1
    while step < width:
        rest = width - step
        wide_a, wide_b = copied(a), copied(b)
        nisa.tensor_tensor(wide_b[:, step:width], a[:, step:width], b[:, 0:rest], nl.multiply)
        nisa.tensor_tensor(wide_b[:, step:width], wide_b[:, step:width], b[:, step:width], nl.add)
        nisa.tensor_tensor(wide_a[:, step:width], a[:, step:width], a[:, 0:rest], nl.multiply)
        a, b = wide_a, wide_b
        step *= 2
    nisa.scalar_tensor_tensor(b, a, nl.multiply, first, nl.add, b)
    return returned(b)


@nki.jit
def average_by_scan(x):
    """state = 0.5 * state + x[i]."""
    factors, out = nl.full(x.shape, DECAY, nl.float32), nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor_scan(out, factors, nl.load(x), 0.0, nl.multiply, nl.add)
    return returned(out)


@nki.jit
def average_by_product(x):
    """A product with the powers of the decay."""
    powers = nl.load(nl.shared_constant(POWERS))
    return returned(copied(product(transposed(nl.load(x)), powers)))


@nki.jit
def maxima_by_scan(x):
    """state = max(state, x[i]): the first operator keeps the state."""
    tile = nl.load(x)
    zeros, out, first = nl.zeros(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.tensor_copy(first, tile[:, 0:1])
    nisa.tensor_tensor_scan(out, zeros, tile, first, nl.add, nl.maximum)
    return returned(out)


@nki.jit
def maxima_by_doubling(x):
    tile, other = nl.load(x), nl.ndarray(x.shape, nl.float32)
    width, step = x.shape[1], 1
    while step < width:
        nisa.tensor_copy(other[:, 0:step], tile[:, 0:step])
        nisa.tensor_tensor(other[:, step:width], tile[:, step:width], tile[:, 0 : width - step], nl.maximum)
        tile, other = other, tile
        step *= 2
    return returned(tile)


@nki.jit
def space_by_time(decay, x, into, out_of):
    """A state-space model: state = decay * state + into[t] * x[t]; y[t] = sum of out_of[t] * state, per row of x."""
    rows, steps = x.shape
    states = into.shape[0]
    factors, terms = nl.load(decay), nl.load(x)
    result = nl.zeros((rows, steps), nl.float32)
    wide, run = nl.ndarray((rows, steps), nl.float32), nl.ndarray((rows, steps), nl.float32)
    for n in range(states):
        for row in range(rows):
            nisa.dma_copy(wide[row : row + 1], into[n : n + 1])
        nisa.tensor_tensor(wide, wide, terms, nl.multiply)
        nisa.tensor_tensor_scan(run, factors, wide, 0.0, nl.multiply, nl.add)
        for row in range(rows):
            nisa.dma_copy(wide[row : row + 1], out_of[n : n + 1])
        nisa.tensor_tensor(run, run, wide, nl.multiply)
        nisa.tensor_tensor(result, result, run, nl.add)
    return returned(result)


@nki.jit
def space_by_step(decay, x, into, out_of):
    """All states of a row beside each other, one step of time after the other."""
    rows, steps = x.shape
    states = into.shape[0]
    factors, terms, result = nl.load(decay), nl.load(x), nl.ndarray((rows, steps), nl.float32)
    state, fed, seen = (
        nl.zeros((rows, states), nl.float32),
        nl.ndarray((rows, states), nl.float32),
        nl.ndarray((rows, states), nl.float32),
    )
    for t in range(steps):
        for row in range(rows):
            nisa.dma_copy(fed[row : row + 1], into[:, t : t + 1])
            nisa.dma_copy(seen[row : row + 1], out_of[:, t : t + 1])
        nisa.tensor_scalar(fed, fed, nl.multiply, terms[:, t : t + 1])
        nisa.scalar_tensor_tensor(state, state, nl.multiply, factors[:, t : t + 1], nl.add, fed)
        nisa.tensor_tensor(seen, seen, state, nl.multiply)
        nisa.tensor_reduce(result[:, t : t + 1], nl.add, seen, axis=1)
    return returned(result)


X = tensors((20, STEPS))
DECAYS = (Input((20, STEPS), "float32", 0.2, 1.0), Input((20, STEPS)), Input((20, 1)))
SPACE = (Input((6, 12), "float32", 0.2, 1.0), *tensors((6, 12), (4, 12), (4, 12)))
PAIRS = [
    Pair("running sums by a loop", "scans", sums_by_scan, sums_by_loop, X),
    Pair("running sums by a triangle", "scans", sums_by_scan, sums_by_triangle, X),
    Pair("running sums by doubling", "scans", sums_by_register, sums_by_doubling, X),
    Pair("running sums by a register", "scans", sums_by_triangle, sums_by_register, X),
    Pair("running sums down", "scans", sums_down_by_triangle, sums_down_by_rows, X),
    Pair("decays in chunks", "scans", decays_by_scan, decays_in_chunks, DECAYS),
    Pair("decays by a loop", "scans", decays_by_scan, decays_by_loop, DECAYS),
    Pair("decays by doubling", "scans", decays_by_loop, decays_by_doubling, DECAYS),
    Pair("moving average by a product", "scans", average_by_scan, average_by_product, X),
    Pair("running maxima", "scans", maxima_by_scan, maxima_by_doubling, X, identities=("max in any order",)),
    Pair("state space by step", "scans", space_by_time, space_by_step, SPACE),
]
