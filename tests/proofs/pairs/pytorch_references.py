"""Kernels and what they mean, as functions of PyTorch."""

from __future__ import annotations

import torch

from tests.proofs.pair import Pair

from . import attention, masks, mlp, norms, products, scans, softmax


def softmax_of_rows(x):
    return torch.softmax(x, dim=1)


def cross_entropy(logits, labels):
    return torch.nn.functional.cross_entropy(logits, labels[:, 0].long(), reduction="none").reshape(20, 1)


def layernorm(x, gain, shift):
    return torch.nn.functional.layer_norm(x, (32,), gain[0], shift[0], 1e-5)


def attend(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def attend_causally(q, k, v):
    scores = (q @ k.T) * q.shape[1] ** -0.5
    hidden = torch.triu(torch.ones(48, 48, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ v


def swiglu(x, gate, up, down):
    return (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def biased(a, b, bias):
    return torch.addmm(bias, a.T, b)


def running_sums(x):
    return torch.cumsum(x, dim=1)


def embedded(table, index, shift):
    return table[index[:, 0].long()] + shift


S = softmax.SHIFT
_MADE = (
    ("softmax", softmax_of_rows, softmax.online, softmax.X, S),
    ("cross entropy", cross_entropy, softmax.loss_by_products, softmax.LABELS, ("log exp x = x",)),
    ("layernorm", layernorm, norms.layernorm_affine, norms.AFFINE, norms.VARIANCE),
    ("attention", attend, attention.flash, attention.X, S),
    ("causal attention", attend_causally, attention.causal_multiplied, attention.X, S + attention.ZERO),
    ("SwiGLU", swiglu, mlp.swiglu_two_products, mlp.GATED, mlp.SIGMOID),
    ("gelu", gelu, mlp.gelu_tanh_activation, mlp.X, mlp.TANH),
    ("product with a bias", biased, products.bias_as_row, products.BIAS, ()),
    ("running sums", running_sums, scans.sums_by_triangle, scans.X, ()),
    ("embedding", embedded, masks.embedding_in_parts, masks.TABLE, ()),
)
PAIRS = [
    Pair(f"PyTorch {name}", "pytorch", old, new, specs, identities=identities)
    for name, old, new, specs, identities in _MADE
]
