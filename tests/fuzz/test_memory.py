"""Eight threads that call kernels: no deadlock, and the process grows by less than 1 %.

Each thread makes 20 calls for each of NKI_TEST_EXAMPLES, 10,000 under ``make nightly``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = 20 * int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
SCRIPT = r"""
import faulthandler, sys, threading, warnings
warnings.simplefilter("ignore")
import numpy as np
from tests.frameworks.kernels import add, multiply, scale_in_place, sum_and_scaled

framework, calls = sys.argv[1], int(sys.argv[2])
if framework == "torch":
    import torch
    import nki.torch
    torch.set_num_threads(1)
    product = nki.torch.op(multiply, lambda a, b, dy: (multiply(dy, b), multiply(dy, a)))
    full = lambda value: torch.full((64, 96), float(value))
else:
    full = lambda value: np.full((64, 96), float(value), np.float32)

failed, start = [], threading.Barrier(9)


def check(number, i):
    value = (number + i) % 7 + 1
    a = full(value)
    case = i % 5
    if case == 0:
        result, expected = add(a, a), 2 * value
    elif case == 1:
        result, expected = add[2](a.T, a.T), 2 * value
    elif case == 2:
        result, expected = sum_and_scaled(a, a, scale=i / calls + 1.0)[0], 2 * value
    elif case == 3 or framework != "torch":
        result, expected = scale_in_place(a, scale=3.0), 3 * value
    else:
        a.requires_grad_()
        product(a, full(5)).sum().backward()
        result, expected = a.grad, 5
    if not (result == expected).all():
        raise AssertionError(f"call {i} of thread {number}: {result}, expected {expected}")


def work(number):
    for count in (calls // 5, calls - calls // 5):  # compiled, and every thread's memory taken, in the first part
        try:
            for i in range(count):
                check(number, i)
        except BaseException as error:
            failed.append(error)
        start.wait()
        start.wait()


def resident():
    # Private pages of this process: those of files come and go with the page cache.
    return sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Rss:"))


faulthandler.dump_traceback_later(1500, exit=True)
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
sizes = []
for _ in range(2):
    start.wait()
    sizes.append(resident())
    start.wait()
for t in threads: t.join()
if failed:
    raise failed[0]
print(8 * calls, "calls;", sizes[0], "kB then", sizes[1], "kB")
assert sizes[1] <= 1.01 * sizes[0], sizes
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_threads_keep_their_memory(framework: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, framework, str(CALLS)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=1600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
