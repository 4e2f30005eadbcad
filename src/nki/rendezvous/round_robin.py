"""Cores that run the programs of one launch in turns.

Each core has a thread, and one thread runs at a time: a core runs until it waits for another one, and then that one
runs. So every run is the same, and a launch in which no core can run is detected instead of hanging.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nki.base import threads
from nki.base.tensor_text import running_as
from nki.ir.instruction import Inst
from nki.rendezvous.protocol import Participant, Ready, Rendezvous, deadlock

T = TypeVar("T")


class Abandoned(BaseException):
    """Ends the thread of a core when its launch has failed on another one."""


@dataclass(slots=True)
class _Core:
    """The thread of a core. ``blocked_at``: the instruction at which it waits, until ``ready``."""

    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    blocked_at: Inst | None = None
    ready: Ready | None = None
    ended: bool = False
    going: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    gone: bool = False
    """Its thread does nothing any more; ``going`` is released then."""

    def is_stuck(self) -> bool:
        """True if it has ended, or waits for what has not happened."""
        return self.ended or (self.ready is not None and not self.ready())


class RoundRobin(Rendezvous, Generic[T]):
    """Runs one piece of work per core; each gets its :class:`Participant`."""

    def __init__(self, count: int, word: str = "core") -> None:
        super().__init__(count, word)
        self._cores = [_Core() for _ in range(count)]
        self._error: BaseException | None = None
        self._results: dict[int, T] = {}

    def run(self, work: Sequence[Callable[[Participant], T]]) -> list[T]:
        """The result of the work of each core. Raises the first error of any of them, and then abandons the others."""
        try:
            self._run(work)
        except BaseException as error:  # a signal, outside of the work
            self._error = self._error or error
            for core in self._cores:
                core.turn.release()
        if self._error is not None:
            raise self._error
        return [self._results[rank] for rank in range(len(work))]

    def _run(self, work: Sequence[Callable[[Participant], T]]) -> None:
        for rank, piece in enumerate(work[1:], 1):
            threads.start(contextvars.copy_context().run, self._run_core, rank, piece)
        self._cores[0].turn.release()
        self._run_core(0, work[0])
        for core in self._cores[1:]:
            while not core.gone:
                try:
                    core.going.acquire()
                except BaseException as error:  # a signal: the other cores see it in their next round
                    self._error = self._error or error

    def check(self) -> None:
        if self._error is not None:
            raise Abandoned

    def _run_core(self, rank: int, work: Callable[[Participant], T]) -> None:
        core = self._cores[rank]
        core.turn.acquire()
        try:
            if self._error is None:
                with running_as(rank):
                    self._results[rank] = work(Participant(self, rank))
        except Abandoned:
            pass
        except BaseException as error:
            self._error = self._error or error
        core.ended, core.blocked_at, core.ready = True, None, None
        self._yield_turn(rank)
        core.gone = True
        core.going.release()

    def _yield_turn(self, rank: int) -> None:
        """Give the turn to the next core that has not ended."""
        for step in range(1, self.count):
            other = self._cores[(rank + step) % self.count]
            if not other.ended:
                other.turn.release()
                return

    def wait(self, rank: int, inst: Inst, ready: Ready) -> None:
        """Let other cores run until ``ready``. Raises :class:`DeadlockError` when none of them can make it so."""
        core = self._cores[rank]
        core.blocked_at, core.ready = inst, ready
        others = [(number, other) for number, other in enumerate(self._cores) if other is not core]
        others_had_turn = False
        try:
            while not ready():
                if all(other.ended for _, other in others):
                    raise deadlock(rank, inst, [(number, None) for number, _ in others], self.word)
                if others_had_turn and all(other.is_stuck() for _, other in others):
                    raise deadlock(rank, inst, [(number, other.blocked_at) for number, other in others], self.word)
                self._yield_turn(rank)
                core.turn.acquire()
                self.check()
                others_had_turn = True
        finally:
            core.blocked_at = core.ready = None
