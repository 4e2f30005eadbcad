"""Products, transpositions, gathers, pooling and convolution as plain loops over tiles."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.elementary.by_row import P, tiles

WIDE = 512
"""Columns of a product: one PSUM bank of float32."""


def _output(shape: Any, dtype: Any) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def _on_chip(shape: Any, dtype: Any, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def _parts(size: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, size)) for start in range(0, size, step)]


@nki.jit
def matmul(lhs_t, rhs):
    """lhs_t.T @ rhs: [K, M] and [K, N] to [M, N], of any sizes."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = _output((rows, columns), lhs_t.dtype)
    for m, m_end in _parts(rows, P):
        for n, n_end in _parts(columns, WIDE):
            total = _on_chip((m_end - m, n_end - n), nl.float32, nl.psum)
            for k, k_end in _parts(depth, P):
                nisa.nc_matmul(total, nl.load(lhs_t[k:k_end, m:m_end]), nl.load(rhs[k:k_end, n:n_end]))
            tile = _on_chip(total.shape, lhs_t.dtype)
            nisa.tensor_copy(tile, total)
            nl.store(out[m:m_end, n:n_end], tile)
    return out


def _turned(tile: Any, dtype: Any) -> Any:
    spread = _on_chip((tile.shape[1], tile.shape[0]), dtype, nl.psum)
    nisa.nc_transpose(spread, tile)
    result = _on_chip(spread.shape, dtype)
    nisa.tensor_copy(result, spread)
    return result


@nki.jit
def transpose(x):
    """[M, N] to [N, M], 128 x 128 elements at a time."""
    out = _output((x.shape[1], x.shape[0]), x.dtype)
    for m, m_end in _parts(x.shape[0], P):
        for n, n_end in _parts(x.shape[1], P):
            nl.store(out[n:n_end, m:m_end], _turned(nl.load(x[m:m_end, n:n_end]), x.dtype))
    return out


@nki.jit
def attention(q, k, v):
    """Attention of each head without a mask: q [h, s, d], k and v [h, t, d], scaled by 1 / sqrt(d)."""
    heads, queries, width = q.shape
    length = k.shape[1]
    out = _output(q.shape, q.dtype)
    for head in range(heads):
        keys = _on_chip((width, length), q.dtype)
        for t, t_end in _parts(length, P):
            nisa.tensor_copy(keys[:, t:t_end], _turned(nl.load(k[head, t:t_end]), q.dtype))
        values = [nl.load(v[head, t:t_end]) for t, t_end in _parts(length, P)]
        for s, s_end in _parts(queries, P):
            rows = s_end - s
            turned = _turned(nl.load(q[head, s:s_end]), q.dtype)
            scores = _on_chip((rows, length), nl.float32)
            for t, t_end in _parts(length, WIDE):
                product = _on_chip((rows, t_end - t), nl.float32, nl.psum)
                nisa.nc_matmul(product, turned, keys[:, t:t_end])
                nisa.tensor_scalar(scores[:, t:t_end], product, nl.multiply, width**-0.5)
            top, total = _on_chip((rows, 1), nl.float32), _on_chip((rows, 1), nl.float32)
            nisa.tensor_reduce(top, nl.maximum, scores, axis=-1, negate=True)
            weights = _on_chip((rows, length), q.dtype)
            nisa.activation_reduce(weights, nl.exp, scores, bias=top, reduce_op=nl.add, reduce_res=total)
            result = _on_chip((rows, width), nl.float32, nl.psum)
            for number, (t, t_end) in enumerate(_parts(length, P)):
                nisa.nc_matmul(result, _turned(weights[:, t:t_end], q.dtype), values[number])
            nisa.reciprocal(total, total)
            tile = _on_chip((rows, width), q.dtype)
            nisa.tensor_scalar(tile, result, nl.multiply, total)
            nl.store(out[head, s:s_end], tile)
    return out


@nki.jit
def embedding(table, numbers):
    """The rows of ``table`` with these ``numbers``, [n, 1] of int32."""
    count, width = numbers.shape[0], table.shape[1]
    out = _output((count, width), table.dtype)
    for rows in tiles(count):
        index = nl.load(numbers[rows])
        tile = _on_chip((rows.stop - rows.start, width), table.dtype)
        nisa.dma_copy(tile, table.ap([[width, tile.shape[0]], [1, width]], vector_offset=index, indirect_dim=0))
        nl.store(out[rows], tile)
    return out


@nki.jit
def max_pooling(x):
    """Maxima of 2 x 2 elements: [c, h, w] to [c, h / 2, w / 2], up to 128 channels."""
    channels, height, width = x.shape
    out = _output((channels, height // 2, width // 2), x.dtype)
    tile = nl.load(x.reshape((channels, height * width)))
    windows = tile.ap([[height * width, channels], [2 * width, height // 2], [2, width // 2], [width, 2], [1, 2]])
    result = _on_chip((channels, height // 2, width // 2), x.dtype)
    nisa.tensor_reduce(result, nl.maximum, windows, axis=[3, 4])
    nl.store(out, result)
    return out


@nki.jit
def convolution(x, weights):
    """3 x 3 with a border of zeros: x [c, h, w] and weights [9, c, d] to [d, h, w]; up to 128 channels."""
    channels, height, width = x.shape
    filters = weights.shape[2]
    out = _output((filters, height, width), x.dtype)
    image = _on_chip((channels, height + 2, width + 2), x.dtype)
    nisa.memset(image, 0.0)
    nisa.dma_copy(image[:, 1 : height + 1, 1 : width + 1], x)
    taps = [nl.load(weights[tap]) for tap in range(9)]
    lines = WIDE // width
    for first, last in _parts(height, lines):
        total = _on_chip((filters, last - first, width), nl.float32, nl.psum)
        for tap in range(9):
            i, j = tap // 3, tap % 3
            nisa.nc_matmul(total, taps[tap], image[:, first + i : last + i, j : j + width])
        tile = _on_chip(total.shape, x.dtype)
        nisa.tensor_copy(tile, total)
        nl.store(out[:, first:last], tile)
    return out
