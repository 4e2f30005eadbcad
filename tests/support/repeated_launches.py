"""A pytest plugin that repeats the native launches of a session on 1, 2 and 3 threads and in the simulator.

``python -m pytest -p tests.support.repeated_launches …``, or ``make threads``. With the root of this project in
``PYTHONPATH`` it serves tests of other projects. After a launch has succeeded, its kernel runs again on copies of what
its inputs were: linked so that every region is worth a team, on 1, 2 and 3 threads; and in the NumPy executor where
that is affordable. A test fails if any bit differs, or if a repetition raises. The summary has the counts.

Environment:
    NKI_REPEAT_LAUNCHES      how many launches of one executable are repeated; default 2
    NKI_REPEAT_STEPS         the most instructions that the simulator runs, with the rounds of loops; default 4000
    NKI_REPEAT_SECONDS       the longest native run that the simulator repeats; default 0.05
    NKI_REPEAT_MEGABYTES     the largest inputs and outputs together that are copied; default 256
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nki.backend.cpu.runtime import launch as native
from nki.backend.cpu.runtime import print_callback, region_builder
from nki.backend.numpy import executor
from nki.compiler.float_arguments import for_formulas
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE
from nki.ir.loop import Statement
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment

THREADS = (1, 2, 3)
LAUNCHES = int(os.environ.get("NKI_REPEAT_LAUNCHES", "2"))
STEPS = int(os.environ.get("NKI_REPEAT_STEPS", "4000"))
SECONDS = float(os.environ.get("NKI_REPEAT_SECONDS", "0.05"))
MEGABYTES = float(os.environ.get("NKI_REPEAT_MEGABYTES", "256"))
_FILLS = {1: 0x00, 2: 0xFF, 3: 0xA5}
"""What outputs hold before a launch, by its threads: bytes that no launch writes differ."""

Array = np.ndarray[Any, Any]


class Session:
    """What this process has repeated."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self.is_repeating = False


session = Session()


def _renew_lock() -> None:
    session.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _array(pointer: int, size: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pointer))


def _steps(body: Iterable[Statement]) -> int:
    return sum(1 if isinstance(s, Inst) else region_builder.rounds_of(s) * _steps(s.body) for s in body)


