"""Repeats native launches of this process on 1, 2 and 3 threads and in the simulator, and notes what differs.

After a launch has ended, its kernel runs again on copies of what its inputs were, linked so that every region is worth
a thread pool: on 1, 2 and 3 threads of NKI's pool; on PyTorch's threads if the launch could use these; and in the NumPy
executor where that is affordable. A launch that raised must raise the same again. Later launches of the kernel on the
same inputs must have the same outputs. What cannot be compared is counted with its reason.

Environment:
    NKI_REPEAT_LAUNCHES      how many launches of one executable are repeated in any case; default 2
    NKI_REPEAT_BUDGET        seconds of repetitions of one executable up to which more of its launches are; default 0.5
    NKI_REPEAT_STEPS         the most instructions that the simulator runs, with the rounds of loops; default 4000
    NKI_REPEAT_SECONDS       the longest native run that the simulator repeats; default 0.05
    NKI_REPEAT_MEGABYTES     the largest inputs and outputs together that are copied; default 256
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy import ctypeslib  # now: NumPy imports it at its first use, and a fork may come in between

from nki import target as targets
from nki.backend.cpu.native import callbacks
from nki.backend.cpu.runtime import launch as native
from nki.backend.cpu.runtime import regions
from nki.backend.cpu.runtime.resources import Runtime
from nki.backend.numpy import executor
from nki.base.errors import NkiError
from nki.compilation import pipeline
from nki.compilation.float_arguments import for_formulas
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment
from nki.transforms.promote_float32 import PromoteFloat32

THREADS = (1, 2, 3)
LAUNCHES = int(os.environ.get("NKI_REPEAT_LAUNCHES", "2"))
BUDGET = float(os.environ.get("NKI_REPEAT_BUDGET", "0.5"))
STEPS = int(os.environ.get("NKI_REPEAT_STEPS", "4000"))
SECONDS = float(os.environ.get("NKI_REPEAT_SECONDS", "0.05"))
MEGABYTES = float(os.environ.get("NKI_REPEAT_MEGABYTES", "256"))
EXCEPTION = "NKI_REPEAT_EXCEPTION"
"""The variable with the reason for which a process compares nothing."""
FOLDER = "NKI_REPEAT_FOLDER"
"""The variable that tells processes of tests where to leave their counts."""
_FILLS = (0x00, 0xFF, 0xA5)
"""What outputs hold before launches, in turn: bytes that no launch writes differ."""

Array = np.ndarray[Any, Any]
_runtime = Runtime()
"""Threads and memory of repetitions; tests replace the threads and memory of other launches."""


class Session:
    """What this process has repeated since the counts were taken last."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Of repetitions: no process forks during one."""
        self.noting = threading.RLock()
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self.exception = os.environ.get(EXCEPTION, "")
        """The reason for which nothing is compared, if there is one."""
        self.folder = ""
        """The folder where a child process leaves its counts; empty: a caller asks for them."""
        self.written = 0

    def add(self, name: str) -> None:
        with self.noting:
            self.counts[name] += 1

    def differs(self, text: str) -> None:
        with self.noting:
            self.differences.append(text)

    def take(self) -> tuple[dict[str, int], list[str]]:
        """The counts and differences; both are empty afterwards."""
        with self.noting:
            taken = dict(self.counts), list(dict.fromkeys(self.differences))
            self.counts.clear()
            self.differences.clear()
        return taken

    def leave(self) -> None:
        """Write counts and differences into a new file of the folder, if there is one."""
        if not self.folder:
            return
        counts, differences = self.take()
        if counts or differences:
            self.written += 1
            name = Path(self.folder, f"{os.getpid()}-{self.written}.counts")
            with contextlib.suppress(FileNotFoundError):  # the session has ended before this process
                name.with_suffix(".part").write_text(json.dumps([counts, differences]), encoding="utf-8")
                name.with_suffix(".part").rename(name)

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork(self) -> None:
        self.lock.release()

    def begin_in_fork(self) -> None:
        """Begin anew in a process that was forked."""
        self.lock, self.noting = threading.RLock(), threading.RLock()
        self.take()
        self.folder = self.folder or os.environ.get(FOLDER, "")


session = Session()
_thread = threading.local()
"""``is_repeating`` is set in a thread that repeats a launch."""


def is_repeating() -> bool:
    return getattr(_thread, "is_repeating", False)


def _array(pointer: int, size: int) -> Array:
    return ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pointer))


def _digest(arrays: Iterable[Array], floats: Sequence[float] = ()) -> bytes:
    digest = hashlib.blake2b(np.asarray(floats, np.float64).tobytes(), digest_size=16)
    for array in arrays:
        digest.update(array.data)
    return digest.digest()


def _steps(body: Iterable[Statement]) -> int:
    return sum(1 if isinstance(s, Inst) else regions.rounds_of(s) * _steps(s.body) for s in body)


