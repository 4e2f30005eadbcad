"""Kernels and what they mean, as functions of JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.proofs.pair import Pair

from . import attention, masks, mlp, norms, products, scans, softmax


def softmax_of_rows(x):
    return jax.nn.softmax(x, axis=1)


def log_of_softmax(x):
    return jax.nn.log_softmax(x, axis=-1)


def rms(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-5)


def attend(q, k, v):
    return jax.nn.softmax(q @ k.T / jnp.sqrt(16.0), axis=-1) @ v


def attend_causally(q, k, v):
    seen = jnp.tril(jnp.ones((48, 48), bool))
    return jax.nn.softmax(jnp.where(seen, 0.25 * jnp.einsum("qd,kd->qk", q, k), -jnp.inf), axis=1) @ v


def layers(x, w1, w2):
    return jax.nn.relu(x @ w1) @ w2


def adapted(x, w, down, up):
    return x.T @ w + (x.T @ down.T) @ up


def decays(decay, x, start):
    def step(state, now):
        state = now[0] * state + now[1]
        return state, state

    return jax.lax.scan(step, start[:, 0], (decay.T, x.T))[1].T


def band(x):
    row, column = jnp.arange(24)[:, None], jnp.arange(32)[None, :]
    return jnp.where((column >= row - 3) & (column <= row + 5), x, 0.0)


S = softmax.SHIFT
_MADE = (
    ("softmax", softmax_of_rows, softmax.online, softmax.X, S),
    ("log of softmax", log_of_softmax, softmax.log_of_softmax, softmax.X, ("log exp x = x",)),
    ("RMSNorm", rms, norms.rms_by_power, norms.X, norms.ROOT),
    ("attention", attend, attention.scores_turned, attention.X, S),
    ("causal attention", attend_causally, attention.causal_flash, attention.X, S + attention.ZERO),
    ("layers", layers, mlp.mlp_fused, mlp.LAYERS, ()),
    ("adapter", adapted, products.adapter_apart, products.ADAPTER, ()),
    ("decays", decays, scans.decays_by_doubling, scans.DECAYS, ()),
    ("band", band, masks.band_by_iota, masks.X, ()),
)
PAIRS = [
    Pair(f"JAX {name}", "jax", old, new, specs, identities=identities) for name, old, new, specs, identities in _MADE
]
