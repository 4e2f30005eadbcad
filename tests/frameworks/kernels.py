"""Kernels for the tests of the bridges; one tile each."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


def _load(tensor):
    tile = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=tensor)
    return tile


def _store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def add(a, b):
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=_load(a), data2=_load(b), op=nl.add)
    return _store(total)


@nki.jit
def multiply(a, b):
    product = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=product, data1=_load(a), data2=_load(b), op=nl.multiply)
    return _store(product)


@nki.jit
def scale_in_place(a, scale=2.0):
    """a; its elements are then ``scale`` times what they were."""
    tile = _load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=a, src=tile)
    return a


@nki.jit
def put(cache, x, row=0):
    """2 x; ``cache``, which is not returned, holds x from ``row`` on."""
    tile = _load(x)
    nisa.dma_copy(dst=cache[row : row + x.shape[0], :], src=tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return _store(tile)


@nki.jit
def moved(a):
    return _store(_load(a))


@nki.jit
def sum_and_scaled(a, b, scale=2.0, mode="plain"):
    """Two results: a + b, and the first row of a times ``scale``."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    scaled = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    tile = _load(a)
    nisa.tensor_tensor(dst=total, data1=tile, data2=_load(b), op=nl.add)
    nisa.tensor_scalar(dst=scaled, data=tile[0:1, :], op0=nl.multiply, operand0=scale)
    return _store(total), _store(scaled)


@nki.jit
def less(a, b):
    result = nl.ndarray(a.shape, dtype=nl.bool_, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=_load(a), data2=_load(b), op=nl.less)
    return _store(result)


@nki.jit
def to_e4m3(a):
    result = nl.ndarray(a.shape, dtype=nl.float8_e4m3, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=_load(a))
    return _store(result)


@nki.jit
def weighted(x, w, scale=2.0):
    """x w scale: each row of x, [n, d], times the one of w, [1, d]."""
    rows, weights = _load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w.broadcast(0, x.shape[0]))
    nisa.scalar_tensor_tensor(dst=rows, data=rows, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=weights)
    return _store(rows)


@nki.jit
def scaled_product(a, b, scale=2.0):
    """Scale a b."""
    left, right = _load(a), _load(b)
    nisa.scalar_tensor_tensor(dst=left, data=left, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=right)
    return _store(left)


@nki.jit
def scaled_product_backward(a, b, dy, scale=2.0):
    left, right, gradient = _load(a), _load(b), _load(dy)
    for tile in (left, right):
        nisa.scalar_tensor_tensor(tile, tile, nl.multiply, scale, nl.multiply, gradient)
    return _store(right), _store(left)


@nki.jit
def overwrite_first(x, y):
    """x, which is then 7; and 2 y, with half of y read after the change of x."""
    tile = _load(y)
    nisa.dma_copy(x, nl.full(x.shape, 7.0, dtype=nl.float32, buffer=nl.sbuf))
    nisa.tensor_tensor(tile, tile, _load(y), nl.add)
    return x, _store(tile)


@nki.jit
def overwrite_both(x, y):
    nisa.dma_copy(x, nl.full(x.shape, 1.0, dtype=nl.float32, buffer=nl.sbuf))
    nisa.dma_copy(y, nl.full(y.shape, 2.0, dtype=nl.float32, buffer=nl.sbuf))
    return y, x


@nki.jit
def row_of(a, i):
    """The rows of a with the numbers i, which are not checked before the launch."""
    tile = nl.ndarray((i.shape[0], a.shape[1]), dtype=nl.float32)
    nisa.dma_copy(tile, a.ap([[a.shape[1], i.shape[0]], [1, a.shape[1]]], vector_offset=_load(i)))
    return _store(tile)


@nki.jit
def shown(a):
    """a, which the simulator prints."""
    tile = _load(a)
    print("tile of", tile[0:1, 0:2])
    return _store(tile)


@nki.jit
def taken(x, rows, scale=1.0):
    """Scale x; the numbers of rows are taken as they come."""
    tile, _ = _load(x), _load(rows)
    nisa.tensor_scalar(tile, tile, nl.multiply, scale)
    return _store(tile)
