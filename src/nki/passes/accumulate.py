"""Stage ``accumulate``: each matmul either overwrites PSUM or adds to it.

``accumulate=None`` leaves the choice to the compiler. In program order, a place that was not written since its
tensor was made is overwritten; a place that has been written is added to. A matmul that meets both kinds adds, behind a
``psum_zero`` for the places that were not written. After this stage no ``None`` is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from nki.analysis.psum_state import PsumState
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Buffer
from nki.isa.build import zero_psum
from nki.target.model import Target


@dataclass(frozen=True)
class Accumulate(CoreStage):
    """Stage ``accumulate``."""

    name: ClassVar[str] = "accumulate"
    about: ClassVar[tuple[str, ...]] = ("accumulation",)
    warns: bool = True

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with every matmul's ``accumulate`` decided. Raises PsumError where it is not known."""
        if not any(tensor.buffer is Buffer.psum for tensor in core.tensors):
            return core
        return core.with_body(_decided(core.body, PsumState(target, warns=self.warns)))

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """No matmul is undecided."""
        known: dict[object, bool] = {}  # by form, which includes ``accumulate``
        for inst in after.instructions():
            form = inst.form
            undecided = known.get(form)
            if undecided is None:
                undecided = known[form] = inst.accumulates is None
            assert not undecided, f"accumulate left {inst} undecided"


def _decided(body: Sequence[Statement], psum: PsumState) -> tuple[Statement, ...]:
    result: list[Statement] = []
    known: dict[object, bool] = {}  # by form, which tells the memory of each operand
    for statement in body:
        if isinstance(statement, Inst):
            form = statement.form
            matters = known.get(form)
            if matters is None:
                writes = any(access.buffer is Buffer.psum for access in statement.writes())
                matters = known[form] = writes or statement.effects.accumulation is not None
            if matters:
                result += decided(statement, psum)
            else:
                result.append(statement)
        else:
            psum.enter_loop()
            for tensor in statement.tensors:
                psum.declare(tensor)
            result.append(replace(statement, body=_decided(statement.body, psum)))
            psum.leave_loop(statement)
    return tuple(result)


def decided(inst: Inst, psum: PsumState) -> list[Inst]:
    """``inst`` with ``accumulate`` decided, after a ``psum_zero`` for each unwritten place that it adds to."""
    if psum.certainly_adds(inst):
        return [inst.with_accumulation(True)]
    resolved, unwritten = psum.resolve(inst)
    result = [*(zero_psum(place) for place in unwritten), resolved]
    for part in result:
        part.where = inst.where
        psum.record(part)
    return result
