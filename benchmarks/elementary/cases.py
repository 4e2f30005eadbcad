"""The cases of the section: a kernel and what PyTorch has for it, on the same tensors. Both allocate their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.elementary import by_row, products

SIZES = ((1024, 1024), (512, 768), (17, 1000), (1, 4096))
"""Rows and columns of the kernels by row."""
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 4e-2}
"""The largest difference of results, relative to the largest result."""
ONE_OF_127 = 8e-3
"""The same for int8: quotients that PyTorch rounds twice may go to the other neighbour."""
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": F.gelu,
    "gelu_apprx_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "erf": torch.erf,
    "sin": torch.sin,
    "softplus": F.softplus,
    "mish": F.mish,
}


@dataclass(frozen=True)
class Case:
    """The same work by us and by PyTorch; ``bound`` is None if results are random or differ in form."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    bound: float | None


def by_rows(sizes: tuple[tuple[int, int], ...] = SIZES) -> Iterator[Case]:
    """Kernels of ``nl`` functions, each size in both dtypes."""
    for rows, columns in sizes:
        for dtype, word in DTYPES.items():
            for name, ours, theirs in [*_norms(rows, columns, dtype), *_softmaxes(rows, columns, dtype)]:
                bound = ONE_OF_127 if name == "int8 by row" else BOUNDS[dtype]
                yield Case(f"{name} {rows} x {columns} {word}", ours, theirs, bound)


_Pairs = Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]


def _norms(rows: int, columns: int, dtype: torch.dtype) -> _Pairs:
    x, y, slope = (torch.randn(rows, columns).to(dtype) for _ in range(3))
    gain, shift = (torch.randn(1, columns).to(dtype) for _ in range(2))
    one, two, n = gain[0], shift[0], (columns,)
    mean, scale = torch.native_layer_norm(x, n, one, two, by_row.EPS)[1:]
    means, scales = mean.float(), scale.float()
    if dtype == torch.bfloat16:
        means, scales = x.float().mean(1, True), torch.rsqrt(x.float().var(1, correction=0, keepdim=True) + by_row.EPS)
    backward = torch.ops.aten.native_layer_norm_backward
    yield "LayerNorm", lambda: by_row.layer_norm(x, gain, shift), lambda: F.layer_norm(x, n, one, two)
    yield (
        "residual + LayerNorm",
        lambda: by_row.residual_layer_norm(x, y, gain, shift),
        lambda: F.layer_norm(x + y, n, one, two),
    )
    yield "RMSNorm", lambda: by_row.rms_norm(x, gain), lambda: F.rms_norm(x, n, one, by_row.EPS)
    yield "group norm", lambda: by_row.group_norm(x, 8), lambda: F.group_norm(x, 8)
    yield (
        "gradient of LayerNorm",
        lambda: by_row.layer_norm_gradient(slope, x, gain, means, scales),
        lambda: backward(slope, x, n, mean, scale, one, two, [True, False, False])[0],
    )
    yield (
        "gradient of GELU",
        lambda: by_row.gelu_gradient(slope, x),
        lambda: torch.ops.aten.gelu_backward(slope, x),
    )
    half = columns // 2
    cosine, sine = (torch.randn(rows, half).to(dtype) for _ in range(2))
    both = torch.cat((cosine, cosine), 1), torch.cat((sine, sine), 1)
    yield (
        "rotary",
        lambda: by_row.rotary(x, cosine, sine),
        lambda: x * both[0] + torch.cat((-x[:, half:], x[:, :half]), 1) * both[1],
    )


