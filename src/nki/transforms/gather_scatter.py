"""Split instructions on indirect views into gather, compute and scatter.

The parts stay with the instruction as its ``expansion``, for executors that run them one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from nki.ir.indirection.gather_compute_scatter import GatherComputeScatter, IndirectOperand
from nki.ir.indirection.gather_offsets import dense_temporaries, indirect_operands
from nki.ir.instruction import Inst
from nki.ir.loop import changed
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Tensor
from nki.isa.build import copy_tile
from nki.target.model import Target


@dataclass(frozen=True)
class ExpandIndirect(CoreStage):
    """Give every instruction on indirect views its expansion."""

    name: ClassVar[str] = "gather_scatter"
    about: ClassVar[tuple[str, ...]] = ("element_indexed",)

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with an expansion on every instruction on indirect views."""
        if not any(_is_indirect(inst) for inst in core.instructions()):
            return core
        return core.with_body(changed(core.body, _expanded))

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Every instruction on indirect views has an expansion."""
        left = [inst for inst in after.instructions() if _is_indirect(inst) and inst.expansion is None]
        assert not left, f"{len(left)} instructions on indirect views are not expanded"


def _is_indirect(inst: Inst) -> bool:
    return bool(inst.effects.element_indexed and inst.indexed_by() and indirect_operands(inst))


def _expanded(inst: Inst) -> Iterable[Inst]:
    return [inst.with_schedule(expansion=expand(inst)) if _is_indirect(inst) else inst]


def expand(inst: Inst) -> GatherComputeScatter:
    """Give the parts of an instruction that has indirect views."""
    compute, dense = dense_temporaries(inst)
    read, written = inst.reads(), inst.writes()
    indexed = [number for number, access in enumerate(inst.accesses()) if access.dynamic is not None]
    operands = [
        IndirectOperand(
            access,
            dense[number],
            indexed.index(number),
            any(access is r for r in read),
            any(access is w for w in written),
        )
        for number, _, access in indirect_operands(inst)
    ]
    predicate = compute.write_predicate()
    if predicate is None or operands[0].operand is not inst.writes()[0]:
        return GatherComputeScatter(inst, tuple(operands), compute)
    first = operands[0]
    operands[0] = IndirectOperand(first.operand, first.dense, first.order, first.reads, first.writes, predicated=True)
    mask, copies = predicate.operand, list[Inst]()
    if not any(operand.dense is mask for operand in operands):
        mask = Access.whole(Tensor(mask.name, predicate.dst.shape, mask.dtype, mask.buffer))
        copies.append(copy_tile(mask, predicate.operand))
    return GatherComputeScatter(inst, tuple(operands), compute, tuple(copies), mask, predicate.inverted)