def _linked(program: Program) -> native.Executable:
    """Native code that shares every region."""
    with (
        mock.patch.object(regions, "WORTHWHILE", 0.0),
        default_environment(),
    ):
        executable = native.Executable(program, runtime=_runtime)
    executable.__dict__["_shared"] = float("inf")
    return executable


@contextlib.contextmanager
def _on_threads(wanted: int) -> Generator[None]:
    """Launches of this Python thread have so many threads, and so have operations of PyTorch by their account."""
    first = native.number_of_threads, native.torch_threads

    def number_of_threads() -> int:
        return wanted if is_repeating() else first[0]()

    def torch_threads() -> int:
        return wanted if is_repeating() else first[1]()

    with (
        mock.patch.object(native, "number_of_threads", number_of_threads),
        mock.patch.object(native, "torch_threads", torch_threads),
    ):
        yield


@contextlib.contextmanager
def repeating() -> Generator[None]:
    """Launches of this thread are repetitions; what kernels print is dropped."""
    nothing = mock.Mock()
    with (
        mock.patch.object(callbacks.tensor_text, "device_print", nothing),
        mock.patch.object(executor, "device_print", nothing),
    ):
        _thread.is_repeating = True
        try:
            yield
        finally:
            _thread.is_repeating = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that has ended: the bytes of its inputs and outputs, its floats, its error, the seconds that it took."""

    inputs: list[Array]
    outputs: list[Array]
    floats: Sequence[float] = ()
    error: NkiError | None = None
    seconds: float = 0.0
    from_torch: bool = False


class Repetition:
    """The kernel of one executable, and what its launches gave so far."""

    def __init__(self, executable: native.Executable, notes: Session | None = None) -> None:
        self.session = notes or session
        self.sizes = [spec.nbytes for spec in (*executable.kernel.inputs, *executable.kernel.outputs)]
        self.inputs = len(executable.inputs)
        self.outcomes: dict[bytes, object] = {}
        """Digests of the outputs, or errors, by digests of the inputs."""
        self.times = 0
        self.seconds = 0.0
        self.shared: native.Executable | None = None

    def memory(self, pointers: Sequence[int]) -> list[Array]:
        return [_array(pointer, size) for pointer, size in zip(pointers, self.sizes, strict=True)]

    def run(self, executable: native.Executable, launch: Launch) -> None:
        """Repeat ``launch``, and note what differs."""
        lowered: Program = executable.__dict__["_program"]
        if self.shared is None:
            self.shared = _linked(lowered)
        for number, threads in enumerate(THREADS):
            with _on_threads(threads):
                self.launch(executable, launch, number, f"{threads} threads")
        if launch.from_torch and len(executable.kernel.cores) == 1 and _runtime.openmp_pool() is not None:
            with _on_threads(2):
                self.launch(executable, launch, 1, "threads of PyTorch", True)
            self.session.add("launches compared on threads of PyTorch, too")
        if len(executable.kernel.cores) > 1:
            self.session.add("launches compared that have several cores, each on one thread")
        self.simulate(executable, launch)

    def launch(
        self, executable: native.Executable, launch: Launch, number: int, where: str, from_torch: bool = False
    ) -> None:
        """Launch the shared executable, and compare."""
        assert self.shared is not None
        inputs = [array.copy() for array in launch.inputs]
        outputs = [np.full(size, _FILLS[number % len(_FILLS)], np.uint8) for size in self.sizes[self.inputs :]]
        pointers = [array.ctypes.data for array in (*inputs, *outputs)]

        def work() -> list[Array]:
            assert self.shared is not None
            self.shared.launch(pointers, launch.floats, from_torch)
            return outputs

        self.compare(executable, work, launch, where)

    def simulate(self, executable: native.Executable, launch: Launch) -> None:
        """Repeat ``launch`` in the NumPy executor, if that is affordable."""
        kernel = executable.kernel
        if launch.seconds > SECONDS:
            self.session.add("not simulated: the native run takes too long")
        elif sum(_steps(core.body) for core in kernel.cores) > STEPS:
            self.session.add("not simulated: too many instructions")
        else:
            if not getattr(executable, "precise", True):
                kernel = pipeline.run_stages(kernel, targets.find(kernel.target), (PromoteFloat32(),))
            program = for_formulas(kernel, executable.linked.floats, launch.floats)

            def work() -> list[Array]:
                with default_environment():
                    results = executor.run(program, launch.inputs)
                return [np.ascontiguousarray(result).reshape(-1).view(np.uint8) for result in results]

            self.compare(executable, work, launch, "the simulator")
            self.session.add("launches compared with the simulator")

    def compare(
        self, executable: native.Executable, work: Callable[[], Sequence[Array]], launch: Launch, where: str
    ) -> None:
        """Note the outputs of ``work`` with different bits, or another error."""
        try:
            results = work()
        except NkiError as error:
            if (text := self.difference(error, launch.error, where, len(executable.kernel.cores))) is not None:
                self.note(f"{executable.name}, {where}: {text}")
            return
        if launch.error is not None:
            self.note(f"{executable.name}, {where}: no {type(launch.error).__name__}")
            return
        for tensor, one, other in zip(executable.kernel.outputs, results, launch.outputs, strict=True):
            if one.tobytes() != other.tobytes():
                size = tensor.dtype.itemsize
                wrong = np.flatnonzero((one != other).reshape(-1, size).any(axis=1))
                text = f"{len(wrong)} of {tensor.nbytes // size} elements, first {wrong[0]}"
                self.note(f"{executable.name}, output '{tensor.name}', {where}: {text} differ")

    @staticmethod
    def difference(one: NkiError, other: NkiError | None, where: str, cores: int) -> str | None:
        """A text if the errors differ; which of several cores fails first, and how the simulator says it, may."""
        exact = where != "the simulator" and cores == 1
        if type(one) is type(other) and (not exact or str(one) == str(other)):
            return None
        return f"{type(one).__name__}: {one}"[:300] + f", not {type(other).__name__}: {other}"[:300]

    def note(self, text: str) -> None:
        self.session.differs(text)
        self.session.add("differences")


_first_link, _first_launch = native.Executable._link, native.Executable.launch


def _link(self: native.Executable, *args: Any, **kwargs: Any) -> None:
    _first_link(self, *args, **kwargs)
    self.__dict__["repetition"] = None if is_repeating() else Repetition(self)


def _launch(
    self: native.Executable, pointers: Sequence[int], floats: Sequence[float] = (), from_torch: bool = False
) -> None:
    if is_repeating():
        _first_launch(self, pointers, floats, from_torch)
        return
    outcome, failure = "not compared: interrupted", None
    session.add("launches")
    try:
        outcome, failure = _watched(self, pointers, floats, from_torch)
    except Exception as error:
        outcome = f"not compared: {type(error).__name__} of a callback"
        raise
    finally:
        session.add(outcome)
    if failure is not None:
        raise failure


def _attempt(self: native.Executable, pointers: Sequence[int], *more: Any) -> NkiError | None:
    """Launch; the error that a repetition must raise, too."""
    try:
        _first_launch(self, pointers, *more)
    except NkiError as error:
        return error
    return None


def _watched(
    self: native.Executable, pointers: Sequence[int], floats: Sequence[float], from_torch: bool
) -> tuple[str, NkiError | None]:
    """Launch, and compare with earlier launches or repetitions; the outcome, and the error of the launch."""
    repetition: Repetition | None = self.__dict__.get("repetition")
    exception = session.exception or ("its code is older than the watch" if repetition is None else "")
    if repetition is None or exception or sum(repetition.sizes) > MEGABYTES * 2**20:
        return f"not compared: {exception or 'too large'}", _attempt(self, pointers, floats, from_torch)
    memory = repetition.memory(pointers)
    key = _digest(memory[: repetition.inputs], floats)
    known = repetition.outcomes.get(key)
    if known is None and repetition.times >= LAUNCHES and repetition.seconds > BUDGET:
        failure = _attempt(self, pointers, floats, from_torch)
        return "not compared: new inputs, and the time for this kernel is up", failure
    inputs = [array.copy() for array in memory[: repetition.inputs]] if known is None else []
    started = time.perf_counter()
    failure = _attempt(self, pointers, floats, from_torch)
    seconds = time.perf_counter() - started
    outputs = memory[repetition.inputs :]
    outcome = _digest(outputs) if failure is None else type(failure)
    if known is None:
        launch = Launch(inputs, [array.copy() for array in outputs], floats, failure, seconds, from_torch)
        _repeat(self, repetition, launch)
        repetition.outcomes[key] = outcome
        session.add("launches compared on 1, 2 and 3 threads")
    elif known != outcome:
        repetition.note(f"{self.name}: another launch on the same inputs had other outputs")
    if failure is not None:
        session.add("launches compared that raise")
    return "launches compared", failure


def _repeat(self: native.Executable, repetition: Repetition, launch: Launch) -> None:
    started = time.perf_counter()
    with session.lock, repeating():
        try:
            repetition.run(self, launch)
        except Exception as error:
            repetition.note(f"{self.name}: a repetition raised {type(error).__name__}: {error}"[:600])
    repetition.times += 1
    repetition.seconds += time.perf_counter() - started
    if repetition.times == 1:
        session.add("kernels compared")
    session.leave()


def watch() -> None:
    """Repeat all launches of this process from now on, and of processes that it forks."""
    native.Executable._link = _link
    native.Executable.launch = _launch
    leave_process = os._exit

    def leave(status: int) -> Any:
        session.leave()
        leave_process(status)

    os._exit = leave  # pyright: ignore[reportAttributeAccessIssue]
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=session.before_fork, after_in_parent=session.after_fork, after_in_child=session.begin_in_fork
        )


def watch_child(folder: str) -> None:
    """The same in a process that was started; its counts go to ``folder``."""
    session.folder = folder
    atexit.register(session.leave)
    watch()
