"""A compiled kernel that can be launched on addresses."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from nki.backend.cpu.driver import FIRST_IO, walk
from nki.backend.cpu.plan import Plan, Progress, plan
from nki.base import collector
from nki.ir.constant import Constant
from nki.ir.dynamic import out_of_bounds
from nki.ir.kernel import Kernel

_arenas: list[tuple[NDArray[np.uint8], int]] = []
"""Memory of launches that ended, for the next ones: fresh pages are slow to touch, used ones are in the cache."""
_KEPT = 4
_word: Final = ctypes.c_int64.from_address
_zeros: Final = np.zeros(3, np.int64)
_WELL: Final = _zeros.ctypes.data
"""The status of launches in which nothing can go wrong."""


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
        self._rows = self.plan.rows
        self._args = self.plan.args.ctypes.data
        self._status = -(-(self.plan.arena + self.plan.scratch) // 64) * 64
        self._bytes = self._status + 2 * 64
        self._constants = tuple(_address(t.data) for t in kernel.constants() if t.data is not None)
        self._bases = ctypes.c_int64 * (FIRST_IO + len(self.inputs) + len(self.outputs) + len(self._constants))
        self.compile_seconds = time.perf_counter() - started

    def launch(self, pointers: Sequence[int]) -> None:
        """Run on the memory at ``pointers``: the inputs, then the outputs, each dense and of its spec's size.

        The interpreter lock is released while the kernel runs. Raises :class:`OutOfBoundsError` if a run-time index led
        outside its tensor: outputs are then incomplete.
        """
        kept = _take(self._bytes)
        start, plan, table, args = kept[1], self.plan, self._table, self._args
        status = _WELL  # which only a run-time index out of bounds would change
        if plan.sites:
            status = start + self._status
            ctypes.memset(status, 0, 24)
        bases = self._bases(start, start + plan.arena, status, table, args, *pointers, *self._constants)
        self._walk(table, self._rows, args, bases)
        if plan.sites and (wrong := _word(status).value):
            self._raise(wrong, _word(status + 8).value, _word(status + 16).value)
        if len(_arenas) < _KEPT:
            _arenas.append(kept)

    def _raise(self, site: int, operand: int, index: int) -> NoReturn:
        inst = self.plan.sites[site - 1]
        f, access = [(f, a) for f, a in inst.operands() if a.dynamic is not None][operand]
        raise out_of_bounds(inst, f.name, access, index)


def _address(constant: Constant) -> int:
    """Where the bytes of ``constant`` are; they stay there as long as it exists."""
    return np.frombuffer(constant.data, np.uint8).ctypes.data


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
