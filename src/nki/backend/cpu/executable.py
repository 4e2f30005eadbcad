"""A compiled kernel that can be launched on addresses."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nki.backend.cpu.driver import walk
from nki.backend.cpu.plan import Plan, Progress, plan
from nki.base import collector
from nki.ir.kernel import Kernel

_arenas: list[tuple[NDArray[np.uint8], int]] = []
"""Memory of launches that ended, for the next ones: fresh pages are slow to touch, used ones are in the cache."""
_KEPT = 4


class Executable:
    """Native code for one kernel. ``launch`` may run in several threads at once."""

    def __init__(self, kernel: Kernel, progress: Progress | None = None) -> None:
        started = time.perf_counter()
        self.kernel = kernel
        self.name = kernel.name
        self.inputs = kernel.input_specs()
        self.outputs = kernel.output_specs()
        self.returns_sequence = kernel.sequence
        with collector.paused():
            self.plan: Plan = plan(kernel, progress)
        self._walk = walk()
        self._table = self.plan.table.ctypes.data
        self._rows = len(self.plan.table)
        self._args = self.plan.args.ctypes.data
        self._bytes = self.plan.arena + self.plan.scratch + 64
        self._bases = ctypes.c_int64 * (2 + len(self.inputs) + len(self.outputs))
        self.compile_seconds = time.perf_counter() - started

    def launch(self, pointers: Sequence[int]) -> None:
        """Run on the memory at ``pointers``: the inputs, then the outputs, each dense and of its spec's size.

        The interpreter lock is released while the kernel runs.
        """
        kept = _take(self._bytes)
        start = kept[1]
        self._walk(self._table, self._rows, self._args, self._bases(start, start + self.plan.arena, *pointers))
        if len(_arenas) < _KEPT:
            _arenas.append(kept)


def _take(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """At least ``nbytes`` of memory, and the address of its first whole cache line."""
    try:
        kept = _arenas.pop()
    except IndexError:
        return _new(nbytes)
    return kept if kept[0].size >= nbytes else _new(nbytes)


def _new(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    arena = np.empty(nbytes, np.uint8)
    return arena, -(-arena.ctypes.data // 64) * 64
