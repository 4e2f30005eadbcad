"""Thread pools: who helps, what ends a launch that they help, and what they cost when there is nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime import resources
from nki.backend.cpu.runtime.resources import RUNTIME
from nki.base.errors import OutOfBoundsError
from nki.compilation.executable import Executable
from tests.support.kernel_parts import returned
from tests.support.shared_launches import at_once, shared
from tests.support.signals import Interrupt, alarm, handled

__all__ = ["shared"]
pytestmark = pytest.mark.skipif(not library.has_threads(), reason="one thread on this platform")
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


def times(count: int) -> np.ndarray[Any, Any]:
    return np.array([[count]], np.int32)


def linked(kernel: Any, *arguments: Any) -> Executable:
    """Native code of a kernel, linked anew: tests change what is worth a pool."""
    return Executable(kernel.compile(*arguments).kernel)


def launch(executable: Executable, *arguments: Any) -> np.ndarray[Any, Any]:
    out = np.empty(executable.outputs[0].shape, np.float32)
    executable.launch([array.ctypes.data for array in (*arguments, out)])
    return out


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NKI_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(resources, "torch_threads", lambda: 0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert resources.number_of_threads() == min(cores or 1, resources.MOST_THREADS)
    monkeypatch.setattr(resources, "torch_threads", lambda: 3)
    assert resources.number_of_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert resources.number_of_threads() == 3
    monkeypatch.setattr(resources, "torch_threads", lambda: 8)
    assert resources.number_of_threads() == 5
    monkeypatch.setenv("NKI_NUM_THREADS", "2")
    assert resources.number_of_threads() == 2
    for unusable in ("0", "many", "-1"):
        monkeypatch.setenv("NKI_NUM_THREADS", unusable)
        assert resources.number_of_threads() == 5
    monkeypatch.setenv("NKI_NUM_THREADS", "1000")
    assert resources.number_of_threads() == resources.MOST_THREADS


def test_pytorch_tells_its_threads() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert resources.torch_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_small_kernels_ask_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_NUM_THREADS", "2")
    monkeypatch.setattr(RUNTIME, "pool", lambda size: pytest.fail("a pool was asked for"))
    np.testing.assert_array_equal(launch(linked(chain, X, times(3)), X, times(3)), 8 * X)


def test_workers_work(shared: pytest.MonkeyPatch) -> None:
    """With a leader that is slow to take chunks, the worker takes some: both threads have run time of their own."""
    shared.setenv("NKI_NUM_THREADS", "2")
    executable = linked(chain, X, times(1))
    launch(executable, X, times(1))
    before, own = time.process_time(), time.thread_time()
    launch(executable, X, times(100_000))
    total, leader = time.process_time() - before, time.thread_time() - own
    assert leader < 0.95 * total


def _interrupted(executable: Executable) -> None:
    alarm(0.1)
    launch(executable, X, times(1 << 30))


def test_an_interrupt_ends_a_launch_and_frees_the_pool(shared: pytest.MonkeyPatch) -> None:
    shared.setenv("NKI_NUM_THREADS", "2")
    executable = linked(chain, X, times(1))
    launch(executable, X, times(0))
    for _ in range(3):
        with handled(), pytest.raises(Interrupt):
            _interrupted(executable)
        np.testing.assert_array_equal(launch(executable, X, times(2)), 4 * X)
    before = time.thread_time(), time.process_time()
    launch(executable, X, times(100_000))
    assert time.thread_time() - before[0] < 0.95 * (time.process_time() - before[1]), "the pool helps no more"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_wrong_index_is_the_same_error(threads: int, shared: pytest.MonkeyPatch) -> None:
    shared.setenv("NKI_NUM_THREADS", str(threads))
    executable = linked(rows_from, X, times(0))
    np.testing.assert_array_equal(launch(executable, X, times(64)), 2 * X[64:])
    for _ in range(20):
        with pytest.raises(OutOfBoundsError, match="65"):
            launch(executable, X, times(65))
    np.testing.assert_array_equal(launch(executable, X, times(3)), 2 * X[3:67])


def test_several_threads_launch_at_once(shared: pytest.MonkeyPatch) -> None:
    shared.setenv("NKI_NUM_THREADS", "3")
    executable = linked(chain, X, times(1))
    wrong: list[int] = []

    def work(number: int) -> None:
        mine = X + number
        wrong.extend(n for n in range(40) if (launch(executable, mine, times(n % 9)) != mine * 2 ** (n % 9)).any())

    at_once(work)
    assert not wrong


def test_idle_workers_cost_nothing(shared: pytest.MonkeyPatch) -> None:
    shared.setenv("NKI_NUM_THREADS", "3")
    launch(linked(chain, X, times(1)), X, times(10))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


SCRIPT = r"""
import os, sys, threading, warnings
warnings.simplefilter("ignore")
os.environ.update(OPEN_NKI_CACHE_DISABLE="1", NKI_NUM_THREADS="3")
import numpy as np
from nki.backend.cpu.runtime import launch as launching, regions
regions.WORTHWHILE = launching.WORTH_A_POOL = launching.WORTH_OPENMP = 0.0
from tests.backend.test_thread_pool import X, chain, launch, linked, times

executable = linked(chain, X, times(1))
assert (launch(executable, X, times(3)) == 8 * X).all()
if sys.argv[1] == "fork":
    stop = threading.Event()
    def work():
        while not stop.is_set():
            assert (launch(executable, X, times(50)) == launch(executable, X, times(50))).all()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads: t.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            for count in range(5):
                if not (launch(executable, X, times(count)) == X * 2**count).all():
                    os._exit(3)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for t in threads: t.join()
print("well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("what", ["fork", "end"])
def test_processes_that_fork_or_end(what: str, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    for _ in range(1 if what == "fork" else 3):
        command = [sys.executable, "-X", "faulthandler", str(file), what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert (done.returncode, done.stdout) == (0, "well\n"), done.stdout + done.stderr[-4000:]
