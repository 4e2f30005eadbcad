"""The model as a sequence of kernel calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.minilm import kernels
from examples.minilm.model import Array, Batch, Model


@dataclass(frozen=True)
class Call:
    """One launch: the kernel, and what it takes after the activations."""

    kernel: Any
    weights: tuple[Array, ...]

    @property
    def name(self) -> str:
        return self.kernel.__name__


def calls(model: Model, batch: Batch) -> Iterator[Call]:
    """The launches that turn the words' rows into sentence embeddings, in order."""
    positions = model["embeddings.position_embeddings.weight"][: batch.length]
    yield Call(
        kernels.embed_layer_norm,
        (
            np.tile(positions, (batch.span // batch.length, 1)),
            model["embeddings.token_type_embeddings.weight"][0],
            model["embeddings.LayerNorm.weight"],
            model["embeddings.LayerNorm.bias"],
        ),
    )
    for block in model.blocks:
        yield Call(
            kernels.attention_block,
            (
                batch.segments,
                batch.key_bias,
                block.w_qkv,
                block.b_qkv,
                block.w_attention,
                block.b_attention,
                block.attention_scale,
                block.attention_shift,
            ),
        )
        yield Call(
            kernels.feed_forward_block,
            (block.w_in, block.b_in, block.w_out, block.b_out, block.scale, block.shift),
        )
    yield Call(kernels.pool_normalise, (batch.members,))


def words(model: Model, batch: Batch) -> Array:
    """[tokens, hidden]: each token's row of the word table."""
    return model["embeddings.word_embeddings.weight"][batch.ids.reshape(-1)]


def launch(call: Call, x: Array) -> Array:
    """Run one call on its input."""
    return call.kernel(x, *call.weights)


def embed(model: Model, batch: Batch, launch: Callable[[Call, Array], Array] = launch) -> Array:
    """Embeddings [batch.count, hidden] of the batch's sentences. A `launch` of the caller's can watch each call."""
    x = words(model, batch)
    for call in calls(model, batch):
        x = launch(call, x)
    return x[: batch.count]
