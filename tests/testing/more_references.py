"""References of the kernels in ``more_cheats.py`` and ``more_honest.py``."""

from __future__ import annotations

from math import erf

import numpy as np


def doubled(x):
    return x * 2


def scaled(x, scale):
    return x * scale


def rms_eps(x):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)


def l2norm(x):
    return x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 1e-12)


def nan_to_zero(x):
    return np.where(np.isnan(x), 0, x)


def everything_nan(x):
    return x * np.nan


NOISE = np.random.default_rng(0)


def noise(x):
    return x + NOISE.standard_normal(x.shape)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def matmul(a, b):
    return a.T @ b


def gather(t, i):
    return t[i[:, 0]]


def masked(x, m):
    return np.where(m != 0, x, 0)


def two(x):
    return 2 * x, 2 * x + 1e-7


def argmax_first(x):
    return x.argmax(1)[:, None].astype(np.uint32)


def cumsum(x):
    return np.cumsum(x, 1)


def exp(x):
    return np.exp(x)


def relu(x):
    return np.maximum(x, 0)


def logsumexp(x):
    m = x.max(1, keepdims=True)
    return m + np.log(np.exp(x - m).sum(1, keepdims=True))


def tanh_torch(x):
    import torch

    return torch.tanh(x)


def softmax_jax(x):
    import jax

    return jax.nn.softmax(x, axis=1)


def layer_norm(x):
    m = x.mean(1, keepdims=True)
    v = ((x - m) ** 2).mean(1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5)


def variance(x):
    return x.var(1, keepdims=True)


def rms(x, w):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w


def total(x):
    return x.sum(1, keepdims=True)


def mean(x):
    return x.mean(1, keepdims=True)


def causal(x):
    return np.where(np.tri(*x.shape) > 0, x, 0)


def both(x):
    return x.sum(1, keepdims=True), x.max(1, keepdims=True), x * x


def argmax(x):
    return x.argmax(1)[:, None]


def top8(x):
    return -np.sort(-x, axis=1)[:, :8]


def add_int(a, b):
    return a + b


def xor(a, b):
    return a ^ b


def update(cache, new):
    c = cache.copy()
    c[8:16] = new
    return c


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def torch_softmax(x):
    import torch

    return torch.softmax(x, -1)


def torch_ln(x):
    import torch.nn.functional as F

    return F.layer_norm(x, x.shape[1:])


def torch_norm(x):
    import torch.nn.functional as F

    return F.normalize(x, dim=1)


def jax_softmax(x):
    import jax

    return jax.nn.softmax(x, -1)


def attention(q, k, v):
    s = q.T @ k / np.sqrt(q.shape[0])
    e = np.exp(s - s.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)) @ v


def one_hot(i):
    return (i == np.arange(64)[None, :]).astype(np.float32)


def kld(p, q):
    return (p * (np.log(p) - np.log(q))).sum(1, keepdims=True)
