"""Run the encoder under torch.compile, export it to one file, load that in another process, and compare all.

`python -m examples.minilm.shipped [sentence ...]`. The other process has neither this folder nor a cache of kernels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

import nki
from examples.minilm import encoder, reference
from examples.minilm.main import LEAST_COSINE, SENTENCES, cosines
from examples.minilm.model import Array, Batch, Model, load_model, make_batch
from examples.minilm.pytorch import Encoder

ELSEWHERE = """
import importlib.util, statistics, sys, time
import torch
import nki

assert importlib.util.find_spec("examples") is None, "the source of the kernels is here"
torch.set_num_threads(1)
begin = time.perf_counter()
model = nki.load("model.nkix")
loaded = time.perf_counter() - begin
inputs = torch.load("inputs.pt")
times = []
for _ in range(int(sys.argv[1]) + 1):
    begin = time.perf_counter()
    result = model(*inputs)
    times.append(time.perf_counter() - begin)
torch.save((result, loaded, statistics.median(times[1:])), "result.pt")
"""


def measured(run: Callable[[], Any], runs: int) -> tuple[Any, float]:
    """The result, and the median time of `runs` calls after one that compiles."""
    result, times = run(), list[float]()
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return result, statistics.median(times)


def elsewhere(folder: Path, runs: int) -> tuple[Array, float, float]:
    """What a process that has nothing but PyTorch, nki and `folder` computes; seconds to load, and of one call."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(Path(nki.__file__).parents[1]),
        "OPEN_NKI_CACHE": str(folder / "cache"),
    }
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(runs)], cwd=folder, env=variables, check=True)
    result, loaded, seconds = torch.load(folder / "result.pt")
    return result.numpy(), loaded, seconds


def compare(model: Model, batch: Batch, folder: Path, runs: int) -> bool:
    """Print a row for each way to run the model; True if all agree."""
    inputs = (torch.from_numpy(batch.ids), torch.from_numpy(batch.mask))
    module = Encoder(model)
    torch.set_num_threads(1)
    expected, torch_time = measured(lambda: reference.embed(model, batch).numpy(), runs)
    first, numpy_time = measured(lambda: encoder.embed(model, batch), runs)
    with torch.inference_mode():
        eager, eager_time = measured(lambda: module(*inputs).numpy(), runs)
    compiled = cast("Callable[..., torch.Tensor]", torch.compile(module, fullgraph=True))
    graph, graph_time = measured(lambda: compiled(*inputs).numpy(), runs)

    path = folder / "model.nkix"
    nki.export(module, inputs, path)
    torch.save(inputs, folder / "inputs.pt")
    loaded, load_time, loaded_time = elsewhere(folder, runs)
    names = nki.load(path).kernels
    print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB with {len(names)} kernels, {', '.join(names)}")
    print(f"loaded in {load_time:.2f} s by a process without their source and without a cache\n")

    print(f"{'':<34}{'ms':>8}{'least cosine':>15}{'bits of the kernels on NumPy':>32}")
    print(f"{'PyTorch':<34}{1e3 * torch_time:>8.1f}")
    good = True
    rows = (
        ("kernels on NumPy arrays", first, numpy_time),
        ("module of kernels, eager", eager, eager_time),
        ("torch.compile(fullgraph=True)", graph, graph_time),
        ("nki.load in another process", loaded, loaded_time),
    )
    for name, found, seconds in rows:
        shown = found[: batch.count]
        least, same = cosines(shown, expected).min(), np.array_equal(shown.view(np.uint32), first.view(np.uint32))
        good = good and bool(least >= LEAST_COSINE) and same
        print(f"{name:<34}{1e3 * seconds:>8.1f}{least:>15.9f}{'the same' if same else 'OTHER':>32}")
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all ways agree: the same bits from kernels, and a cosine with PyTorch of at least LEAST_COSINE."""
    parser = argparse.ArgumentParser(prog="python -m examples.minilm.shipped", description=__doc__)
    parser.add_argument("sentences", nargs="*", help="what to embed (default: a dozen sentences)")
    parser.add_argument("--runs", type=int, default=5, help="calls to time; the median counts (default 5)")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    try:
        model = load_model()
        batch = make_batch(model.tokenizer, options.sentences or SENTENCES)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        return 0 if compare(model, batch, Path(folder), options.runs) else 1


if __name__ == "__main__":
    sys.exit(main())
