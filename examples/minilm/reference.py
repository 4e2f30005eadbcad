"""The same model in plain PyTorch: the judge of the kernels, from the same weights but by code of its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, normalize

from examples.minilm.model import Batch, Model


@torch.inference_mode()
def embed(model: Model, batch: Batch) -> Tensor:
    """Embeddings [batch.count, hidden] of the batch's sentences, each of length 1."""
    weights = {name: torch.from_numpy(array) for name, array in model.tensors.items()}
    epsilon, heads = model.config["layer_norm_eps"], model.config["num_attention_heads"]
    ids, mask = torch.from_numpy(batch.ids[: batch.count]), torch.from_numpy(batch.mask[: batch.count])
    sentences, length = ids.shape

    def dense(name: str, x: Tensor) -> Tensor:
        return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)

    def split(x: Tensor) -> Tensor:
        return x.view(sentences, length, heads, -1).transpose(1, 2)

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:length]
    x = norm("embeddings.LayerNorm", x + weights["embeddings.token_type_embeddings.weight"][0])
    hidden = x.shape[-1]
    for i in range(model.config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        query, key, value = (split(dense(f"{layer}.attention.self.{n}", x)) for n in ("query", "key", "value"))
        scores = query @ key.transpose(-1, -2) / (hidden // heads) ** 0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        context = (scores.softmax(-1) @ value).transpose(1, 2).reshape(sentences, length, hidden)
        x = norm(f"{layer}.attention.output.LayerNorm", x + dense(f"{layer}.attention.output.dense", context))
        inner = gelu(dense(f"{layer}.intermediate.dense", x))
        x = norm(f"{layer}.output.LayerNorm", x + dense(f"{layer}.output.dense", inner))
    mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    return normalize(mean, dim=1)
