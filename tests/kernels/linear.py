"""Matrix products, transposition, and layers made of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

from .case import EPSILON, case, normal, normals


def matmul_block(out, lhs_t, rhs, m, n, rows, columns):
    """out[m:m+rows, n:n+columns] = lhs_t.T @ rhs, accumulated over blocks of 128 of the contracted dimension."""
    depth = lhs_t.shape[0]
    block = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for k in range((depth + 127) // 128):
        here = min(128, depth - 128 * k)
        left = nl.ndarray((here, rows), dtype=lhs_t.dtype, buffer=nl.sbuf)
        right = nl.ndarray((here, columns), dtype=rhs.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=lhs_t[nl.ds(128 * k, here), nl.ds(m, rows)])
        nisa.dma_copy(dst=right, src=rhs[nl.ds(128 * k, here), nl.ds(n, columns)])
        nisa.nc_matmul(dst=block, stationary=left, moving=right)
    result = nl.ndarray((rows, columns), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=block)
    nisa.dma_copy(dst=out[m : m + rows, n : n + columns], src=result)


# A chain of K fused additions in float32: at most K half units of the running sum, which is about sqrt(K).
@case(normals((300, 200), (300, 600)), lambda a, b: a.T @ b, 40 * EPSILON)
@nki.jit
def matmul_tiled(lhs_t, rhs):
    rows, columns = lhs_t.shape[1], rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, 128):
        for n in range(0, columns, 512):
            matmul_block(out, lhs_t, rhs, m, n, min(128, rows - m), min(512, columns - n))
    return out


@case(normals((130, 70), (130, 33), dtype=ml_dtypes.bfloat16), lambda a, b: a.T @ b, 2.0**-8)
@nki.jit
def matmul_bfloat16(lhs_t, rhs):
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    matmul_block(out, lhs_t, rhs, 0, 0, lhs_t.shape[1], rhs.shape[1])
    return out


@case(normal(200, 150), lambda x: x.T, 0.0)
@nki.jit
def transpose(x):
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, 128):
        for c in range(0, columns, 128):
            height, width = min(128, rows - r), min(128, columns - c)
            tile = nl.load(x[nl.ds(r, height), nl.ds(c, width)])
            turned = nl.ndarray((width, height), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile)
            back = nl.ndarray((width, height), dtype=x.dtype)
            nisa.tensor_copy(back, turned)
            nl.store(out[c : c + width, r : r + height], back)
    return out


def gelu_reference(x, w1, b1, w2, b2):
    from math import erf

    hidden = x @ w1 + b1[:, 0]
    hidden = hidden * 0.5 * (1 + np.vectorize(erf)(hidden / np.sqrt(2.0)))
    return hidden @ w2 + b2[:, 0]


def project(x_t, w, bias, op):
    """(features, tokens) -> (outputs, tokens), with the bias down the partitions: op(w.T @ x_t + bias)."""
    outputs, tokens = w.shape[1], x_t.shape[1]
    total = nl.ndarray((outputs, tokens), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary=w, moving=x_t)
    result = nl.ndarray((outputs, tokens), dtype=nl.float32)
    nisa.activation(result, op=op, data=total, bias=bias)
    return result


@case(
    normals((50, 64), (64, 96), (96, 1), (96, 40), (40, 1)),
    gelu_reference,
    32 * EPSILON,
)
@nki.jit
def gelu_mlp(x, w1, b1, w2, b2):
    x_t = nl.ndarray((x.shape[1], x.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(x_t, nl.load(x))
    moving = nl.ndarray(x_t.shape, dtype=nl.float32)
    nisa.tensor_copy(moving, x_t)
    hidden = project(moving, nl.load(w1), nl.load(b1), nl.gelu)
    y_t = project(hidden, nl.load(w2), nl.load(b2), nl.copy)
    y = nl.ndarray((x.shape[0], w2.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(y, y_t)
    result = nl.ndarray(y.shape, dtype=nl.float32)
    nisa.tensor_copy(result, y)
    return returned(result)


def attention_reference(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


@nki.jit
def turned(tile):
    """A sub-kernel: the transpose of an SBUF tile, in SBUF."""
    psum = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(psum, tile)
    result = nl.ndarray(psum.shape, dtype=tile.dtype)
    nisa.tensor_copy(result, psum)
    return result


@case(normals((100, 40), (100, 40), (100, 40)), attention_reference, 32 * EPSILON)
@nki.jit
def causal_attention(q, k, v):
    length, width = q.shape
    scores = nl.ndarray((length, length), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(scores, stationary=turned(nl.load(q)), moving=turned(nl.load(k)))
    scaled = nl.ndarray((length, length), dtype=nl.float32)
    nisa.tensor_scalar(scaled, scores, op0=nl.multiply, operand0=width**-0.5)
    masked = nl.ndarray((length, length), dtype=nl.float32)
    # Row i sees column j where i - j >= 0.
    nisa.affine_select(masked, [[-1, length]], 1, scaled, -1e30, cmp_op=nl.greater_equal)
    top = nl.ndarray((length, 1), dtype=nl.float32)
    nisa.tensor_reduce(top, op=nl.maximum, data=masked, axis=1, negate=True)
    weights, total = nl.ndarray((length, length), dtype=nl.float32), nl.ndarray((length, 1), dtype=nl.float32)
    nisa.activation_reduce(weights, op=nl.exp, data=masked, reduce_op=nl.add, reduce_res=total, bias=top)
    mixed = nl.ndarray((length, width), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(mixed, stationary=turned(weights), moving=nl.load(v))
    nisa.reciprocal(total, total)
    result = nl.ndarray((length, width), dtype=q.dtype)
    nisa.tensor_scalar(result, mixed, nl.multiply, total)
    return returned(result)