@contextlib.contextmanager
def repeating() -> Generator[None]:
    """Thresholds under which all regions are shared; what kernels print is dropped."""
    nothing = mock.Mock()
    with (
        mock.patch.object(region_builder, "WORTHWHILE", 0.0),
        mock.patch.object(region_builder, "LEAST_WORK", 0.0),
        mock.patch.object(native, "WORTH_A_TEAM", 0.0),
        mock.patch.object(print_callback.device_print, "device_print", nothing),
        mock.patch.object(executor, "device_print", nothing),
    ):
        session.is_repeating = True
        try:
            yield
        finally:
            session.is_repeating = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that has succeeded: the bytes of its inputs and outputs, its floats, and the seconds that it took."""

    inputs: list[Array]
    outputs: list[Array]
    floats: Sequence[float] = ()
    seconds: float = 0.0


class Repetition:
    """The kernel of one executable, and how often it was repeated."""

    def __init__(self, executable: native.Executable, layout: Any) -> None:
        self.layout = layout
        self.sizes = [spec.nbytes for spec in (*executable.kernel.inputs, *executable.kernel.outputs)]
        self.inputs = len(executable.inputs)
        self.times = 0
        self.shared: native.Executable | None = None

    def copies(self, pointers: Sequence[int]) -> list[Array]:
        pairs = zip(pointers[: self.inputs], self.sizes, strict=False)
        return [_array(pointer, size).copy() for pointer, size in pairs]

    def outputs(self, pointers: Sequence[int]) -> list[Array]:
        pairs = zip(pointers[self.inputs :], self.sizes[self.inputs :], strict=True)
        return [_array(pointer, size).copy() for pointer, size in pairs]

    def run(self, executable: native.Executable, launch: Launch) -> None:
        """Repeat ``launch``, and note what differs."""
        lowered: Program = executable.__dict__["_program"]
        if self.shared is None:
            with default_environment():
                self.shared = native.Executable(lowered, layout=self.layout)
        shared, count = self.shared, self.inputs
        for threads in THREADS:
            memory = [array.copy() for array in launch.inputs]
            memory += [np.full(size, _FILLS[threads], np.uint8) for size in self.sizes[count:]]
            with mock.patch.object(native, "number_of_threads", lambda n=threads: n):
                shared.launch([array.ctypes.data for array in memory], launch.floats)
            self.compare(executable, memory[count:], launch.outputs, f"{threads} threads")
        self.simulate(executable, launch)

    def simulate(self, executable: native.Executable, launch: Launch) -> None:
        """Repeat ``launch`` in the NumPy executor, if that is affordable."""
        if not getattr(executable, "precise", True):
            session.counts["not simulated: float32 promotion"] += 1
        elif launch.seconds > SECONDS or sum(_steps(core.body) for core in executable.kernel.cores) > STEPS:
            session.counts["not simulated: too long"] += 1
        else:
            program = for_formulas(executable.kernel, executable.linked.floats, launch.floats)
            with default_environment():
                outputs = executor.run(program, launch.inputs, layout=self.layout)
            plain = [np.ascontiguousarray(output).reshape(-1).view(np.uint8) for output in outputs]
            self.compare(executable, plain, launch.outputs, "the simulator")
            session.counts["launches simulated"] += 1

    def compare(
        self, executable: native.Executable, results: Sequence[Array], expected: Sequence[Array], where: str
    ) -> None:
        """Note the outputs whose bits differ."""
        for tensor, one, other in zip(executable.kernel.outputs, results, expected, strict=True):
            if one.tobytes() != other.tobytes():
                size = tensor.dtype.itemsize
                wrong = np.flatnonzero((one != other).reshape(-1, size).any(axis=1))
                text = f"{len(wrong)} of {tensor.nbytes // size} elements, first {wrong[0]}"
                session.differences.append(f"{executable.name}, output '{tensor.name}', {where}: {text} differ")
                session.counts["launches that differ"] += 1


_first_init, _first_launch = native.Executable.__init__, native.Executable.launch


def _init(self: native.Executable, *args: Any, **kwargs: Any) -> None:
    _first_init(self, *args, **kwargs)
    layout = kwargs.get("layout", args[2] if len(args) > 2 else DENSE)
    self.__dict__["repetition"] = None if session.is_repeating else Repetition(self, layout)


def _launch(
    self: native.Executable, pointers: Sequence[int], floats: Sequence[float] = (), from_torch: bool = False
) -> None:
    repetition: Repetition | None = self.__dict__.get("repetition")
    if repetition is None or session.is_repeating:
        _first_launch(self, pointers, floats, from_torch)
        return
    session.counts["launches"] += 1
    repetition.times += 1
    if repetition.times > LAUNCHES:
        session.counts["not repeated: as often as wanted"] += 1
    elif sum(repetition.sizes) > MEGABYTES * 2**20:
        session.counts["not repeated: too large"] += 1
    else:
        inputs = repetition.copies(pointers)
        started = time.perf_counter()
        _first_launch(self, pointers, floats, from_torch)
        seconds = time.perf_counter() - started
        _repeat(self, repetition, Launch(inputs, repetition.outputs(pointers), floats, seconds))
        return
    _first_launch(self, pointers, floats, from_torch)


def _repeat(self: native.Executable, repetition: Repetition, launch: Launch) -> None:
    with session.lock, repeating():
        try:
            repetition.run(self, launch)
        except Exception as error:
            session.differences.append(f"{self.name}: a repetition raised {type(error).__name__}: {error}"[:600])
            session.counts["repetitions that raised"] += 1
    session.counts["kernels repeated"] += repetition.times == 1
    session.counts["launches repeated"] += 1


def pytest_configure() -> None:
    native.Executable.__init__ = _init
    native.Executable.launch = _launch


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail the test whose launches differ; give its report the counts."""
    session.counts.clear()
    session.differences.clear()
    outcome: Any = yield
    item.user_properties.append(("repeated launches", dict(session.counts)))
    if session.differences:
        text = "\n".join(dict.fromkeys(session.differences))
        outcome.force_exception(AssertionError(f"repeated launches: {text}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, counts in getattr(report, "user_properties", ()):
                if name == "repeated launches" and report.when == "call":
                    total.update(counts)
    terminalreporter.section("launches repeated on 1, 2 and 3 threads and in the simulator")
    for name, count in sorted(total.items()):
        terminalreporter.write_line(f"{count:8d} {name}")
