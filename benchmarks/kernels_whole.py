"""Whole kernels against PyTorch, on one and on two threads, and the sentence model of the example.

Each time is the shortest of interleaved runs, because other work on the machine only adds to it; a run of both that is
not timed comes first where the number of threads has changed. The CPU time beside
ours adds up all threads: it stays about the same if two threads share the work and do not wait.

What two threads gain is the ratio of the shortest times and, since these may be of two clocks, the median of runs that
follow each other. Beside it stands the clock straight after the runs, as a part of the highest one among them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks import clock
from benchmarks import tutorial_kernels as kernels
from benchmarks.timing import Row
from examples.minilm import encoder, main, reference
from examples.minilm.model import load_model, make_batch

THREADS = (1, 2)


@dataclass(frozen=True)
class _Times:
    """Seconds of one run of ours, in all and of all threads' CPU time, and of theirs; the clock straight after ours."""

    ours: float
    cpu: float
    theirs: float
    clock: float


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
    rounds: list[dict[int, _Times]] = []
    for _ in range(runs):
        rounds.append({})
        for threads in THREADS:
            os.environ["NKI_NUM_THREADS"] = str(threads)
            torch.set_num_threads(threads)
            for either in (work.ours, work.theirs):  # OpenMP starts and ends threads as their number changes
                either()
            ours, speed = _times(work.ours), clock.speed()
            rounds[-1][threads] = _Times(*ours, _times(work.theirs)[0], speed)
    highest = max(times.clock for each in rounds for times in each.values())
    shortest = min(each[1].ours for each in rounds)
    for threads in THREADS:
        own = [each[threads] for each in rounds]
        ours, cpu, theirs = (min(times) for times in zip(*((t.ours, t.cpu, t.theirs) for t in own), strict=True))
        clocks = [times.clock / highest for times in own]
        gain = "" if threads == 1 else f", {shortest / ours:.2f} x of 1, in turns {_gain(rounds, threads):.2f} x"
        yield Row(
            f"{work.name}, {threads} thread{'s' * (threads > 1)}",
            f"{ours * 1e3:.1f} ms",
            f"{theirs * 1e3:.1f} ms PyTorch",
            f"{theirs / ours:.2f} x; CPU {cpu * 1e3:.1f} ms{gain}; clock {min(clocks):.2f} to {max(clocks):.2f}",
        )


def _gain(rounds: list[dict[int, _Times]], threads: int) -> float:
    """The median over the rounds of one thread's time over the time of ``threads``.

    Other work on the machine makes it smaller than the ratio of the shortest times.
    """
    return statistics.median(each[1].ours / each[threads].ours for each in rounds)


def _times(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    cpu, start = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - start, time.process_time() - cpu
