"""Ranks that run at the same time, a thread each: native code, and frameworks that call it from their own threads.

A rank that waits sleeps. A launch in which all ranks wait or have ended, and none of them can go on, is detected
instead of hanging.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from nki.base import threads
from nki.ir.instruction import Inst
from nki.rendezvous.protocol import Participant, Ready, Rendezvous, deadlock, lost_rank
from nki.rendezvous.round_robin import Abandoned

T = TypeVar("T")


class Threaded(Rendezvous, Generic[T]):
    """Runs one piece of work per rank, all at once; each gets its :class:`Participant`."""

    def __init__(self, count: int, word: str = "rank", patience: float | None = None) -> None:
        super().__init__(count, word)
        self._patience = patience
        """Seconds for which ranks wait for each other: None where all of them run."""
        self._changed = threading.Condition()
        self._waiting: dict[int, tuple[Inst, Ready]] = {}
        self._ended: set[int] = set()
        self._error: BaseException | None = None
        self._results: dict[int, T] = {}

    def run(self, work: Sequence[Callable[[Participant], T]]) -> list[T]:
        """The result of the work of each rank. Raises the first error of any of them, when no rank runs any more."""
        for rank, piece in enumerate(work[1:], 1):
            try:
                threads.start(contextvars.copy_context().run, self._run_rank, rank, piece)
            except BaseException as error:  # no thread, or a signal: the ranks that run shall end
                self._fail(error)
                self._ended.update(range(rank, self.count))
                break
        self._run_rank(0, work[0])
        with self._changed:
            while len(self._ended) < self.count:
                try:
                    self._changed.wait()
                except BaseException as error:  # a signal: the others see it where they meet
                    self._fail(error)
        if self._error is not None:
            raise self._error
        return [self._results[rank] for rank in range(self.count)]

    def join(self, rank: int, work: Callable[[Participant], T]) -> T:
        """The result of the work of one rank, in the thread that calls; the others join from theirs.

        Raises its error, or the one that came before on another rank.
        """
        self._run_rank(rank, work)
        if self._error is not None:
            raise self._error
        return self._results[rank]

    def _run_rank(self, rank: int, work: Callable[[Participant], T]) -> None:
        try:
            self._results[rank] = work(Participant(self, rank))
        except Abandoned:
            pass
        except BaseException as error:
            self._fail(error)
        with self._changed:
            self._ended.add(rank)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def check(self) -> None:
        if self._error is not None:
            raise Abandoned

    def wait(self, rank: int, inst: Inst, ready: Ready) -> None:
        """Sleep until ``ready``. Raises :class:`DeadlockError` when no other rank can make it so, and
        :class:`LostRankError` when the time is over.
        """
        deadline = None if self._patience is None else time.monotonic() + self._patience
        with self._changed:
            self._waiting[rank] = inst, ready
            self._changed.notify_all()  # what this rank brings may be what others wait for
            try:
                while not ready():
                    self.check()
                    others = [other for other in range(self.count) if other != rank]
                    if all(map(self._is_stuck, others)):
                        states = [
                            (other, self._waiting[other][0] if other in self._waiting else None) for other in others
                        ]
                        raise deadlock(rank, inst, states, self.word)
                    in_time = self._changed.wait(None if deadline is None else deadline - time.monotonic())
                    if not (in_time or ready()):
                        self.check()
                        missing = [other for other in others if other not in self._waiting and other not in self._ended]
                        named = " and ".join(f"{self.word} {other}" for other in missing)
                        late = f"{named} {'have' if missing[1:] else 'has'} not come within {self._patience:g} s"
                        self._error = lost_rank(inst, rank, late)  # now: the others look at it next
                        raise self._error
            finally:
                del self._waiting[rank]

    def _is_stuck(self, rank: int) -> bool:
        """True if ``rank`` has ended, or waits for what has not happened."""
        return rank in self._ended or (rank in self._waiting and not self._waiting[rank][1]())
