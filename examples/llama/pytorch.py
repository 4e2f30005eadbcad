"""The model in PyTorch: training with kernels or with PyTorch's own operators, and generation with a cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention, silu
from torch.nn.functional import rms_norm as torch_rms_norm

import nki.torch
from examples.llama import attention, kernels
from examples.llama.model import Array, Sizes, Tokens, rotation, step_tables

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Operators:
    """What differs between the models. ``step`` is attention of one token with its cache (``generate``).

    ``spread`` and ``gather`` are where ranks meet, before and behind the weights that they divide.
    """

    attention: Callable[..., Tensor]
    rms_norm: Callable[..., Tensor]
    swiglu: Callable[..., Tensor]
    step: Callable[..., Tensor]
    spread: Callable[[Tensor], Tensor] = lambda x: x
    gather: Callable[[Tensor], Tensor] = lambda x: x


# ---- with kernels --------------------------------------------------------------------------------------------------


def kernel_step(qkv: Tensor, tables: list[Tensor], cache: tuple[Tensor, Tensor], position: int) -> Tensor:
    rows = [table[position : position + 1] for table in tables]
    mixed, key = attention.attention_step(qkv, *rows, *cache)
    cache[0][:, position], cache[1][position] = key[0], qkv[0, 2 * key.shape[1] :]
    return mixed


WITH_KERNELS = Operators(
    attention=nki.torch.op(attention.attention, backward=attention.attention_backward),
    rms_norm=nki.torch.op(kernels.rms_norm, backward=kernels.rms_norm_backward),
    swiglu=nki.torch.op(kernels.swiglu, backward=kernels.swiglu_backward),
    step=kernel_step,
)


# ---- without -------------------------------------------------------------------------------------------------------


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def plain_attention(qkv: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    tokens, half = cosine.shape
    heads = qkv.shape[1] // (6 * half)
    split = qkv.view(-1, tokens, 3, heads, 2 * half).permute(2, 0, 3, 1, 4)
    query, key = rotate(split[0], cosine, sine), rotate(split[1], cosine, sine)
    mixed = scaled_dot_product_attention(query, key, split[2], is_causal=True)
    return mixed.transpose(1, 2).reshape(-1, heads * 2 * half)


def plain_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return torch_rms_norm(x, weight.shape, weight, kernels.EPSILON)


def plain_swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, 1)
    return silu(gate) * up


def plain_step(qkv: Tensor, tables: list[Tensor], cache: tuple[Tensor, Tensor], position: int) -> Tensor:
    """The cache is the same as the kernel's; PyTorch reads only the part that is filled."""
    keys, values = cache
    heads = keys.shape[0] // kernels.HEAD
    query, key, value = qkv.view(3, heads, 1, kernels.HEAD)
    cosine, sine = (table[position] for table in tables[:2])
    keys[:, position] = rotate(key, cosine, sine).reshape(-1)
    values[position] = value.reshape(-1)
    known = keys[:, : position + 1].view(heads, kernels.HEAD, -1).transpose(1, 2)
    seen = values[: position + 1].view(-1, heads, kernels.HEAD).transpose(0, 1)
    return scaled_dot_product_attention(rotate(query, cosine, sine), known, seen).reshape(1, -1)


PLAIN = Operators(plain_attention, plain_rms_norm, plain_swiglu, plain_step)


# ---- the model -----------------------------------------------------------------------------------------------------


def forward(weights: Weights, tokens: Tensor, operators: Operators, attend: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Logits [tokens, vocabulary]; ``attend`` makes the context of layer n from its queries, keys and values."""
    x = weights["embedding"][tokens.reshape(-1)]
    layers = sum(name.endswith(".qkv") for name in weights)
    for n in range(layers):
        inner = operators.spread(operators.rms_norm(x, weights[f"{n}.attention_norm"]))
        mixed = attend(linear(inner, weights[f"{n}.qkv"]), n)
        x = x + operators.gather(linear(mixed, weights[f"{n}.attention_out"]))
        inner = operators.spread(operators.rms_norm(x, weights[f"{n}.feed_norm"]))
        gated = operators.swiglu(linear(inner, weights[f"{n}.gate_up"]))
        x = x + operators.gather(linear(gated, weights[f"{n}.down"]))
    return linear(operators.rms_norm(x, weights["norm"]), weights["head"])


def whole_contexts(weights: Weights, tokens: Tensor, operators: Operators) -> Tensor:
    """Logits of each token of contexts [contexts, tokens]."""
    cosine, sine = map(torch.from_numpy, rotation(tokens.shape[1]))
    return forward(weights, tokens, operators, lambda qkv, _: operators.attention(qkv, cosine, sine))


class Trainer:
    """One model in training: AdamW on its own copy of the first weights."""

    def __init__(self, first: dict[str, Array], operators: Operators, rate: float) -> None:
        self.operators = operators
        self.weights = {name: torch.tensor(array, requires_grad=True) for name, array in first.items()}
        self.optimiser = torch.optim.AdamW(self.weights.values(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)

    def step(self, batch: Tokens) -> float:
        """The loss on a batch, [contexts, tokens + 1], before the step that it leads to."""
        tokens = torch.from_numpy(np.ascontiguousarray(batch))
        logits = whole_contexts(self.weights, tokens[:, :-1], self.operators)
        loss = cross_entropy(logits, tokens[:, 1:].reshape(-1))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


def make_trainers(first: dict[str, Array], rate: float) -> tuple[Trainer, Trainer]:
    return Trainer(first, WITH_KERNELS, rate), Trainer(first, PLAIN, rate)


# ---- generation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated:
    """Tokens with the prompt's, the logits before each new one, and the seconds for each token."""

    tokens: Tokens
    logits: Array
    times: list[float]


@torch.inference_mode()
def generate(weights: dict[str, Array], prompt: Tokens, sizes: Sizes, operators: Operators, seed: int = 0) -> Generated:
    """Continue the prompt, at most as long as the context, token by token with a cache of keys and values."""
    weights = {name: torch.tensor(w) for name, w in weights.items()}
    tables = [torch.from_numpy(t) for t in (*rotation(sizes.tokens), *step_tables(sizes.tokens))]
    features = len(weights["0.qkv"]) // 3  # of the heads that are here
    caches = [(torch.zeros(features, sizes.tokens), torch.zeros(sizes.tokens, features)) for _ in range(sizes.layers)]
    chances = np.random.default_rng(seed).random(sizes.tokens)
    tokens, logits, times = list(prompt), [], []
    for position in range(sizes.tokens - 1):
        begin = time.perf_counter()
        found = forward(
            weights,
            torch.tensor([tokens[position]]),
            operators,
            lambda qkv, n, at=position: operators.step(qkv, tables, caches[n], at),
        )
        logits.append(found[0].numpy())
        if position + 1 == len(tokens):
            cumulative = torch.cumsum(torch.softmax(found[0] / 0.7, 0), 0)  # a little less random than the model
            last = cumulative.shape[0] - 1
            tokens.append(min(int(torch.searchsorted(cumulative, float(chances[position]))), last))
        times.append(time.perf_counter() - begin)
    return Generated(np.array(tokens), np.stack(logits), times)
