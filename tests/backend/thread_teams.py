"""Launches on several threads, of a pool of NKI or lent by PyTorch. The kernels run as long as their callers say."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.native.thread_pool import openmp_of_torch
from nki.backend.cpu.runtime.resources import RUNTIME
from nki.compilation.executable import Executable
from tests.support.kernel_parts import returned
from tests.support.shared_launches import outputs_of, shared

__all__ = ["shared"]
Array = np.ndarray[Any, Any]
Launch = Callable[..., Array]
X = np.random.default_rng(3).normal(size=(128, 64)).astype(np.float32)


@nki.jit
def chain(a, n):
    """``a`` doubled n times, in a loop on the device."""
    t = nl.load(a)
    count = nisa.register_alloc(nl.load(n))

    def body(i):
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
        nisa.tensor_scalar(t, t, nl.add, 0.0)

    nl.fori_loop(0, count, body)
    return returned(t)


@nki.jit
def rows_from(a, n):
    """Rows from a place on that the program learns when it runs."""
    t = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    first = nl.load(n)
    nisa.dma_copy(t, a.ap([[64, 64], [1, 64]], scalar_offset=first, indirect_dim=0))
    nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    return returned(t)


def times(count: int) -> Array:
    return np.array([[count]], np.int32)


def linked(kernel: Any, *arguments: Any) -> Executable:
    """Native code of a kernel, linked anew: tests change what is worth a pool."""
    return Executable(kernel.compile(*arguments).kernel)


def launch(executable: Executable, *arguments: Array, from_torch: bool = False) -> Array:
    return outputs_of(executable, *arguments, from_torch=from_torch)[0]


def launch_from_torch(executable: Executable, *arguments: Array) -> Array:
    return launch(executable, *arguments, from_torch=True)


def shares(executable: Executable, launch: Launch = launch_from_torch) -> bool:
    """True if threads beside the leader work, too: they have run time of their own, a tenth of all if PyTorch's."""
    before, own = time.process_time(), time.thread_time()
    launch(executable, X, times(100_000))
    total, leader = time.process_time() - before, time.thread_time() - own
    return leader < (0.9 if launch is launch_from_torch else 0.95) * total


@pytest.fixture
def lent(shared: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Two threads of PyTorch, and no others."""
    torch = pytest.importorskip("torch")
    if openmp_of_torch() is None:
        pytest.skip("this build of PyTorch has no OpenMP")
    before = torch.get_num_threads()
    shared.delenv("OMP_NUM_THREADS", raising=False)
    shared.delenv("NKI_NUM_THREADS", raising=False)
    shared.setattr(RUNTIME, "pool", lambda size: pytest.fail("a pool was asked for"))
    torch.set_num_threads(2)
    yield shared
    torch.set_num_threads(before)


@pytest.fixture
def pooled(shared: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two threads of our own."""
    shared.setenv("NKI_NUM_THREADS", "2")
    return shared


@pytest.fixture(params=["pooled", "lent"])
def team_launch(request: pytest.FixtureRequest) -> Launch:
    """A launch on two threads, of each kind in turn."""
    request.getfixturevalue(request.param)
    return launch if request.param == "pooled" else launch_from_torch


BEGIN = r"""
import os, sys, threading, warnings
warnings.simplefilter("ignore")
os.environ.update(OPEN_NKI_CACHE_DISABLE="1")
import numpy as np
from nki.backend.cpu.runtime import launch as launching, regions
regions.WORTHWHILE = launching.WORTH_A_POOL = launching.WORTH_OPENMP = 0.0
from tests.backend.thread_teams import X, chain, launch, launch_from_torch, linked, shares, times

executable = linked(chain, X, times(1))
"""


def assert_ends_well(script: str, what: str, tmp_path: Path, **variables: str) -> None:
    """A process that runs ``script`` with the argument ``what`` says so, and ends."""
    file = tmp_path / "script.py"
    file.write_text(BEGIN + script + 'print("well")\n')
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    for name in ("OMP_NUM_THREADS", "NKI_NUM_THREADS"):
        environment.pop(name, None)
    command = [sys.executable, "-X", "faulthandler", str(file), what]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment | variables
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stdout + done.stderr[-4000:]
