"""Work that nothing waits for, such as the compilation of a kernel that was just interpreted: one thread does it.

A child process has no such thread, and what it had begun is not done there: who needs the work does it.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from nki.backend.cpu.runtime.routines import Turns
from nki.base.locks import Lock


class Job:
    """``work``, to be done once: by the thread of :func:`begin`, or by the first that asks for it with :meth:`finish`.

    ``work`` gets turns, which raise if the process ends; None: something waits for the work.
    """

    __slots__ = ("_lock", "_work", "has_failed", "is_done", "owner")

    def __init__(self, work: Callable[[Turns | None], None]) -> None:
        self._work = work
        self._lock = Lock()
        self.is_done = False
        self.has_failed = False
        """The thread has met an error, which :meth:`finish` meets again."""
        self.owner = 0
        """The process that has a thread for it; 0: none has yet."""

    @property
    def is_left(self) -> bool:
        """True if no thread will do it any more."""
        return self.has_failed or (self.owner != 0 and self.owner != os.getpid())

    def finish(self) -> None:
        """Return when the work is done. Raises what it raises."""
        self._do(None)

    def _do(self, turns: Turns | None) -> None:
        with self._lock:
            if not self.is_done:
                self._work(turns)
                self.is_done = True
                self._work = _nothing  # it holds what holds this job

    def attempt(self, turns: Turns) -> None:
        """Do the work, in the thread of :func:`begin`."""
        try:
            self._do(turns)
        except BaseException:
            self.has_failed = True  # raised where it is needed


def _nothing(_: Turns | None) -> None:
    """The work of a job that is done."""


class _Stopped(Exception):
    """The process ends."""


class _Worker:
    """A thread that lives as long as there are jobs."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.jobs: deque[Job] = deque()
        self.ended: threading.Event | None = None
        """Of the thread that there is."""
        self.is_stopping = False

    def begin(self, job: Job) -> None:
        """Let the thread do ``job`` after those that it has."""
        with self.lock:
            if job.owner or self.is_stopping:
                return
            job.owner = os.getpid()
            self.jobs.append(job)
            if self.ended is not None:
                return
            self.ended = threading.Event()
            try:
                _thread.start_new_thread(self._run, (self.ended,))
            except (RuntimeError, MemoryError):  # no thread is to be had
                self.ended = None
                self.jobs.clear()
                job.has_failed = True

    def _run(self, ended: threading.Event) -> None:
        try:
            while (job := self._next(ended)) is not None:
                job.attempt(self._turns)
        finally:
            ended.set()

    def _next(self, ended: threading.Event) -> Job | None:
        with self.lock:
            if self.jobs and not self.is_stopping:
                return self.jobs.popleft()
            if self.ended is ended:
                self.ended = None
            return None

    def _turns(self) -> None:
        if self.is_stopping:
            raise _Stopped

    def stop(self) -> None:
        """End soon, and return when that is so: Python and LLVM must not be taken down below a thread."""
        self.is_stopping = True
        ended = self.ended
        if ended is not None:
            ended.wait()

    def forget(self) -> None:
        """Begin anew in a child process, which has no thread."""
        self.jobs.clear()
        self.ended = None


_worker: Final = _Worker()


def begin(job: Job) -> None:
    """Let a thread of this process do ``job``, once, after the jobs that it has."""
    _worker.begin(job)


atexit.register(_worker.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.forget)

__all__ = ["Job", "begin"]
