"""Thread pools: threads that help a launch through its parallel regions; ``thread_pool.h`` tells how.

A pool helps one launch at a time. A launch that finds it busy runs alone.
"""

from __future__ import annotations

import ctypes
import signal
from typing import Final

from nki.backend.cpu.native import library
from nki.backend.cpu.native.openmp import OpenMP
from nki.numerics.floating_point import default_environment

_NEW: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_START: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_STOP: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


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
