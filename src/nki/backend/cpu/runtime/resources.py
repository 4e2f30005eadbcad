"""Process-wide resources of native launches: large pages, thread pools, threads for the cores beside the first, and the
frames that are kept.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Any, Final

from nki.backend.cpu.native import library
from nki.backend.cpu.native.frame import FramePool
from nki.backend.cpu.native.thread_pool import ThreadPool, openmp_of_torch
from nki.base import knobs, threads
from nki.base.locks import Lock

MOST_THREADS: Final = 32
"""More threads than a region has chunks have nothing to do."""
LARGE: Final = 4 << 20
"""Bytes from which on an output asks for huge pages, as an array of NumPy does."""
_PAGE: Final = mmap.PAGESIZE


def welcome_huge_pages(address: int, nbytes: int) -> None:
    """Tell the operating system that huge pages are welcome from ``address`` on; nothing where it cannot be told.

    Fresh memory is handed over page by page. A fault for 4 KiB takes about a microsecond on a virtual machine, so 64
    MiB take as long as a softmax of them. Linux gives 2 MiB in one fault where it is told, as NumPy does for its
    arrays.
    """
    advise = _madvise()
    if advise is not None:
        start = -(-address // _PAGE) * _PAGE
        advise(start, (address + nbytes - start) // _PAGE * _PAGE, mmap.MADV_HUGEPAGE)


@cache
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise


def number_of_threads() -> int:
    """``NKI_NUM_THREADS``; else ``OMP_NUM_THREADS`` and the setting of PyTorch, whichever is less; else all cores.

    PyTorch counts if the process has imported it: a worker process of its ``DataLoader`` has one thread. A number that
    cannot be read counts as unset, and so does 0.
    """
    if not library.has_threads():
        return 1
    wanted = _number(knobs.threads())
    if not wanted:
        limits = [number for number in (_number(knobs.openmp_threads()), torch_threads()) if number]
        wanted = min(limits, default=0) or _cores()
    return min(wanted, MOST_THREADS)


def torch_threads() -> int:
    """The threads of an operation of PyTorch; 0 if it is not imported."""
    torch: Any = sys.modules.get("torch")
    count = getattr(torch, "get_num_threads", None)  # an import that is under way has not defined it
    return 0 if count is None else int(count())


def _cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _number(text: bytes) -> int:
    """The number at the beginning of a variable; 0 if there is none."""
    first = text.split(b",")[0].strip()
    return int(first) if first.isdigit() else 0


_Work = tuple["_CoreThread", Callable[..., object], tuple[Any, ...]]


class _CoreThread:
    """A thread that waits for work, and ends when there can be none.

    A signal may raise at any instruction of the thread that gives work, so nothing here is ever half done: each step is
    one call of C. Threads and pools of the standard library have locks that such an exception leaves locked.
    """

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: SimpleQueue[_Work | None] = SimpleQueue()

    def __del__(self) -> None:
        self.work.put(None)


def _run(queue: SimpleQueue[_Work | None], idle: deque[_CoreThread]) -> None:
    while (work := queue.get()) is not None:
        thread, call, arguments = work
        call(*arguments)
        idle.append(thread)
        del work, thread, call, arguments


class Runtime:
    """Owns the memory and the threads of launches; any number of threads may launch at once."""

    def __init__(self) -> None:
        self.frames = FramePool()
        self._idle: deque[_CoreThread] = deque()
        self._pool: ThreadPool | None = None
        self._openmp_pool: ThreadPool | None = None
        self._is_child = False
        self._changing_pool = Lock()
        atexit.register(self._end_pool)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)  # a child process does not inherit threads

    def start(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call ``call(*arguments)`` in a thread for a core beside the first; it must not raise.

        Raises :class:`ThreadStartError` if the system gives no thread.
        """
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _CoreThread()
            threads.start(_run, thread.work, self._idle)
        thread.work.put((thread, call, arguments))

    def openmp_pool(self) -> ThreadPool | None:
        """The pool of the threads with which PyTorch computes; None if there is none.

        There is none after a fork, either: the runtimes of GCC wait for ever in a child process.
        """
        if self._is_child or (found := openmp_of_torch()) is None:
            return None
        if self._openmp_pool is None:
            with self._changing_pool:
                self._openmp_pool = self._openmp_pool or ThreadPool(1, found)
        return self._openmp_pool

    def pool(self, size: int) -> ThreadPool:
        """The pool of ``size`` threads, the one that launches included; others of another size end."""
        pool = self._pool
        if pool is not None and pool.size == size:
            return pool
        with self._changing_pool:
            pool = self._pool
            if pool is None or pool.size != size:
                if pool is not None:
                    pool.stop()
                pool = self._pool = ThreadPool(size)
            return pool

    def _end_pool(self) -> None:
        """Let the workers end before the interpreter takes the memory that they might look at."""
        if self._pool is not None:
            self._pool.stop(wait=True)
            self._pool = None

    def _forget_threads(self) -> None:
        self._idle = deque()
        self._pool = None
        self._is_child = True


RUNTIME = Runtime()
"""The runtime of executables that are not given another one."""
