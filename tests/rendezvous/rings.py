"""A program on any number of cores, built by hand: kernels are on one core or on two."""

from __future__ import annotations

import numpy as np

from nki.base.element_types import float32
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.sendrecv import Sendrecv

Array = np.ndarray
COLUMNS = 8


def ring(cores: int, rounds: int = 1, without_barrier: int | None = None) -> Program:
    """Core r gets row r from its neighbour, ``rounds`` times, and returns the row that the core behind it has got.

    The core ``without_barrier`` does not come to the barrier.
    """
    source, out = (Tensor(name, (cores, COLUMNS), float32, Buffer.shared_hbm, role=role) for name, role in ROLES)
    between = Tensor("between", (cores, COLUMNS), float32, Buffer.shared_hbm)
    programs: list[CoreProgram] = []
    for rank in range(cores):
        here, there = (Tensor(name, (1, COLUMNS), float32, Buffer.sbuf) for name in ("here", "there"))
        body: list[Inst] = [DmaCopy(Access.whole(here), _row(source, rank))]
        for _ in range(rounds):
            body.append(
                Sendrecv(Access.whole(here), Access.whole(there), (rank + 1) % cores, (rank - 1) % cores, pipe_id=0)
            )
            here, there = there, here
        body.append(DmaCopy(_row(between, rank), Access.whole(here)))
        if rank != without_barrier:
            body.append(CoreBarrier(Access.whole(between), tuple(range(cores))))
        body.append(DmaCopy(Access.whole(there), _row(between, (rank + 1) % cores)))
        body.append(DmaCopy(_row(out, rank), Access.whole(there)))
        tensors = (source, out, between, here, there)
        programs.append(CoreProgram(rank, tuple(body), tensors))
    return Program("ring", "trn2", (cores,), Signature((source,), (out,), False), tuple(programs))


ROLES = (("source", "input"), ("out", "output"))


def _row(tensor: Tensor, row: int) -> Access:
    return Access(tensor, row * COLUMNS, (1, COLUMNS), (COLUMNS, 1), tensor.dtype)


def arguments(cores: int) -> Array:
    return np.arange(cores * COLUMNS, dtype=np.float32).reshape(cores, COLUMNS) ** 1.5


def expected(source: Array, rounds: int = 1) -> Array:
    return np.roll(source, rounds - 1, axis=0)
