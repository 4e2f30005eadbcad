"""A signal handler, or another thread, that calls a kernel while the bridge of a framework is imported: it waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMES = max(1, int(os.environ.get("NKI_TEST_EXAMPLES", "50")) // 40)
SCRIPT = r"""
import faulthandler, random, signal, sys, threading, time
faulthandler.dump_traceback_later(280, exit=True)
import numpy as np, nki, nki.isa as nisa, nki.language as nl

framework, how, seed = sys.argv[1:]
if framework == "torch":
    import torch
    x = torch.ones(4, 4)
elif framework == "jax":
    import jax.numpy as jnp
    x = jnp.ones((4, 4))
else:
    x = np.ones((4, 4), np.float32)

@nki.jit
def twice(a):
    t = nl.load(a)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out

calls = []

def call(*_):
    calls.append(bool((np.asarray(twice(x)) == 2).all()))

delay = random.Random(seed).choice([0.002, 0.01, 0.05, 0.1, 0.2])
if how == "signal":
    signal.signal(signal.SIGALRM, call)
    signal.setitimer(signal.ITIMER_REAL, delay)
else:
    other = threading.Thread(target=lambda: (time.sleep(delay), call()))
    other.start()
call()
if how == "signal":
    while len(calls) < 2:
        time.sleep(0.01)
else:
    other.join()
assert calls == [True, True], calls
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no interval timers")
@pytest.mark.parametrize("how", ["signal", "thread"])
@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_calls_during_the_import_of_a_bridge(framework: str, how: str, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    for seed in range(TIMES):
        command = [sys.executable, str(file), framework, how, str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
