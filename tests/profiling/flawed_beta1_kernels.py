"""Kernels of NKI Beta 1 with one planted inefficiency each, and the same kernels without it."""

from __future__ import annotations

from neuronxcc import nki
from neuronxcc.nki import language as nl


@nki.jit
def doubled(x, width):
    """2 x, in loads and stores of ``width`` columns."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for number in nl.affine_range(x.shape[1] // width):
        place = nl.ds(number * width, width)
        nl.store(out[0:128, place], nl.multiply(nl.load(x[0:128, place]), 2.0))
    return out


@nki.jit
def exponential(x, rows):
    """exp(x), in tiles of ``rows`` rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for number in nl.affine_range(x.shape[0] // rows):
        place = nl.ds(number * rows, rows)
        nl.store(out[place, :], nl.exp(nl.load(x[place, :])))
    return out


@nki.jit
def divided_by_sums(x, keep):
    """Rows of ``x`` divided by their sums, in a loop that adds and one that divides; ``keep``: both use one load."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    width = columns // 4
    for first in range(0, rows, 128):
        total = nl.zeros((128, 1), dtype=nl.float32)
        tiles = []
        for number in range(8):
            start = number * width // 2
            tile = nl.load(x[first : first + 128, start : start + width // 2])
            tiles.append(tile)
            total[...] += nl.sum(tile, axis=[1], keepdims=True, dtype=nl.float32)
        inverse = nl.reciprocal(total)
        for number in range(8 if keep else 4):
            size = width // 2 if keep else width
            place = slice(number * size, number * size + size)
            tile = tiles[number] if keep else nl.load(x[first : first + 128, place])
            nl.store(out[first : first + 128, place], nl.multiply(tile, inverse))
    return out
