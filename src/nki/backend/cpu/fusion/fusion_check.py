"""The promise of stages that move, repeat and fuse instructions: each of them still runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nki.backend.cpu.kernel_ir.lower import Composite
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import Program
from nki.target.model import Target
from nki.transforms.rewriter import EditingStage, RewritingStage


class FusionStage(EditingStage, RewritingStage):
    """A stage that keeps every instruction: by itself or as a part, and perhaps with copies."""

    def check(self, before: Program, after: Program, target: Target) -> None:
        """Without copies, the instructions are the same as before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        super().check(before, after, target)
        for old, core in zip(before.cores, after.cores, strict=True) if knobs.check_stages() else ():
            assert _originals(old.instructions()) == _originals(core.instructions()), self.name


def _originals(insts: Iterable[Inst]) -> list[int]:
    """The ids of instructions, or of their parts, that are no copies."""
    parts = [part for inst in insts for part in (inst.parts if isinstance(inst, Composite) else (inst,))]
    copies = copies_in(parts)
    return sorted(id(part) for part in parts if id(part) not in copies)


def copies_in(insts: Sequence[Statement]) -> set[int]:
    """The ids of the copies among instructions: their origin is one of these, too."""
    with_origin = [inst for inst in insts if isinstance(inst, Inst) and inst.origin is not None]
    every = set(map(id, insts)) if with_origin else set[int]()
    return {id(inst) for inst in with_origin if id(inst.origin) in every}
