"""Process-wide resources of native launches: a frame for each worker, and threads for the cores beside the first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nki.backend.cpu.runtime.frame import Frame, FrameLayout

_POOL_FRAMES = 4
_POOL_THREADS = 64


class Runtime:
    """Owns the memory and the threads of launches; any number of threads may launch at once.

    A launch acquires a frame for each of its workers, and releases the frames if it succeeds. The pool keeps frames for
    the next launches, because fresh pages are slow to touch and used ones are in the cache.
    """

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._threads: ThreadPoolExecutor | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)  # a child process does not inherit threads

    def acquire(self, nbytes: int) -> Frame:
        """A frame with at least ``nbytes``; its contents are undefined."""
        try:
            frame = self._frames.pop()
        except IndexError:
            return Frame(nbytes)
        return frame if frame.nbytes >= nbytes else Frame(nbytes)

    def frame(self, layout: FrameLayout, pointers: Sequence[int], worker: int = 0) -> Frame:
        """The frame of one worker for one launch, written."""
        frame = self.acquire(layout.nbytes)
        layout.write(frame, worker, pointers)
        return frame

    def release(self, *frames: Frame) -> None:
        """Keep ``frames`` for later launches."""
        if len(self._frames) < _POOL_FRAMES:
            self._frames.extend(frames)

    def threads(self) -> ThreadPoolExecutor:
        """Threads for cores beside the first, created at the first need."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_POOL_THREADS, "nki core")
        return self._threads

    def _forget_threads(self) -> None:
        self._threads = None


RUNTIME = Runtime()
"""The runtime of executables that are not given another one."""