def _softmaxes(rows: int, columns: int, dtype: torch.dtype) -> _Pairs:
    x, slope = (torch.randn(rows, columns).to(dtype) for _ in range(2))
    mask = torch.where(torch.rand(rows, columns) < 0.2, -1e4, 0.0).to(dtype)
    y = torch.softmax(x, 1)
    labels = torch.randint(0, columns, (rows,))
    numbers, places = labels.float()[:, None], torch.arange(columns).float()[None]
    yield "softmax", lambda: by_row.softmax(x), lambda: torch.softmax(x, 1)
    yield "log-softmax", lambda: by_row.log_softmax(x), lambda: torch.log_softmax(x, 1)
    yield "masked softmax", lambda: by_row.masked_softmax(x, mask), lambda: torch.softmax(x + mask, 1)
    yield (
        "gradient of softmax",
        lambda: by_row.softmax_gradient(slope, y),
        lambda: torch._softmax_backward_data(slope, y, 1, dtype),
    )
    yield (
        "cross-entropy",
        lambda: by_row.cross_entropy(x, numbers, places),
        lambda: F.cross_entropy(x, labels, reduction="none"),
    )
    yield "int8 by row", lambda: by_row.int8_by_row(x), lambda: _quantised(x, torch.int8, 127.0)
    yield "sum of rows", lambda: by_row.row_sum(x), lambda: x.sum(1)
    yield "maximum of rows", lambda: by_row.row_maximum(x), lambda: x.amax(1)


def _quantised(x: Any, dtype: torch.dtype, largest: float) -> tuple[Any, Any]:
    scale = x.abs().amax(1, keepdim=True).float() / largest
    result = x / scale
    return (result.round() if dtype == torch.int8 else result).to(dtype), scale


def others() -> Iterator[Case]:
    """The other rows of the table: each shape that it names."""
    x, y = torch.randn(4096, 4096), torch.rand(4096, 4096)
    for name, theirs in FUNCTIONS.items():
        tensor = y if name in ("log", "sqrt") else x
        yield Case(
            f"{name} 4096² float32",
            lambda tensor=tensor, name=name: by_row.function(tensor, name),
            lambda tensor=tensor, theirs=theirs: theirs(tensor),
            1e-5,
        )
    yield Case("power 4096² float32", lambda: by_row.power(y, x), lambda: torch.pow(y, x), 1e-4)
    yield Case("cumulative sum 4096² float32", lambda: by_row.cumulative_sum(x), lambda: torch.cumsum(x, 1), 1e-4)
    yield Case("dropout 4096² float32", lambda: by_row.dropout(x, 0.2), lambda: F.dropout(x, 0.2), None)
    for dtype, word in DTYPES.items():
        z, bound = x.to(dtype), BOUNDS[dtype]
        yield Case(f"transpose 4096² {word}", lambda z=z: products.transpose(z), lambda z=z: z.T.contiguous(), bound)
        for rows in (4096, 1024):
            w = z[:rows]
            size = f"{rows} x 4096 {word}"
            yield Case(f"sum of rows {size}", lambda w=w: by_row.row_sum(w), lambda w=w: w.sum(1), 10 * bound)
            yield Case(f"maximum of rows {size}", lambda w=w: by_row.row_maximum(w), lambda w=w: w.amax(1), bound)
        yield Case(
            f"argmax 1024 x 4096 {word}", lambda z=z: by_row.argmax(z[:1024]), lambda z=z: z[:1024].argmax(1), None
        )
    yield from _searches()
    yield from _row_sizes()


def _searches() -> Iterator[Case]:
    x = torch.randn(1024, 8192)
    for count in (8, 64):
        yield Case(
            f"{count} largest of 8192",
            lambda count=count: by_row.largest(x.clone(), count),
            lambda count=count: torch.topk(x.clone(), count, 1)[0],
            1e-6,
        )
    yield Case("mean and variance of 8192", lambda: by_row.moments(x), lambda: _moments(x), 1e-5)
    for name, kernel, dtype, top in (
        ("int8", by_row.int8_by_row, torch.int8, 127.0),
        ("fp8", by_row.fp8_by_row, torch.float8_e4m3fn, 448.0),
    ):
        yield Case(
            f"{name} by row 1024 x 8192",
            lambda kernel=kernel: kernel(x),
            lambda dtype=dtype, top=top: _quantised(x, dtype, top),
            None,
        )
    table, numbers = torch.randn(32768, 1024), torch.randint(0, 32768, (4096,))
    narrow = numbers.to(torch.int32)[:, None]
    yield Case(
        "embedding 4096 rows of 1024",
        lambda: products.embedding(table, narrow),
        lambda: F.embedding(numbers, table),
        1e-6,
    )
    logits, labels = torch.randn(2048, 8192), torch.randint(0, 8192, (2048,))
    where, places = labels.float()[:, None], torch.arange(8192).float()[None]
    yield Case(
        "cross-entropy 2048 x 8192",
        lambda: by_row.cross_entropy(logits, where, places),
        lambda: F.cross_entropy(logits, labels, reduction="none"),
        1e-5,
    )


