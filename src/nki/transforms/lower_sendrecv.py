"""Lower exchanges between cores to copies through shared memory with barriers between them.

Every core has one mailbox in shared memory. For a ``sendrecv`` a core copies its tile into its own mailbox, waits until
the other core has done so too, copies the other's mailbox into its destination, and waits again, so that no core
overwrites a mailbox that is still being read. The ``name`` of a lowered barrier is its tag: cores that meet with
different tags are deadlocked, and ``origin`` is the instruction of the user that the error names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from nki.base.element_types import uint8
from nki.ir.effects import Collective, Exchange
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, changed
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.isa.build import copy_by_dma, core_barrier
from nki.target.model import Target

_SMALLEST_MAILBOX = 8
"""Bytes of a mailbox that no exchange needs."""


@dataclass(frozen=True)
class LowerSendrecv(Stage):
    """Replace exchanges by copies and barriers, remove barriers at which no other core takes part, and leave each
    collective to the cores that act in it.
    """

    name: ClassVar[str] = "lower_sendrecv"
    about: ClassVar[tuple[str, ...]] = ("exchange", "barrier", "collective")

    def run(self, program: Program, target: Target) -> Program:  # noqa: ARG002  # as all stages
        """``program`` without exchanges."""
        if len(program.cores) == 1:
            return program
        mailboxes = _mailboxes(program)
        return program.with_cores(
            replace(core, body=lower(core, mailboxes), tensors=(*core.tensors, *mailboxes)) for core in program.cores
        )

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """No instruction exchanges data with another core."""
        for core in after.cores if len(after.cores) > 1 else ():
            for inst in core.instructions():
                exchange = inst.as_exchange()
                assert exchange is None or exchange.to == core.rank, f"core {core.rank} still exchanges at {inst!r}"


def _mailboxes(program: Program) -> list[Tensor]:
    """Shared memory for each core to leave what it sends; as large as the largest exchange."""
    sizes = [
        exchange.src.nbytes
        for core in program.cores
        for inst in core.instructions()
        if (exchange := inst.as_exchange()) is not None
    ]
    size = max(sizes, default=_SMALLEST_MAILBOX)
    return [Tensor(f"mailbox {rank}", (size,), uint8, Buffer.shared_hbm) for rank, _ in enumerate(program.cores)]


def lower(core: CoreProgram, mailboxes: Sequence[Tensor]) -> tuple[Statement, ...]:
    """The body of one core with copies and barriers instead of exchanges."""

    def lowered(inst: Inst) -> Iterable[Inst]:
        barrier, exchange = inst.as_barrier(), inst.as_exchange()
        if (collective := inst.as_collective()) is not None:
            return _collective(inst, collective, core.rank, mailboxes)
        if barrier is not None:
            if barrier.cores == (core.rank,):
                return []
            return [_barrier(inst, barrier.data, barrier.cores, f"barrier {barrier.data.name}")]
        if exchange is None or exchange.to == core.rank:
            return [inst]
        return _exchange(inst, exchange, core.rank, mailboxes)

    return changed(core.body, lowered)


def _collective(inst: Inst, collective: Collective, rank: int, mailboxes: Sequence[Tensor]) -> list[Inst]:
    """The collective on the core that acts; cores that exchange their own memory do so one after the other."""
    if not (collective.per_core and collective.groups):
        return [inst] if collective.acts_on(rank) else []
    cores = tuple(range(len(mailboxes)))
    words = [*(f"of core {core}" for core in cores), "done"]
    turns = [_barrier(inst, Access.whole(mailboxes[0]), cores, f"{inst.mnemonic} {word}") for word in words]
    own = inst.with_schedule(origin=inst)  # the barriers name `inst` as their origin
    return [*turns[: rank + 1], own, *turns[rank + 1 :]]


def _exchange(inst: Inst, exchange: Exchange, rank: int, mailboxes: Sequence[Tensor]) -> list[Inst]:
    shape, dtype = exchange.src.shape, exchange.src.dtype
    sent, received = (Access(mailboxes[owner], 0, shape, row_major(shape), dtype) for owner in (rank, exchange.source))
    participants = tuple(sorted({rank, exchange.to, exchange.source}))
    tag = f"exchange {exchange.pipe} {shape} {dtype.name}"
    copies = copy_by_dma(sent, exchange.src), copy_by_dma(exchange.dst, received)
    for copy in copies:
        copy.where = inst.where
    return [
        copies[0],
        _barrier(inst, sent, participants, f"{tag} sent"),
        copies[1],
        _barrier(inst, received, participants, f"{tag} received"),
    ]


def _barrier(origin: Inst, data: Access, participants: tuple[int, ...], tag: str) -> Inst:
    barrier = core_barrier(data, participants, tag)
    barrier.where, barrier.origin = origin.where, origin
    return barrier
