"""The decoder with tensor parallelism: each rank has some heads, and a part of the hidden features.

    torchrun --nproc-per-node 2 -m examples.llama.parallel [--steps N] [--layers N]

Every rank runs this file. It trains on its part of the weights; embedding, norms and head are whole on all ranks, and
get the same gradients there. Beside it each rank trains the whole model, for comparison.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import nki.torch
from examples.llama import main as whole
from examples.llama import pytorch
from examples.llama.model import Array, Sizes, batches, decode, first_weights, text


@nki.jit
def sum_over_ranks(x: "1024x128:float32", ranks=2):
    """The sum of x, of one shape on all ranks, on every rank."""
    mine = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="mine")
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="total")
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=mine, src=x)  # neither arguments nor results of a kernel can be in a collective
    ncc.all_reduce(srcs=[mine], dsts=[total], replica_group=ncc.ReplicaGroup([list(range(ranks))]), op=nl.add)
    nisa.dma_copy(dst=result, src=total)
    return result


def unchanged(_, dy: Tensor) -> Tensor:
    return dy


gather = nki.torch.op(sum_over_ranks, backward=unchanged)
"""Behind weights divided by their inputs: the loss depends on the sum alone, so each rank's part has its gradient."""


class _Spread(Function):
    @staticmethod
    def forward(ctx, x: Tensor, ranks: int) -> Tensor:
        ctx.ranks = ranks
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple[Tensor, None]:
        return sum_over_ranks(dy, ranks=ctx.ranks), None


def spread(x: Tensor, ranks: int) -> Tensor:
    """``x``, the same on all ranks, before weights divided by their outputs: each rank knows a part of its gradient."""
    return _Spread.apply(x, ranks)


def operators(ranks: int) -> pytorch.Operators:
    """The kernels of the whole model, with fewer heads and hidden features, and what joins the ranks."""
    return replace(pytorch.WITH_KERNELS, spread=partial(spread, ranks=ranks), gather=partial(gather, ranks=ranks))


def shard(weights: dict[str, Array], rank: int, ranks: int) -> dict[str, Array]:
    """The weights of one rank: heads of qkv, both halves of gate_up, and the columns that multiply them behind."""

    def rows(weight: Array, parts: int) -> Array:
        return np.concatenate([np.split(part, ranks)[rank] for part in np.split(weight, parts)])

    def own(name: str, weight: Array) -> Array:
        kind = name.rpartition(".")[2]
        if kind in ("qkv", "gate_up"):
            return rows(weight, 3 if kind == "qkv" else 2)
        return np.split(weight, ranks, axis=1)[rank] if kind in ("attention_out", "down") else weight

    return {name: np.ascontiguousarray(own(name, weight)) for name, weight in weights.items()}


def run(rank: int, ranks: int, sizes: Sizes, steps: int) -> tuple[list[whole.Run], list[pytorch.Generated]]:
    """Losses and generated text of the model on all ranks, and of the whole model on this one."""
    first = first_weights(sizes)
    models = [(shard(first, rank, ranks), operators(ranks)), (first, pytorch.WITH_KERNELS)]
    trainers = [pytorch.Trainer(weights, which, whole.RATE) for weights, which in models]
    runs = [whole.Run([], []) for _ in trainers]
    for _, batch in zip(range(steps), batches(sizes), strict=False):
        for each, trainer in zip(runs, trainers, strict=True):
            each.add(trainer, batch)
    prompt, generated = text()[: whole.PROMPT], []
    for trainer in trainers:
        weights = {name: weight.detach().numpy() for name, weight in trainer.weights.items()}
        generated.append(pytorch.generate(weights, prompt, sizes, trainer.operators))
    return runs, generated


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if the ranks together train and generate as one does, else 1."""
    parser = argparse.ArgumentParser(prog="torchrun --nproc-per-node 2 -m examples.llama.parallel")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=Sizes.layers)
    options = parser.parse_args(arguments)
    torch.distributed.init_process_group("gloo")
    try:
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        runs, generated = run(rank, ranks, Sizes(layers=options.layers), options.steps)
    finally:
        torch.distributed.destroy_process_group()
    difference, where = whole.largest_difference(*runs)
    same = np.array_equal(generated[0].tokens, generated[1].tokens)
    if rank == 0:
        print(f"{ranks} ranks: loss {runs[0].losses[0]:.6f} to {runs[0].losses[-1]:.6f} in {options.steps} steps")
        print(f"largest relative difference of the losses from one rank {difference:.1e}, at step {where}")
        print(f"steps per second: {ranks} ranks {runs[0].rate:.1f}, one {runs[1].rate:.1f}")
        print(f"generated:\n{decode(generated[0].tokens[whole.PROMPT :])}\n")
        print(
            "one rank generates",
            "the same" if same else f"another text:\n{decode(generated[1].tokens[whole.PROMPT :])}",
        )
    return 0 if same and difference <= whole.NOISE else 1


if __name__ == "__main__":
    sys.exit(main())
