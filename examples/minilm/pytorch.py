"""The model as a PyTorch module with the NKI kernels as layers."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from examples.minilm import kernels
from examples.minilm.model import MASKED, TILE, Array, Block, Model

EMBEDDINGS = {
    "words": "embeddings.word_embeddings.weight",
    "positions": "embeddings.position_embeddings.weight",
    "types": "embeddings.token_type_embeddings.weight",
    "scale": "embeddings.LayerNorm.weight",
    "shift": "embeddings.LayerNorm.bias",
}


class Layer(torch.nn.Module):
    """One encoder layer: two kernels."""

    ATTENTION = ("w_qkv", "b_qkv", "w_attention", "b_attention", "attention_scale", "attention_shift")
    FEED_FORWARD = ("w_in", "b_in", "w_out", "b_out", "scale", "shift")

    def __init__(self, block: Block) -> None:
        super().__init__()
        for name in (*self.ATTENTION, *self.FEED_FORWARD):
            self.register_buffer(name, _tensor(getattr(block, name)))

    def forward(self, x: Tensor, segments: Tensor, key_bias: Tensor) -> Tensor:
        x = kernels.attention_block(x, segments, key_bias, *(self.get_buffer(name) for name in self.ATTENTION))
        return cast("Tensor", kernels.feed_forward_block(x, *(self.get_buffer(name) for name in self.FEED_FORWARD)))


class Encoder(torch.nn.Module):
    """Embeddings [rows, hidden] of padded sentences.

    ids: [rows, length] of int64; mask: the same shape in float32, 1 for a token and 0 for padding. A row has at least
    one token, `length` is a power of two, and all tokens fill tiles of 64 (`Batch` pads them so).
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        for name, stored in EMBEDDINGS.items():
            self.register_buffer(name, _tensor(model[stored]))
        self.layers = torch.nn.ModuleList(Layer(block) for block in model.blocks)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        rows, length = ids.shape
        span = max(TILE, length)
        per_group, groups = span // length, -(-rows * length // span)
        own = torch.eye(per_group).repeat_interleave(length, 1)  # [per_group, span]: the tokens of each sentence
        whole = torch.nn.functional.pad(mask.reshape(-1), (0, groups * span - rows * length))
        visible = own * whole.reshape(groups, 1, span)
        segments = own.expand(groups, per_group, span).contiguous()
        key_bias = torch.where(visible > 0, 0.0, MASKED)
        members = torch.eye(rows).repeat_interleave(length, 0) * mask.reshape(-1, 1)

        positions = self.get_buffer("positions")[:length].repeat(per_group, 1)
        words = self.get_buffer("words")[ids.reshape(-1)]
        x = kernels.embed_layer_norm(
            words, positions, self.get_buffer("types")[0], self.get_buffer("scale"), self.get_buffer("shift")
        )
        for layer in self.layers:
            x = layer(x, segments, key_bias)
        return cast("Tensor", kernels.pool_normalise(x, members))


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
