"""Train a small Llama-style decoder with NKI kernels and without, compare the losses, and generate text."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from examples.llama import picture, pytorch
from examples.llama.model import Sizes, Tokens, batches, decode, first_weights, text

NOISE = 2.0**-8  # half a unit in the last place of bfloat16: a larger relative difference of losses fails the run
RATE = 1e-3  # of AdamW
PROMPT = 16  # characters


class Trainer(Protocol):
    """A model in training, in either framework."""

    weights: Any

    def step(self, batch: Tokens) -> float: ...


@dataclass
class Run:
    """Losses and seconds of each step."""

    losses: list[float]
    times: list[float]

    def add(self, trainer: Trainer, batch: Tokens) -> None:
        begin = time.perf_counter()
        self.losses.append(trainer.step(batch))
        self.times.append(time.perf_counter() - begin)

    @property
    def rate(self) -> float:
        """Steps per second: the median, so neither compilation nor a busy machine counts."""
        return 1 / statistics.median(self.times)


def train(trainers: Sequence[Trainer], sizes: Sizes, steps: int) -> list[Run]:
    """Train all in turn on the same batches, so that what slows the machine down slows each."""
    runs = [Run([], []) for _ in trainers]
    for step, batch in zip(range(steps), batches(sizes), strict=False):
        for run, trainer in zip(runs, trainers, strict=True):
            run.add(trainer, batch)
        if (step + 1) % max(1, steps // 10) == 0:
            print(f"{step + 1:>6}" + "".join(f"{run.losses[-1]:>14.6f}" for run in runs), flush=True)
    return runs


def largest_difference(one: Run, other: Run) -> tuple[float, int]:
    """The largest relative difference of the losses, and its step; NaN counts as infinite."""
    a, b = np.array(one.losses), np.array(other.losses)
    relative = np.nan_to_num(np.abs(a - b) / b, nan=np.inf)
    return float(relative.max()), int(relative.argmax()) + 1


def show_generation(weights: Any, sizes: Sizes) -> bool:
    """Generate with kernels and without; True if the logits agree as long as the texts do."""
    prompt = text()[:PROMPT]
    found = [pytorch.generate(weights, prompt, sizes, which) for which in (pytorch.WITH_KERNELS, pytorch.PLAIN)]
    same = int(np.argmin(np.append(found[0].tokens == found[1].tokens, False)))
    print(f"\ngenerated with kernels, after {decode(prompt)!r}:\n{decode(found[0].tokens[PROMPT:])}\n")
    until = min(same, len(found[0].logits))
    a, b = found[0].logits[:until], found[1].logits[:until]
    largest = float(np.abs(a - b).max())
    rates = [1 / statistics.median(run.times) for run in found]
    print(f"PyTorch generates the same {same - PROMPT} of {len(found[0].tokens) - PROMPT} characters;", end=" ")
    print(f"largest difference of logits until there {largest:.1e}")
    print(f"tokens per second: kernels {rates[0]:.0f}, PyTorch {rates[1]:.0f}, ratio {rates[0] / rates[1]:.2f}")
    return largest <= NOISE * float(np.abs(b).max())


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if losses and logits agree with the plain framework's, 1 if not, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m examples.llama", description=__doc__)
    parser.add_argument("--framework", choices=("torch", "jax"), default="torch")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, in both models (default 1)")
    parser.add_argument("--layers", type=int, default=Sizes.layers)
    parser.add_argument("--picture", type=Path, help="write the two curves of the loss here, as SVG")
    options = parser.parse_args(arguments)
    for name in ("steps", "threads", "layers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")

    torch.set_num_threads(options.threads)
    sizes = Sizes(layers=options.layers)
    first = first_weights(sizes)
    if options.framework == "jax":
        from examples.llama import jax  # a reader of the PyTorch example may not have it

        trainers: Sequence[Trainer] = jax.make_trainers(first, RATE)
    else:
        trainers = pytorch.make_trainers(first, RATE)
    plain = {"torch": "PyTorch", "jax": "JAX"}[options.framework]
    print(f"{sum(w.size for w in first.values()):,} weights, {sizes.layers} layers;", end=" ")
    print(f"batches of {sizes.contexts} x {sizes.tokens} characters out of {len(text()):,}")
    print(f"{'step':>6}{'kernels':>14}{plain:>14}   (loss)")
    runs = train(trainers, sizes, options.steps)

    difference, where = largest_difference(*runs)
    good = difference <= NOISE
    print(f"\nkernels {picture.sparkline(runs[0].losses)}\n{plain:<7} {picture.sparkline(runs[1].losses)}")
    print(f"largest relative difference of the losses {difference:.1e}, at step {where}", end=" ")
    print(f"({'within' if good else 'NOT within'} the noise of bfloat16, {NOISE:.1e})")
    rates = [run.rate for run in runs]
    print(f"steps per second: kernels {rates[0]:.1f}, {plain} {rates[1]:.1f}, ratio {rates[0] / rates[1]:.2f}")
    if options.picture:
        options.picture.write_text(picture.curves({"kernels": runs[0].losses, plain: runs[1].losses}), "utf-8")
        print(f"the curves are in {options.picture}")
    weights = {n: np.asarray(w.detach() if isinstance(w, torch.Tensor) else w) for n, w in trainers[0].weights.items()}
    return 0 if show_generation(weights, sizes) and good else 1
