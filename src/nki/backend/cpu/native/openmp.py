"""Launches on the OpenMP threads of PyTorch.

PyTorch's threads wait actively: after each of its operators they keep their cores busy for some milliseconds, and
another team that wakes then gets no core. So a launch that PyTorch asks for runs in a parallel region of the very
runtime that PyTorch computes with: the threads that wait are the ones that work.

A launch is one parallel region. Its first thread, the one that launches, leads; the others help through a team's block
of memory as helpers do (:mod:`nki.backend.cpu.native.team`), and return to the runtime when the leader ends. The
runtime may give fewer threads than were asked for, or only the first, as it does inside another parallel region:
nothing waits for a thread that never comes.

The runtime's functions are those of the libraries that the process has loaded already, for a second runtime would bring
threads of its own. They come in as arguments, since they lie elsewhere in each process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from nki.backend.cpu.native import library

_LAUNCH: Final = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class OpenMP:
    """The addresses of two functions of a runtime: ``GOMP_parallel``, which the OpenMP runtimes of GCC, LLVM and Intel
    have, and ``omp_get_thread_num``.
    """

    parallel: int
    thread_number: int

    def run(self, table: int, rows: int, args: int, frame: int) -> None:
        """Like :func:`~nki.backend.cpu.native.library.run_with_team`, for a frame with a team without threads."""
        _run()(table, rows, args, frame, self.parallel, self.thread_number)


@cache
def of_torch() -> OpenMP | None:
    """The runtime that PyTorch computes with; None if this build of it has another one or none."""
    torch: Any = sys.modules.get("torch")
    path = getattr(getattr(torch, "_C", None), "__file__", None)
    if path is None or not hasattr(os, "RTLD_NOLOAD"):
        return None
    # As the dynamic linker does for PyTorch: a runtime that all libraries see comes before those that PyTorch names.
    for name in (None, path):
        try:
            loaded = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            found = [getattr(loaded, function) for function in ("GOMP_parallel", "omp_get_thread_num")]
        except (OSError, AttributeError):
            continue
        return OpenMP(*(int(ctypes.cast(function, ctypes.c_void_p).value or 0) for function in found))
    return None


@cache
def _run() -> Callable[[int, int, int, int, int, int], None]:
    return ctypes.PYFUNCTYPE(None, *_LAUNCH)(library.address("run_on_openmp"))
