"""The training of the model in JAX, with kernels or with JAX's own operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nki.jax
from examples.llama import attention, kernels
from examples.llama.model import Array, Tokens, rotation

Weights = dict[str, Any]
BETA1, BETA2, TINY, DECAY = 0.9, 0.95, 1e-8, 0.01  # AdamW as in pytorch.py


@dataclass(frozen=True)
class Operators:
    """What differs between the two models."""

    attention: Callable[..., Any]
    rms_norm: Callable[..., Any]
    swiglu: Callable[..., Any]


WITH_KERNELS = Operators(
    nki.jax.op(attention.attention, backward=attention.attention_backward),
    nki.jax.op(kernels.rms_norm, backward=kernels.rms_norm_backward),
    nki.jax.op(kernels.swiglu, backward=kernels.swiglu_backward),
)


def rotate(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = jnp.split(x, 2, -1)
    cosine, sine = cosine[:, None, :], sine[:, None, :]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)


def plain_attention(qkv: Any, cosine: Any, sine: Any) -> Any:
    tokens, half = cosine.shape
    heads = qkv.shape[1] // (6 * half)
    query, key, value = jnp.moveaxis(qkv.reshape(-1, tokens, 3, heads, 2 * half), 2, 0)
    query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return mixed.reshape(-1, heads * 2 * half)


def plain_rms_norm(x: Any, weight: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + kernels.EPSILON) * weight


def plain_swiglu(gate_up: Any) -> Any:
    gate, up = jnp.split(gate_up, 2, 1)
    return jax.nn.silu(gate) * up


PLAIN = Operators(plain_attention, plain_rms_norm, plain_swiglu)


def loss(weights: Weights, batch: Any, operators: Operators) -> Any:
    """Mean cross entropy of the next characters of a batch, [contexts, tokens + 1]."""
    cosine, sine = rotation(batch.shape[1] - 1)
    x = weights["embedding"][batch[:, :-1].reshape(-1)]
    for n in range(sum(name.endswith(".qkv") for name in weights)):
        inner = operators.rms_norm(x, weights[f"{n}.attention_norm"])
        mixed = operators.attention(inner @ weights[f"{n}.qkv"].T, cosine, sine)
        x = x + mixed @ weights[f"{n}.attention_out"].T
        inner = operators.rms_norm(x, weights[f"{n}.feed_norm"])
        x = x + operators.swiglu(inner @ weights[f"{n}.gate_up"].T) @ weights[f"{n}.down"].T
    logits = operators.rms_norm(x, weights["norm"]) @ weights["head"].T
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), batch[:, 1:].reshape(-1, 1), 1)
    return -chosen.mean()


@partial(jax.jit, static_argnames=("operators", "rate"))
def step(state: Any, batch: Any, operators: Operators, rate: float) -> Any:
    """The state (weights, both moments, steps) after one step of AdamW, and the loss before it."""
    weights, mean, square, count = state
    value, gradient = jax.value_and_grad(loss)(weights, batch, operators)
    count = count + 1
    mean = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, mean, gradient)
    square = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, square, gradient)

    def moved(w: Any, m: Any, v: Any) -> Any:
        root = jnp.sqrt(v / (1 - BETA2**count)) + TINY
        return w * (1 - rate * DECAY) - rate * (m / (1 - BETA1**count)) / root

    return (jax.tree.map(moved, weights, mean, square), mean, square, count), value


class Trainer:
    """One model in training: AdamW on its own copy of the first weights."""

    def __init__(self, first: dict[str, Array], operators: Operators, rate: float) -> None:
        self.operators, self.rate = operators, rate
        zeros = {name: jnp.zeros_like(array) for name, array in first.items()}
        self.state: Any = ({n: jnp.asarray(a) for n, a in first.items()}, zeros, zeros, jnp.zeros((), jnp.float32))

    @property
    def weights(self) -> Weights:
        return self.state[0]

    def step(self, batch: Tokens) -> float:
        """The loss on a batch, [contexts, tokens + 1], before the step that it leads to."""
        self.state, value = step(self.state, batch.astype(np.int32), self.operators, self.rate)
        return float(value)


def make_trainers(first: dict[str, Array], rate: float) -> tuple[Trainer, Trainer]:
    return Trainer(first, WITH_KERNELS, rate), Trainer(first, PLAIN, rate)
