"""Kernels of the corpus between forbidden pages: in front of, and behind, each operand and each frame.

An access outside of its memory ends the process, so the kernels run in one of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = r"""
import ctypes, mmap, os, sys, warnings
warnings.simplefilter("ignore")
os.environ["OPEN_NKI_CACHE_DISABLE"] = "1"
import numpy as np
from nki.backend.cpu.native.frame import ALIGN, FramePool
from nki.backend.cpu.runtime.resources import Runtime
from nki.backend.cpu.runtime.launch import Executable
from nki.compilation.executable import lower
from nki.target import ENVIRONMENT
from tests.kernels import test_corpus
from tests.kernels.case import CASES

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
at_end = sys.argv[1] == "end"


class Guarded:
    # A block between two guard pages: at its end to the byte (frames: to the cache line), or at its start.
    def __init__(self, nbytes, align=1):
        pages = -(-nbytes // PAGE)
        self.map = mmap.mmap(-1, (pages + 2) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for guard in (base, base + (pages + 1) * PAGE):
            assert libc.mprotect(guard, PAGE, 0) == 0  # PROT_NONE
        start = PAGE + ((pages * PAGE - nbytes) // align * align if at_end else 0)
        self.address, self.nbytes, self.layout = base + start, nbytes, None
        self.memory = memoryview(self.map)[start : start + nbytes]


class GuardedPool(FramePool):
    def acquire(self, nbytes):
        return Guarded(nbytes, ALIGN)

    def release(self, *frames):
        pass


runtime = Runtime()
runtime.frames = GuardedPool()
kernels = 0
for name, case in CASES.items():
    os.environ[ENVIRONMENT] = case.targets[-1]
    arguments = case.arguments()
    arrays = [np.ascontiguousarray(a) for a in arguments if isinstance(a, np.ndarray)]
    program = case.kernel.compile(*arguments).kernel
    lowered = lower(program)
    plain, guarded = Executable(lowered), Executable(lowered, runtime=runtime)
    outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in plain.outputs]
    plain.launch([a.ctypes.data for a in (*arrays, *outputs)])
    blocks = [Guarded(a.nbytes, a.itemsize) for a in (*arrays, *outputs)]
    for block, array in zip(blocks, arrays):
        block.memory[:] = array.tobytes()
    print(name, flush=True)
    guarded.launch([block.address for block in blocks])
    for block, output in zip(blocks[len(arrays) :], outputs):
        assert bytes(block.memory) == output.tobytes(), name
    kernels += 1
print("kernels", kernels)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no mprotect")
@pytest.mark.parametrize("place", ["start", "end"])
def test_nothing_outside_of_operands_and_frames_is_touched(place: str, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    command = [sys.executable, "-X", "faulthandler", str(file), place]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-4000:]
