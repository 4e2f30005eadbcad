"""Parts of the kernels of several tests."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl


def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def sb(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def ps(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def stored(total):
    """The output that holds a tile of PSUM, in float32."""
    tile = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, total)
    return returned(tile)


def returned(tile):
    """The output that holds a tile."""
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def like(tile, dtype=None):
    """A tile of the same shape."""
    return nl.ndarray(tile.shape, dtype=tile.dtype if dtype is None else dtype, buffer=nl.sbuf)


def column(tile):
    """A float32 for each partition."""
    return nl.ndarray((tile.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)


def copied(tile, dtype=None):
    result = like(tile, dtype)
    nisa.tensor_copy(result, tile)
    return result


def applied(tile, op, operand, dtype=None, **more):
    """An operator on a tile and a number, or a column."""
    result = like(tile, dtype)
    nisa.tensor_scalar(result, tile, op, operand, **more)
    return result


def joined(a, op, b, dtype=None):
    """An operator on two tiles."""
    result = like(a, dtype)
    nisa.tensor_tensor(result, a, b, op)
    return result


def activated(tile, function, dtype=None):
    result = like(tile, dtype)
    nisa.activation(result, function, tile)
    return result


def reduced(tile, op, **more):
    """A column with the sum of each row, or another reduction."""
    result = column(tile)
    nisa.tensor_reduce(result, op, tile, axis=1, **more)
    return result


def product(stationary, moving):
    """The product of [K, M] and [K, N] in PSUM."""
    total = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary, moving)
    return total


def transposed(tile):
    """The transposed tile, by way of PSUM."""
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = nl.ndarray(spread.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, spread)
    return result
