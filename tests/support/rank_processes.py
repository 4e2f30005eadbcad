"""Processes of a process group of PyTorch; each runs a function of a module as one rank.

They fork from a process that has imported PyTorch and the module, which takes seconds, once.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

_context = multiprocessing.get_context("forkserver")
_END = 100.0
"""Seconds after which the test fails; each run takes some seconds on a busy machine."""


@dataclass(frozen=True)
class Ended:
    """The end of a rank: with a value, or with an error; all None if its process was killed."""

    value: Any = None
    error: str | None = None
    text: str = ""

    def get(self) -> Any:
        assert self.error is None, self.text
        return self.value


def run(program: Callable[..., Any], count: int, folder: Path, *args: Any, timeout: float = 30.0) -> list[Ended]:
    """Call ``program(rank, *args)`` as each of ``count`` ranks, which wait ``timeout`` seconds for each other."""
    _context.set_forkserver_preload([program.__module__])
    store = folder / f"store{time.monotonic_ns()}"
    pipes: list[Connection] = []
    processes: list[Any] = []
    for rank in range(count):
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(
            target=_run_rank,
            args=(program, rank, count, str(store), timeout, dict(os.environ), theirs, args),
            daemon=True,
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return _results(pipes, processes)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _results(pipes: Sequence[Connection], processes: Sequence[Any]) -> list[Ended]:
    deadline = time.monotonic() + _END
    results: list[Ended | None] = [None] * len(pipes)
    while None in results:
        waiting = [pipe for pipe, result in zip(pipes, results, strict=True) if result is None]
        ready = wait(waiting, max(deadline - time.monotonic(), 0))
        assert ready, f"ranks {[r for r, result in enumerate(results) if result is None]} hang: {results}"
        for rank, pipe in enumerate(pipes):
            if pipe in ready:
                try:
                    results[rank] = pipe.recv()
                except EOFError:
                    results[rank] = Ended()
    for process in processes:
        process.join(5)
    return [result for result in results if result is not None]


def _run_rank(
    program: Callable[..., Any],
    rank: int,
    count: int,
    store: str,
    timeout: float,
    environment: dict[str, str],
    result: Connection,
    args: Any,
) -> None:
    import torch.distributed as dist

    os.environ.update(environment, OMP_NUM_THREADS="1")
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=count, timeout=timedelta(seconds=timeout)
    )
    try:
        ended = Ended(program(rank, *args))
    except BaseException as error:
        ended = Ended(None, type(error).__name__, str(error))
    result.send(ended)
