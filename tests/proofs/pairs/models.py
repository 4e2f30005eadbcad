"""The kernels of the example models, as functions of PyTorch; some of real size."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu, layer_norm, linear, silu

from examples.llama import attention as llama_attention
from examples.llama import kernels as llama
from examples.minilm import kernels as minilm
from tests.proofs.pair import Input, Pair, tensors

EPSILON = 1e-12


def embedded(words, positions, token_type, scale, shift):
    total = words + positions.repeat(2, 1) + token_type
    return layer_norm(total, (128,), scale, shift, EPSILON)


def attended(x, segments, key_bias, w_qkv, b_qkv, w_out, b_out, scale, shift):
    """Groups of 128 tokens; heads of 32 features."""
    groups, span, hidden = segments.shape[0], segments.shape[2], x.shape[1]
    heads = hidden // 32
    parts = (x @ w_qkv + b_qkv).reshape(groups, span, 3, heads, 32).permute(2, 0, 3, 1, 4)
    scores = parts[0] @ parts[1].transpose(-1, -2) / 32**0.5
    scores = scores + (segments.transpose(1, 2) @ key_bias)[:, None]
    context = (torch.softmax(scores, dim=-1) @ parts[2]).permute(0, 2, 1, 3).reshape(groups * span, hidden)
    return layer_norm(x + context @ w_out + b_out, (hidden,), scale, shift, EPSILON)


def fed_forward(x, w_in, b_in, w_out, b_out, scale, shift):
    inner = gelu(linear(x, w_in.T, b_in))
    return layer_norm(x + linear(inner, w_out.T, b_out), (x.shape[1],), scale, shift, EPSILON)


def pooled(x, members):
    mean = (members.T @ x) / members.sum(0)[:, None]
    return mean / torch.sqrt((mean * mean).sum(1, keepdim=True))


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + llama.EPSILON) * weight


def rms_norm_backward(x, weight, dy):
    """The derivative of x r weight with r = (mean of x² + epsilon) ** -0.5, term by term."""
    root = (x.pow(2).mean(-1, keepdim=True) + llama.EPSILON) ** -0.5
    g = dy * weight
    return g * root - x * root**3 * (g * x).mean(-1, keepdim=True), (dy * x * root).sum(0)


def swiglu(gate_up):
    gate, up = gate_up.chunk(2, dim=1)
    return silu(gate) * up


def swiglu_backward(gate_up, dy):
    """silu' = s (1 + gate (1 - s))."""
    gate, up = gate_up.chunk(2, dim=1)
    s = torch.sigmoid(gate)
    return torch.cat([dy * up * s * (1 + gate * (1 - s)), dy * gate * s], dim=1)


def rotary_attention(qkv, cosine, sine):
    """Causal attention of contexts of 32 tokens and heads of 32 features."""
    tokens, features = cosine.shape[0], qkv.shape[1] // 3
    contexts, heads = qkv.shape[0] // tokens, features // 32
    parts = qkv.reshape(contexts, tokens, 3, heads, 32).permute(2, 0, 3, 1, 4)

    def turned(x):
        low, high = x[..., :16], x[..., 16:]
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)

    scores = turned(parts[0]) @ turned(parts[1]).transpose(-1, -2) * 32**-0.5
    seen = torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))
    weights = torch.softmax(torch.where(seen, scores, float("-inf")), dim=-1)
    return (weights @ parts[2]).permute(0, 2, 1, 3).reshape(contexts * tokens, features)


def _feed_forward(tokens: int, hidden: int, inner: int) -> tuple[Input, ...]:
    weights = Input((hidden, inner), "float32", -0.1, 0.1), Input((inner,))
    back = Input((inner, hidden), "float32", -0.1, 0.1), Input((hidden,))
    return (Input((tokens, hidden)), *weights, *back, *tensors((hidden,), (hidden,)))


def _attention(groups: int, hidden: int) -> tuple[Input, ...]:
    weights = Input((hidden, 3 * hidden), "float32", -0.1, 0.1), Input((3 * hidden,))
    out = Input((hidden, hidden), "float32", -0.1, 0.1), Input((hidden,))
    masks = tensors((groups, 4, 128), (groups, 4, 128))
    return (Input((groups * 128, hidden)), *masks, *weights, *out, *tensors((hidden,), (hidden,)))


EMBEDDED = tensors((256, 128), (128, 128), (128,), (128,), (128,))
POOLED = (Input((200, 128)), Input((200, 6), "float32", 0.1, 1.0))
CONTEXTS = (Input((64, 192)), *(Input((32, 16), "float32", -1.0, 1.0) for _ in range(2)))
SHIFT = ("softmax is the same for any shift",)
VARIANCE = ("mean of squared deviations = mean of squares - square of the mean",)
_MADE = (
    ("MiniLM embeddings", embedded, minilm.embed_layer_norm, EMBEDDED, VARIANCE, False),
    ("MiniLM attention", attended, minilm.attention_block, _attention(1, 128), SHIFT + VARIANCE, False),
    ("MiniLM layers", fed_forward, minilm.feed_forward_block, _feed_forward(128, 128, 256), VARIANCE, False),
    ("MiniLM pooling", pooled, minilm.pool_normalise, POOLED, (), False),
    ("MiniLM attention 512", attended, minilm.attention_block, _attention(4, 384), SHIFT + VARIANCE, True),
    ("MiniLM layers 512", fed_forward, minilm.feed_forward_block, _feed_forward(512, 384, 1536), VARIANCE, True),
    ("Llama RMSNorm", rms_norm, llama.rms_norm, tensors((160, 64), (64,)), (), False),
    (
        "Llama RMSNorm backward",
        rms_norm_backward,
        llama.rms_norm_backward,
        tensors((160, 64), (64,), (160, 64)),
        (),
        False,
    ),
    ("Llama SwiGLU", swiglu, llama.swiglu, tensors((160, 64)), ("silu x = x sigmoid x",), False),
    ("Llama SwiGLU backward", swiglu_backward, llama.swiglu_backward, tensors((160, 64), (160, 32)), (), False),
)
PAIRS = [
    *(
        Pair(name, "models", old, new, specs, bound=1e-4, slow=slow, identities=identities)
        for name, old, new, specs, identities, slow in _MADE
    ),
    Pair("Llama attention", "models", rotary_attention, llama_attention.attention, CONTEXTS, 1e-4, "underflow"),
]
