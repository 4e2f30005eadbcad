"""Teams: threads that help a launch through its parallel regions; ``threads.h`` tells how.

A team helps one launch at a time. A launch that finds it busy runs alone.
"""

from __future__ import annotations

import ctypes
import signal
from functools import cache
from typing import Final

from nki.backend.cpu.native import library
from nki.numerics.floating_point import default_environment

_NEW: Final = ctypes.CFUNCTYPE(ctypes.c_void_p)
_START: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_STOP: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Team:
    """``size - 1`` threads that wait for launches, which share its block of memory, at ``address``.

    The block and the threads' code stay for ever, as a thread may look at them after the team is gone. If the operating
    system refuses a thread, the work is done without it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.address: int = _NEW(library.address("new_team"))() or 0
        if not self.address:
            raise MemoryError
        start = _START(library.address("start_helper"))
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with default_environment():
                threads = [start(self.address, index) for index in range(1, size)]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._threads = [thread for thread in threads if thread]

    def stop(self, wait: bool = False) -> None:
        """Let the helpers end; a launch that they help goes on without them. ``wait``: until they have ended."""
        _STOP(library.address("stop_team"))(self.address)
        if wait:
            for thread in self._threads:
                ctypes.CDLL(None).pthread_join(ctypes.c_void_p(thread), None)


@cache
def is_supported() -> bool:
    """True if the platform has the threads that teams consist of."""
    return hasattr(signal, "pthread_sigmask") and library.has_threads()