def _moments(x: Any) -> Any:
    variance, mean = torch.var_mean(x, 1, correction=0)
    return torch.stack((mean, variance), 1)


def _row_sizes() -> Iterator[Case]:
    tokens = torch.randn(2048 * 32, 128)
    cosine, sine = torch.randn(2048 * 32, 64), torch.randn(2048 * 32, 64)
    both = torch.cat((cosine, cosine), 1), torch.cat((sine, sine), 1)
    yield Case(
        "rotary 2048 x 32 x 128",
        lambda: by_row.rotary(tokens, cosine, sine),
        lambda: tokens * both[0] + torch.cat((-tokens[:, 64:], tokens[:, :64]), 1) * both[1],
        1e-5,
    )
    x, mask = torch.randn(2048, 4096), torch.where(torch.rand(2048, 4096) < 0.2, -1e4, 0.0)
    yield Case(
        "masked softmax 2048 x 4096",
        lambda: by_row.masked_softmax(x, mask),
        lambda: torch.softmax(x + mask, 1),
        1e-5,
    )
    for rows, columns in ((1000, 1000), (4096, 77), (256, 16384)):
        z = torch.randn(rows, columns)
        yield Case(f"softmax {rows} x {columns}", lambda z=z: by_row.softmax(z), lambda z=z: torch.softmax(z, 1), 1e-5)
    for rows, columns in ((1000, 1000), (4096, 77), (8192, 32)):
        z, gain, shift = torch.randn(rows, columns), torch.randn(1, columns), torch.randn(1, columns)
        yield Case(
            f"LayerNorm {rows} x {columns}",
            lambda z=z, gain=gain, shift=shift: by_row.layer_norm(z, gain, shift),
            lambda z=z, gain=gain, shift=shift: F.layer_norm(z, z.shape[1:], gain[0], shift[0]),
            1e-5,
        )


def multiplied() -> Iterator[Case]:
    """Products, attention, pooling and convolution."""
    sizes = (
        (1, 4096, 4096),
        (4096, 4096, 1),
        (16, 4096, 4096),
        (128, 4096, 4096),
        (1000, 1000, 1000),
        (17, 1000, 1000),
        (77, 768, 768),
        (512, 64, 512),
    )
    heads = ((8, 1, 4096, 128), (4, 1024, 1024, 96), (4, 1024, 1024, 128), (8, 512, 512, 64), (12, 77, 77, 64))
    for dtype, word in DTYPES.items():
        bound = BOUNDS[dtype]
        for m, k, n in sizes:
            a, b = torch.randn(k, m).to(dtype), torch.randn(k, n).to(dtype)
            yield Case(
                f"matmul {m} x {k} x {n} {word}",
                lambda a=a, b=b: products.matmul(a, b),
                lambda a=a, b=b: a.T @ b,
                bound,
            )
        for h, s, t, d in heads:
            q, k, v = (torch.randn(h, length, d).to(dtype) for length in (s, t, t))
            yield Case(
                f"attention {h} x {s} over {t} x {d} {word}",
                lambda q=q, k=k, v=v: products.attention(q, k, v),
                lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0],
                bound,
            )
        image, weights = torch.randn(128, 56, 56).to(dtype), torch.randn(128, 128, 3, 3).to(dtype)
        taps = weights.permute(2, 3, 1, 0).reshape(9, 128, 128).contiguous()
        yield Case(
            f"convolution 3 x 3, 128 x 56² {word}",
            lambda image=image, taps=taps: products.convolution(image, taps),
            lambda image=image, weights=weights: F.conv2d(image[None], weights, padding=1)[0],
            bound,
        )
        large = torch.randn(128, 112, 112).to(dtype)
        yield Case(
            f"max pooling 128 x 112² {word}",
            lambda large=large: products.max_pooling(large),
            lambda large=large: F.max_pool2d(large[None], 2)[0],
            bound,
        )
