"""Sizes, first weights, tables and text of the model: what both frameworks, with kernels or without, begin with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

from examples.llama.kernels import HALF, HEAD, MASKED

Array = NDArray[np.float32]
Tokens = NDArray[np.int64]

VOCABULARY = 128  # characters of ASCII
ROTATION = 10000.0  # the base of the angles of the rotary embedding, as in Llama


@dataclass(frozen=True)
class Sizes:
    """The shape of the model and of a batch."""

    layers: int = 3
    features: int = 128
    hidden: int = 384
    tokens: int = 128
    contexts: int = 8

    @property
    def heads(self) -> int:
        return self.features // HEAD


def first_weights(sizes: Sizes, seed: int = 0) -> dict[str, Array]:
    """Normal weights of standard deviation 1 / sqrt(inputs), [out, in] each; the two that end in a residual smaller."""
    random = np.random.default_rng(seed)

    def dense(outputs: int, inputs: int, scale: float = 1.0) -> Array:
        return (random.standard_normal((outputs, inputs)) * scale * inputs**-0.5).astype(np.float32)

    n, hidden, residual = sizes.features, sizes.hidden, (2 * sizes.layers) ** -0.5
    weights = {"embedding": dense(VOCABULARY, n), "norm": np.ones(n, np.float32), "head": dense(VOCABULARY, n)}
    for layer in range(sizes.layers):
        weights |= {
            f"{layer}.attention_norm": np.ones(n, np.float32),
            f"{layer}.qkv": dense(3 * n, n),
            f"{layer}.attention_out": dense(n, n, residual),
            f"{layer}.feed_norm": np.ones(n, np.float32),
            f"{layer}.gate_up": dense(2 * hidden, n),
            f"{layer}.down": dense(n, hidden, residual),
        }
    return weights


def rotation(tokens: int) -> tuple[Array, Array]:
    """Cosines and sines [tokens, 16] of position * ROTATION ** (-i / 16)."""
    angles = np.arange(tokens)[:, None] * ROTATION ** (-np.arange(HALF) / HALF)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def step_tables(tokens: int) -> tuple[Array, Array]:
    """For each position the rows ``here`` and ``mask`` of ``attention_step``, [tokens, tokens] each."""
    later = np.arange(tokens)[None, :] > np.arange(tokens)[:, None]
    return np.eye(tokens, dtype=np.float32), np.where(later, np.float32(MASKED), np.float32(0))


def text() -> Tokens:
    """The help topics of the running Python (what ``help("for")`` shows), as ASCII codes."""
    joined = "\n\n".join(topics[name] for name in sorted(topics))
    return np.frombuffer(joined.encode("ascii", "replace"), np.uint8).astype(np.int64)


def batches(sizes: Sizes, seed: int = 0) -> Iterator[Tokens]:
    """Random passages of the text, [contexts, tokens + 1] each, for ever the same."""
    random, source = np.random.default_rng(seed), text()
    while True:
        starts = random.integers(0, len(source) - sizes.tokens, sizes.contexts)
        yield source[starts[:, None] + np.arange(sizes.tokens + 1)]


def decode(tokens: Tokens) -> str:
    return bytes(tokens.astype(np.uint8)).decode("ascii")
