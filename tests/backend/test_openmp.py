"""Launches on PyTorch's own threads: who works, and what may go wrong there that cannot with threads of ours."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki.backend.cpu.native.thread_pool import openmp_of_torch
from nki.backend.cpu.runtime.resources import RUNTIME
from tests.backend.thread_teams import Array, X, assert_ends_well, chain, lent, linked, shared, shares, times
from tests.backend.thread_teams import launch_from_torch as launch
from tests.support.shared_launches import at_once

__all__ = ["lent", "shared"]
torch = pytest.importorskip("torch")
FOUND = openmp_of_torch()
pytestmark = pytest.mark.skipif(FOUND is None, reason="this build of PyTorch has no OpenMP")


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


def test_python_threads_launch_beside_operations_of_pytorch(lent: pytest.MonkeyPatch) -> None:
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
import torch
torch.set_num_threads(2)
torch.ones(1 << 17).exp()
assert (launch_from_torch(executable, X, times(3)) == 8 * X).all()
if sys.argv[1] == "fork":
    for _ in range(5):
        child = os.fork()
        if child == 0:
            results = [(launch_from_torch(executable, X, times(n)) == X * 2**n).all() for n in range(5)]
            os._exit(0 if all(results) and shares(executable) else 3)
        assert os.waitpid(child, 0)[1] == 0
    assert (launch_from_torch(executable, X, times(3)) == 8 * X).all()
if sys.argv[1] == "limit":
    assert not shares(executable)
"""


@pytest.mark.parametrize("what", ["fork", "limit", "end"])
def test_processes_that_fork_or_have_fewer_threads_or_end(what: str, tmp_path: Path) -> None:
    """A child process has threads of ours; a runtime may give fewer threads than were asked for."""
    assert_ends_well(SCRIPT, what, tmp_path, **({"OMP_THREAD_LIMIT": "1"} if what == "limit" else {}))
