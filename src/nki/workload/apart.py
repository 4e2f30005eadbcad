"""Programs and simulated results of a kernel, from child processes: its Python runs in no other one.

What a child sends back is data: MessagePack with programs as artifacts, which this process reads and checks again. So
nothing that the kernel's Python does (patching, reading frames, counting its calls) reaches this process.

A forked child (:func:`forked`) has a copy of this process, and serves for any kernel. A fresh one (:func:`fresh`)
imports the kernel's file as any program would, and knows nothing else.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import hashlib
import os
import select
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgpack
import numpy as np
from numpy.typing import NDArray

from nki.base import element_types
from nki.base.errors import NkiError
from nki.base.warning import collecting
from nki.compilation.pipeline import SPECIALISE
from nki.ir.text import artifact
from nki.jit import Kernel
from nki.workload import later_clock, load_kernel
from nki.workload.arguments import TensorArgument
from nki.workload.job import Work

Array = NDArray[Any]
Answer = dict[str, Any]

SECONDS: Final = 300.0
"""The time that the Python of a kernel may take in one child."""
AGAIN: Final = 0.2
"""Seconds of the processor in which programs of a kernel are made again and again, after the first three."""
_LEAST: Final = 3
_TESTING: Final = ("pytest", "_pytest", "nki_pytest", f"{__name__.partition('.')[0]}.testing")
"""Modules that tell a kernel that it is being tested."""
_SERVE: Final = "import nki.workload.apart as a; a.serve()"


class LostChildError(Exception):
    """The process that ran the Python of a kernel died, or took too long."""


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of a kernel, by position and by name, a :class:`Shaped` in place of each tensor.

    ``repeats``: so many programs at most, made one after the other, fewer if :data:`AGAIN` is over; the answer has the
    first, and those that differ from it. ``arrays``: the simulator runs the kernel on them instead.
    """

    positional: tuple[Any, ...]
    named: dict[str, Any]
    repeats: int = 1
    arrays: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Shaped:
    """Shape and dtype of a tensor argument."""

    shape: tuple[int, ...]
    dtype: Any

    def argument(self) -> TensorArgument:
        return TensorArgument(self.shape, self.dtype, lambda _: np.zeros(self.shape, self.dtype.dtype))


def forked(kernel: Kernel, questions: Sequence[Question], *, hidden: bool) -> list[Answer]:
    """Answers of a copy of this process. ``hidden``: nothing there says that a test runs, no caller is on the stack;
    else its clock is more than a year ahead.

    Raises :class:`LostChildError` if it dies or takes longer than ``SECONDS``.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the child neither uses nor needs the other threads
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            _work_in_child(kernel, questions, hidden, writing)
        os._exit(1)
    os.close(writing)
    data = _received(reading, child)
    return _answers(data, f"the Python of kernel {kernel.func.__name__}")


def _received(reading: int, child: int) -> bytes:
    """All that ``child`` sends. It ends itself in time; one that prevents that is ended."""
    parts: list[bytes] = []
    until = time.monotonic() + SECONDS + 5
    with os.fdopen(reading, "rb") as pipe:
        while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            part = os.read(reading, 1 << 20)
            if not part:
                break
            parts.append(part)
        else:
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return b"".join(parts)


def _work_in_child(kernel: Kernel, questions: Sequence[Question], hidden: bool, writing: int) -> None:
    nothing = open(os.devnull, "w")  # noqa: SIM115  # for the rest of this process
    sys.stdout = sys.stderr = nothing
    os.dup2(nothing.fileno(), 1)
    os.dup2(nothing.fileno(), 2)
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=writing)
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        data = answered(kernel, questions)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)
        os._exit(0)

    if not hidden:
        later_clock.set_ahead()
        work()
    _hide()
    _thread.start_new_thread(work, ())
    done.acquire()


def _hide() -> None:
    for name in list(sys.modules):
        if any(name == each or name.startswith(f"{each}.") for each in _TESTING):
            del sys.modules[name]
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    sys.argv[:] = [""]


def fresh(
    file: str, name: str, questions: Sequence[Question], *, grid: Sequence[int] = (), ahead: bool = False
) -> list[Answer]:
    """Answers of a new process of Python that imports ``file`` and looks for kernel ``name``, on cores ``grid``.
    ``ahead``: its clock is more than a year ahead.

    Raises :class:`LostChildError` if it dies or takes longer than ``SECONDS``, and ``TypeError`` for constants that are
    no plain data.
    """
    given = msgpack.packb((file, name, list(grid), ahead, SECONDS, [_packed(question) for question in questions]))
    env = environment(load_kernel.root_of(Path(file)))
    run = subprocess.run([sys.executable, "-c", _SERVE], input=given, capture_output=True, env=env, check=False)
    return _answers(run.stdout, f"{file}:{name}", run.stderr.decode(errors="replace"))


def environment(root: Path | None) -> dict[str, str]:
    """The environment of a process that knows of no test; modules are found in ``root``, then as here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = [*([str(root)] if root is not None else []), *(path for path in sys.path if path)]
    return {**kept, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def described(question: Question, dtypes: Sequence[str]) -> list[Any]:
    """The arguments of ``question`` as plain data, with NumPy's names of the dtypes of its tensors."""
    names = iter(dtypes)

    def renamed(data: Any) -> Any:
        if isinstance(data, list):
            items = cast("list[Any]", data)
            return ["tensor", items[1], next(names)] if items[:1] == ["tensor"] else [renamed(each) for each in items]
        return data

    return [renamed(_tagged(question.positional)), renamed(_tagged(question.named))]


def _packed(question: Question) -> list[Any]:
    """A question as plain data, which no process has to trust."""
    values = [_tagged(question.positional), _tagged(question.named)]
    return [*values, question.repeats, [list(each) for each in question.arrays]]


def _unpacked(data: list[Any]) -> Question:
    positional, named, repeats, arrays = data
    return Question(_untagged(positional), _untagged(named), repeats, tuple((each[0], each[1]) for each in arrays))


def _tagged(value: Any) -> Any:
    """A value with the names of its containers, which MessagePack does not tell apart."""
    if isinstance(value, Shaped):
        return ["tensor", list(value.shape), value.dtype.name]
    if isinstance(value, tuple | list):
        items = cast("Sequence[Any]", value)
        return ["tuple" if isinstance(value, tuple) else "list", [_tagged(each) for each in items]]
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        return ["dict", [[_tagged(name), _tagged(each)] for name, each in entries.items()]]
    if value is None or type(value) in (bool, int, float, str, bytes):
        return ["plain", value]
    raise TypeError(f"{value!r:.60} is no plain value that another process could get")


def _untagged(data: list[Any]) -> Any:
    tag, value = data[0], data[1]
    if tag == "tensor":
        return Shaped(tuple(value), element_types.of(data[2]))
    if tag == "dict":
        return {_untagged(name): _untagged(each) for name, each in value}
    if tag in ("tuple", "list"):
        items: list[Any] = [_untagged(each) for each in value]
        return tuple(items) if tag == "tuple" else items
    return value


serving = False
"""This process imports the file of a kernel, and does nothing else."""


def serve() -> None:
    """Answer the questions on the standard input: the work of a fresh process. What the kernel prints is not shown."""
    global serving
    serving = True
    file, name, grid, ahead, seconds, packed = msgpack.unpackb(sys.stdin.buffer.read())
    questions = [_unpacked(each) for each in packed]
    writing = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    faulthandler.dump_traceback_later(seconds, exit=True, file=writing)
    if ahead:
        later_clock.set_ahead()
    with load_kernel.imported(Path(file)) as module:
        kernel = load_kernel.find(module, name, Path(file))
        data = answered(kernel.varied(grid=tuple(grid)) if grid else kernel, questions)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)


