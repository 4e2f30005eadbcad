"""A compiled kernel that can be launched on addresses."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from nki.backend.cpu.runtime.barrier import LINE, UNMET, end, offer_address
from nki.backend.cpu.runtime.dispatch import FIRST_IO, walk
from nki.backend.cpu.runtime.link import Plan, Progress, plan
from nki.base import gc_pause
from nki.base.device_print import running_as
from nki.ir.constant import Constant
from nki.ir.program import CoreProgram, Program
from nki.ir.runtime_index import out_of_bounds
from nki.rendezvous.turns import deadlock

_arenas: list[tuple[NDArray[np.uint8], int]] = []
"""Memory of launches that ended, for the next ones: fresh pages are slow to touch, used ones are in the cache."""
_KEPT = 4
_word: Final = ctypes.c_int64.from_address
_zeros: Final = np.zeros(3, np.int64)
_WELL: Final = _zeros.ctypes.data
"""The status of launches in which nothing can go wrong."""
_pools: Final[list[ThreadPoolExecutor]] = []
"""Threads of cores 1; none exists before it is needed, and each waits for the next launch."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # where they do not exist


class _Core:
    """What a launch needs of one core, as plain numbers."""

    def __init__(self, core: CoreProgram, plan: Plan) -> None:
        self.plan = plan
        self.table = plan.table.ctypes.data
        self.args = plan.args.ctypes.data
        self.status = -(-(plan.arena + plan.scratch) // 64) * 64
        self.bytes = self.status + 64
        self.constants = tuple(_address(t.data) for t in core.constants() if t.data is not None)

    def fail(self, status: int) -> NoReturn:
        """Raise what the status at this address says."""
        site, operand, detail = (_word(status + offset).value for offset in (0, 8, 16))
        inst = self.plan.sites[site - 1]
        f, access = [(f, a) for f, a in inst.operands() if a.dynamic is not None][operand]
        raise out_of_bounds(inst, f.name, access, detail)


class Executable:
    """Native code for one kernel. ``launch`` may run in several threads at once."""

    def __init__(self, kernel: Program, progress: Progress | None = None) -> None:
        started = time.perf_counter()
        self.kernel = kernel
        self.name = kernel.name
        self.inputs = kernel.signature.input_specs()
        self.outputs = kernel.signature.output_specs()
        self.returns_sequence = kernel.signature.sequence
        self.changes = kernel.signature.changed_inputs()
        """The inputs that it returns, changed: position among the inputs by that among the outputs."""
        with gc_pause.paused():
            self.layout = plan(kernel, progress)
        self.plan: Plan = self.layout.cores[0]
        self._cores = [_Core(core, made) for core, made in zip(kernel.cores, self.layout.cores, strict=True)]
        self._first = self._cores[0]
        self._walk = walk()
        self._several = len(self._cores) > 1
        self._bases = ctypes.c_int64 * (FIRST_IO + len(self.inputs) + len(self.outputs) + len(self._first.constants))
        self.compile_seconds = time.perf_counter() - started

    def launch(self, pointers: Sequence[int]) -> None:
        """Run on the memory at ``pointers``: the inputs, then the outputs, each dense and of its spec's size.

        An input that is also an output is changed in place if both are at one address; else it stays as it is.

        The interpreter lock is released while the kernel runs. Raises :class:`OutOfBoundsError` if a run-time index led
        outside its tensor, :class:`DeadlockError` if cores did not meet: outputs are then incomplete.
        """
        if self.changes:
            pointers = self._moved(pointers)
        if self._several:
            self._launch_cores(pointers)
            return
        core = self._first
        kept = _take(core.bytes)
        start, plan, table, args = kept[1], core.plan, core.table, core.args
        status = _WELL  # which only a run-time index out of bounds would change
        if plan.sites:
            status = start + core.status
            ctypes.memset(status, 0, 24)
        bases = self._bases(start, start + plan.arena, status, table, args, *pointers, *core.constants)
        self._walk(table, plan.rows, args, bases)
        if plan.sites and _word(status).value:
            core.fail(status)
        if len(_arenas) < _KEPT:
            _arenas.append(kept)

    def _moved(self, pointers: Sequence[int]) -> list[int]:
        """``pointers`` with the inputs that change where the outputs are, their contents too."""
        moved, count = list(pointers), len(self.inputs)
        for output, number in self.changes.items():
            target, source = moved[count + output], moved[number]
            if target != source:
                ctypes.memmove(target, source, self.kernel.inputs[number].nbytes)
                moved[number] = target
        return moved

    def _launch_cores(self, pointers: Sequence[int]) -> None:
        """Run on several cores: a thread each, over shared memory."""
        shared = _take(self.layout.shared_bytes)
        lines = [shared[1] + LINE * number for number in range(len(self._cores))]
        ctypes.memset(shared[1], 0, LINE * len(lines))
        common = [shared[1] + offset for offset in self.layout.shared]
        memories = [_take(core.bytes) for core in self._cores]
        runs: list[tuple[Any, int]] = []
        for number, (core, kept) in enumerate(zip(self._cores, memories, strict=True)):
            start = kept[1]
            status = start + core.status
            ctypes.memset(status, 0, 24)
            meeting = (lines[number], lines[1 - number], offer_address())
            fixed = (start, start + core.plan.arena, status, core.table, core.args)
            values = (*fixed, *pointers, *core.constants, *common, *meeting)
            runs.append(((ctypes.c_int64 * len(values))(*values), status))
        first = self._first
        self._walk(first.table, first.plan.before, first.args, runs[0][0])
        if not _pools:
            _pools.append(ThreadPoolExecutor(64, "nki core"))
        other = _pools[0].submit(self._run_core, 1, runs[1][0], lines[1])
        self._run_core(0, runs[0][0], lines[0])
        other.result()
        self._settle([status for _, status in runs])
        if len(_arenas) < _KEPT:
            _arenas.extend((shared, *memories))

    def _settle(self, statuses: list[int]) -> None:
        """Raise what went wrong on one of the cores, if something did."""
        unmet: list[tuple[int, int]] = []
        for number, status in enumerate(statuses):
            if _word(status).value and _word(status + 8).value != UNMET:
                self._cores[number].fail(status)  # a core that fails by itself leaves the other one waiting
            if _word(status).value:
                unmet.append((number, status))
        for number, status in unmet:
            site, theirs = _word(status).value, _word(status + 16).value
            other = self._cores[1 - number].plan.sites[theirs - 1] if theirs else None
            raise deadlock(number, self._cores[number].plan.sites[site - 1], [(1 - number, other)])

    def _run_core(self, number: int, bases: Any, line: int) -> None:
        core = self._cores[number]
        before = core.plan.before
        with running_as(number):
            self._walk(core.table + 16 * before, core.plan.rows - before, core.args, bases)
        end(line)


def _address(constant: Constant) -> int:
    """Where the bytes of ``constant`` are; they stay there as long as it exists."""
    return np.frombuffer(constant.data, np.uint8).ctypes.data


def _take(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Memory with at least ``nbytes`` from its first whole cache line on, and the address of that."""
    try:
        kept = _arenas.pop()
    except IndexError:
        return _new(nbytes)
    return kept if kept[0].size >= nbytes + 63 else _new(nbytes)


def _new(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    arena = np.empty(nbytes + 63, np.uint8)
    return arena, -(-arena.ctypes.data // 64) * 64
