"""The decoder of examples/llama with tensor parallelism: gradients, training and text are the ones of one rank."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
import torch

import nki
from examples.llama import main, parallel, pytorch
from examples.llama.model import Sizes, batches, first_weights
from nki.rendezvous import ranks as running
from nki.rendezvous.threaded import Threaded
from tests.support.fresh_process import ROOT

T = TypeVar("T")
SMALL = Sizes(layers=2, hidden=96, tokens=32, contexts=2)


def on_ranks(count: int, work: Callable[[int], T]) -> list[T]:
    """The results of ``work(rank)``, each in a thread that is this rank."""

    def run(participant):
        with running.running_as(participant):
            return work(participant.rank)

    return Threaded(count).run([run] * count)


def gradients(weights, operators):
    """Of the loss on the first batch."""
    trainer = pytorch.Trainer(weights, operators, 1e-3)
    trainer.step(next(batches(SMALL)))
    return {name: weight.grad.numpy() for name, weight in trainer.weights.items()}


@pytest.mark.parametrize("shape", [(1, 128), (64, 128)])
def test_sum_over_ranks(shape):
    xs = [np.random.default_rng(rank).standard_normal(shape).astype(np.float32) for rank in range(3)]
    with nki.ranks(3):
        sums = parallel.sum_over_ranks(xs, ranks=3)
    assert {x.tobytes() for x in sums} == {(xs[0] + xs[1] + xs[2]).tobytes()}


def test_forward_with_lists_of_ranks():
    """The layer between two meetings of the ranks, with each kernel launched on all of them."""
    whole, ranks = {n: torch.tensor(w) for n, w in first_weights(SMALL).items()}, 2
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
    shards = [parallel.shard(first_weights(SMALL), rank, ranks) for rank in range(ranks)]
    expected = torch.nn.functional.linear(pytorch.plain_swiglu(x @ whole["0.gate_up"].T), whole["0.down"])
    with nki.ranks(ranks):
        gated = pytorch.kernels.swiglu([x @ torch.tensor(s["0.gate_up"]).T for s in shards])
        parts = [y @ torch.tensor(s["0.down"]).T for y, s in zip(gated, shards, strict=True)]
        sums = parallel.sum_over_ranks(parts, ranks=ranks)
    for total in sums:
        np.testing.assert_allclose(total, expected, atol=1e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_are_the_parts_of_the_whole_gradients(ranks):
    first = first_weights(SMALL)
    expected = gradients(first, pytorch.WITH_KERNELS)
    results = on_ranks(ranks, lambda rank: gradients(parallel.shard(first, rank, ranks), parallel.operators(ranks)))
    for rank, result in enumerate(results):
        for name, part in parallel.shard(expected, rank, ranks).items():
            bound = 1e-5 * np.abs(expected[name]).max()
            np.testing.assert_allclose(result[name], part, rtol=0, atol=bound, err_msg=name)


def test_without_the_sum_in_the_backward_gradients_are_wrong():
    first = first_weights(SMALL)
    wrong = replace(parallel.operators(2), spread=lambda x: x)
    result = on_ranks(2, lambda rank: gradients(parallel.shard(first, rank, 2), wrong))[0]
    expected = gradients(first, pytorch.WITH_KERNELS)["0.attention_norm"]
    assert np.abs(result["0.attention_norm"] - expected).max() > 0.1 * np.abs(expected).max()


def test_two_ranks_train_and_generate_as_one():
    for runs, generated in on_ranks(2, lambda rank: parallel.run(rank, 2, SMALL, 6)):
        assert main.largest_difference(*runs)[0] < 1e-5
        np.testing.assert_array_equal(generated[0].tokens, generated[1].tokens)
        np.testing.assert_allclose(generated[0].logits, generated[1].logits, atol=1e-4)


def test_processes_of_torchrun_train_and_generate_as_one():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "examples.llama.parallel", "--steps", "3", "--layers", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 ranks: loss" in run.stdout and "one rank generates the same" in run.stdout
