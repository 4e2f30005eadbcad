"""Collectives: sums over ranks that are threads of one process, against Gloo's own between processes."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row, medians
from nki.collectives import ReplicaGroup, all_reduce

RANKS: Final = 8
SIZES: Final = {"64 MiB": (128, 1 << 17), "64 KiB": (128, 1 << 7)}
"""Shapes in float32."""
_GROUPS: Final = (tuple(range(RANKS)),)


@nki.jit
def summed(a: Any) -> Any:
    """The sum over all ranks, in a result; an argument is no operand of a collective."""
    src = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="src")
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="total")
    out = nl.ndarray((1, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=a)
    all_reduce([src], [total], ReplicaGroup(_GROUPS), nl.add)
    nisa.dma_copy(dst=out, src=total[0:1, 0:1])
    return out


@nki.jit
def copied(a: Any) -> Any:
    """The rest of :func:`summed`."""
    src = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="src")
    out = nl.ndarray((1, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=a)
    nisa.dma_copy(dst=out, src=src[0:1, 0:1])
    return out


def rows(runs: int) -> Iterator[Row]:
    """The sum of a large and of a small tensor over 8 ranks, each process and each rank on one thread."""
    for name, shape in SIZES.items():
        a = [np.full(shape, rank + 1, np.float32) for rank in range(RANKS)]
        with gloo(shape) as theirs, nki.ranks(RANKS):
            assert all(result.item() == sum(range(RANKS + 1)) for result in summed(a))
            ours, rest, other = medians(min(runs, 9), lambda a=a: summed(a), lambda a=a: copied(a), theirs)
        yield Row(
            f"all_reduce of {name}, {RANKS} ranks",
            f"{(ours - rest) * 1e3:,.2f} ms",
            f"{other * 1e3:,.2f} ms Gloo",
            f"{other / (ours - rest):.2f} x",
        )


@contextmanager
def gloo(shape: tuple[int, int]) -> Generator[Callable[[], object]]:
    """Gloo's all_reduce of tensors of ``shape`` in processes: the function starts one and waits for all of them."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes: list[Connection] = []
        for rank in range(RANKS):
            ours, theirs = context.Pipe()
            store = f"file://{Path(folder) / 'store'}"
            context.Process(target=_gloo_rank, args=(rank, store, shape, theirs), daemon=True).start()
            theirs.close()
            pipes.append(ours)

        def run() -> None:
            for pipe in pipes:
                pipe.send(True)
            for pipe in pipes:
                pipe.recv()

        run()
        yield run
        for pipe in pipes:
            pipe.send(False)
        time.sleep(0.5)


def _gloo_rank(rank: int, store: str, shape: tuple[int, int], pipe: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    tensor = torch.ones(shape)
    while pipe.recv():
        dist.all_reduce(tensor)
        pipe.send(None)
    dist.destroy_process_group()
