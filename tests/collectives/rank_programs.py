"""The programs of the ranks in ``test_processes.py``."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import nki
from nki.frameworks import torch_ranks
from tests.collectives.rank_kernels import (
    Groups,
    argument,
    every_collective,
    least_of_all,
    pieces,
    sum_by_core,
    sum_of_all,
)

LARGE = 40_000
"""Columns of a tensor with parts that no header holds."""


def bits(values: Any) -> list[bytes]:
    """The bytes of tensors or arrays."""
    return [torch.as_tensor(value).contiguous().view(torch.uint8).numpy().tobytes() for value in values]


def everything(rank: int, of_groups: list[Groups], folder: Path) -> list[tuple[list[bytes], list[bytes]] | None]:
    """The results of ``rank`` among each of several groups; None where it is none of their ranks."""
    results: list[tuple[list[bytes], list[bytes]] | None] = []
    for number, groups in enumerate(of_groups):
        if dist.is_initialized():
            dist.destroy_process_group()
        count = size(groups)
        if rank < count:
            store = f"file://{folder}/groups{number}"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
            results.append(_everything(rank, groups))
        else:
            results.append(None)
    return results


def size(groups: Groups) -> int:
    """The number of ranks."""
    return 1 + max(map(max, groups))


def _everything(rank: int, groups: Groups) -> tuple[list[bytes], list[bytes]]:
    """The results of each kernel, natively and eagerly, on tensors of both frameworks."""
    a, table = argument(rank), pieces(rank, len(groups[0]))
    tensor = torch.from_numpy(a)
    native = every_collective(tensor, torch.from_numpy(table), groups)
    half = sum_of_all(tensor.to(torch.bfloat16), groups)
    cores = sum_by_core[2](tensor, groups)
    large = sum_of_all(large_argument(rank), groups)
    eager = nki.simulate(every_collective)(a, table, groups)
    simulated = [nki.simulate(sum_of_all)(tensor.to(torch.bfloat16), groups), nki.simulate(sum_by_core[2])(a, groups)]
    simulated.append(nki.simulate(sum_of_all)(large_argument(rank), groups))
    return bits([*native, half, cores, large]), bits([*eager, *simulated])


def in_one_process(groups: Groups) -> list[list[bytes]]:
    """The same for all ranks, in one process."""
    count = size(groups)
    a = [argument(rank) for rank in range(count)]
    tables = [pieces(rank, len(groups[0])) for rank in range(count)]
    with nki.ranks(count):
        native = every_collective(a, tables, groups)
        half = sum_of_all([torch.from_numpy(each).to(torch.bfloat16) for each in a], groups)
        cores = sum_by_core[2](a, groups)
        large = sum_of_all([large_argument(rank) for rank in range(count)], groups)
    return [bits([*native[rank], half[rank], cores[rank], large[rank]]) for rank in range(count)]


def large_argument(rank: int) -> Any:
    return np.random.default_rng(rank).normal(size=(4, LARGE)).astype(np.float32)


def _whole() -> Groups:
    return (tuple(range(dist.get_world_size())),)


def killed(rank: int, victim: int) -> Any:
    """``victim`` is killed by its own hand between two collectives."""
    groups = _whole()
    sum_of_all(argument(rank), groups)
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    return sum_of_all(argument(rank), groups)


def raising(rank: int) -> Any:
    """The last rank ends with an error of its own instead of coming to the collective."""
    groups = _whole()
    sum_of_all(argument(rank), groups)
    if rank == len(groups[0]) - 1:
        raise ValueError("a mistake of this rank")
    return sum_of_all(argument(rank), groups)


def late(rank: int, folder: Path) -> Any:
    """The last rank does not come until the others have ended; they try again, and leave a file."""
    groups = _whole()
    _short_of_time()
    if rank == len(groups[0]) - 1:
        end = time.monotonic() + 20
        while len(list(folder.glob("ended*"))) < rank and time.monotonic() < end:
            time.sleep(0.02)
        return sum_of_all(argument(rank), groups)
    try:
        sum_of_all(argument(rank), groups)
    except nki.NkiError as error:
        started = time.monotonic()
        try:
            sum_of_all(argument(rank), groups)
        except nki.NkiError as second:
            return str(error), str(second), time.monotonic() - started
    finally:
        (folder / f"ended{rank}").touch()
    return None


def _short_of_time() -> None:
    """Meet, however late the ranks start, and give them a second from then on."""
    group: Any = dist.group.WORLD
    assert torch_ranks._seconds(group) == 30  # pyright: ignore[reportPrivateUsage]
    sum_of_all(argument(0), _whole())
    os.environ["NKI_RANK_TIMEOUT"] = "1"


def chain(rank: int) -> Any:
    """0 waits for 1, which waits for 2, which does not come."""
    _short_of_time()
    if rank < 2:
        return sum_of_all(argument(rank), ((0, 1), (2, 3)) if rank == 0 else ((0, 3), (1, 2)))
    time.sleep(3)
    return None


def other_kernels(rank: int, kind: str) -> Any:
    """Ranks come with what does not belong together, and then with what does."""
    groups, a = _whole(), argument(rank)
    odd = rank == len(groups[0]) - 1
    try:
        match kind if odd else "":
            case "op":
                least_of_all(a, groups)
            case "shape":
                sum_of_all(a[:, 1:], groups)
            case "dtype":
                nki.simulate(sum_of_all)(a.astype(np.float16), groups)
            case "order":
                sum_of_all(a, (groups[0][::-1],))
            case "release":
                torch_ranks.version = lambda: "9.9"
                sum_of_all(a, groups)
            case _:
                sum_of_all(a, groups)
    except nki.NkiError as error:
        return type(error).__name__, str(error)
    return None


def mistakes(rank: int, kinds: list[str]) -> Any:
    """The errors of several mistakes, one after the other; each time the ranks go on together."""
    errors: list[Any] = []
    for kind in kinds:
        errors.append(other_kernels(rank, kind))
        errors[-1] += (bits([sum_of_all(argument(rank), _whole())]),)
    return errors


def other_groups(rank: int) -> Any:
    """Rank 0 comes with a smaller group than the others."""
    return sum_of_all(argument(rank), ((0, 1), (2, 3)) if rank == 0 else ((0, 1, 2, 3),))


def too_many(rank: int) -> Any:
    """The groups name more ranks than run."""
    return sum_of_all(argument(rank), ((0, 1, 2),))


def beside(rank: int) -> Any:
    """Ranks in one process, in each of two processes; and a kernel without collectives, which needs no bridge."""
    with nki.ranks(2):
        own = sum_of_all([argument(0), argument(1)], ((0, 1),))
    together = sum_of_all(argument(rank), ((0, 1),))
    assert all(bits([each]) == bits([together]) for each in own)


def again(rank: int, store: str) -> Any:
    """Two process groups, one after the other, of other sizes."""
    first = sum_of_all(argument(rank), _whole())
    dist.destroy_process_group()
    if rank < 2:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=1 - rank, world_size=2)
        return bits([first, sum_of_all(argument(rank), _whole())])
    return bits([first])


def elastic(folder: Path) -> None:
    """The program that torchrun starts: in the first attempt rank 1 is killed."""
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    sum_of_all(argument(rank), _whole())
    if rank == 1 and attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    result = sum_of_all(torch.from_numpy(argument(rank)), _whole())
    (folder / f"attempt{attempt}rank{rank}").write_bytes(bits([result])[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    elastic(Path(sys.argv[1]))
