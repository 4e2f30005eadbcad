"""Whole kernels as a tutorial writes them: tile by tile, without regard to how native code runs them."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
"""Rows of a tile."""
WIDE = 512
"""Columns of a product: one PSUM bank of float32."""
MASKED = -3e38


def _like(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


@nki.jit
def matmul(lhs_t, rhs):
    """lhs_t.T @ rhs: [K, M] and [K, N] to [M, N]."""
    depth, rows = lhs_t.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, P):
        for n in range(0, columns, WIDE):
            total = nl.ndarray((P, WIDE), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, P):
                left = nl.load(lhs_t[k : k + P, m : m + P])
                right = nl.load(rhs[k : k + P, n : n + WIDE])
                nisa.nc_matmul(total, left, right)
            tile = _like((P, WIDE), lhs_t.dtype)
            nisa.tensor_copy(tile, total)
            nl.store(out[m : m + P, n : n + WIDE], tile)
    return out


def _turned(tile, dtype):
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = _like(spread.shape, dtype)
    nisa.tensor_copy(result, spread)
    return result


@nki.jit
def attention(q, k, v):
    """Causal attention of one head: [S, 128] each, scaled by 1 / sqrt(128)."""
    length, width = q.shape
    out = nl.ndarray((length, width), dtype=q.dtype, buffer=nl.shared_hbm)
    keys = _like((width, length), q.dtype)
    for start in range(0, length, P):
        nisa.tensor_copy(keys[:, start : start + P], _turned(nl.load(k[start : start + P]), q.dtype))
    values = [nl.load(v[start : start + P]) for start in range(0, length, P)]
    for start in range(0, length, P):
        queries = _turned(nl.load(q[start : start + P]), q.dtype)
        visible = start + P
        scores = _like((P, visible))
        for first in range(0, visible, WIDE):
            last = min(first + WIDE, visible)
            product = nl.ndarray((P, last - first), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, queries, keys[:, first:last])
            nisa.tensor_scalar(scores[:, first:last], product, nl.multiply, width**-0.5)
        diagonal = scores[:, start:visible]
        nisa.affine_select(diagonal, [[-1, P]], 1, diagonal, MASKED, cmp_op=nl.greater_equal)
        top, total = _like((P, 1)), _like((P, 1))
        nisa.tensor_reduce(top, nl.maximum, scores, axis=-1, negate=True)
        weights = _like((P, visible), q.dtype)
        nisa.activation_reduce(weights, nl.exp, scores, bias=top, reduce_op=nl.add, reduce_res=total)
        result = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
        for number, first in enumerate(range(0, visible, P)):
            nisa.nc_matmul(result, _turned(weights[:, first : first + P], q.dtype), values[number])
        nisa.reciprocal(total, total)
        tile = _like((P, width), q.dtype)
        nisa.tensor_scalar(tile, result, nl.multiply, total)
        nl.store(out[start : start + P], tile)
    return out


@nki.jit
def softmax(x):
    """Softmax of each row."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : start + P])
        top, total = _like((P, 1)), _like((P, 1))
        nisa.tensor_reduce(top, nl.maximum, tile, axis=-1, negate=True)
        powers = _like(tile.shape)
        nisa.activation_reduce(powers, nl.exp, tile, bias=top, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(powers, powers, nl.multiply, total)
        nl.store(out[start : start + P], powers)
    return out


def _replicated(vector):
    """[1, n] in HBM to [128, n] in SBUF."""
    tile = _like((P, vector.shape[1]))
    nisa.dma_copy(tile, vector.ap([[0, P], [1, vector.shape[1]]]))
    return tile


@nki.jit
def layer_norm(x, gain, shift, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * gain + shift, by row; gain and shift are [1, n]."""
    rows, width = x.shape
    limit = nl.tile_size.bn_stats_fmax
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gains, shifts = _replicated(gain), _replicated(shift)
    for start in range(0, rows, P):
        tile = nl.load(x[start : start + P])
        pieces = (width + limit - 1) // limit
        stats, moments, scale = _like((P, pieces, 6)), _like((P, 2)), _like((P, 1))
        for i in range(pieces):
            nisa.bn_stats(stats[:, i], tile[:, limit * i : min(width, limit * (i + 1))])
        nisa.bn_aggr(moments, stats)
        nisa.tensor_scalar(scale, moments[:, 1:2], nl.add, eps)
        nisa.activation(scale, nl.rsqrt, scale)
        normal = _like(tile.shape)
        nisa.tensor_scalar(normal, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
        nisa.tensor_tensor(normal, normal, gains, nl.multiply)
        nisa.tensor_tensor(normal, normal, shifts, nl.add)
        nl.store(out[start : start + P], normal)
    return out


@nki.jit
def rms_norm(x, gain, eps=1e-6):
    """x / sqrt(mean of squares + eps) * gain, by row; gain is [1, n]."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gains = _replicated(gain)
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : start + P])
        squares, total = _like(tile.shape), _like((P, 1))
        nisa.activation_reduce(squares, nl.square, tile, reduce_op=nl.add, reduce_res=total)
        nisa.tensor_scalar(total, total, nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=eps)
        nisa.activation(total, nl.rsqrt, total)
        normal = _like(tile.shape)
        nisa.tensor_scalar(normal, tile, nl.multiply, total)
        nisa.tensor_tensor(normal, normal, gains, nl.multiply)
        nl.store(out[start : start + P], normal)
    return out


@nki.jit
def swiglu(gate, up):
    """silu(gate) * up."""
    out = nl.ndarray(gate.shape, dtype=gate.dtype, buffer=nl.shared_hbm)
    for start in range(0, gate.shape[0], P):
        left, right = nl.load(gate[start : start + P]), nl.load(up[start : start + P])
        product = _like(left.shape)
        nisa.activation(product, nl.silu, left)
        nisa.tensor_tensor(product, product, right, nl.multiply)
        nl.store(out[start : start + P], product)
    return out
