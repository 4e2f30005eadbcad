"""Embed sentences with NKI kernels, print how alike they are, and hold the result against PyTorch."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from examples.minilm import encoder, reference
from examples.minilm.encoder import Call
from examples.minilm.model import Array, Batch, Model, load_model, make_batch

LEAST_COSINE = 0.99999  # between a sentence's embedding and PyTorch's; below it the run has failed

SENTENCES = [
    "A man is playing a guitar on stage.",
    "Someone performs a song with a guitar in front of an audience.",
    "The orchestra tuned up before the concert.",
    "The central bank raised interest rates by half a point.",
    "Borrowing money became more expensive after the latest decision.",
    "Shares fell when the company warned about its profits.",
    "Our cat sleeps all day on the warm windowsill.",
    "The kitten is napping in the sun.",
    "Dogs need a long walk every morning, whatever the weather.",
    "Matrix multiplication dominates the run time of neural networks.",
    "Most of the time in deep learning goes into multiplying matrices.",
    "Rain",
]


@dataclass
class Measured:
    """What the report says about one kernel. Times in seconds."""

    instructions: int
    compile_time: float
    runs: list[list[float]] = field(
        default_factory=list[list[float]]
    )  # a list of launches for each pass over the network


class Progress:
    """A bar on stderr while kernels compile; a line for each when stderr is not a terminal."""

    WIDTH = 24

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.terminal = sys.stderr.isatty()

    def start(self, name: str) -> None:
        filled = self.WIDTH * self.done // self.total
        text = f"compiling [{'#' * filled}{'.' * (self.WIDTH - filled)}] {self.done}/{self.total} {name}"
        sys.stderr.write(f"\r\x1b[K{text}" if self.terminal else f"{text}\n")
        sys.stderr.flush()
        self.done += 1

    def finish(self) -> None:
        if self.terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def compile_all(model: Model, batch: Batch) -> dict[str, Measured]:
    """Compile each kernel once. All take [tokens, hidden] first, so the words' rows stand in for any of these."""
    x = encoder.words(model, batch)
    distinct = {call.name: call for call in encoder.calls(model, batch)}
    progress = Progress(len(distinct))
    measured: dict[str, Measured] = {}
    for name, call in distinct.items():
        progress.start(name)
        begin = time.perf_counter()
        compiled = call.kernel.compile(x, *call.weights)
        measured[name] = Measured(len(compiled.kernel.core.body), time.perf_counter() - begin)
    progress.finish()
    return measured


def run(model: Model, batch: Batch, measured: dict[str, Measured]) -> Array:
    """One pass over the network; adds the time of each launch to `measured`."""
    for kernel in measured.values():
        kernel.runs.append([])

    def launch(call: Call, x: Array) -> Array:
        begin = time.perf_counter()
        result = encoder.launch(call, x)
        measured[call.name].runs[-1].append(time.perf_counter() - begin)
        return result

    return encoder.embed(model, batch, launch)


def time_reference(model: Model, batch: Batch, runs: int) -> tuple[Array, float]:
    """PyTorch's embeddings and its median time over `runs` passes after one to warm up; on one thread, like kernels."""
    torch.set_num_threads(1)
    expected = reference.embed(model, batch).numpy()
    times: list[float] = []
    for _ in range(runs):
        begin = time.perf_counter()
        reference.embed(model, batch)
        times.append(time.perf_counter() - begin)
    return expected, statistics.median(times)


def similarity_table(sentences: Sequence[str], embeddings: Array) -> str:
    """Cosine of every pair, in hundredths: embeddings have length 1."""
    similar = np.rint(100 * embeddings.astype(np.float64) @ embeddings.T.astype(np.float64)).astype(int)
    width = min(40, max(map(len, sentences)))
    lines = [" " * (width + 4) + "".join(f"{j:>4}" for j in range(1, len(sentences) + 1))]
    for i, sentence in enumerate(sentences):
        text = sentence if len(sentence) <= width else sentence[: width - 3] + "..."
        lines.append(f"{i + 1:>3} {text:<{width}}" + "".join(f"{value:>4}" for value in similar[i]))
    return "\n".join(lines)


def kernel_table(measured: dict[str, Measured], torch_time: float) -> str:
    """A row per kernel, then the sums, then PyTorch. Times are medians over the passes."""
    lines = [f"{'kernel':<20}{'launches':>9}{'instructions':>14}{'compile ms':>12}{'run ms':>10}"]
    total = [0.0] * len(next(iter(measured.values())).runs)
    for name, kernel in measured.items():
        passes = [sum(launches) for launches in kernel.runs]
        total = [before + now for before, now in zip(total, passes, strict=True)]
        lines.append(
            f"{name:<20}{len(kernel.runs[0]):>9}{kernel.instructions:>14}{1e3 * kernel.compile_time:>12.1f}"
            f"{1e3 * statistics.median(passes):>10.2f}"
        )
    executed = sum(kernel.instructions * len(kernel.runs[0]) for kernel in measured.values())
    compile_time = sum(kernel.compile_time for kernel in measured.values())
    launches = sum(len(kernel.runs[0]) for kernel in measured.values())
    run_time = statistics.median(total)
    lines.append(f"{'all':<20}{launches:>9}{executed:>14}{1e3 * compile_time:>12.1f}{1e3 * run_time:>10.2f}")
    lines.append(f"{'PyTorch, one thread':<20}{'':>35}{1e3 * torch_time:>10.2f}")
    return "\n".join(lines)


def cosines(found: Array, expected: Array) -> Array:
    """Cosine of each pair of rows, in float64; NaN where a row is not finite or is zero."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every embedding agrees with PyTorch's, 1 if one does not, 2 if the command cannot be carried out."""
    parser = argparse.ArgumentParser(prog="python -m examples.minilm", description=__doc__)
    parser.add_argument("sentences", nargs="*", help="what to embed (default: a dozen sentences)")
    parser.add_argument("--runs", type=int, default=5, help="passes to time; the median counts (default 5)")
    options = parser.parse_args(arguments)
    sentences: list[str] = options.sentences or SENTENCES
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    try:
        model = load_model()
        batch = make_batch(model.tokenizer, sentences)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))

    lengths = batch.mask[: batch.count].sum(1).astype(int)
    print(
        f"{batch.count} sentences of {lengths.min()} to {lengths.max()} tokens, padded to {batch.length}; "
        f"{batch.ids.size} tokens in groups of {batch.span}"
    )
    measured = compile_all(model, batch)
    found = [run(model, batch, measured) for _ in range(options.runs)][-1]
    expected, torch_time = time_reference(model, batch, options.runs)

    print(f"\ncosine similarity, in hundredths\n{similarity_table(sentences, found)}")
    print(f"\n{kernel_table(measured, torch_time)}")
    agreement = cosines(found, expected)
    good = bool((agreement >= LEAST_COSINE).all())
    print(
        f"\nlargest deviation from PyTorch {np.abs(found - expected).max():.1e}, "
        f"least cosine {agreement.min():.9f} ({'at least' if good else 'NOT at least'} {LEAST_COSINE})"
    )
    return 0 if good else 1
