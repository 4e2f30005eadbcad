"""Process-wide resources of native launches: memory that they reuse, and threads for the cores beside the first."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from nki.backend.cpu.runtime.storage import ALIGN

Block = tuple[NDArray[np.uint8], int]
"""Memory, and the address of its first whole cache line."""
_POOL_BLOCKS = 4
_POOL_THREADS = 64


class Runtime:
    """Owns the memory and the threads of launches; any number of threads may launch at once.

    Nothing of a launch is global: each takes its blocks, and gives them back if it succeeds. Blocks are kept for the
    next launches, because fresh pages are slow to touch and used ones are in the cache.
    """

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._threads: ThreadPoolExecutor | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)  # a child process does not inherit threads

    def acquire(self, nbytes: int) -> Block:
        """Memory with at least ``nbytes`` from its first whole cache line on; its contents are undefined."""
        try:
            block = self._blocks.pop()
        except IndexError:
            return _allocate(nbytes)
        return block if block[0].size >= nbytes + ALIGN - 1 else _allocate(nbytes)

    def release(self, *blocks: Block) -> None:
        """Keep ``blocks`` for later launches."""
        if len(self._blocks) < _POOL_BLOCKS:
            self._blocks.extend(blocks)

    def threads(self) -> ThreadPoolExecutor:
        """Threads for cores beside the first, made when first needed."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_POOL_THREADS, "nki core")
        return self._threads

    def _forget_threads(self) -> None:
        self._threads = None


def _allocate(nbytes: int) -> Block:
    block = np.empty(nbytes + ALIGN - 1, np.uint8)
    return block, -(-block.ctypes.data // ALIGN) * ALIGN


RUNTIME = Runtime()
"""The runtime of executables that are not given another one."""
