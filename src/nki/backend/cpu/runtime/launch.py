"""A compiled kernel that can be launched on addresses."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from nki.backend.cpu.runtime import barrier
from nki.backend.cpu.runtime.dispatch import FIRST_IO, walk
from nki.backend.cpu.runtime.link import LinkedCore, link
from nki.backend.cpu.runtime.resources import RUNTIME, Runtime
from nki.backend.cpu.runtime.routines import Progress
from nki.backend.cpu.runtime.storage import aligned
from nki.base import gc_pause
from nki.base.device_print import running_as
from nki.ir.constant import Constant
from nki.ir.indirection.runtime_index import out_of_bounds
from nki.ir.layout import DENSE, Layout
from nki.ir.program import CoreProgram, Program
from nki.rendezvous.protocol import deadlock

_word: Final = ctypes.c_int64.from_address
_STATUS_BYTES: Final = 32
"""Four words: the trap site (0: none), the operand or ``barrier.DEADLOCK``, the index or the peer's site, the peer."""
_no_traps: Final = np.zeros(_STATUS_BYTES // 8, np.int64)
_STATUS_OK: Final = _no_traps.ctypes.data
"""The status of launches of a kernel without trap sites, which nothing writes."""


class _Core:
    """One core of an executable as plain numbers: its table, and how many bytes a launch needs."""

    def __init__(self, core: CoreProgram, linked: LinkedCore) -> None:
        self.linked = linked
        self.table = linked.table.ctypes.data
        self.args = linked.args.ctypes.data
        self.status = aligned(linked.arena + linked.scratch)
        self.bytes = self.status + aligned(_STATUS_BYTES)
        self.constants = tuple(_address(t.data) for t in core.constants() if t.data is not None)

    def raise_out_of_bounds(self, status: int) -> NoReturn:
        """Raise the error of the run-time index that the status at this address tells."""
        site, operand, index = (_word(status + offset).value for offset in (0, 8, 16))
        inst = self.linked.sites[site - 1]
        f, access = [(f, a) for f, a in inst.operands() if a.dynamic is not None][operand]
        raise out_of_bounds(inst, f.name, access, index)


class Executable:
    """Native code for one program. ``launch`` may run in several threads at once.

    The program has neither exchanges between cores nor unexpanded instructions on indirect views: transforms lower
    them.
    """

    def __init__(
        self, program: Program, progress: Progress | None = None, layout: Layout = DENSE, runtime: Runtime = RUNTIME
    ) -> None:
        started = time.perf_counter()
        self.kernel = program
        self.name = program.name
        self.inputs = program.signature.input_specs()
        self.outputs = program.signature.output_specs()
        self.returns_sequence = program.signature.sequence
        self.changes = program.signature.changed_inputs()
        """The inputs that it returns, changed: position among the inputs by that among the outputs."""
        with gc_pause.paused():
            self.linked = link(program, progress, layout)
        self._runtime = runtime
        self._cores = [_Core(core, linked) for core, linked in zip(program.cores, self.linked.cores, strict=True)]
        self._core = self._cores[0]
        self._walk = walk()
        self._several = len(self._cores) > 1
        self._frame = ctypes.c_int64 * (FIRST_IO + len(self.inputs) + len(self.outputs) + len(self._core.constants))
        self.compile_seconds = time.perf_counter() - started

    def launch(self, pointers: Sequence[int]) -> None:
        """Run on the memory at ``pointers``: the inputs, then the outputs, each dense and of the size of its spec.

        An input that is also an output is changed in place if both are at one address; else it stays as it is.

        The interpreter lock is released while the kernel runs. Raises :class:`OutOfBoundsError` if a run-time index led
        outside its tensor, :class:`DeadlockError` if cores did not meet: outputs are then incomplete.
        """
        if self.changes:
            pointers = self._copy_changed_inputs(pointers)
        if self._several:
            self._launch_cores(pointers)
            return
        core = self._core
        block = self._runtime.acquire(core.bytes)
        start, linked, table, args = block[1], core.linked, core.table, core.args
        status = _STATUS_OK
        if linked.sites:
            status = start + core.status
            ctypes.memset(status, 0, _STATUS_BYTES)
        frame = self._frame(start, start + linked.arena, status, table, args, *pointers, *core.constants)
        self._walk(table, linked.rows, args, frame)
        if linked.sites and _word(status).value:
            core.raise_out_of_bounds(status)
        self._runtime.release(block)

    def _copy_changed_inputs(self, pointers: Sequence[int]) -> list[int]:
        """Copy the inputs that change to their outputs; ``pointers`` with these as the inputs."""
        changed, count = list(pointers), len(self.inputs)
        for output, number in self.changes.items():
            target, source = changed[count + output], changed[number]
            if target != source:
                ctypes.memmove(target, source, self.kernel.inputs[number].nbytes)
                changed[number] = target
        return changed

    def _launch_cores(self, pointers: Sequence[int]) -> None:
        """Run on several cores: a thread each, over shared memory that begins with the lines of their barriers."""
        runtime, cores = self._runtime, self._cores
        shared = runtime.acquire(self.linked.shared_bytes)
        lines = shared[1]
        ctypes.memset(lines, 0, barrier.lines_bytes(len(cores)))
        common = [lines + offset for offset in self.linked.shared]
        blocks = [runtime.acquire(core.bytes) for core in cores]
        statuses: list[int] = []
        frames: list[Any] = []
        for core, block in zip(cores, blocks, strict=True):
            start = block[1]
            status = start + core.status
            ctypes.memset(status, 0, _STATUS_BYTES)
            fixed = (start, start + core.linked.arena, status, core.table, core.args)
            words = (*fixed, *pointers, *core.constants, *common, lines, barrier.yield_address())
            statuses.append(status)
            frames.append((ctypes.c_int64 * len(words))(*words))
        first = self._core
        self._walk(first.table, first.linked.prologue, first.args, frames[0])
        threads = runtime.threads()
        others = [threads.submit(self._run_core, rank, frames[rank], lines) for rank in range(1, len(cores))]
        self._run_core(0, frames[0], lines)
        for other in others:
            other.result()
        self._raise_first_error(statuses)
        runtime.release(shared, *blocks)

    def _run_core(self, rank: int, frame: Any, lines: int) -> None:
        core = self._cores[rank]
        prologue = core.linked.prologue
        with running_as(rank):
            self._walk(core.table + 16 * prologue, core.linked.rows - prologue, core.args, frame)
        barrier.end(lines, rank, len(self._cores))

    def _raise_first_error(self, statuses: list[int]) -> None:
        """Raise the error of one of the cores, if any failed: rather a cause than its consequence on another core."""
        blocked: dict[int, int] = {}
        for rank, status in enumerate(statuses):
            if _word(status).value and _word(status + 8).value != barrier.DEADLOCK:
                self._cores[rank].raise_out_of_bounds(status)  # other cores wait for this one in vain
            if _word(status).value:
                blocked[rank] = status
        for rank, status in sorted(blocked.items(), key=lambda item: self._follows(item[1], blocked)):
            site, peer_site, peer = (_word(status + offset).value for offset in (0, 16, 24))
            waits_at = self._cores[peer].linked.sites[peer_site - 1] if peer_site else None
            raise deadlock(rank, self._cores[rank].linked.sites[site - 1], [(peer, waits_at)])

    @staticmethod
    def _follows(status: int, blocked: dict[int, int]) -> bool:
        """True if a core failed only because its peer had ended, blocked by a third core."""
        return not _word(status + 16).value and _word(status + 24).value in blocked


def _address(constant: Constant) -> int:
    """The address of the bytes of ``constant``, which stay there as long as it exists."""
    return np.frombuffer(constant.data, np.uint8).ctypes.data
