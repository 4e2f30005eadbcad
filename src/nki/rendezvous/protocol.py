"""Rendezvous of the cores of one launch: exchanges and barriers among any number of participants.

Three implementations differ in how a participant waits: :mod:`nki.rendezvous.round_robin` lets other cores run,
:mod:`nki.sim.interleaving` lets other queues run and executes the instruction once more, and native code
(:mod:`nki.backend.cpu.native.frame`) spins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nki.base.errors import DeadlockError, NkiError
from nki.ir.instruction import Inst

T = TypeVar("T")
Ready = Callable[[], bool]


class Rendezvous(ABC):
    """Mail between ``count`` cores, and the number of times that each core has come to each barrier."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._mail: defaultdict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        """By sender, receiver and pipe: what was sent and not received yet."""
        self._arrivals: defaultdict[tuple[int, str], int] = defaultdict(int)
        """By core and tag: how many barriers it has come to."""
        self.resumes = False
        """True while an instruction that has arrived before is executed once more, to complete."""

    def check(self) -> None:  # noqa: B027  # most launches end by themselves
        """End the core that calls if its launch has failed on another one."""

    @abstractmethod
    def wait(self, rank: int, inst: Inst, ready: Ready) -> None:
        """Return once ``ready``; core ``rank`` waits at ``inst``. Raises where that can never be."""

    def participants(self) -> list[Participant]:
        """The rendezvous as each core sees it, by rank."""
        return [Participant(self, rank) for rank in range(self.count)]

    def exchange(self, rank: int, inst: Inst, value: T, to: int, source: int, pipe: int) -> T:
        """Send ``value`` from core ``rank`` to core ``to``; what core ``source`` sends to it through ``pipe``."""
        mailbox = self._mail[source, rank, pipe]
        if not self.resumes:
            self._mail[rank, to, pipe].append(value)
        self.wait(rank, inst, lambda: bool(mailbox))
        return mailbox.popleft()

    def barrier(self, rank: int, inst: Inst, ranks: Sequence[int], tag: str) -> None:
        """Let core ``rank`` wait until all ``ranks`` have come as often as it has to barriers with this tag."""
        if not self.resumes:
            self._arrivals[rank, tag] += 1
        arrivals = self._arrivals[rank, tag]
        self.wait(rank, inst, lambda: all(self._arrivals[other, tag] >= arrivals for other in ranks))


@dataclass(frozen=True, slots=True)
class Participant:
    """One core of a rendezvous."""

    rendezvous: Rendezvous
    rank: int

    def check(self) -> None:
        """End this core if its launch has failed on another one."""
        self.rendezvous.check()

    def exchange(self, inst: Inst, value: T, to: int, source: int, pipe: int) -> T:
        """Send ``value`` to core ``to``; what core ``source`` sends through ``pipe``."""
        return self.rendezvous.exchange(self.rank, inst, value, to, source, pipe)

    def barrier(self, inst: Inst, ranks: Sequence[int], tag: str) -> None:
        """Wait until all ``ranks`` have come to their barrier with this tag."""
        self.rendezvous.barrier(self.rank, inst, ranks, tag)


def deadlock(rank: int, inst: Inst, others: Sequence[tuple[int, Inst | None]]) -> NkiError:
    """The error for core ``rank``, which waits at ``inst`` while the others wait at theirs (None: have ended)."""
    states = ["has ended" if theirs is None else f"waits at {_description(theirs)}" for _, theirs in others]
    cores = [f"core {other} {state}" for (other, _), state in zip(others, states, strict=True)]
    return DeadlockError(
        f"core {rank} waits at {_description(inst)}; {', '.join(cores)}",
        fix="let every core come to the same barriers and exchanges in the same order",
    ).at(inst.where.span, inst.where.stack)


def _description(inst: Inst) -> str:
    span = inst.where.span
    meeting = inst.as_exchange() or inst.as_barrier()
    subject = "" if meeting is None else meeting.subject
    return f"{inst.mnemonic}({subject})" + (f", line {span.line}" if span is not None else "")
