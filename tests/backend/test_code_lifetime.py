"""Native code: compiled once for all threads, freed with the last kernel that calls it, safe across forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections import deque
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime import routines
from nki.base import gc_pause
from nki.base.locks import Lock, held_at_fork
from tests.support.kernel_parts import returned
from tests.support.shared_launches import outputs_of


def scaled(shape: tuple[int, int]):
    @nki.jit
    def kernel(a):
        t = nl.load(a)
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
        return returned(t)

    return kernel.compile(np.ones(shape, np.float32))


def run(executable, shape: tuple[int, int]) -> None:
    assert (outputs_of(executable, np.ones(shape, np.float32))[0] == 2).all()


def test_code_is_freed_with_the_last_kernel_that_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routines, "_recent", deque(maxlen=0))
    shape = (3, 1009)  # no other test has compiled for it
    first, second = scaled(shape), scaled(shape)
    shared = {r.address for r in first.linked.code} & {r.address for r in second.linked.code}
    assert shared
    code = ref(first.linked.code[0])
    del first
    gc.collect()
    assert code() is not None
    run(second, shape)
    del second
    gc.collect()
    assert code() is None
    run(scaled(shape), shape)


SCRIPT = """
import os, sys, threading
import numpy as np, nki, nki.isa as nisa, nki.language as nl

def make(n):
    @nki.jit
    def k(a):
        t = nl.load(a)
        for i in range(n):
            nisa.tensor_scalar(t, t, nl.add, 1.0)
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out
    return k

def call(n, width):
    assert (make(n)(np.zeros((2, width), np.float32)) == n).all()
"""


def script(tmp_path: Path, text: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_first_calls_of_several_threads_at_once(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        gate = threading.Barrier(4)
        failed = []
        def work(i):
            gate.wait()
            try:
                for _ in range(5):
                    call(i + 1, 3 + i)
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        sys.exit(bool(failed))
        """,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_compiles_although_its_parent_was_compiling(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import faulthandler, warnings
        warnings.simplefilter("ignore")
        stop = threading.Event()
        shared = make(3)
        def compiler():
            width = 10
            while not stop.is_set():
                shared(np.zeros((2, width), np.float32))
                width += 1
        threads = [threading.Thread(target=compiler) for _ in range(2)]
        for t in threads: t.start()
        for number in range(4):
            child = os.fork()
            if child == 0:
                faulthandler.dump_traceback_later(60, exit=True)
                shared(np.zeros((2, 2000 + number), np.float32))
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                stop.set()
                sys.exit("the child hangs")
        stop.set()
        """,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:os.fork:RuntimeWarning")
def test_a_child_finds_locks_free_and_the_collector_on() -> None:
    lock, library = Lock(), held_at_fork()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock, gc_pause.paused():
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        with lock, library:
            os._exit(0 if gc.isenabled() else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    with lock, library:
        pass
