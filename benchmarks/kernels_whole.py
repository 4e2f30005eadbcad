"""Whole kernels against PyTorch, on one and on two threads, and the sentence model of the example.

Each time is the shortest of interleaved runs, because other work on the machine only adds to it; a run of both that is
not timed comes first where the number of threads has changed. The CPU time beside
ours is that of all threads: it stays about the same if two threads share the work and do not wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks import tutorial_kernels as kernels
from benchmarks.timing import Row
from examples.minilm import encoder, main, reference
from examples.minilm.model import load_model, make_batch

THREADS = (1, 2)


@dataclass(frozen=True)
class Work:
    """The same work by us and by PyTorch; ``bound``: the largest difference, relative to the largest result."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    bound: float


def kernel_work() -> Iterator[Work]:
    """Each kernel with inputs of its own, which go when the next one comes."""
    torch.manual_seed(0)
    for dtype, name, bound in ((torch.float32, "float32", 1e-5), (torch.bfloat16, "bfloat16", 2e-2)):
        a, b = (torch.randn(2048, 2048).to(dtype) for _ in range(2))
        yield Work(f"matmul 2048³ {name}", lambda a=a, b=b: kernels.matmul(a, b), lambda a=a, b=b: a.T @ b, bound)
        q, k, v = (torch.randn(2048, 128).to(dtype) for _ in range(3))
        yield Work(
            f"causal attention 2048 x 128 {name}",
            lambda q=q, k=k, v=v: kernels.attention(q, k, v),
            lambda q=q, k=k, v=v: F.scaled_dot_product_attention(
                q[None, None], k[None, None], v[None, None], is_causal=True
            ),
            bound,
        )
    x, y, gain, shift = (torch.randn(*shape) for shape in ((4096, 4096), (4096, 4096), (1, 4096), (1, 4096)))
    yield Work("softmax 4096²", lambda: kernels.softmax(x), lambda: torch.softmax(x, 1), 1e-5)
    yield Work(
        "LayerNorm 4096² (bn_stats)",
        lambda: kernels.layer_norm(x, gain, shift),
        lambda: F.layer_norm(x, (4096,), gain[0], shift[0]),
        1e-5,
    )
    yield Work("RMSNorm 4096²", lambda: kernels.rms_norm(x, gain), lambda: F.rms_norm(x, (4096,), gain[0], 1e-6), 1e-5)
    yield Work("SwiGLU 4096²", lambda: kernels.swiglu(x, y), lambda: F.silu(x) * y, 1e-5)


def model_work() -> Iterator[Work]:
    """The default sentences, and as many longer ones."""
    model = load_model()
    longer = [" ".join(main.SENTENCES[i:] + main.SENTENCES[:i])[:400] for i in range(len(main.SENTENCES))]
    for name, sentences in (("short", main.SENTENCES), ("long", longer)):
        batch = make_batch(model.tokenizer, sentences)
        what = f"MiniLM, {len(sentences)} {name} sentences ({len(batch.ids.reshape(-1))} tokens)"
        ours, theirs = (lambda batch=batch, m=m: m.embed(model, batch) for m in (encoder, reference))
        yield Work(what, ours, theirs, 1e-4)


def rows(runs: int) -> Iterator[Row]:
    """Two rows for each piece of work."""
    before = torch.get_num_threads()
    try:
        for works in (kernel_work, model_work):
            for work in works():
                yield from _rows_of(work, max(3, runs // 2))
    finally:
        os.environ.pop("NKI_NUM_THREADS", None)
        torch.set_num_threads(before)


def _rows_of(work: Work, runs: int) -> Iterator[Row]:
    result, expected = (torch.as_tensor(f()).float().reshape(-1) for f in (work.ours, work.theirs))
    error = (result - expected).abs().max() / expected.abs().max()
    assert error <= work.bound, f"{work.name}: {error:.1e} relative"
    best: dict[int, tuple[float, float, float]] = dict.fromkeys(THREADS, (float("inf"),) * 3)
    for _ in range(runs):
        for threads in THREADS:
            os.environ["NKI_NUM_THREADS"] = str(threads)
            torch.set_num_threads(threads)
            for either in (work.ours, work.theirs):  # OpenMP starts and ends threads as their number changes
                either()
            times = (*_times(work.ours), _times(work.theirs)[0])
            best[threads] = tuple(map(min, best[threads], times))  # type: ignore[assignment]
    for threads, (ours, cpu, theirs) in best.items():
        name = f"{work.name}, {threads} thread{'s' * (threads > 1)}"
        gain = "" if threads == 1 else f", {best[1][0] / ours:.2f} x of 1"
        yield Row(
            name,
            f"{ours * 1e3:.1f} ms",
            f"{theirs * 1e3:.1f} ms PyTorch",
            f"{theirs / ours:.2f} x; CPU {cpu * 1e3:.1f} ms{gain}",
        )


def _times(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    cpu, start = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - start, time.process_time() - cpu
