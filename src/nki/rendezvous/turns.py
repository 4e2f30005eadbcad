"""Cores that run the programs of one launch in turns, and where they meet.

Each core has a thread, of which one runs at a time: a core goes on until it waits for another one, and then that one
goes on. So a run is the same every time, and a launch in which no core can go on is noticed, not hung.
"""

from __future__ import annotations

import contextvars
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from nki.base.device_print import running_as
from nki.base.errors import DeadlockError, NkiError
from nki.ir.instruction import Inst

T = TypeVar("T")


class _Abandoned(BaseException):
    """Ends the thread of a core whose launch has failed on another one."""


@dataclass(slots=True)
class _Core:
    """``wanted``: the instruction at which it waits. ``ended``: it has nothing left to do."""

    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    wanted: Inst | None = None
    ended: bool = False


class Cores(Generic[T]):
    """``run`` carries out one piece of work per core; in it, each core meets the others through its :class:`Link`."""

    def __init__(self, count: int) -> None:
        self._cores = [_Core() for _ in range(count)]
        self._sent: defaultdict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self._arrived: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._failed: BaseException | None = None
        self._results: dict[int, T] = {}

    def run(self, work: Sequence[Callable[[Link], T]]) -> list[T]:
        """What each core's work gives. Raises the first error of any of them, and then abandons the others."""
        threads: list[threading.Thread] = []
        for number, piece in enumerate(work[1:], 1):
            inside = contextvars.copy_context()
            thread = threading.Thread(target=inside.run, args=(self._carry_out, number, piece), name=f"core {number}")
            threads.append(thread)
            thread.start()
        self._cores[0].turn.release()
        self._carry_out(0, work[0])
        for thread in threads:
            thread.join()
        if self._failed is not None:
            raise self._failed
        return [self._results[number] for number in range(len(work))]

    def _carry_out(self, number: int, work: Callable[[Link], T]) -> None:
        core = self._cores[number]
        core.turn.acquire()
        try:
            if self._failed is None:
                with running_as(number):
                    self._results[number] = work(Link(self, number))
        except _Abandoned:
            pass
        except BaseException as error:
            self._failed = self._failed or error
        core.ended, core.wanted = True, None
        self._next(number)

    def _next(self, number: int) -> None:
        """Give the turn to the next core that has not ended."""
        count = len(self._cores)
        for step in range(1, count):
            other = self._cores[(number + step) % count]
            if not other.ended:
                other.turn.release()
                return

    def wait(self, number: int, inst: Inst, ready: Callable[[], bool]) -> None:
        """Let others run until ``ready``. Raises :class:`DeadlockError` when nobody can make it so."""
        core = self._cores[number]
        core.wanted = inst
        others = [other for other in self._cores if other is not core]
        idle = False
        while not ready():
            if all(other.ended or other.wanted is not None for other in others) and idle:
                raise deadlock(number, inst, [(i, c.wanted) for i, c in enumerate(self._cores) if c is not core])
            if all(other.ended for other in others):
                raise deadlock(number, inst, [(i, None) for i, c in enumerate(self._cores) if c is not core])
            self._next(number)
            core.turn.acquire()
            if self._failed is not None:
                raise _Abandoned
            idle = True
        core.wanted = None

    def send(self, key: tuple[int, int, int], value: Any) -> None:
        self._sent[key].append(value)

    def waiting(self, key: tuple[int, int, int]) -> deque[Any]:
        """What was sent from one core to another through one pipe, and not received yet."""
        return self._sent[key]

    def arrive(self, number: int, about: str) -> int:
        self._arrived[number, about] += 1
        return self._arrived[number, about]

    def arrived(self, number: int, about: str) -> int:
        """How often core ``number`` has come to a meeting about that tensor."""
        return self._arrived[number, about]


class Meeting(Protocol):
    """How one core meets the others, whoever runs them."""

    @property
    def number(self) -> int:
        """The core's own number."""
        ...

    def exchange(self, inst: Inst, value: T, to: int, source: int, pipe: int) -> T:
        """Send ``value`` to core ``to``; what core ``source`` sends through ``pipe``."""
        ...

    def meet(self, inst: Inst, cores: tuple[int, ...], about: str) -> None:
        """Wait until all ``cores`` have come to this meeting about the tensor of that name."""
        ...


@dataclass(frozen=True, slots=True)
class Link:
    """How a core that runs in turns meets the others."""

    cores: Cores[Any]
    number: int

    def exchange(self, inst: Inst, value: T, to: int, source: int, pipe: int) -> T:
        """Send ``value`` to core ``to``; what core ``source`` sends through ``pipe``."""
        self.cores.send((self.number, to, pipe), value)
        box = self.cores.waiting((source, self.number, pipe))
        self.cores.wait(self.number, inst, lambda: bool(box))
        return box.popleft()

    def meet(self, inst: Inst, cores: tuple[int, ...], about: str) -> None:
        """Wait until all ``cores`` have come to this meeting about the tensor of that name."""
        count = self.cores.arrive(self.number, about)
        self.cores.wait(self.number, inst, lambda: all(self.cores.arrived(other, about) >= count for other in cores))


def deadlock(number: int, inst: Inst, others: Sequence[tuple[int, Inst | None]]) -> NkiError:
    """The error for core ``number``, which waits at ``inst`` while the others wait at theirs (None: have ended)."""
    does = ["has ended" if theirs is None else f"waits at {_words(theirs)}" for _, theirs in others]
    found = [f"core {other} {what}" for (other, _), what in zip(others, does, strict=True)]
    return DeadlockError(
        f"core {number} waits at {_words(inst)}; {', '.join(found)}",
        fix="let every core come to the same barriers and exchanges in the same order",
    ).at(inst.where.span, inst.where.stack)


def _words(inst: Inst) -> str:
    span = inst.where.span
    meeting = inst.as_exchange() or inst.as_barrier()
    subject = "" if meeting is None else meeting.subject
    return f"{inst.mnemonic}({subject})" + (f", line {span.line}" if span is not None else "")
