"""Thread pools: threads that help a launch through its parallel regions; ``thread_pool.h`` tells how.

A pool helps one launch at a time. A launch that finds it busy runs alone.

PyTorch's threads wait actively: after each of its operators they keep their cores busy for some milliseconds, and
another pool that wakes then gets no core. So a launch that PyTorch asks for runs in a parallel region of the very
runtime that PyTorch computes with: the threads that wait are the ones that work (``runtime.c``). The functions of that
runtime are those of the libraries that the process has loaded already, for a second runtime would bring threads of its
own. They come in as arguments, since they lie elsewhere in each process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache
from typing import Any, Final, NamedTuple

from nki.backend.cpu.native import library
from nki.numerics.floating_point import default_environment

_NEW: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_START: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_STOP: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class OpenMP(NamedTuple):
    """The addresses of two functions of a runtime: ``GOMP_parallel``, which the OpenMP runtimes of GCC, LLVM and Intel
    have, and ``omp_get_thread_num``.
    """

    parallel: int
    thread_number: int


@cache
def openmp_of_torch() -> OpenMP | None:
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


class ThreadPool:
    """``size - 1`` threads that wait for launches, which share its block of memory, at ``address``.

    With ``openmp``, its workers are threads of that runtime, and it has none of its own. The block and the threads'
    code stay for ever, as a thread may look at them after the pool is gone. If the operating system refuses a thread,
    the work is done without it.
    """

    def __init__(self, size: int, openmp: OpenMP | None = None) -> None:
        self.size = size
        self.openmp = openmp
        self.address: int = _NEW(library.address("new_pool"))(*(openmp or (0, 0))) or 0
        if not self.address:
            raise MemoryError
        self._threads: list[int] = []
        if openmp is not None:
            return
        start = _START(library.address("start_worker"))
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with default_environment():
                self._threads = [thread for index in range(1, size) if (thread := start(self.address, index))]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def stop(self, wait: bool = False) -> None:
        """Let the workers end; a launch that they help goes on without them. ``wait``: until they have ended."""
        _STOP(library.address("stop_pool"))(self.address)
        if wait:
            for thread in self._threads:
                ctypes.CDLL(None).pthread_join(ctypes.c_void_p(thread), None)
