"""A process with too few addresses for LLVM's library gets an error with a way out, in each executor."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np, nki, nki.isa as nisa, nki.language as nl

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out

taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
x = np.ones((4, 4), np.float32)
call = copied if sys.argv[1] == "native" else nki.simulate(copied)
for more in (80 << 20, 80 << 20, None):
    resource.setrlimit(resource.RLIMIT_AS, (most if more is None else taken + more, most))
    try:
        print((call(x) == x).all())
    except nki.NkiError as error:
        print(error.code, "ulimit -v" in error.fix)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit and the size of a process are those of Linux")
@pytest.mark.parametrize("executor", ["native", "simulator"])
def test_llvm_that_cannot_be_loaded(executor: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("script") / "script.py"
    file.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(file), executor], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == ["NKI-KN031 True"] * 2 + ["True", ""], done.stderr
