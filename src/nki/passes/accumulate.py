"""Stage ``accumulate``: each matmul either overwrites PSUM or adds to it.

``accumulate=None`` leaves the choice to the compiler. In program order, a place that nobody has written since its
tensor was made is overwritten; a place that has been written is added to. A matmul that meets both kinds adds, behind a
``psum_zero`` for the places that nobody has written. After this stage no ``None`` is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki.analysis.psum_state import PsumState
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import Program
from nki.ir.types import Buffer
from nki.isa.instructions.psum_zero import PsumZero
from nki.target.model import Target


def run(kernel: Program, target: Target) -> Program:
    """``kernel`` with every matmul's ``accumulate`` decided. Raises PsumError where that is not known."""
    if not any(tensor.buffer is Buffer.psum for tensor in kernel.tensors):
        return kernel
    return kernel.with_body(_decided(kernel.body, PsumState(target)))


def _decided(body: Sequence[Statement], psum: PsumState) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Inst):
            result.extend(decided(statement, psum))
        else:
            psum.enter_loop()
            for tensor in statement.tensors:
                psum.declare(tensor)
            result.append(replace(statement, body=_decided(statement.body, psum)))
            psum.leave_loop(statement)
    return tuple(result)


def decided(inst: Inst, psum: PsumState) -> list[Inst]:
    """``inst`` with ``accumulate`` decided, behind what clears the places that it adds to although nothing is there."""
    chosen, missing = psum.resolve(inst)
    result = [*(PsumZero(place) for place in missing), chosen]
    for made in result:
        made.where = inst.where
        psum.record(made)
    return result


def legal(kernel: Program) -> None:
    """No matmul is undecided."""
    undecided = [
        inst for core in kernel.cores for inst in core.instructions() if getattr(inst, "accumulate", False) is None
    ]
    assert not undecided, f"accumulate left {len(undecided)} matmuls undecided"