_BEGIN: Final = b"open-nki answers\n"


def _answers(data: bytes, what: str, errors: str = "") -> list[Answer]:
    if data.startswith(_BEGIN):
        return cast("list[Answer]", msgpack.unpackb(data[len(_BEGIN) :]))
    if data.startswith(b"Timeout"):
        frames = [line.strip() for line in data.decode(errors="replace").splitlines() if line.startswith("  File")]
        own = [line for line in frames if "/nki/" not in line] or frames
        raise LostChildError(f"{what} did not end in {SECONDS:g} s; it was at {own[0] if own else 'an unknown line'}")
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    raise LostChildError(f"{what}: the process that ran it died: {last[0]}")


def answered(kernel: Kernel, questions: Sequence[Question]) -> bytes:
    """The answers to ``questions``, as one message."""
    return _BEGIN + msgpack.packb([_answer(kernel, each) for each in questions])


def _answer(kernel: Kernel, question: Question) -> Answer:
    try:
        with collecting(aside=True):
            return _programs(kernel, question)
    except NkiError as error:
        return {"message": in_one_line(error)}
    except (Exception, SystemExit) as error:
        return {"message": f"{type(error).__name__}: {error}"}


def in_one_line(error: NkiError) -> str:
    """The message of ``error``, with its line."""
    place = f" --> {error.span}" if error.span is not None else ""
    return f"[{error.code}] {error.message}{place}"


def _programs(kernel: Kernel, question: Question) -> Answer:
    given: Callable[[Any], Any] = lambda value: value.argument() if isinstance(value, Shaped) else value  # noqa: E731
    named: Mapping[str, Any] = {name: given(value) for name, value in question.named.items()}
    work = Work(kernel, kernel.chosen_target(), kernel.bind(tuple(map(given, question.positional)), dict(named)))
    if question.arrays:
        tensors = [
            np.frombuffer(data, each.dtype.dtype).reshape(each.shape).copy()
            for each, (_, data) in zip(work.tensors, question.arrays, strict=True)
        ]
        outputs = work.simulate(tensors)[1]
        return {"digests": [digest(each) for each in outputs]}
    until, count = time.process_time() + AGAIN, 1
    programs = [artifact.dumps(work.compile(SPECIALISE))]
    while count < question.repeats and (count < _LEAST or time.process_time() < until):
        again, count = artifact.dumps(work.compile(SPECIALISE)), count + 1
        if again != programs[0] and len(programs) < _LEAST:
            programs.append(again)
    return {"programs": programs, "made": count, "target": work.target.name, "names": list(work.arguments)}


def digest(array: Array) -> str:
    """A digest of the bits."""
    return content_digest(np.ascontiguousarray(array).tobytes())


def content_digest(content: bytes) -> str:
    """SHA-256, as a text."""
    return hashlib.sha256(content).hexdigest()
