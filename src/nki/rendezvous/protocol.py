"""Rendezvous of the cores of one launch, and of its ranks: exchanges, barriers and collectives among any number of
participants.

The implementations differ in how a participant waits: :mod:`nki.rendezvous.round_robin` lets others run,
:mod:`nki.rendezvous.threaded` sleeps, :mod:`nki.sim.interleaving` lets other queues run and executes the instruction
once more. The cores of native code (:mod:`nki.backend.cpu.native.frame`) spin, and ranks that are processes
(:mod:`nki.frameworks.torch_ranks`) send each other messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeVar

from nki.base.errors import DeadlockError, LostRankError, NkiError, RankMismatchError
from nki.ir.instruction import Inst

T = TypeVar("T")
Ready = Callable[[], bool]


@dataclass(slots=True)
class _Meeting:
    """One collective of one group: what each rank that has come brings."""

    came: dict[int, tuple[Inst, tuple[object, ...], Sequence[Any]]] = field(default_factory=dict[int, Any])
    left: set[int] = field(default_factory=set[int])


class Rendezvous(ABC):
    """Mail between ``count`` participants, and how often each has come to each barrier and to each group."""

    def __init__(self, count: int, word: str = "core") -> None:
        self.count = count
        self.word = word
        """The word for a participant in errors."""
        self._mail: defaultdict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        """By sender, receiver and pipe: what was sent and not received yet."""
        self._arrivals: defaultdict[tuple[int, str], int] = defaultdict(int)
        """By core and tag: how many barriers it has come to."""
        self._collectives: defaultdict[tuple[int, tuple[int, ...]], int] = defaultdict(int)
        """By rank and group: how many collectives it has come to."""
        self._meetings: dict[tuple[tuple[int, ...], int], _Meeting] = {}
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

    def gather(
        self,
        rank: int,
        inst: Inst,
        group: tuple[int, ...],
        agreed: tuple[object, ...],
        parts: Sequence[T],
        apart: bool,
    ) -> list[T]:
        """The parts that the ranks of ``group`` bring for ``rank``: each at its place, or the one that all get.

        The n-th collective of a rank in a group meets the n-th of the others. Raises :class:`RankMismatchError` if what
        they must pass alike differs.
        """
        key = rank, group
        if not self.resumes:
            self._collectives[key] += 1
        meeting = self._meetings.setdefault((group, self._collectives[key]), _Meeting())
        meeting.came[rank] = inst, agreed, parts
        self.wait(rank, inst, lambda: len(meeting.came) == len(group))
        came = [(other, *meeting.came[other]) for other in group]
        check_agreed(inst, [(other, description(theirs), agreed) for other, theirs, agreed, _ in came])
        received = [meeting.came[other][2] for other in group]
        meeting.left.add(rank)
        if len(meeting.left) == len(group):
            self._meetings.pop((group, self._collectives[key]), None)
        place = group.index(rank) if apart else 0
        return [each[place] for each in received]


@dataclass(frozen=True, slots=True)
class Participant:
    """One core of a rendezvous, or one rank."""

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

    def gather(
        self, inst: Inst, group: tuple[int, ...], agreed: tuple[object, ...], parts: Sequence[T], *, apart: bool
    ) -> list[T]:
        """The parts that the ranks of ``group`` bring to its collective for this rank."""
        return self.rendezvous.gather(self.rank, inst, group, agreed, parts, apart)


def deadlock(rank: int, inst: Inst, others: Sequence[tuple[int, Inst | None]], word: str = "core") -> NkiError:
    """The error for core ``rank``, which waits at ``inst`` while the others wait at theirs (None: have ended).

    ``word``: what the participants are.
    """
    states = ["has ended" if theirs is None else f"waits at {description(theirs)}" for _, theirs in others]
    named = [f"{word} {other} {state}" for (other, _), state in zip(others, states, strict=True)]
    meetings = "barriers and exchanges" if word == "core" else "collectives of its groups"
    return DeadlockError(
        f"{word} {rank} waits at {description(inst)}; {', '.join(named)}",
        fix=f"let every {word} come to the same {meetings} in the same order",
    ).at(inst.where.span, inst.where.stack)


def lost_rank(inst: Inst, rank: int, happened: str) -> LostRankError:
    """The error for ``rank``, which waits at ``inst`` in vain."""
    error = LostRankError(
        f"rank {rank} waits at {description(inst)}: {happened}",
        fix="see why the other rank ended or is late; NKI_RANK_TIMEOUT is the time in seconds for which ranks wait",
    )
    error.at(inst.where.span, inst.where.stack)
    return error


def check_agreed(inst: Inst, came: Sequence[tuple[int, str, tuple[object, ...]]]) -> None:
    """Raise :class:`RankMismatchError` unless all ranks that ``came`` to one collective agree with the first one.

    ``came``: each rank, the description of its instruction, and what all must pass alike. ``inst`` is the one of the
    rank that asks.
    """
    first, at, wanted = came[0]
    for other, theirs, agreed in came[1:]:
        if agreed != wanted:
            mine, others = _differing(wanted, agreed)
            raise RankMismatchError(
                f"rank {first} comes to {at} with {mine}, rank {other} to {theirs} with {others}",
                fix="let the ranks of a group call one collective with the same arguments, shapes and dtypes",
            ).at(inst.where.span, inst.where.stack)


def _differing(one: tuple[object, ...], other: tuple[object, ...]) -> tuple[str, str]:
    """The parts in which both differ, in words."""
    pairs = [(a, b) for a, b in zip_longest(one, other, fillvalue="nothing more") if a != b]
    return ", ".join(str(a) for a, _ in pairs), ", ".join(str(b) for _, b in pairs)


def description(inst: Inst) -> str:
    """``inst`` as deadlock errors show it."""
    span = inst.where.span
    meeting = inst.as_exchange() or inst.as_barrier() or inst.as_collective()
    subject = "" if meeting is None else meeting.subject
    return f"{inst.mnemonic}({subject})" + (f", line {span.line}" if span is not None else "")
