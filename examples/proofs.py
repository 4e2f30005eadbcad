"""Softmax in two passes, online, and with a forgotten rescale: two are one function, and `nki prove` shows it."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

BLOCK = 16


def reference(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def column(x):
    return nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)


def normalised(tile, top, total):
    """Store exp(tile - top) / total."""
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation(tile, nl.exp, tile)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def two_passes(x):
    tile, top, total = nl.load(x), column(x), column(x)
    powers = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(powers, tile, nl.subtract, top)
    nisa.activation_reduce(powers, nl.exp, powers, nl.add, total)
    return normalised(tile, top, total)


def running(x, rescale):
    """Maximum and sum run along the columns; a new maximum scales the sum anew."""
    tile, top, total = nl.load(x), column(x), column(x)
    fresh, factor, part = column(x), column(x), column(x)
    powers = nl.ndarray((x.shape[0], BLOCK), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(top, -3e38)
    nisa.memset(total, 0.0)
    for start in range(0, x.shape[1], BLOCK):
        block = tile[:, start : start + BLOCK]
        nisa.tensor_reduce(fresh, nl.maximum, block, axis=1)
        nisa.tensor_tensor(fresh, fresh, top, nl.maximum)
        nisa.tensor_scalar(powers, block, nl.subtract, fresh)
        nisa.activation_reduce(powers, nl.exp, powers, nl.add, part)
        if rescale:
            nisa.tensor_tensor(factor, top, fresh, nl.subtract)
            nisa.activation(factor, nl.exp, factor)
            nisa.tensor_scalar(total, total, nl.multiply, factor)
        nisa.tensor_tensor(total, total, part, nl.add)
        nisa.tensor_copy(top, fresh)
    return normalised(tile, top, total)


@nki.jit
def online(x):
    return running(x, rescale=True)


@nki.jit
def forgotten(x):
    return running(x, rescale=False)


if __name__ == "__main__":
    x = np.zeros((128, 64), np.float32)  # its shape counts, not its numbers
    print(nki.prove(two_passes, online)(x))
    print(nki.prove(reference, online)(x))
    print(nki.prove(two_passes, forgotten)(x))
