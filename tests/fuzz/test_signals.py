"""Signals at random instants of calls with arrays of NumPy, PyTorch and JAX: no crash, no hang, no wrong result.

Each framework gets 4 signals for each of NKI_TEST_EXAMPLES, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SIGNALS = 4 * int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
SCRIPT = r"""
import os, random, signal, sys, time, warnings
warnings.simplefilter("ignore")
os.environ["OPEN_NKI_CACHE_DISABLE"] = "1"
import numpy as np, nki, nki.isa as nisa, nki.language as nl

framework, signals, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

@nki.jit
def twice(a, n):
    t = nl.load(a)
    count = nisa.register_alloc(nl.load(n))
    def body(i):
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    nl.fori_loop(0, count, body)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    half = a.shape[0] // nl.num_programs()
    first = nl.program_id(0) * half
    nl.store(out[first : first + half], t[first : first + half])
    return out

x, n = np.ones((4, 4), np.float32), np.array([[1]], np.int32)
if framework == "numpy":
    call = lambda: twice(x, n)
elif framework == "cores":
    call = lambda: twice[2](x, n)
elif framework == "simulate":
    call = lambda: nki.simulate(twice[2])(x, n)
elif framework == "torch":
    import torch
    a, b = torch.tensor(x), torch.tensor(n)
    call = lambda: twice(a, b).numpy()
else:
    import jax, jax.numpy as jnp
    a, b = jnp.array(x), jnp.array(n)
    f = jax.jit(twice)
    call = lambda: np.asarray(f(a, b))
assert (call() == 2).all()

class Interrupt(KeyboardInterrupt):
    pass

def handler(*_):
    global sent
    sent += 1
    raise Interrupt

sent = calls = 0
signal.signal(signal.SIGALRM, handler)
signal.signal(signal.SIGINT, handler)
draw = random.Random(seed)
start = time.perf_counter()
signal.setitimer(signal.ITIMER_REAL, 0)
call()
span = max(10 * (time.perf_counter() - start), 2e-4)

def loop():
    global calls
    while True:
        result = call()
        calls += 1
        if not (result == 2).all():
            os.write(1, b"WRONG\n")
            os._exit(2)

def one():
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.random() * span + 1e-5)
        loop()
    except Interrupt:
        pass
    except Exception as error:
        if "Interrupt" not in str(error):
            raise

while sent < signals:
    try:
        one()
        for _ in range(100): pass  # a second exception of the same signal comes up here
    except Interrupt:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
assert (call() == 2).all()
print(framework, "signals", sent, "calls", calls)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no interval timers")
@pytest.mark.parametrize("framework", ["numpy", "cores", "torch", "jax"])
def test_signals_at_random_instants(framework: str, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    command = [sys.executable, "-X", "faulthandler", str(file), framework, str(SIGNALS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300 + SIGNALS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    print(done.stdout)
