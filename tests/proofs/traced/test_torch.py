"""PyTorch's functions by the rules of a proof, beside PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nki.proofs.traced.elements import listed
from tests.proofs.traced.evaluation import assert_close, floats, in_floats, integers, positive, unit

torch = pytest.importorskip("torch")
F = torch.nn.functional

X, Y, P, U, N = floats(4, 6), floats(4, 6, seed=1), positive(4, 6), unit(4, 6), integers(4, 6)
B, C, W, V = floats(2, 4, 6), floats(2, 6, 5), floats(5, 6), floats(6)
Q, K, Z = (floats(2, 3, 8, 4, seed=seed) for seed in range(3))
IMAGE, FILTER = floats(2, 4, 9), floats(6, 2, 3)
PLANE, KERNEL = floats(1, 3, 7, 8), floats(4, 3, 3, 2)
WHICH = torch.tensor([2, 0])

ELEMENTWISE = {
    **{
        name: (getattr(torch, name), (X,))
        for name in listed(
            "neg abs exp exp2 expm1 sin cos tan sinh cosh tanh atan asinh sign square floor ceil round "
            "trunc isfinite isinf isnan erf erfc sigmoid relu logical_not frac"
        )
    },
    **{name: (getattr(torch, name), (P,)) for name in listed("log log2 log10 log1p sqrt rsqrt reciprocal")},
    **{name: (getattr(torch, name), (U,)) for name in listed("asin acos atanh")},
    **{
        name: (getattr(torch, name), (X, Y))
        for name in listed(
            "add sub mul div maximum minimum gt lt ge le eq ne logaddexp atan2 hypot remainder fmod "
            "logical_and logical_or logical_xor"
        )
    },
    **{name: (getattr(torch, name), (N, N)) for name in listed("bitwise_and bitwise_or bitwise_xor")},
}
ACTIVATIONS = {
    name: (getattr(F, name), (X,))
    for name in listed(
        "gelu silu relu softplus mish elu leaky_relu hardtanh hardsigmoid hardswish relu6 "
        "logsigmoid tanhshrink softsign selu celu"
    )
}


def _filled(x: Any) -> Any:
    out = torch.zeros(4, 6)
    for i in range(4):
        out[i] = x[i] * 2
        out[i, 1:3] += 1
    return out


def _in_place(x: Any) -> Any:
    y = x.clone()
    y.sub_(y.amax(-1, keepdim=True)).exp_()
    row = y[1]
    row.zero_()
    return y / (1 + y.sum(-1, keepdim=True))


def _rope(x: Any, angles: Any) -> Any:
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angles.cos() + turned * angles.sin()


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.up, self.down = torch.nn.LayerNorm(6), torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "operators": (lambda x, y: (x + 1) * 2 - y / 3 + (-x) ** 2 - abs(y) + 2 / (3 + x * x), (X, Y)),
    "alpha": (lambda x, y: torch.add(x, y, alpha=3) - torch.sub(y, x, alpha=2), (X, Y)),
    "powers": (lambda x: x**0.5 + x**-1.5 + 2**x + x**3, (P,)),
    "pow": (lambda x, y: torch.pow(x, y), (P, Y)),
    "floor divided": (lambda x, y: x // y + torch.div(x, y, rounding_mode="trunc"), (X, Y)),
    "linear": (F.linear, (X, W)),
    "linear with bias": (lambda x, w, v: F.linear(x, w, v[:5]), (X, W, V)),
    "mm": (lambda x, y: torch.mm(x, y.t()), (X, Y)),
    "bmm": (torch.bmm, (B, C)),
    "matmul": (lambda x, y: x[None] @ y, (B, C)),
    "vector": (lambda x, y: x @ y[0] + torch.dot(x[0], y[0]), (X, Y)),
    "addmm": (lambda x, y, z: torch.addmm(z, x, y.T, beta=2, alpha=0.5), (X, Y, floats(4, 4))),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->ikb", x, y), (B, C)),
    "outer": (lambda x, y: torch.outer(x[0], y[0]), (X, Y)),
    "softmax": (lambda x: torch.softmax(x, -1), (X,)),
    "log_softmax": (lambda x: F.log_softmax(x, 0), (X,)),
    "logsumexp": (lambda x: torch.logsumexp(x, -1, keepdim=True), (X,)),
    "layer_norm": (lambda x, v: F.layer_norm(x, (6,), v, v, 1e-5), (X, V)),
    "rms_norm": (lambda x, v: F.rms_norm(x, (6,), v, 1e-6), (X, V)),
    "group_norm": (lambda x: F.group_norm(x, 2), (B,)),
    "batch_norm": (lambda x: F.batch_norm(x, torch.zeros(6), torch.full((6,), 2.0)), (X,)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,)),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.3])), (X,)),
    "glu": (lambda x: F.glu(x), (X,)),
    "normalize": (lambda x: F.normalize(x), (X,)),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y), (X, Y)),
    "attention": (F.scaled_dot_product_attention, (Q, K, Z)),
    "attention causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), (Q, K, Z)),
    "attention mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(8, 8).triu() > 0),
        (Q, K, Z),
    ),
    "attention bias": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.arange(8.0)[None]), (Q, K, Z)),
    "attention of few heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        (Q, K, Z),
    ),
    "sum": (lambda x: x.sum() + x.sum(0) + x.sum((0, 1), keepdim=True), (X,)),
    "mean": (lambda x: x.mean() + x.mean(-1, keepdim=True), (X,)),
    "var": (lambda x: torch.var(x, -1) + x.std(-1, correction=0), (X,)),
    "max": (lambda x: x.max() + x.amax(0) + x.max(dim=0).values - x.min(dim=0)[0] - x.amin(0), (X,)),
    "prod": (lambda x: x.prod(1), (X,)),
    "any": (lambda x: (x > 1).any(1) | (x < 0).all(1), (X,)),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1) + x.norm(dim=1), (X,)),
    "cumsum": (lambda x: x.cumsum(0), (X,)),
    "cumprod": (lambda x: x.cumprod(1), (X,)),
    "argmax": (lambda x: x.argmax(1), (floats(4, 9),)),
    "argmin": (lambda x: x.argmin(0, keepdim=True), (floats(9, 4),)),
    "topk": (lambda x: torch.topk(x, 3), (floats(4, 9),)),
    "sort": (lambda x: torch.sort(x, 0, descending=True), (X,)),
    "argsort": (lambda x: torch.argsort(x), (X,)),
    "where": (lambda x, y: torch.where(x > y, x, 2 * y), (X, Y)),
    "masked_fill": (lambda x: x.masked_fill(torch.ones(4, 6).triu(1) > 0, -2), (X,)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0) + x.clip(max=0.2), (X,)),
    "casts": (
        lambda x: (x * 3).to(torch.int32) + (x > 0).float() + x.bfloat16().float(),
        (np.round(X * 8) / 8 + np.float32(1 / 64),),
    ),
    "reshapes": (lambda x: x.view(3, 8).t().reshape(2, 12).unsqueeze(0).squeeze(), (X,)),
    "transposes": (lambda x: x.permute(2, 0, 1).transpose(0, 1).contiguous().flatten(1), (B,)),
    "expand": (lambda x: x[:, :1].expand(4, 3), (X,)),
    "slices": (lambda x: x[1:, 1:5:2][..., None], (X,)),
    "index": (lambda x: x[torch.tensor([0, 2, 2]), torch.tensor([1, 0, 5])], (X,)),
    "index_select": (lambda x: x.index_select(1, WHICH), (X,)),
    "gather": (lambda x: x.gather(1, WHICH[None].expand(4, 2)), (X,)),
    "joined": (lambda x, y: torch.cat([x, y, torch.ones(4, 1)], 1), (X, Y)),
    "stack": (lambda x, y: torch.stack([x, y], 1), (X, Y)),
    "split": (lambda x: (*x.split(4, 1), *x.chunk(2, 1), *x.unbind(0)), (X,)),
    "turns": (lambda x: x.flip(1).roll(2, 1).repeat(2, 1), (X,)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 0), (X,)),
    "triangles": (lambda x: x.tril(1) + x.triu(), (X,)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=7.0), (X,)),
    "pad reflected": (lambda x: F.pad(x, (1, 2), mode="reflect"), (B,)),
    "unfold": (lambda x: x.unfold(1, 3, 2).sum(-1), (X,)),
    "embedding": (lambda x, n: F.embedding(n[0].long(), x), (X, N)),
    "rows by number": (lambda x, n: x[n[0].long()], (X, N)),
    "gather by number": (lambda x, n: x.gather(1, n.long()), (X, N)),
    "one_hot": (lambda n: (n[..., None] == torch.arange(4)).float(), (N,)),
    "conv1d": (
        lambda x, w: F.conv1d(x, w, torch.arange(6.0), stride=2, padding=1, dilation=2, groups=2),
        (IMAGE, FILTER),
    ),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=(1, 0), stride=(2, 1)), (PLANE, KERNEL)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), (PLANE,)),
    "max_pool": (lambda x: F.max_pool2d(x, 3, stride=2, padding=1), (PLANE,)),
    "mse_loss": (lambda x, y: F.mse_loss(x, y), (X, Y)),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([0, 2, 1, 5])), (X,)),
    "likes": (lambda x: torch.zeros_like(x) + torch.ones_like(x) * x.new_full((6,), 3.0) + torch.full_like(x, 2), (X,)),
    "filled": (_filled, (X,)),
    "in place": (_in_place, (X,)),
    "rope": (_rope, (X, Y)),
    "module": (_Block(), (X,)),
    "constants": (lambda x, factor: x * factor, (X, 3.0)),
    **{f"elementwise {name}": case for name, case in ELEMENTWISE.items()},
    **{f"activation {name}": case for name, case in ACTIVATIONS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_rules_compute_what_pytorch_does(name: str) -> None:
    function, specs = CASES[name]
    tensors = [torch.from_numpy(each.copy()) if isinstance(each, np.ndarray) else each for each in specs]
    with torch.no_grad():
        expected = function(*tensors)
    assert_close(
        in_floats(function, *specs),
        [each.float() for each in expected] if isinstance(expected, tuple) else expected.float(),
    )
