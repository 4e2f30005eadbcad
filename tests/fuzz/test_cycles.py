"""Kernels in reference cycles, beside compilations, launches and collections: no crash, and no wrong result.

Cycles are made as programs make them: globals of a notebook's cell, closures, attributes, frames of exceptions, objects
with finalizers that call the kernel. Three threads make 2 kernels for each of NKI_TEST_EXAMPLES, 10,000 with 5000; a
fourth one collects a quarter of the time. `pytest -s` shows the count.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNELS = 2 * int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
LIMIT = 120 + KERNELS  # seconds: a kernel takes about 0.1 s on a Zen 5, so what takes ten times as long hangs
SCRIPT = r'''
import faulthandler, gc, random, sys, threading, time, warnings
from collections import deque
warnings.simplefilter("ignore")
import numpy as np
import nki, nki.isa as nisa, nki.language as nl
from nki.backend.cpu.runtime import routines
from nki.numerics import llvm_library

kernels, limit = int(sys.argv[1]), int(sys.argv[2])
faulthandler.dump_traceback_later(limit, exit=True)
gc.freeze()  # collections then take no time
gc.set_threshold(50, 2, 2)  # and come in the middle of everything
SOURCE = """
import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def kernel(x):
    out, t = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
    nisa.tensor_scalar(t, t, nl.{first}, {one}, op1=nl.{second}, operand1={two})
    nl.store(out, t)
    return out
"""
OPERATORS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}
failed, done, finalized = [], [0], [0]
began = time.monotonic()


class Program:
    """A kernel, an argument and the result."""

    def __init__(self, draw):
        first, second = draw.choices(list(OPERATORS), k=2)
        one, two = draw.randrange(1, 9), draw.randrange(1, 9)
        self.source = SOURCE.format(first=first, second=second, one=float(one), two=float(two))
        rows, width = draw.randrange(1, 5), draw.randrange(1, 600)
        self.x = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
        self.result = OPERATORS[second](OPERATORS[first](self.x, np.float32(one)), np.float32(two))

    def check(self, kernel, executor=None):
        result = (executor or kernel)(self.x)
        if result.tobytes() != self.result.tobytes():
            raise AssertionError(f"{self.source}: {result}, not {self.result}")


class Caller:
    """An object whose finalizer calls its kernel, also for a shape that is compiled then."""

    def __init__(self, program, kernel):
        self.program, self.kernel, self.me = program, kernel, self

    def __del__(self):
        try:
            self.kernel(np.zeros((3, self.program.x.shape[1] + 600), np.float32))
            self.program.check(self.kernel)
            finalized[0] += 1
        except BaseException as error:
            failed.append(error)


def in_globals(program):
    space = {}
    exec(program.source, space)
    return space["kernel"]


def in_closure(program):
    kernel = in_globals(program)

    def hold():
        return kernel, hold

    kernel.hold = hold
    return kernel


def in_attribute(program):
    kernel = in_globals(program)
    kernel.me = [kernel, {"kernel": kernel}]
    return kernel


def in_frame(program):
    kernel = in_globals(program)
    try:
        kernel(program.x, program.x)
    except nki.NkiError as caught:
        error = caught
    kernel.error = error
    return kernel


def in_finalizer(program):
    kernel = in_globals(program)
    kernel.caller = Caller(program, kernel)
    return kernel


MAKERS = [in_globals, in_closure, in_attribute, in_frame, in_finalizer]


def work(seed):
    draw = random.Random(seed)
    kept = deque(maxlen=5)  # earlier kernels, which are called until they go
    try:
        while done[0] < kernels and not failed:
            done[0] += 1
            if done[0] % 500 == 0:
                print(f"{done[0]} of {kernels} kernels after {time.monotonic() - began:.0f} s", flush=True)
            program = Program(draw)
            kernel = draw.choice(MAKERS)(program)
            program.check(kernel)
            if draw.random() < 0.2:
                program.check(kernel, nki.simulate(kernel))
            kept.append((program, kernel))
            for each in kept:
                each[0].check(each[1])
            if draw.random() < 0.1:
                gc.collect()
    except BaseException as error:
        failed.append(error)


def collect():
    while any(t.is_alive() for t in threads):
        started = time.monotonic()
        gc.collect()
        time.sleep(max(0.002, 3 * (time.monotonic() - started)))  # else it gets all of the interpreter's time


routines._recent = deque(maxlen=2)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
collector = threading.Thread(target=collect)
for t in (*threads, collector): t.start()
for t in (*threads, collector): t.join()
if failed:
    raise failed[0]
gc.collect()
with llvm_library.lock:
    llvm_library.dispose()
print(done[0], "kernels;", finalized[0], "called by finalizers;", len(llvm_library._loaded), "modules left")
assert len(llvm_library._loaded) < 40
'''


def test_kernels_in_cycles(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    command = [sys.executable, "-X", "faulthandler", str(file), str(KERNELS), str(LIMIT)]
    assert subprocess.run(command, timeout=LIMIT + 60, check=False).returncode == 0
