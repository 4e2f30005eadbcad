"""Attention as a stranger writes it: sliding windows, biases, groups of heads, sinks, and one pass against two."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed

N, D, SCALE = 32, 16, 16**-0.5


@nki.jit
def rows_at_once(q, k, v):
    """q, k and v of (n, d); the weights are divided before the product."""
    scores = product(transposed(nl.load(q)), transposed(nl.load(k)))
    weights = nl.softmax(nl.multiply(scores, SCALE), axis=1)
    return returned(copied(product(transposed(weights), nl.load(v))))


def flash(q, k, v, size, mask=None, bias=None):
    """The online form in blocks of ``size`` keys; ``mask`` and ``bias`` change the scores of a block."""
    queries, keys, values = transposed(nl.load(q)), transposed(nl.load(k)), nl.load(v)
    best, total, acc = nl.full((N, 1), -1e30, nl.float32), nl.zeros((N, 1), nl.float32), nl.zeros((N, D), nl.float32)
    for start in range(0, N, size):
        tile = copied(product(queries, keys[:, start : start + size]))
        nisa.tensor_scalar(tile, tile, nl.multiply, SCALE)
        if bias is not None:
            nisa.tensor_tensor(tile, tile, bias[:, start : start + size], nl.add)
        if mask is not None:
            mask(tile, start, size)
        top, part, change = column(tile), column(tile), column(tile)
        nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
        nisa.tensor_tensor(top, top, best, nl.maximum)
        nisa.tensor_tensor(change, best, top, nl.subtract)
        nisa.activation(change, nl.exp, change)
        nisa.tensor_scalar(best, top, nl.multiply, -1.0)
        nisa.activation_reduce(tile, nl.exp, tile, nl.add, part, bias=best)
        nisa.tensor_copy(best, top)
        nisa.scalar_tensor_tensor(total, total, nl.multiply, change, nl.add, part)
        block = copied(product(transposed(tile), copied_rows(values, start, size)))
        nisa.scalar_tensor_tensor(acc, acc, nl.multiply, change, nl.add, block)
    nisa.reciprocal(total, total)
    nisa.activation(acc, nl.copy, acc, scale=total)
    return returned(acc)


def copied_rows(tile, start, size):
    """Rows of a tile at partition 0, by DMA."""
    rows = nl.ndarray((size, tile.shape[1]), tile.dtype)
    nisa.dma_copy(rows, tile[start : start + size])
    return rows


@nki.jit
def flash_of_16(q, k, v):
    return flash(q, k, v, 16)


@nki.jit
def flash_of_8(q, k, v):
    return flash(q, k, v, 8)


def window_mask(tile, start, size):
    nisa.affine_select(tile, [[-1, size]], 1, tile, -3e4, offset=-start, cmp_op=nl.greater_equal)
    nisa.affine_select(tile, [[1, size]], -1, tile, -3e4, offset=start + 7, cmp_op=nl.greater_equal)


@nki.jit
def flash_of_a_window(q, k, v):
    """Each query sees itself and seven keys before."""
    return flash(q, k, v, 16, mask=window_mask)


@nki.jit
def window_by_arithmetic(q, k, v):
    """The mask is a number, 0 or 1, of positions; it multiplies the powers."""
    scores = nl.multiply(product(transposed(nl.load(q)), transposed(nl.load(k))), SCALE)
    behind = nl.ndarray((N, N), nl.int32)
    nisa.iota(behind, [[-1, N]], channel_multiplier=1)
    seen = nl.multiply(nl.greater_equal(behind, 0), nl.less(behind, 8))
    powers = nl.multiply(nl.exp(nl.subtract(scores, nl.max(scores, axis=1, keepdims=True))), seen)
    weights = nl.divide(powers, nl.sum(powers, axis=1, keepdims=True))
    return returned(copied(product(transposed(weights), nl.load(v))))


def numpy_window(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[1])
    i, j = np.arange(N)[:, None], np.arange(N)[None, :]
    scores = np.where((i >= j) & (i - j < 8), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)) @ v


def causal_mask(tile, start, size):
    nisa.affine_select(tile, [[-1, size]], 1, tile, -3e4, offset=-start, cmp_op=nl.greater_equal)


@nki.jit
def flash_causal(q, k, v):
    return flash(q, k, v, 16, mask=causal_mask)


def torch_causal(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(
        q[None, None], k[None, None], v[None, None], is_causal=True
    )[0, 0]


def torch_by_mask(q, k, v):
    hidden = torch.ones(N, N).tril().logical_not()
    scores = torch.matmul(q, k.transpose(-1, -2)).div(D**0.5).masked_fill(hidden, -1e9)
    return torch.nn.functional.softmax(scores, dim=-1).matmul(v)


def jax_causal(q, k, v):
    scores = jnp.einsum("qd,kd->qk", q, k) * SCALE
    scores = jnp.where(jnp.tril(jnp.ones((N, N), bool)), scores, -1e30)
    scores = scores - jnp.max(scores, axis=-1, keepdims=True)
    weights = jnp.exp(scores) / jnp.sum(jnp.exp(scores), axis=-1, keepdims=True)
    return jnp.einsum("qk,kd->qd", weights, v)


@nki.jit
def flash_alibi(q, k, v):
    """A bias of -distance / 4."""
    distance = nl.ndarray((N, N), nl.float32)
    nisa.iota(distance, [[1, N]], channel_multiplier=-1)
    nisa.tensor_scalar(distance, distance, nl.multiply, 0.25)
    return flash(q, k, v, 16, mask=causal_mask, bias=distance)


def numpy_alibi(q, k, v):
    """Row by row, as a loop of Python."""
    rows = []
    for i in range(N):
        scores = np.array(SCALE) * (k[: i + 1] @ q[i]) - 0.25 * (i - np.arange(i + 1))
        powers = np.exp(scores)
        rows.append((powers[:, None] * v[: i + 1]).sum(axis=0) / powers.sum())
    return np.stack(rows)


@nki.jit
def alibi_of_keys(q, k, v):
    """A bias of key / 4 is the same: what depends on the row alone cancels."""
    scores = nl.multiply(product(transposed(nl.load(q)), transposed(nl.load(k))), SCALE)
    places = nl.ndarray((N, N), nl.float32)
    nisa.iota(places, [[1, N]])
    scores = nl.add(scores, nl.multiply(places, 0.25))
    causal_mask(scores, 0, N)
    return returned(copied(product(transposed(nl.softmax(scores, axis=1)), nl.load(v))))


@nki.jit
def grouped(q, k, v):
    """Four heads of queries, (4, n, d), on two heads of keys and values."""
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for group in range(2):
        keys, values = transposed(nl.load(k[group])), nl.load(v[group])
        for head in range(2):
            scores = product(transposed(nl.load(q[2 * group + head])), keys)
            powers, total = nl.ndarray(scores.shape, nl.float32), column(scores)
            nisa.activation_reduce(powers, nl.exp, scores, nl.add, total, scale=SCALE)
            result = copied(product(transposed(powers), values))
            nisa.tensor_scalar(result, result, nl.divide, total)
            nl.store(out[2 * group + head], result)
    return out


def torch_grouped(q, k, v):
    k, v = k.repeat_interleave(2, dim=0), v.repeat_interleave(2, dim=0)
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def einsum_grouped(q, k, v):
    q = q.reshape(2, 2, N, D)
    scores = np.einsum("ghqd,gkd->ghqk", q, k) * SCALE
    powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return np.einsum("ghqk,gkd->ghqd", powers / powers.sum(-1, keepdims=True), v).reshape(4, N, D)


@nki.jit
def with_a_sink(q, k, v):
    """A sink adds 1 to each denominator, as a key with a score of 0 and a value of 0."""
    scores = nl.multiply(product(transposed(nl.load(q)), transposed(nl.load(k))), SCALE)
    powers = nl.exp(scores)
    total = nl.add(nl.sum(powers, axis=1, keepdims=True), 1.0)
    return returned(nl.divide(copied(product(transposed(powers), nl.load(v))), total))


@nki.jit
def sink_of_a_maximum(q, k, v):
    """The largest of all scores and of 0 is subtracted."""
    scores = nl.multiply(product(transposed(nl.load(q)), transposed(nl.load(k))), SCALE)
    top = nl.maximum(nl.max(scores, axis=1, keepdims=True), 0.0)
    powers = nl.exp(nl.subtract(scores, top))
    total = nl.add(nl.sum(powers, axis=1, keepdims=True), nl.exp(nl.negative(top)))
    return returned(nl.divide(copied(product(transposed(powers), nl.load(v))), total))


@nki.jit
def soft_capped(q, k, v):
    """Scores go through 30 tanh(x / 30)."""
    scores = nl.multiply(product(transposed(nl.load(q)), transposed(nl.load(k))), SCALE)
    capped = nl.multiply(nl.tanh(nl.multiply(scores, 1 / 30)), 30.0)
    return returned(copied(product(transposed(nl.softmax(capped, axis=1)), nl.load(v))))


def jax_capped(q, k, v):
    scores = (q @ k.T) / jnp.sqrt(D)
    capped = 30.0 * (2.0 / (1.0 + jnp.exp(-2.0 * scores / 30.0)) - 1.0)
    powers = jnp.exp(capped)
    return (powers @ v) / powers.sum(axis=1)[:, None]


@nki.jit
def dropped(q, k, v, keep):
    """Dropout with given zeros and ones, a tenth is dropped: on the weights."""
    scores = nl.multiply(product(transposed(nl.load(q)), transposed(nl.load(k))), SCALE)
    weights = nl.multiply(nl.multiply(nl.softmax(scores, axis=1), nl.load(keep)), 1 / 0.9)
    return returned(copied(product(transposed(weights), nl.load(v))))


@nki.jit
def dropped_late(q, k, v, keep):
    """On the powers, with the denominator of all."""
    scores = copied(product(transposed(nl.load(q)), transposed(nl.load(k))))
    powers, total = nl.ndarray(scores.shape, nl.float32), column(scores)
    nisa.activation_reduce(powers, nl.exp, scores, nl.add, total, scale=SCALE)
    nisa.tensor_tensor(powers, powers, nl.load(keep), nl.multiply)
    result = copied(product(transposed(powers), nl.load(v)))
    nisa.tensor_scalar(total, total, nl.multiply, 0.9)
    nisa.tensor_scalar(result, result, nl.divide, total)
    return returned(result)


@nki.jit
def turned(k, q, v):
    """Scores with keys as rows: a column of ones beside v makes the denominators."""
    scores = copied(product(transposed(nl.load(k)), transposed(nl.load(q))))
    powers = nl.exp(nl.multiply(scores, SCALE))
    beside = nl.ones((N, D + 1), nl.float32)
    nisa.tensor_copy(beside[:, 0:D], nl.load(v))
    both = copied(product(powers, beside))
    return returned(nl.divide(both[:, 0:D], both[:, D : D + 1]))


@nki.jit
def turned_rows(k, q, v):
    return flash(q, k, v, 32)


QKV = tensors((N, D), (N, D), (N, D))
HEADS = tensors((4, N, D), (2, N, D), (2, N, D))
PAIRS = [
    Pair("fresh flash of 16 and of rows", "attention", rows_at_once, flash_of_16, QKV),
    Pair("fresh flash of 16 and of 8", "attention", flash_of_16, flash_of_8, QKV),
    Pair("fresh window, flash and arithmetic", "attention", window_by_arithmetic, flash_of_a_window, QKV),
    Pair("fresh window, numpy", "numpy", numpy_window, flash_of_a_window, QKV),
    Pair("fresh window, numpy and arithmetic", "numpy", numpy_window, window_by_arithmetic, QKV),
    Pair("fresh causal, torch", "pytorch", torch_causal, flash_causal, QKV),
    Pair("fresh causal, torch with a fill", "pytorch", torch_by_mask, flash_causal, QKV),
    Pair("fresh causal, jax", "jax", jax_causal, flash_causal, QKV),
    Pair("fresh alibi, loops", "numpy", numpy_alibi, flash_alibi, QKV),
    Pair("fresh alibi, bias of keys", "attention", alibi_of_keys, flash_alibi, QKV),
    Pair("fresh grouped heads, torch", "pytorch", torch_grouped, grouped, HEADS),
    Pair("fresh grouped heads, einsum", "numpy", einsum_grouped, grouped, HEADS),
    Pair("fresh sink", "attention", with_a_sink, sink_of_a_maximum, QKV),
    Pair("fresh soft cap, jax", "jax", jax_capped, soft_capped, QKV),
    Pair("fresh dropout", "attention", dropped, dropped_late, (*QKV, Input((N, N), low=0.0, high=1.0))),
    Pair("fresh keys as rows", "attention", turned_rows, turned, QKV),
]
