"""A compiled kernel that can be launched on addresses."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Container, Sequence
from typing import Final, NoReturn
from weakref import ref

import numpy as np

from nki.backend.cpu.native import library
from nki.backend.cpu.native.frame import (
    DEADLOCK,
    GATE,
    SHUT,
    WORD,
    Frame,
    FrameLayout,
    control_offset,
    lines_bytes,
)
from nki.backend.cpu.runtime.entry_times import EntryTimes
from nki.backend.cpu.runtime.link import LinkedCore, Plan, link, plan
from nki.backend.cpu.runtime.resources import (
    LARGE,
    RUNTIME,
    Runtime,
    number_of_threads,
    torch_threads,
    welcome_huge_pages,
)
from nki.backend.cpu.runtime.routines import Progress, Turns
from nki.base import gc_pause
from nki.base.tensor_text import running_as
from nki.ir.constant import Constant
from nki.ir.floats.runtime_float import evaluate
from nki.ir.indirection.runtime_index import out_of_bounds
from nki.ir.loop import note_loop
from nki.ir.program import CoreProgram, Program
from nki.rendezvous import ranks
from nki.rendezvous.protocol import Participant, deadlock

_word: Final = ctypes.c_int64.from_address


WORTH_A_POOL: Final = 100_000.0
"""Nanoseconds of parallel regions from which on a launch asks for threads, which may take some microseconds to wake."""
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
        trap, operand, index, peer = (_word(start + WORD * number).value for number in range(4))
        return trap, operand, index, peer

    def raise_out_of_bounds(self, status: Status) -> NoReturn:
        """Raise the error of the run-time index that ``status`` tells."""
        trap, operand, index, _ = status
        inst = self.linked.traps[trap - 1]
        f, access = [(f, a) for f, a in inst.operands() if a.dynamic is not None][operand]
        raise out_of_bounds(inst, f.name, access, index)


_Walk = tuple[int, int, int, int, int]
"""The arguments of ``lead`` and ``follow``; see :func:`~nki.backend.cpu.native.library.entry`."""


class _Launch:
    """A launch on several cores, as long as it may still begin."""

    __slots__ = ("__weakref__",)


class Executable:
    """Native code for one program. ``launch`` may run in several threads at once.

    The program has no exchanges between cores: a transform lowers them.
    """

    def __init__(self, program: Program, progress: Progress | None = None, runtime: Runtime = RUNTIME) -> None:
        started = time.perf_counter()
        self._prepare(program, runtime)
        self._link(progress)
        self.compile_seconds = time.perf_counter() - started

    def _prepare(self, program: Program, runtime: Runtime = RUNTIME) -> None:
        """Find out all about ``program`` that a caller needs, and what is to be compiled."""
        self.kernel = program
        self.name = program.name
        self.inputs = program.signature.input_specs()
        self.outputs = program.signature.output_specs()
        self.returns_sequence = program.signature.sequence
        self.changes = program.signature.changed_inputs()
        """The inputs that are outputs, changed: position among the inputs by that among the outputs."""
        self.returned = len(program.signature.returned)
        """The number of outputs that the caller of the kernel receives; behind them are inputs that it changes."""
        self._runtime, self._frames = runtime, runtime.frames
        sizes = [(number, tensor.nbytes) for number, tensor in enumerate(program.outputs, len(self.inputs))]
        self._large = [(number, nbytes) for number, nbytes in sizes if nbytes >= LARGE]
        """The positions and sizes of large outputs: their memory is likely to be fresh."""
        self._several = len(program.cores) > 1
        self._program = program
        self._plan: Plan | None
        """None once it is linked."""
        with gc_pause.paused():
            self._plan = plan(program)
        self.float_names = [spec.name for spec in program.signature.floats]
        self.formulas = self._plan.floats
        """The floats of a launch, each made of floats of the signature."""
        self._passes_all = self.formulas == tuple(self.float_names)
        """True if the launch passes the floats of the signature as they are."""

    @property
    def missing(self) -> int:
        """The number of routines that are to be compiled."""
        return 0 if self._plan is None else self._plan.missing

    def _link(self, progress: Progress | None = None, turns: Turns | None = None) -> None:
        """Compile what is to be compiled, and make the tables; ``turns`` as of
        :func:`~nki.backend.cpu.runtime.routines.compile_routines`.
        """
        assert self._plan is not None, "it is linked once"
        with gc_pause.paused():
            self.linked = link(self._program, self._plan, progress, turns)
        count = len(self.inputs) + len(self.outputs) + (len(self.linked.shared) + 1 if self._several else 0)
        self._slots = count
        self._attach()
        self._run = library.entry("run")
        self._plan = None

    def _attach(self) -> None:
        """Take the tables of ``linked`` for the next launches."""
        cores = zip(self._program.cores, self.linked.cores, strict=True)
        self._cores = [_Core(core, linked, self._slots, len(self.formulas)) for core, linked in cores]
        self._core = self._cores[0]
        self._shared = self._core.linked.shared_nanoseconds

    def with_times(self) -> list[EntryTimes]:
        """Let all later launches note the time of each entry, which makes them slower; the times of each core."""
        times = [EntryTimes(linked) for linked in self.linked.cores]
        self._attach()
        return times

    def floats_of(self, values: Sequence[float]) -> Sequence[float]:
        """The floats of a launch with these ``values`` of the signature's floats. Raises what Python's floats raise."""
        if self._passes_all:
            return values
        named = dict(zip(self.float_names, values, strict=True))
        return [evaluate(formula, named) for formula in self.formulas]

    def launch(self, pointers: Sequence[int], floats: Sequence[float] = (), from_torch: bool = False) -> None:
        """Run on the memory at ``pointers``: the inputs, then the outputs, each dense and of the size of its spec.

        ``floats`` come from :meth:`floats_of`. ``from_torch``: PyTorch computes in the same Python thread, or is
        likely to, so that its threads are those to use.

        An input that is also an output is changed in place if both are at one address; else it stays as it is.

        The interpreter lock is released while the kernel runs. Signals are handled meanwhile, if this is the main
        thread; what a handler raises, or a callback, ends the launch and is raised when no core runs any more.

        Raises :class:`OutOfBoundsError` if a run-time index led outside its tensor, :class:`DeadlockError` if cores did
        not meet: outputs are then incomplete.
        """
        for number, nbytes in self._large:
            welcome_huge_pages(pointers[number], nbytes)
        if self.changes:
            pointers = self._copy_changed_inputs(pointers)
        if self._several:
            self._launch_cores(pointers, floats)
            return
        core = self._core
        linked, layout, slots = core.linked, core.frame, (*pointers, *core.constants, *floats)
        if self._shared < WORTH_OPENMP:
            frame = self._frames.acquire(layout.nbytes)
            layout.write(frame, slots)
        else:
            threads, pool = self._threads(from_torch)
            frame = self._frames.acquire(layout.nbytes + (threads - 1) * layout.worker)
            layout.write(frame, slots, 0, 0, pool, threads)
        try:
            self._run(frame.address, linked.entries)
        except BaseException as error:
            self._note_interruption(error, [frame])
            raise
        if linked.traps and (status := core.status(frame))[0]:
            core.raise_out_of_bounds(status)
        self._frames.release(frame)

    def _threads(self, from_torch: bool) -> tuple[int, int]:
        """The threads that a launch may use, and the address of their pool, 0 for one thread alone."""
        runtime, threads = self._runtime, number_of_threads()
        if threads > 1 and from_torch and threads == torch_threads() and (pool := runtime.openmp_pool()) is not None:
            return threads, pool.address
        if threads > 1 and self._shared >= WORTH_A_POOL:
            return threads, runtime.pool(threads).address
        return 1, 0

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
        """Run on several cores, on one thread each.

        Memory that the cores share lies behind the frame of the first one: the lines of barriers, then the tensors.
        """
        runtime, pool, cores = self._runtime, self._frames, self._cores
        first, count = cores[0], len(cores)
        frames = [pool.acquire(first.frame.nbytes + self.linked.shared_bytes)]
        frames += [pool.acquire(core.frame.nbytes) for core in cores[1:]]
        lines = frames[0].address + first.frame.nbytes
        control = lines + control_offset(count)
        ctypes.memset(lines, 0, lines_bytes(count))
        shared = [*(lines + offset for offset in self.linked.shared), lines, *floats]
        for rank, (core, frame) in enumerate(zip(cores, frames, strict=True)):
            core.frame.write(frame, (*pointers, *core.constants, *shared), rank, control)
        walks: list[_Walk] = []
        for core, frame in zip(cores, frames, strict=True):
            done = core.linked.prologue
            walks.append((frame.address, done, core.linked.entries - done, lines, count))
        this = _Launch()
        try:
            self._run(frames[0].address, first.linked.prologue)
            for rank in range(1, count):
                runtime.start(self._follow, rank, walks[rank], frames, ref(this), ranks.in_process())
            with running_as(0):
                library.entry("lead")(*walks[0])
        except BaseException as error:
            if not _word(control + WORD * GATE).value:  # else all cores have ended
                _word(control + WORD * GATE).value = SHUT
            self._note_interruption(error, frames)
            raise
        self._raise_first_error([core.status(frame) for core, frame in zip(cores, frames, strict=True)])
        pool.release(*frames)

    def _follow(
        self, rank: int, walk: _Walk, _memory: Sequence[Frame], launch: ref[_Launch], participant: Participant | None
    ) -> None:
        """Run core ``rank`` once its launch has begun; holds the memory of the launch meanwhile.

        ``participant``: what the launch is among other ranks.
        """
        follow = library.entry("follow")
        with running_as(rank), ranks.running_as(participant):
            while not follow(*walk) and launch() is not None:
                pass

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
            if status[0] and status[1] != DEADLOCK:
                self._cores[rank].raise_out_of_bounds(status)  # other cores wait for this one in vain
            if status[0]:
                blocked[rank] = status
        for rank, status in sorted(blocked.items(), key=lambda item: self._follows(item[1], blocked)):
            trap, _, peer_trap, peer = status
            waits_at = self._cores[peer].linked.traps[peer_trap - 1] if peer_trap else None
            raise deadlock(rank, self._cores[rank].linked.traps[trap - 1], [(peer, waits_at)])

    @staticmethod
    def _follows(status: Status, blocked: Container[int]) -> bool:
        """True if a core failed only because its peer had ended, blocked by a third core."""
        return not status[2] and status[3] in blocked


def _address(constant: Constant) -> int:
    """The address of the bytes of ``constant``, which stay there as long as it exists."""
    return np.frombuffer(constant.data, np.uint8).ctypes.data
