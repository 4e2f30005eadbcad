"""Lower exchanges between cores to copies through shared memory with barriers between them.

Every core has one mailbox in shared memory. For a ``sendrecv`` a core copies its tile into its own mailbox, waits until
the other core has done so too, copies the other's mailbox into its destination, and waits again, so that nobody
overwrites a mailbox that is still being read. The ``name`` of a lowered barrier is its tag: cores that meet with
different tags are deadlocked, and ``origin`` is the instruction of the user that the error names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nki.base.dtype import uint8
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, changed
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.sendrecv import Sendrecv

_SMALLEST_MAILBOX = 8
"""Bytes of a mailbox that no exchange needs."""


def run(program: Program) -> Program:
    """Return ``program`` without exchanges, and with only those barriers at which another core takes part."""
    if len(program.cores) == 1:
        return program
    mailboxes = _mailboxes(program)
    return program.with_cores(
        replace(core, body=lower(core, mailboxes), tensors=(*core.tensors, *mailboxes)) for core in program.cores
    )


def _mailboxes(program: Program) -> list[Tensor]:
    """Shared memory for each core to leave what it sends; as large as the largest exchange."""
    sizes = [
        inst.src.size * inst.src.dtype.itemsize
        for core in program.cores
        for inst in core.instructions()
        if isinstance(inst, Sendrecv)
    ]
    size = max(sizes, default=_SMALLEST_MAILBOX)
    return [Tensor(f"mailbox {rank}", (size,), uint8, Buffer.shared_hbm) for rank, _ in enumerate(program.cores)]


def lower(core: CoreProgram, mailboxes: Sequence[Tensor]) -> tuple[Statement, ...]:
    """The body of one core with copies and barriers instead of exchanges."""

    def lowered(inst: Inst) -> Iterable[Inst]:
        if isinstance(inst, CoreBarrier):
            if inst.together() == (core.rank,):
                return []
            return [_barrier(inst, inst.data, inst.together(), f"core_barrier {inst.data.name}")]
        if not isinstance(inst, Sendrecv) or inst.send_to_rank == core.rank:
            return [inst]
        return _exchange(inst, core.rank, mailboxes)

    return changed(core.body, lowered)


def _exchange(inst: Sendrecv, rank: int, mailboxes: Sequence[Tensor]) -> list[Inst]:
    shape, dtype = inst.src.shape, inst.src.dtype
    sent, received = (
        Access(mailboxes[owner], 0, shape, row_major(shape), dtype) for owner in (rank, inst.recv_from_rank)
    )
    participants = tuple(sorted({rank, inst.send_to_rank, inst.recv_from_rank}))
    tag = f"sendrecv {inst.pipe_id} {shape} {dtype.name}"
    copies = DmaCopy(sent, inst.src), DmaCopy(inst.dst, received)
    for copy in copies:
        copy.where = inst.where
    return [
        copies[0],
        _barrier(inst, sent, participants, f"{tag} sent"),
        copies[1],
        _barrier(inst, received, participants, f"{tag} received"),
    ]


def _barrier(origin: Inst, data: Access, participants: tuple[int, ...], tag: str) -> CoreBarrier:
    barrier = CoreBarrier(data, participants, name=tag)
    barrier.where, barrier.origin = origin.where, origin
    return barrier
