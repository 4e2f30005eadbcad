"""Process-wide resources of native launches: a frame for each worker, and threads for the cores beside the first."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from nki.backend.cpu.native import openmp
from nki.backend.cpu.native.frame import Frame, FrameLayout
from nki.backend.cpu.native.openmp import OpenMP
from nki.backend.cpu.native.team import Team
from nki.base import threads
from nki.base.locks import Lock

_POOL_FRAMES = 4


_Work = tuple["_Worker", Callable[..., object], tuple[Any, ...]]


class _Worker:
    """A thread that waits for work, and ends when nobody can give it any.

    A signal may raise at any instruction of the thread that gives work, so nothing here is ever half done: each step is
    one call of C. Threads and pools of the standard library have locks that such an exception leaves locked.
    """

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: SimpleQueue[_Work | None] = SimpleQueue()

    def __del__(self) -> None:
        self.work.put(None)


def _run(queue: SimpleQueue[_Work | None], idle: deque[_Worker]) -> None:
    while (work := queue.get()) is not None:
        worker, call, arguments = work
        call(*arguments)
        idle.append(worker)
        del work, worker, call, arguments


class Runtime:
    """Owns the memory and the threads of launches; any number of threads may launch at once.

    A launch acquires a frame for each of its workers, and releases the frames if it succeeds. The pool keeps frames for
    the next launches, because fresh pages are slow to touch and used ones are in the cache.
    """

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._idle: deque[_Worker] = deque()
        self._team: Team | None = None
        self._lent: Team | None = None
        self._is_child = False
        self._changing_team = Lock()
        atexit.register(self._end_team)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)  # a child process does not inherit threads

    def acquire(self, nbytes: int) -> Frame:
        """A frame with at least ``nbytes``; its contents are undefined."""
        try:
            frame = self._frames.pop()
        except IndexError:
            return Frame(nbytes)
        return frame if frame.nbytes >= nbytes else Frame(nbytes)

    def frame(self, layout: FrameLayout, pointers: Sequence[float], worker: int = 0, control: int = 0) -> Frame:
        """The frame of one worker for one launch, written; see :meth:`FrameLayout.write`."""
        frame = self.acquire(layout.nbytes)
        layout.write(frame, worker, pointers, control)
        return frame

    def frame_alone(self, layout: FrameLayout, pointers: Sequence[float]) -> Frame:
        """The frame of a launch on one worker without a team."""
        try:  # acquire, without the call
            frame = self._frames.pop()
            if frame.nbytes < layout.nbytes:
                frame = Frame(layout.nbytes)
        except IndexError:
            frame = Frame(layout.nbytes)
        layout.write_alone(frame, pointers)
        return frame

    def frame_with_team(self, layout: FrameLayout, pointers: Sequence[float], threads: int, team: int) -> Frame:
        """The frame of a launch on one core, which the team at ``team`` may help."""
        frame = self.acquire(layout.nbytes + (threads - 1) * layout.helper)
        layout.write(frame, 0, pointers, 0, team, threads)
        return frame

    def release(self, *frames: Frame) -> None:
        """Keep ``frames`` for later launches."""
        if len(self._frames) < _POOL_FRAMES:
            self._frames += frames

    def start(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call ``call(*arguments)`` in a thread for a core beside the first; it must not raise.

        Raises :class:`ThreadStartError` if the system gives no thread.
        """
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker()
            threads.start(_run, worker.work, self._idle)
        worker.work.put((worker, call, arguments))

    def openmp(self) -> tuple[int, OpenMP] | None:
        """The address of a team without threads, and the runtime whose threads help it; None if there is none.

        There is none after a fork, either: the runtimes of GCC wait for ever in a child process.
        """
        if self._is_child or (found := openmp.of_torch()) is None:
            return None
        lent = self._lent
        if lent is None:
            with self._changing_team:
                lent = self._lent = self._lent or Team(1)
        return lent.address, found

    def team(self, size: int) -> int:
        """The address of the team of ``size`` threads, the one that launches included; others of another size end."""
        team = self._team
        if team is not None and team.size == size:
            return team.address
        with self._changing_team:
            team = self._team
            if team is None or team.size != size:
                if team is not None:
                    team.stop()
                team = self._team = Team(size)
            return team.address

    def _end_team(self) -> None:
        """Let the helpers end before the interpreter takes the memory that they might look at."""
        if self._team is not None:
            self._team.stop(wait=True)
            self._team = None

    def _forget_threads(self) -> None:
        self._idle = deque()
        self._team = None
        self._is_child = True


RUNTIME = Runtime()
"""The runtime of executables that are not given another one."""
