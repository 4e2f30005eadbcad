"""Launches on PyTorch's own threads: who works, and what may go wrong there that cannot with threads of ours."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki.backend.cpu.native.thread_pool import openmp_of_torch
from nki.backend.cpu.runtime.resources import RUNTIME
from nki.base.errors import OutOfBoundsError
from nki.compilation.executable import Executable
from tests.backend.test_thread_pool import X, chain, linked, rows_from, times
from tests.support.shared_launches import at_once, shared
from tests.support.signals import Interrupt, alarm, handled

__all__ = ["shared"]
torch = pytest.importorskip("torch")
FOUND = openmp_of_torch()
pytestmark = pytest.mark.skipif(FOUND is None, reason="this build of PyTorch has no OpenMP")
Array = np.ndarray[Any, Any]


@pytest.fixture
def lent(shared: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Two threads of PyTorch, and no others."""
    before = torch.get_num_threads()
    shared.delenv("OMP_NUM_THREADS", raising=False)
    shared.delenv("NKI_NUM_THREADS", raising=False)
    shared.setattr(RUNTIME, "pool", lambda size: pytest.fail("a pool was asked for"))
    torch.set_num_threads(2)
    yield shared
    torch.set_num_threads(before)


def launch(executable: Executable, *arguments: Array) -> Array:
    out = np.empty(executable.outputs[0].shape, np.float32)
    executable.launch([array.ctypes.data for array in (*arguments, out)], from_torch=True)
    return out


def shares(executable: Executable) -> bool:
    """True if threads beside the leader work, too."""
    before, own = time.process_time(), time.thread_time()
    launch(executable, X, times(100_000))
    total, leader = time.process_time() - before, time.thread_time() - own
    return leader < 0.9 * total


def parallel(body: Callable[[], None], threads: int) -> None:
    """Run ``body`` in the first thread of a parallel region."""
    assert FOUND is not None
    number = ctypes.CFUNCTYPE(ctypes.c_int)(FOUND.thread_number)

    def member(_: int | None) -> None:
        if number() == 0:
            body()

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    region = ctypes.CFUNCTYPE(None, kind, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(FOUND.parallel)
    region(kind(member), None, threads, 0)


def test_threads_of_pytorch_work(lent: pytest.MonkeyPatch) -> None:
    executable = linked(chain, X, times(1))
    np.testing.assert_array_equal(launch(executable, X, times(3)), 8 * X)
    assert shares(executable)


def test_each_number_of_threads(lent: pytest.MonkeyPatch) -> None:
    executable = linked(chain, X, times(1))
    for threads in (2, 3, 1, 4, 2):
        torch.set_num_threads(threads)
        for count in range(20):
            np.testing.assert_array_equal(launch(executable, X, times(count)), X * np.float32(2**count))
            torch.ones(1 << 17).exp()


def test_the_program_may_ask_for_another_number_than_pytorch(lent: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    pool = type(RUNTIME).pool
    lent.setattr(RUNTIME, "pool", lambda size: asked.append(size) or pool(RUNTIME, size))
    lent.setenv("NKI_NUM_THREADS", "3")
    np.testing.assert_array_equal(launch(linked(chain, X, times(1)), X, times(3)), 8 * X)
    assert asked == [3]


def test_inside_a_parallel_region_the_leader_is_alone(lent: pytest.MonkeyPatch) -> None:
    executable = linked(chain, X, times(1))
    found: list[Array] = []
    parallel(lambda: found.append(launch(executable, X, times(4))), 3)
    np.testing.assert_array_equal(found[0], 16 * X)
    assert shares(executable), "the threads come back"


def test_subnormals_do_not_depend_on_pytorch(lent: pytest.MonkeyPatch) -> None:
    """The thread that launches flushes subnormals to zero, and so do the threads that it starts."""
    executable = linked(chain, X, times(1))
    tiny = np.full_like(X, 2.0**-140)
    found: list[Any] = []

    def work(_: int) -> None:
        torch.set_flush_denormal(True)
        found.extend(launch(executable, tiny, times(2)) for _ in range(50))
        found.append((torch.full((4,), 2.0**-130) * 0.25).numpy())

    at_once(work, threads=1)
    assert not found.pop().any(), "the thread has its own environment again"
    for each in found:
        np.testing.assert_array_equal(each, np.full_like(X, 2.0**-138))


def _interrupted(executable: Executable) -> None:
    alarm(0.1)
    launch(executable, X, times(1 << 30))


def test_an_interrupt_ends_a_launch_and_frees_the_threads(lent: pytest.MonkeyPatch) -> None:
    executable = linked(chain, X, times(1))
    for _ in range(3):
        with handled(), pytest.raises(Interrupt):
            _interrupted(executable)
        np.testing.assert_array_equal(launch(executable, X, times(2)), 4 * X)
    assert shares(executable)


def test_a_wrong_index_is_the_same_error(lent: pytest.MonkeyPatch) -> None:
    executable = linked(rows_from, X, times(0))
    for _ in range(20):
        with pytest.raises(OutOfBoundsError, match="65"):
            launch(executable, X, times(65))
        np.testing.assert_array_equal(launch(executable, X, times(3)), 2 * X[3:67])


def test_several_python_threads_launch_at_once(lent: pytest.MonkeyPatch) -> None:
    executable = linked(chain, X, times(1))
    wrong: list[int] = []

    def work(number: int) -> None:
        mine = X + number
        for n in range(200):
            if (launch(executable, mine, times(n % 9)) != mine * 2 ** (n % 9)).any():
                wrong.append(n)
            if n % 16 == number:
                torch.ones(1 << 17).exp()

    at_once(work)
    assert not wrong


SCRIPT = r"""
import os, sys, warnings
warnings.simplefilter("ignore")
os.environ.update(OPEN_NKI_CACHE_DISABLE="1")
import numpy as np
import torch
from nki.backend.cpu.runtime import launch as launching, regions
regions.WORTHWHILE = launching.WORTH_A_POOL = launching.WORTH_OPENMP = 0.0
from tests.backend.test_openmp import launch, shares
from tests.backend.test_thread_pool import X, chain, linked, times

torch.set_num_threads(2)
torch.ones(1 << 17).exp()
executable = linked(chain, X, times(1))
assert (launch(executable, X, times(3)) == 8 * X).all()
if sys.argv[1] == "fork":
    for _ in range(5):
        child = os.fork()
        if child == 0:
            well = all((launch(executable, X, times(n)) == X * 2**n).all() for n in range(5)) and shares(executable)
            os._exit(0 if well else 3)
        assert os.waitpid(child, 0)[1] == 0
    assert (launch(executable, X, times(3)) == 8 * X).all()
if sys.argv[1] == "limit":
    assert not shares(executable)
print("well")
"""


@pytest.mark.parametrize("what", ["fork", "limit", "end"])
def test_processes_that_fork_or_have_fewer_threads_or_end(what: str, tmp_path: Path) -> None:
    """A child process has threads of ours; a runtime may give fewer threads than were asked for."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    for name in ("OMP_NUM_THREADS", "NKI_NUM_THREADS"):
        environment.pop(name, None)
    if what == "limit":
        environment["OMP_THREAD_LIMIT"] = "1"
    command = [sys.executable, "-X", "faulthandler", str(file), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stdout + done.stderr[-4000:]
