"""Kernels and what they mean, as functions of NumPy."""

from __future__ import annotations

import numpy as np

from tests.proofs.pair import Pair, tensors

from . import attention, heads, layouts, masks, mlp, norms, products, reductions, scans, softmax


def softmax_of_rows(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def logsumexp(x):
    return np.log(np.sum(np.exp(x), axis=1, keepdims=True))


def product(a, b):
    return a.T @ b


def product_of_three(a, b, c):
    return np.matmul(np.matmul(np.transpose(a), b), c)


def quantised(a, b, row_scale, column_scale):
    return (a * row_scale) @ (b * column_scale)


def layernorm(x):
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1e-5)


def layernorm_affine(x, gain, shift):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * gain + shift


def rms(x):
    return x * (np.mean(np.square(x), axis=-1, keepdims=True) + 1e-5) ** -0.5


def attend(q, k, v):
    scores = q @ k.T / np.sqrt(16.0)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)) @ v


def attend_causally(q, k, v):
    scores = np.where(np.tril(np.ones((48, 48), bool)), 0.25 * (q @ k.T), -np.inf)
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return (weights @ v) / np.sum(weights, axis=1, keepdims=True)


def attend_with_heads(q, k, v):
    scores = np.einsum("hqd,hkd->hqk", q, k) * 0.25
    weights = np.exp(scores)
    return np.einsum("hqk,hkd->hqd", weights / weights.sum(axis=2, keepdims=True), v)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layers(x, w1, w2):
    return np.maximum(x @ w1, 0) @ w2


def swiglu(x, gate, up, down):
    share = x @ gate
    return (share / (1 + np.exp(-share)) * (x @ up)) @ down


def rotary(x, cosine, sine):
    low, high = x[:, :8], x[:, 8:]
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=1)


def running_sums(x):
    return np.cumsum(x, axis=1)


def triangle(x):
    return np.tril(x)


def gradient(x, g):
    return np.where(x > 0, g, 0.0)


def largest_of_windows(x):
    return np.max(np.reshape(x, (12, 4, 2, 4, 2)), axis=(2, 4))


def turned(x):
    return np.transpose(x)


X, S = tensors((24, 64)), softmax.SHIFT
_MADE = (
    ("softmax", softmax_of_rows, softmax.online, softmax.X, S),
    ("logsumexp", logsumexp, softmax.logsumexp_of_halves, softmax.X, ("log exp x = x",)),
    ("product", product, products.split_in_sbuf, products.A_B, ()),
    ("product of three", product_of_three, products.right_first, tensors((20, 16), (20, 24), (24, 28)), ()),
    ("quantised product", quantised, products.dequantised_result, products.SCALED, ()),
    ("layernorm", layernorm, norms.layernorm_of_moments, X, norms.VARIANCE),
    ("affine layernorm", layernorm_affine, norms.layernorm_turned, norms.AFFINE, norms.VARIANCE),
    ("RMSNorm", rms, norms.rms_by_rsqrt, X, norms.ROOT),
    ("attention", attend, attention.flash, attention.X, S),
    ("causal attention", attend_causally, attention.causal_flash, attention.X, S + attention.ZERO),
    ("heads", attend_with_heads, heads.heads_side_by_side, heads.HEADS, S),
    ("silu", silu, mlp.silu_activation, mlp.X, mlp.SIGMOID),
    ("gelu", gelu, mlp.gelu_by_sigmoid, mlp.X, mlp.TANH),
    ("layers", layers, mlp.mlp_fused, mlp.LAYERS, ()),
    ("SwiGLU", swiglu, mlp.swiglu_one_product, mlp.GATED, mlp.SIGMOID),
    ("rotary", rotary, mlp.rotary_by_product, mlp.ROTARY, ()),
    ("running sums", running_sums, scans.sums_by_doubling, scans.X, ()),
    ("triangle", triangle, masks.triangle_by_iota, masks.X, ()),
    ("mask", gradient, masks.gradient_by_copy, masks.TWO, masks.SELECTED),
    ("windows", largest_of_windows, reductions.maxpool_by_shifts, reductions.PICTURES, reductions.MAX),
    ("transpose", turned, layouts.transpose_in_squares, layouts.X, ()),
)
PAIRS = [
    Pair(f"NumPy {name}", "numpy", old, new, specs, identities=identities)
    for name, old, new, specs, identities in _MADE
]
