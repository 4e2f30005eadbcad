"""LayerNorm, without gain and bias, in ways that keep and lose digits (docs/accuracy.md)."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def by_squares(x):
    """The variance as the mean of the squares less the square of the mean."""
    tile = nl.load(x)
    mean = nl.mean(tile, axis=1)
    mean_of_squares = nl.mean(nl.square(tile), axis=1)
    square_of_mean = nl.square(mean)
    variance = nl.subtract(mean_of_squares, square_of_mean)
    return normalised(tile, mean, nl.rsqrt(variance))


@nki.jit
def by_differences(x):
    """The variance as the mean of the squares of the differences from the mean."""
    tile = nl.load(x)
    mean = nl.mean(tile, axis=1)
    centred = difference(tile, mean)
    variance = nl.mean(nl.square(centred), axis=1)
    return normalised(tile, mean, nl.rsqrt(variance))


@nki.jit
def in_bfloat16(x):
    """The same with a mean that is kept in bfloat16."""
    tile = nl.load(x)
    mean = nl.mean(tile, axis=1, dtype=nl.bfloat16)
    wide = nl.copy(mean, dtype=nl.float32)
    centred = difference(tile, wide)
    variance = nl.mean(nl.square(centred), axis=1)
    return normalised(tile, wide, nl.rsqrt(variance))


@nki.jit
def with_a_mistake(x):
    """As by_differences, but the squares are of the data, not of the differences."""
    tile = nl.load(x)
    mean = nl.mean(tile, axis=1)
    variance = nl.mean(nl.square(tile), axis=1)
    return normalised(tile, mean, nl.rsqrt(variance))


def difference(tile, mean):
    centred = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=centred, data=tile, op0=nl.subtract, operand0=mean)
    return centred


def normalised(tile, mean, scale):
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    y = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=y, data=tile, op0=nl.subtract, operand0=mean, op1=nl.multiply, operand1=scale)
    nisa.dma_copy(dst=result, src=y)
    return result
