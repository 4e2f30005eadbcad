"""A compiled kernel that can be launched on addresses."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Container, Sequence
from typing import Final, NoReturn
from weakref import ref

import numpy as np

from nki.backend.cpu.native import barrier, library
from nki.backend.cpu.native.frame import GATE, SHUT, WORD, Frame, FrameLayout
from nki.backend.cpu.runtime import huge_pages
from nki.backend.cpu.runtime.link import LinkedCore, link
from nki.backend.cpu.runtime.resources import RUNTIME, Runtime
from nki.backend.cpu.runtime.routines import Progress
from nki.backend.cpu.runtime.row_times import RowTimes
from nki.backend.cpu.runtime.thread_count import number_of_threads, torch_threads
from nki.base import gc_pause
from nki.base.device_print import running_as
from nki.ir.constant import Constant
from nki.ir.floats.runtime_float import evaluate
from nki.ir.indirection.runtime_index import out_of_bounds
from nki.ir.loop import note_loop
from nki.ir.program import CoreProgram, Program
from nki.rendezvous.protocol import deadlock

_word: Final = ctypes.c_int64.from_address


WORTH_A_TEAM: Final = 100_000.0
"""Nanoseconds of parallel regions from which on a launch asks for a team, which may take some microseconds to wake."""
WORTH_OPENMP: Final = 50_000.0
"""The same for the threads of PyTorch, which mostly are awake: of 38 microseconds they save 13."""
Status = tuple[int, int, int, int]
"""The words of the status of a frame; see :data:`~nki.backend.cpu.native.frame.STATUS`."""


class _Core:
    """One core of an executable as plain numbers: its table, its constants, and the layout of its frame."""

    def __init__(self, core: CoreProgram, linked: LinkedCore, pointers: int, floats: int) -> None:
        self.linked = linked
        self.table = linked.table.ctypes.data
        self.args = linked.args.ctypes.data
        self.constants = tuple(_address(t.data) for t in core.constants() if t.data is not None)
        count = pointers + len(self.constants)
        self.frame = FrameLayout(self.table, self.args, count, linked.arena, linked.scratch, floats)

    def status(self, frame: Frame) -> Status:
        """The status in ``frame``; its first word is 0 if the launch succeeded."""
        start = frame.address + self.frame.status
        site, operand, index, peer = (_word(start + WORD * number).value for number in range(4))
        return site, operand, index, peer

    def raise_out_of_bounds(self, status: Status) -> NoReturn:
        """Raise the error of the run-time index that ``status`` tells."""
        site, operand, index, _ = status
        inst = self.linked.sites[site - 1]
        f, access = [(f, a) for f, a in inst.operands() if a.dynamic is not None][operand]
        raise out_of_bounds(inst, f.name, access, index)


_Rows = tuple[int, int, int, int, int, int, int]


class _Launch:
    """A launch on several cores, as long as it may still begin."""

    __slots__ = ("__weakref__",)


class Executable:
    """Native code for one program. ``launch`` may run in several threads at once.

    The program has neither exchanges between cores nor unexpanded instructions on indirect views: transforms lower
    them.
    """

    def __init__(self, program: Program, progress: Progress | None = None, runtime: Runtime = RUNTIME) -> None:
        started = time.perf_counter()
        self.kernel = program
        self.name = program.name
        self.inputs = program.signature.input_specs()
        self.outputs = program.signature.output_specs()
        self.returns_sequence = program.signature.sequence
        self.changes = program.signature.changed_inputs()
        """The inputs that it returns, changed: position among the inputs by that among the outputs."""
        with gc_pause.paused():
            self.linked = link(program, progress)
        self._runtime = runtime
        sizes = [(number, tensor.nbytes) for number, tensor in enumerate(program.outputs, len(self.inputs))]
        self._large = [(number, nbytes) for number, nbytes in sizes if nbytes >= huge_pages.LEAST]
        """The positions and sizes of large outputs, whose memory is likely to be fresh."""
        self._several = len(program.cores) > 1
        count = len(self.inputs) + len(self.outputs) + (len(self.linked.shared) + 1 if self._several else 0)
        self._program, self._slots = program, count
        self._attach()
        self.float_names = [spec.name for spec in program.signature.floats]
        formulas = self.linked.floats
        self._formulas = None if formulas == tuple(self.float_names) else formulas
        """None: the launch passes the floats of the signature as they are."""
        self._run = library.run()
        self.compile_seconds = time.perf_counter() - started

    def _attach(self) -> None:
        """Take the tables of ``linked`` for the next launches."""
        cores = zip(self._program.cores, self.linked.cores, strict=True)
        self._cores = [_Core(core, linked, self._slots, len(self.linked.floats)) for core, linked in cores]
        self._core = self._cores[0]
        self._shared = self._core.linked.shared_nanoseconds

    def with_times(self) -> list[RowTimes]:
        """Let all later launches note the time of each row, which makes them slower; the times of each core."""
        times = [RowTimes(linked) for linked in self.linked.cores]
        self._attach()
        return times

    def floats_of(self, values: Sequence[float]) -> Sequence[float]:
        """The floats of a launch with these ``values`` of the signature's floats. Raises what Python's floats raise."""
        if self._formulas is None:
            return values
        named = dict(zip(self.float_names, values, strict=True))
        return [evaluate(formula, named) for formula in self._formulas]

    def launch(self, pointers: Sequence[int], floats: Sequence[float] = (), from_torch: bool = False) -> None:
        """Run on the memory at ``pointers``: the inputs, then the outputs, each dense and of the size of its spec.

        ``floats`` are those of :meth:`floats_of`. ``from_torch``: PyTorch computes in the same Python thread, or is
        likely to, so that its threads are those to use.

        An input that is also an output is changed in place if both are at one address; else it stays as it is.

        The interpreter lock is released while the kernel runs. Signals are handled meanwhile, if this is the main
        thread; what a handler raises, or a callback, ends the launch and is raised when no core runs any more.

        Raises :class:`OutOfBoundsError` if a run-time index led outside its tensor, :class:`DeadlockError` if cores did
        not meet: outputs are then incomplete.
        """
        for number, nbytes in self._large:
            huge_pages.welcome(pointers[number], nbytes)
        if self.changes:
            pointers = self._copy_changed_inputs(pointers)
        if self._several:
            self._launch_cores(pointers, floats)
            return
        core = self._core
        linked = core.linked
        slots = (*pointers, *core.constants, *floats)
        if self._shared < WORTH_OPENMP:
            frame, run = self._runtime.frame_alone(core.frame, slots), self._run
        else:
            frame, run = self._with_threads(slots, from_torch)
        try:
            run(core.table, linked.rows, core.args, frame.address)
        except BaseException as error:
            self._note_interruption(error, [frame])
            raise
        if linked.sites and (status := core.status(frame))[0]:
            core.raise_out_of_bounds(status)
        self._runtime.release(frame)

    def _with_threads(self, slots: Sequence[float], from_torch: bool) -> tuple[Frame, Callable[..., None]]:
        """The frame of a launch that threads may share, and the function that runs it."""
        runtime, layout = self._runtime, self._core.frame
        threads = number_of_threads()
        if threads > 1 and from_torch and threads == torch_threads() and (lent := runtime.openmp()) is not None:
            address, openmp = lent
            return runtime.frame_with_team(layout, slots, threads, address), openmp.run
        if threads > 1 and self._shared >= WORTH_A_TEAM:
            return runtime.frame_with_team(layout, slots, threads, runtime.team(threads)), library.run_with_team()
        return runtime.frame_alone(layout, slots), self._run

    def _copy_changed_inputs(self, pointers: Sequence[int]) -> list[int]:
        """Copy the inputs that change to their outputs; ``pointers`` with these as the inputs."""
        changed, count = list(pointers), len(self.inputs)
        for output, number in self.changes.items():
            target, source = changed[count + output], changed[number]
            if target != source:
                ctypes.memmove(target, source, self.kernel.inputs[number].nbytes)
                changed[number] = target
        return changed

    def _launch_cores(self, pointers: Sequence[int], floats: Sequence[float]) -> None:
        """Run on several cores, on one worker and thread each.

        Memory that the cores share lies behind the frame of the first one: the lines of barriers, then the tensors.
        """
        runtime, cores = self._runtime, self._cores
        first, count = cores[0], len(cores)
        frames = [runtime.acquire(first.frame.nbytes + self.linked.shared_bytes)]
        lines = frames[0].address + first.frame.nbytes
        control = lines + barrier.control(count)
        ctypes.memset(lines, 0, barrier.lines_bytes(count))
        shared = [*(lines + offset for offset in self.linked.shared), lines, *floats]
        first.frame.write(frames[0], 0, (*pointers, *first.constants, *shared), control)
        for rank, core in enumerate(cores[1:], 1):
            frames.append(runtime.frame(core.frame, (*pointers, *core.constants, *shared), rank, control))
        this = _Launch()
        try:
            self._run(first.table, first.linked.prologue, first.args, frames[0].address)
            for rank in range(1, count):
                runtime.start(self._follow, rank, self._rows(rank, frames, lines), frames, ref(this))
            with running_as(0):
                library.lead()(*self._rows(0, frames, lines))
        except BaseException as error:
            if not _word(control + WORD * GATE).value:  # else all cores have ended
                _word(control + WORD * GATE).value = SHUT
            self._note_interruption(error, frames)
            raise
        self._raise_first_error([core.status(frame) for core, frame in zip(cores, frames, strict=True)])
        runtime.release(*frames)

    def _follow(self, rank: int, rows: _Rows, _memory: Sequence[Frame], launch: ref[_Launch]) -> None:
        """Run core ``rank`` once its launch has begun; holds the memory of the launch meanwhile."""
        with running_as(rank):
            while not library.follow()(*rows) and launch() is not None:
                pass

    def _rows(self, rank: int, frames: Sequence[Frame], lines: int) -> _Rows:
        """The rows of core ``rank``, as native code takes them."""
        core = self._cores[rank]
        done = core.linked.prologue
        rows = core.linked.rows - done
        return core.table + 16 * done, rows, core.args, frames[rank].address, lines, rank, len(self._cores)

    def _note_interruption(self, error: BaseException, frames: Sequence[Frame]) -> None:
        """Tell in ``error``, which has ended a launch, the loop that ran."""
        for core, frame in zip(self._cores, frames, strict=False):
            number = -core.status(frame)[0]
            if 0 < number <= len(core.linked.loops):
                note_loop(error, core.linked.loops[number - 1])
                return

    def _raise_first_error(self, statuses: Sequence[Status]) -> None:
        """Raise the error of one of the cores, if any failed: rather a cause than its consequence on another core."""
        blocked: dict[int, Status] = {}
        for rank, status in enumerate(statuses):
            if status[0] and status[1] != barrier.DEADLOCK:
                self._cores[rank].raise_out_of_bounds(status)  # other cores wait for this one in vain
            if status[0]:
                blocked[rank] = status
        for rank, status in sorted(blocked.items(), key=lambda item: self._follows(item[1], blocked)):
            site, _, peer_site, peer = status
            waits_at = self._cores[peer].linked.sites[peer_site - 1] if peer_site else None
            raise deadlock(rank, self._cores[rank].linked.sites[site - 1], [(peer, waits_at)])

    @staticmethod
    def _follows(status: Status, blocked: Container[int]) -> bool:
        """True if a core failed only because its peer had ended, blocked by a third core."""
        return not status[2] and status[3] in blocked


def _address(constant: Constant) -> int:
    """The address of the bytes of ``constant``, which stay there as long as it exists."""
    return np.frombuffer(constant.data, np.uint8).ctypes.data
