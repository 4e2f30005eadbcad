"""Eight threads that call kernels while the process forks: every call and every child ends with the right result.

Each thread makes 4 calls for each of NKI_TEST_EXAMPLES; there is a fork for each 5 of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
SCRIPT = r"""
import faulthandler, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
os.environ["OPEN_NKI_CACHE_DISABLE"] = "1"
import numpy as np, nki, nki.isa as nisa, nki.language as nl

calls, forks = int(sys.argv[1]), int(sys.argv[2])

def make(n):
    @nki.jit
    def k(a):
        t = nl.load(a)
        for i in range(n):
            nisa.tensor_scalar(t, t, nl.add, 1.0)
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        half = a.shape[0] // nl.num_programs()
        first = nl.program_id(0) * half
        nl.store(out[first : first + half], t[first : first + half])
        return out
    return k

kernels = [make(n) for n in range(1, 5)]
failed = []

def check(number, i):
    n = i % len(kernels)
    width = 3 + (i // 50 * 8 + number) % 400  # a new shape now and then, which compiles
    kernel = kernels[n][2] if i % 7 == 3 else kernels[n]
    if not (kernel(np.zeros((4, width), np.float32)) == n + 1).all():
        raise AssertionError("wrong result")

def work(number):
    try:
        for i in range(calls):
            check(number, i)
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
done = 0
while done < forks or any(t.is_alive() for t in threads):
    if done == forks:
        time.sleep(0.05)
        continue
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            for i in (done, done + 3, 50 * done):
                check(1000 + done, i)
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        print("child", done, "ended with", status, flush=True)
        os._exit(4)
    done += 1
for t in threads: t.join()
if failed:
    raise failed[0]
print("calls", 8 * calls, "forks", done)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_threads_and_forks(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    calls, forks = 40 * EXAMPLES // 10, max(EXAMPLES // 5, 2)
    command = [sys.executable, "-X", "faulthandler", str(file), str(calls), str(forks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300 + EXAMPLES, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    print(done.stdout)
